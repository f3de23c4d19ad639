// A conversation that grows keeps the tokens that it had: what a prefix cache lives on. Where the
// family's template itself breaks this is said here too; remembered replies (turn_memory.h) repair
// it.
#include <gtest/gtest.h>

#include "support/conversations.h"
#include "text/prompt.h"

namespace minim {
namespace {

using testing::Conversations;
using Tokens = std::vector<TokenId>;

constexpr const char* kModes[] = {nullptr, "enabled", "disabled", "adaptive"};

struct AppendOnly : public ::testing::Test {
  const std::string data = std::string(MINIM_TEST_DATA) + "/text/";
  Tokenizer tokenizer = *Tokenizer::load(data + "tokenizer/tokenizer.json");
  ChatTemplate chat = *ChatTemplate::load(data + "template/chat_template.jinja");
  TokenId think = *tokenizer.find_added("<mm:think>");
  TokenId end_think = *tokenizer.find_added("</mm:think>");

  Tokens encode(const Json& messages, const Json& tools, const char* mode, bool prompt) {
    Json vars{{"messages", messages}, {"tools", tools}, {"add_generation_prompt", prompt}};
    if (mode) vars["thinking_mode"] = mode;
    const auto segments = chat.render(vars, {});
    EXPECT_TRUE(segments) << segments.error().message;
    return segments ? encode_prompt(tokenizer, *segments) : Tokens();
  }
};

bool begins(const Tokens& tokens, const Tokens& prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

// A conversation that has come past its front: the first message behind a root message is still
// free to become the developer's.
Json some_conversation(Conversations& conversations) {
  Json messages = conversations.messages();
  messages.push_back({{"role", "user"}, {"content", conversations.text()}});
  return messages;
}

TEST_F(AppendOnly, AnotherTurnKeepsAllTokensBeforeIt) {
  Conversations conversations(11, 0);
  for (int i = 0; i < 250; ++i) {
    Json messages = some_conversation(conversations);
    const Json tools = conversations.tools();
    for (int turns = 0; turns < 3; ++turns) {
      Json longer = messages;
      conversations.turn(longer);
      for (const char* mode : kModes) {
        ASSERT_TRUE(
            begins(encode(longer, tools, mode, false), encode(messages, tools, mode, false)))
            << longer;
      }
      messages = std::move(longer);
    }
  }
}

// The prompt for a reply is kept when the reply thinks as the prompt made it: always in adaptive
// mode. Enabled without a thought and disabled with one differ at once, since the template writes
// the marker that fits the reply.
TEST_F(AppendOnly, ReplyKeepsItsPromptUnlessItContradictsTheMode) {
  Conversations conversations(12, 0);
  for (int i = 0; i < 250; ++i) {
    const Json messages = some_conversation(conversations);
    Json reply = conversations.reply(conversations.number(0, 2));
    reply["content"] = "Hello \n" + std::to_string(i);
    reply.erase("reasoning_content");
    const bool thinks = conversations.chance(0.5);
    if (thinks) reply["reasoning_content"] = "Hm" + conversations.text();
    Json longer = messages;
    longer.push_back(reply);
    for (const char* mode : kModes) {
      const Tokens prompt = encode(messages, nullptr, mode, true);
      const Tokens turn = encode(longer, nullptr, mode, false);
      const std::string_view name = mode ? mode : "";
      const bool contradicts = name == (thinks ? "disabled" : "enabled");
      ASSERT_EQ(begins(turn, prompt), !contradicts) << longer << name;
      if (name == "enabled" || name == "disabled") continue;
      // An adaptive reply may begin with its text; the template then puts a marker before it. That
      // is where history by text departs from what was generated.
      ASSERT_EQ(turn[prompt.size()], thinks ? think : end_think);
    }
  }
}

// The end of a group of results moves when another result joins it; prompts for a reply are made
// when the group is complete.
TEST_F(AppendOnly, ResultsThatJoinAGroupKeepAllButItsEnd) {
  const auto with_results = [&](int n) {
    Json messages{
        {{"role", "user"}, {"content", "Hi"}},
        {{"role", "assistant"}, {"tool_calls", {{{"name", "f"}, {"arguments", Json::object()}}}}}};
    for (int i = 0; i < n; ++i) messages.push_back({{"role", "tool"}, {"content", "result"}});
    return encode(messages, nullptr, nullptr, false);
  };
  Tokens one = with_results(1);
  const Tokens two = with_results(2);
  EXPECT_FALSE(begins(two, one));
  while (one.back() != *tokenizer.find_added("[e~[")) one.pop_back();
  one.pop_back();
  EXPECT_FALSE(begins(two, one));  // "</response>" and the next "\n" are cut into tokens together
  while (one.back() != *tokenizer.find_added("]~b]")) one.pop_back();
  EXPECT_TRUE(begins(two, one));
}

}  // namespace
}  // namespace minim
