#include "text/turn_memory.h"

#include <gtest/gtest.h>

#include <thread>

#include "text/prompt.h"

namespace minim {
namespace {

using Tokens = std::vector<TokenId>;

ParsedOutput reply(std::optional<std::string> reasoning, std::optional<std::string> content,
                   std::vector<ParsedOutput::Call> calls = {}) {
  ParsedOutput out;
  out.reasoning = std::move(reasoning);
  out.content = std::move(content);
  out.calls = std::move(calls);
  out.finish = out.calls.empty() ? "stop" : "tool_calls";
  return out;
}

Json json(std::string_view text) {
  const Result<Json> value = parse_json(text, "test");
  EXPECT_TRUE(value) << text;
  return value ? *value : Json();
}

// The tokens found for a message; {-1} for none.
Tokens found(const TurnMemory& memory, std::string_view message) {
  const auto tokens = memory.find(json(message));
  return tokens ? *tokens : Tokens{-1};
}

constexpr TokenId kNone = -1;

TEST(TurnMemory, MessageThatSaysTheSameIsFound) {
  TurnMemory memory(100);
  memory.remember(reply(std::nullopt, "Hello"), {1, 2});
  memory.remember(reply("Let me see.", "Hello"), {3});
  memory.remember(reply("Let me see.", std::nullopt), {4});
  memory.remember(reply(std::nullopt, std::nullopt), {5});
  for (const char* same : {R"({"role": "assistant", "content": "Hello"})",
                           R"({"content": "Hello", "reasoning_content": null, "tool_calls": []})",
                           R"({"content": "Hello", "reasoning": "", "tool_calls": null, "id": 7})",
                           R"({"content": [{"type": "text", "text": "Hel"}, "lo"]})"}) {
    EXPECT_EQ(found(memory, same), (Tokens{1, 2})) << same;
  }
  for (const char* same :
       {R"({"content": "Hello", "reasoning_content": "Let me see."})",
        R"({"content": "Hello", "reasoning": "Let me see."})",
        R"({"content": "Hello", "reasoning": "Let me see.", "reasoning_content": "Let me see."})",
        R"({"content": "Hello", "reasoning": "Let me see.", "reasoning_content": ""})"}) {
    EXPECT_EQ(found(memory, same), Tokens{3}) << same;
  }
  for (const char* same :
       {R"({"content": null, "reasoning": "Let me see."})",
        R"({"content": "", "reasoning": "Let me see."})", R"({"reasoning": "Let me see."})"}) {
    EXPECT_EQ(found(memory, same), Tokens{4}) << same;
  }
  for (const char* same : {"{}", R"({"content": null})", R"({"content": []})"})
    EXPECT_EQ(found(memory, same), Tokens{5}) << same;
}

TEST(TurnMemory, MessageThatSaysAnythingElseIsNotFound) {
  TurnMemory memory(100);
  memory.remember(reply("R", "C", {{"f", R"({"a": 1})", true}}), {1});
  const std::string calls = R"("tool_calls": [{"name": "f", "arguments": {"a": 1}}])";
  ASSERT_EQ(found(memory, R"({"content": "C", "reasoning": "R", )" + calls + "}"), Tokens{1});
  for (const std::string& other : {
           R"({"content": "C", "reasoning": "R"})" + std::string(),
           R"({"content": "C", )" + calls + "}",
           R"({"reasoning": "R", )" + calls + "}",
           R"({"content": "R", "reasoning": "C", )" + calls + "}",
           R"({"content": "CR", "reasoning": "", )" + calls + "}",
           R"({"content": "C ", "reasoning": "R", )" + calls + "}",
           R"({"content": "C", "reasoning": "R", "reasoning_content": "S", )" + calls + "}",
           R"({"content": "C", "reasoning": 5, )" + calls + "}",
           R"({"content": ["C", {"type": "image"}], "reasoning": "R", )" + calls + "}",
           R"({"content": {"C": 1}, "reasoning": "R", )" + calls + "}",
           R"({"content": "C", "reasoning": "R", "function_call": {}, )" + calls + "}",
           R"({"content": "C", "reasoning": "R", "tool_calls": {"name": "f"}})" + std::string(),
           R"({"content": "C", "reasoning": "R", "tool_calls": [1]})" + std::string(),
       }) {
    EXPECT_EQ(found(memory, other), Tokens{kNone}) << other;
  }
  EXPECT_EQ(memory.find(Json::array()), nullptr);
  EXPECT_EQ(memory.find("C"), nullptr);
}

TEST(TurnMemory, ArgumentsAreComparedAsJsonValues) {
  TurnMemory memory(100);
  memory.remember(
      reply(std::nullopt, std::nullopt,
            {{"f", R"({"a": 1.0, "b": {"c": [true, null, "x"], "d": 0.1}, "e": 1e5})", true},
             {"g", "{}", true}}),
      {1});
  const auto message = [](const std::string& arguments, const std::string& none) {
    return R"({"tool_calls": [{"id": "call_7", "type": "function", "function": {"name": "f", "arguments": )" +
           arguments + R"(}}, {"function": {"name": "g")" + none + "}}]}";
  };
  const std::string plain = R"({"a": 1, "b": {"c": [true, null, "x"], "d": 0.1}, "e": 100000})";
  const std::string shuffled = R"({"e": 1.0e5, "b": {"d": 0.10, "c": [true, null, "x"]}, "a": 1})";
  for (const std::string& none :
       {std::string(), std::string(R"(, "arguments": "")"), std::string(R"(, "arguments": null)"),
        std::string(R"(, "arguments": "{ }")")}) {
    EXPECT_EQ(found(memory, message(plain, none)), Tokens{1});
    EXPECT_EQ(found(memory, message(shuffled, none)), Tokens{1});
    EXPECT_EQ(found(memory, message(Json(shuffled).dump(), none)), Tokens{1});
  }
  for (const char* other :
       {R"({"a": 1, "b": {"c": [true, null, "x"], "d": 0.1}, "e": 100001})",
        R"({"a": "1", "b": {"c": [true, null, "x"], "d": 0.1}, "e": 100000})",
        R"({"a": true, "b": {"c": [true, null, "x"], "d": 0.1}, "e": 100000})",
        R"({"a": 1, "b": {"c": [null, true, "x"], "d": 0.1}, "e": 100000})",
        R"({"a": 1, "b": {"c": [true, null, "x", "y"], "d": 0.1}, "e": 100000})",
        R"({"a": 1, "b": {"c": [true, null, "x"], "d": 0.1}})", R"("{\"a\": 1")", "[]", "7"}) {
    EXPECT_EQ(found(memory, message(other, "")), Tokens{kNone}) << other;
  }
  EXPECT_EQ(found(memory, message(plain, R"(, "arguments": {"a": null})")), Tokens{kNone});
}

TEST(TurnMemory, LargeIntegersAreNotRounded) {
  TurnMemory memory(100);
  memory.remember(reply(std::nullopt, "x", {{"f", R"({"n": 9007199254740993})", true}}), {1});
  const auto message = [](const char* n) {
    return std::string(R"({"content": "x", "tool_calls": [{"name": "f", "arguments": {"n": )") + n +
           "}}]}";
  };
  EXPECT_EQ(found(memory, message("9007199254740993")), Tokens{1});
  EXPECT_EQ(found(memory, message("9007199254740992")), Tokens{kNone});
  EXPECT_EQ(found(memory, message("9007199254740992.0")), Tokens{kNone});
  EXPECT_EQ(found(memory, message("18446744073709551615")), Tokens{kNone});
}

TEST(TurnMemory, CallsAreNotMistakenForOneAnother) {
  TurnMemory memory(100);
  memory.remember(reply(std::nullopt, "x", {{"f", "{}", true}, {"g", "{}", true}}), {1});
  EXPECT_EQ(found(memory, R"({"content": "x", "tool_calls": [{"name": "g"}, {"name": "f"}]})"),
            Tokens{kNone});
  EXPECT_EQ(found(memory, R"({"content": "x", "tool_calls": [{"name": "f"}]})"), Tokens{kNone});
  EXPECT_EQ(found(memory, R"({"content": "x", "tool_calls": [{"name": "f"}, {"name": "g"}]})"),
            Tokens{1});
}

TEST(TurnMemory, NewestOfEqualRepliesCounts) {
  TurnMemory memory(100);
  memory.remember(reply(std::nullopt, "x"), {1, 2, 3});
  memory.remember(reply(std::nullopt, "x"), {4});
  EXPECT_EQ(found(memory, R"({"content": "x"})"), Tokens{4});
  EXPECT_EQ(memory.tokens(), 1u);
}

TEST(TurnMemory, RepliesThatWereCutAreNotRemembered) {
  TurnMemory memory(100);
  for (const char* finish : {"length", "cancelled", "content_filter", ""}) {
    ParsedOutput cut = reply(std::nullopt, "x");
    cut.finish = finish;
    memory.remember(cut, {1});
  }
  memory.remember(reply(std::nullopt, "x", {{"f", "{", false}}), {1});
  EXPECT_EQ(memory.tokens(), 0u);
}

TEST(TurnMemory, OldestUnusedRepliesMakeRoom) {
  TurnMemory memory(10);
  memory.remember(reply(std::nullopt, "a"), {1, 1, 1, 1});
  memory.remember(reply(std::nullopt, "b"), {2, 2, 2, 2});
  EXPECT_EQ(found(memory, R"({"content": "a"})").front(), 1);  // used again
  memory.remember(reply(std::nullopt, "c"), {3, 3, 3, 3});
  EXPECT_EQ(memory.tokens(), 8u);
  EXPECT_EQ(found(memory, R"({"content": "a"})").front(), 1);
  EXPECT_EQ(found(memory, R"({"content": "b"})"), Tokens{kNone});
  EXPECT_EQ(found(memory, R"({"content": "c"})").front(), 3);
  memory.remember(reply(std::nullopt, "d"), Tokens(11, 4));  // more than there is room for
  EXPECT_EQ(found(memory, R"({"content": "d"})"), Tokens{kNone});
  EXPECT_EQ(memory.tokens(), 8u);
  memory.remember(reply(std::nullopt, "e"), Tokens(10, 5));
  EXPECT_EQ(memory.tokens(), 10u);
}

TEST(TurnMemory, SeveralThreadsUseItAtOnce) {
  TurnMemory memory(50);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::string content = std::to_string((i * 7 + t) % 40);
        memory.remember(reply(std::nullopt, content), Tokens(3, std::stoi(content)));
        const auto tokens = memory.find(Json{{"content", content}});
        EXPECT_TRUE(!tokens || *tokens == Tokens(3, std::stoi(content)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory.tokens(), 50u);
}

// --- replay in prompts ---

const std::string kData = std::string(MINIM_TEST_DATA) + "/text/";

struct Replay : public ::testing::Test {
  Replay()
      : tokenizer(*Tokenizer::load(kData + "tokenizer/tokenizer.json")),
        chat(*ChatTemplate::load(kData + "template/chat_template.jinja")) {}

  std::vector<PromptSegment> segments(const Json& vars) {
    ChatTemplate::Options options;
    options.memory = &memory;
    const auto out = chat.render(vars, options);
    EXPECT_TRUE(out) << out.error().message;
    return out ? *out : std::vector<PromptSegment>();
  }
  Tokens prompt(const Json& messages, const char* mode) {
    Json vars{{"messages", messages}, {"add_generation_prompt", true}};
    if (mode) vars["thinking_mode"] = mode;
    return encode_prompt(tokenizer, segments(vars));
  }

  Tokenizer tokenizer;
  ChatTemplate chat;
  TurnMemory memory{1000};
};

// What a model writes is cut into tokens in its own way: here every letter is one.
Tokens spelled(const Tokenizer& tokenizer, std::string_view text) {
  Tokens out;
  for (size_t i = 0; i < text.size(); ++i) tokenizer.encode_append(text.substr(i, 1), false, out);
  return out;
}

TEST_F(Replay, SecondPromptBeginsWithTheFirstAndWhatTheModelWrote) {
  const TokenId think = *tokenizer.find_added("<mm:think>");
  const TokenId end_think = *tokenizer.find_added("</mm:think>");
  const TokenId end = *tokenizer.find_added("[e~[");
  int n = 0;
  struct Case {
    const char* mode;
    std::optional<TokenId> prefix;  // of the generation prompt
    std::optional<TokenId> opener;  // that the model writes
    const char* reasoning;
  };
  for (const Case& c : {Case{nullptr, {}, {}, nullptr}, Case{"adaptive", {}, {}, nullptr},
                        Case{"adaptive", {}, think, "Hm."}, Case{"enabled", think, {}, "Hm."},
                        Case{"disabled", end_think, {}, nullptr}}) {
    const std::string content = "Hello there " + std::to_string(n++);
    Json messages{{{"role", "user"}, {"content", "Hi"}}};
    const Tokens first = prompt(messages, c.mode);
    Tokens generated;
    if (c.opener) generated.push_back(*c.opener);
    if (c.reasoning) {
      const Tokens letters = spelled(tokenizer, c.reasoning);
      generated.insert(generated.end(), letters.begin(), letters.end());
      generated.push_back(end_think);
    }
    const Tokens letters = spelled(tokenizer, content);
    generated.insert(generated.end(), letters.begin(), letters.end());

    const Tokens body = turn_tokens(MarkerIds::of(tokenizer), first, generated);
    EXPECT_EQ(body.size(), generated.size() + (c.prefix ? 1 : 0));
    EXPECT_TRUE(!c.prefix || body.front() == *c.prefix);
    const std::optional<std::string> reasoning =
        c.reasoning ? std::optional<std::string>(c.reasoning) : std::nullopt;
    Tokens want = first;
    want.insert(want.end(), generated.begin(), generated.end());
    want.push_back(end);

    Json message{{"role", "assistant"}, {"content", content}};
    if (c.reasoning) message["reasoning_content"] = c.reasoning;
    messages.push_back(message);
    messages.push_back({{"role", "user"}, {"content", "And now?"}});
    const auto begins = [&](const Tokens& tokens) {
      return tokens.size() > want.size() && std::equal(want.begin(), want.end(), tokens.begin());
    };
    EXPECT_FALSE(begins(prompt(messages, c.mode)));
    memory.remember(reply(reasoning, content), body);
    EXPECT_TRUE(begins(prompt(messages, c.mode))) << (c.mode ? c.mode : "unset");
  }
}

TEST_F(Replay, OnlyTheTurnsBodyIsReplaced) {
  memory.remember(reply("R", "C"), {7, 8});
  const Json vars{{"messages",
                   {{{"role", "user"}, {"content", "C"}},
                    {{"role", "assistant"}, {"content", "C"}, {"reasoning_content", "R"}},
                    {{"role", "user"}, {"content", "]~b]"}}}}};
  const std::vector<PromptSegment> out = segments(vars);
  const auto at =
      std::find_if(out.begin(), out.end(), [](const auto& s) { return !s.ids.empty(); });
  ASSERT_NE(at, out.end());
  EXPECT_EQ(*at, (PromptSegment{"<mm:think>R</mm:think>C", false, {7, 8}}));
  EXPECT_TRUE((at - 1)->text.ends_with("]~b]ai\n"));
  EXPECT_EQ((at + 1)->text, "[e~[\n]~b]user\n");
  EXPECT_EQ(std::count_if(out.begin(), out.end(), [](const auto& s) { return !s.ids.empty(); }), 1);
  // The text stays what it was without a memory.
  EXPECT_EQ(ChatTemplate::join(out), ChatTemplate::join(*chat.render(vars, {})));
}

TEST_F(Replay, CallsThatAreReplayedAllowResults) {
  memory.remember(reply(std::nullopt, std::nullopt, {{"f", R"({"a": 1})", true}}), {7});
  const Json vars = json(R"({"messages": [
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "tool", "content": "x"}]})");
  const std::vector<PromptSegment> out = segments(vars);
  EXPECT_EQ(std::count_if(out.begin(), out.end(), [](const auto& s) { return !s.ids.empty(); }), 1);
}

TEST_F(Replay, EmptyReplyLeavesTheTurnEmpty) {
  const Json messages{{{"role", "user"}, {"content", "Hi"}},
                      {{"role", "assistant"}, {"content", ""}}};
  const Tokens text = prompt(messages, nullptr);
  memory.remember(reply(std::nullopt, std::nullopt), {});
  const Tokens replayed = prompt(messages, nullptr);
  EXPECT_EQ(replayed.size() + 1, text.size());
}

TEST_F(Replay, InterpreterRendersByText) {
  memory.remember(reply(std::nullopt, "C"), {7});
  ChatTemplate::Options options;
  options.memory = &memory;
  options.way = ChatTemplate::Way::kInterpreter;
  const auto out =
      chat.render(json(R"({"messages": [{"role": "assistant", "content": "C"}]})"), options);
  ASSERT_TRUE(out);
  for (const PromptSegment& segment : *out) EXPECT_TRUE(segment.ids.empty());
}

}  // namespace
}  // namespace minim
