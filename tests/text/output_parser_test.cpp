// Rules of docs/output.md that the golden vectors do not reach: limits, scripts of every kind,
// silent places.
#include "text/output_parser.h"

#include <gtest/gtest.h>

#include "text/output_reply.h"
#include "text/tokenizer_golden.h"

namespace minim {
namespace {

std::shared_ptr<const ToolSet> tools_of(const std::string& text) {
  const Result<Json> json = parse_json(text, "test");
  EXPECT_TRUE(json) << json.error().message;
  Result<ToolSet> set = ToolSet::parse(json ? *json : Json());
  EXPECT_TRUE(set) << set.error().message;
  return std::make_shared<const ToolSet>(*std::move(set));
}

Reply in_call(const std::string& tool, Reply inside, bool closed = true) {
  Reply reply = {kNs, "<tool_call>", kNs, "<invoke name=\"" + tool + "\">"};
  reply.insert(reply.end(), inside.begin(), inside.end());
  if (closed) reply.insert(reply.end(), {kNs, "</invoke>", kNs, "</tool_call>"});
  return reply;
}

std::string arguments_of(const Reply& reply, std::shared_ptr<const ToolSet> tools = nullptr) {
  const ParsedOutput result = parsed(reply, std::move(tools));
  EXPECT_EQ(result.calls.size(), 1u);
  return result.calls.empty() ? "" : result.calls[0].arguments;
}

// B01: one call, its name once and first, fragments that join to its arguments.
TEST(OutputParser, OneCallStaysOneCallInAStream) {
  const Reply reply =
      in_call("f", {kNs, "<a>", "x", "y", kNs, "</a>", kNs, "<b>", "z", kNs, "</b>"});
  int starts = 0;
  bool started = false;
  std::string fragments;
  for (const OutputEvent& event : events_of(reply, nullptr, ThinkingMode::kUnset)) {
    if (event.kind == OutputEvent::Kind::kToolStart) {
      ++starts;
      started = true;
      EXPECT_EQ(event.text, "f");
    }
    if (event.kind == OutputEvent::Kind::kToolArgs) {
      EXPECT_TRUE(started);
      fragments += event.text;
    }
  }
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(fragments, R"({"a": "xy", "b": "z"})");
}

// B02: all calls of all blocks, numbered in order.
TEST(OutputParser, EveryCallOfEveryBlockIsDelivered) {
  Reply reply = {kNs, "<tool_call>\n", kNs, "<invoke name=\"first\">",
                 kNs, "</invoke>\n",   kNs, "<invoke name=\"second\">",
                 kNs, "</invoke>\n",   kNs, "</tool_call>"};
  const Reply third = in_call("third", {});
  reply.insert(reply.end(), third.begin(), third.end());
  const ParsedOutput result = parsed(reply);
  ASSERT_EQ(result.calls.size(), 3u);
  EXPECT_EQ(result.calls[0].name + result.calls[1].name + result.calls[2].name, "firstsecondthird");
  EXPECT_EQ(result.finish, "tool_calls");
  EXPECT_EQ(result.content, std::nullopt);
}

// B03: the declared type wins over the look of the text.
TEST(OutputParser, DeclaredTypesWin) {
  const auto tools = tools_of(R"([{"name": "f", "parameters": {"properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
      "b": {"type": "boolean"}, "o": {"type": "object"}, "m": {"type": ["string", "null"]},
      "k": {"type": ["integer", "null"]}}}}])");
  const auto value = [&](const std::string& name, const std::string& text) {
    return arguments_of(in_call("f", {kNs, "<" + name + ">", text, kNs, "</" + name + ">"}), tools)
        .substr(name.size() + 5);
  };
  EXPECT_EQ(value("s", "02134"), R"("02134"})");
  EXPECT_EQ(value("s", "null"), R"("null"})");
  EXPECT_EQ(value("i", "02134"), R"("02134"})");
  EXPECT_EQ(value("i", " 5.0 "), "5}");
  EXPECT_EQ(value("i", "123456789012345678901234567890"), "123456789012345678901234567890}");
  EXPECT_EQ(value("n", "1e5"), "1e5}");
  EXPECT_EQ(value("n", ".5"), R"(".5"})");
  EXPECT_EQ(value("b", "True"), "true}");
  EXPECT_EQ(value("m", "null"), "null}");
  EXPECT_EQ(value("m", " null"), R"(" null"})");
  EXPECT_EQ(value("k", ""), "null}");
  EXPECT_EQ(value("k", "null"), "null}");
  EXPECT_EQ(value("x", "null"), R"("null"})");
  EXPECT_EQ(value("o", R"({"a":1,"b":2e0,"a":[3]})"), R"({"a": [3], "b": 2e0}})");
}

// B04: brackets of NS that are typed, not sent as the token, are text.
TEST(OutputParser, TypedMarkersAreText) {
  const ParsedOutput result = parsed({"See ]<]minimax[>[<tool_call> and <mm:think>x</mm:think>."});
  EXPECT_EQ(result.content, "See ]<]minimax[>[<tool_call> and <mm:think>x</mm:think>.");
  EXPECT_TRUE(result.calls.empty());
}

// B05: a block ends thinking that was not closed; typed markup does not.
TEST(OutputParser, ARealBlockEndsThinkingATypedOneDoesNot) {
  Reply reply = {"I should use ]<]minimax[>[<tool_call>."};
  const Reply call = in_call("f", {kNs, "<a>1", kNs, "</a>"});
  reply.insert(reply.end(), call.begin(), call.end());
  const ParsedOutput result = parsed(reply, nullptr, ThinkingMode::kEnabled);
  EXPECT_EQ(result.reasoning, "I should use ]<]minimax[>[<tool_call>.");
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_EQ(result.calls[0].arguments, R"({"a": "1"})");
}

// B07: the start follows from the mode; a closer at the start of content is dropped.
TEST(OutputParser, ALeadingCloserIsNeverContent) {
  for (const ThinkingMode mode : {ThinkingMode::kUnset, ThinkingMode::kDisabled,
                                  ThinkingMode::kAdaptive, ThinkingMode::kEnabled}) {
    const ParsedOutput result = parsed({kEndThink, "\n\nHi"}, nullptr, mode);
    EXPECT_EQ(result.content, "\n\nHi");
    EXPECT_EQ(result.reasoning, std::nullopt);
  }
}

// T10
TEST(OutputParser, TextBetweenParametersComesBehindTheCall) {
  const ParsedOutput result = parsed(
      in_call("f", {"\n<a>1</a>", kNs, "<b>", "2", kNs, "</b>", " ", kNs, "<<", kNs, "<c>", "3"}));
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_EQ(result.calls[0].arguments, R"({"b": "2", "c": "3"})");
  EXPECT_EQ(result.content, "\n<a>1</a> <<");
  EXPECT_EQ(result.order.front().kind, OutputEvent::Kind::kToolStart);
}

// M5: a tag may be 1024 characters long, and not one more.
TEST(OutputParser, AtMost1024CharactersAreHeldBack) {
  for (const std::string letter : {"n", "時"}) {
    std::string name;
    for (int i = 0; i < 1022; ++i) name += letter;
    const Reply fits =
        in_call("f", {kNs, "<" + name + ">", "v", kNs, "</" + name.substr(letter.size()) + ">"});
    EXPECT_EQ(arguments_of(fits).rfind("{\"" + name + "\": \"v", 0), 0u);
    OutputParser parser(nullptr, ThinkingMode::kUnset);
    std::vector<OutputEvent> events;
    for (const Atom& atom : in_call("f", {kNs, "<" + name + letter}, false)) {
      feed(parser, atom, events);
    }
    EXPECT_EQ(events.size(), 1u) << "undecided at 1024 characters";
    parser.push_text(">", events);
    parser.finish("stop", events);
    EXPECT_EQ(joined(events).content, "<" + name + letter + ">");
  }
}

// T11: deeper elements are text.
TEST(OutputParser, SixtyFourElementsMayBeOpen) {
  Reply inside;
  for (int i = 0; i < 66; ++i) inside.insert(inside.end(), {kNs, "<e>"});
  const std::string arguments = arguments_of(in_call("f", inside));
  std::string expect = "{";
  for (int i = 0; i < 64; ++i) expect += i == 0 ? "\"e\": " : "{\"e\": ";
  EXPECT_EQ(arguments, expect + "\"<e><e>\"" + std::string(64, '}'));
}

TEST(OutputParser, TenThousandNestedTagsAreReadInLinearTime) {
  Reply inside;
  for (int i = 0; i < 10000; ++i) inside.insert(inside.end(), {kNs, "<a>"});
  for (const bool closed : {false, true}) {
    const ParsedOutput result = parsed(in_call("f", inside, closed));
    ASSERT_EQ(result.calls.size(), 1u);
    EXPECT_EQ(result.calls[0].complete, closed);
  }
}

// The largest of these takes a fraction of a second; with one quadratic step it would take minutes.
TEST(OutputParser, WorkIsLinearInTheReply) {
  constexpr int kMany = 1 << 18;
  const auto tools = tools_of(
      R"([{"name": "f", "parameters": {"properties": {"o": {"type": "object"},
          "m": {"type": ["string", "null"]}, "s": {"type": "string"}}}}])");
  const auto by_token = [&](const std::string& open, const std::string& piece) {
    Reply inside = {kNs, open};
    for (int i = 0; i < kMany; ++i) inside.emplace_back(piece);
    return parsed(in_call("f", inside), tools).calls.at(0).arguments.size();
  };
  EXPECT_EQ(by_token("<s>", "x"), kMany + 9u);
  EXPECT_EQ(by_token("<m>", "x"), kMany + 9u);
  EXPECT_EQ(by_token("<o>", "x"), kMany + 9u);
  EXPECT_EQ(by_token("<unknown>", " "), kMany + 15u);
  Reply blanks(kMany, Atom(" ")), markers(kMany, Atom(kNs)), children = {kNs, "<o>"};
  EXPECT_EQ(parsed(blanks).content->size(), static_cast<size_t>(kMany));
  EXPECT_EQ(parsed(markers).content, std::nullopt);
  for (int i = 0; i < kMany / 8; ++i) {
    children.insert(children.end(),
                    {kNs, "<k" + std::to_string(i) + ">", kNs, "</k" + std::to_string(i) + ">"});
  }
  EXPECT_EQ(parsed(in_call("f", children), tools).calls.at(0).arguments.substr(0, 21),
            R"({"o": {"k0": "", "k1")");
}

TEST(OutputParser, CyclicAndHugeSchemasEnd) {
  std::string properties, alternatives;
  for (int i = 0; i < 200; ++i) {
    alternatives += std::string(i ? "," : "") + R"({"$ref": "#/$defs/n"}, {"$ref": "#"})";
  }
  const auto tools = tools_of(R"([{"name": "f", "parameters": {"type": "object",
      "properties": {"a": {"$ref": "#/$defs/n"}, "self": {"$ref": "#/properties/self"}},
      "$defs": {"n": {"anyOf": [)" +
                              alternatives + R"(, {"type": "integer"}]}}}}])");
  EXPECT_EQ(arguments_of(in_call("f", {kNs, "<a>", "5", kNs, "</a>", kNs, "<self>", "5"}), tools),
            R"({"a": 5, "self": "5"})");
}

TEST(OutputParser, InReasoningFollowsThinking) {
  OutputParser parser(nullptr, ThinkingMode::kEnabled);
  std::vector<OutputEvent> events;
  EXPECT_TRUE(parser.in_reasoning());
  parser.push_text("x", events);
  parser.push_marker(kNs, events);
  EXPECT_TRUE(parser.in_reasoning()) << "not decided yet";
  parser.push_text("<tool_call>", events);
  EXPECT_FALSE(parser.in_reasoning());
  parser.push_marker(kThink, events);
  EXPECT_TRUE(parser.in_reasoning());
  parser.push_marker(kEndThink, events);
  EXPECT_FALSE(parser.in_reasoning());
}

class TokenOutput : public ::testing::Test {
 protected:
  TokenId id(const char* literal) const { return tokenizer_.find_added(literal).value(); }
  TokenId byte(uint8_t value) const {
    for (TokenId id = 0; id < tokenizer_.n_ids(); ++id) {
      if (tokenizer_.bytes(id) == std::string(1, static_cast<char>(value))) return id;
    }
    return -1;
  }
  ParsedOutput parse(const std::vector<TokenId>& ids, ThinkingMode mode) const {
    TokenOutputParser parser(tokenizer_, nullptr, mode);
    std::vector<OutputEvent> events;
    for (const TokenId id : ids) parser.push(id, events);
    parser.finish("stop", events);
    return joined(events);
  }

  const Tokenizer tokenizer_ = golden_tokenizer();
};

// B08: bytes that are no UTF-8 are replaced where they stand, and nothing behind them is lost.
TEST_F(TokenOutput, HeldBytesStandInFrontOfAMarker) {
  const ParsedOutput result =
      parse({byte('a'), byte(0xE6), byte(0x97), id("</mm:think>"), byte(0xA5), byte('b')},
            ThinkingMode::kEnabled);
  EXPECT_EQ(result.reasoning, "a\uFFFD");
  EXPECT_EQ(result.content, "\uFFFDb");
}

TEST_F(TokenOutput, SilentTokensGiveNothingAndSplitNoCharacter) {
  const ParsedOutput result = parse({byte(0xE6), id("[e~["), byte(0x97), id("]~b]"), byte(0xA5),
                                     id("]~!b["), id("]!p~["), id("]!d~[")},
                                    ThinkingMode::kUnset);
  EXPECT_EQ(result.content, "日");
}

TEST_F(TokenOutput, OtherAddedTokensAreTheirLiterals) {
  const ParsedOutput result =
      parse({id("<think>"), byte('x'), id("</think>"), id("<fim_prefix>"), 99999999, -1},
            ThinkingMode::kUnset);
  EXPECT_EQ(result.content, "<think>x</think><fim_prefix>");
}

TEST_F(TokenOutput, MarkupMayBeAddedTokensOrText) {
  std::vector<TokenId> ids = {id("]<]minimax[>["), id("<tool_call>"), id("]<]minimax[>[")};
  tokenizer_.encode_append("<invoke name=\"f\">", false, ids);
  ids.insert(ids.end(), {id("]<]minimax[>["), byte('<'), byte('a'), byte('>'), id("<mm:think>"),
                         id("]<]minimax[>["), id("</tool_call>")});
  const ParsedOutput result = parse(ids, ThinkingMode::kEnabled);
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_EQ(result.calls[0].arguments, R"({"a": "<mm:think>"})");
  EXPECT_TRUE(result.calls[0].complete);
}

}  // namespace
}  // namespace minim
