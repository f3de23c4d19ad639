// What must hold for every reply, tried on random ones: soup of markers, tags, text and scripts.
#include <gtest/gtest.h>

#include <random>

#include "text/output_reply.h"
#include "text/parse_golden.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace minim {
namespace {

class OutputProperty : public ::testing::Test {
 protected:
  size_t below(size_t n) { return random_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  std::string pick(const std::vector<std::string>& words) { return words[below(words.size())]; }

  // A text of any scripts without the characters in `without`.
  std::string script(size_t longest, const std::string& without) {
    std::string text;
    for (size_t n = below(longest) + 1; n > 0; --n) {
      std::string c;
      if (one_in(2)) {
        c = std::string(1, static_cast<char>(0x20 + below(0x5F)));
      } else {
        const char32_t ranges[][2] = {{0xC0, 0x250},    {0x391, 0x400},     {0x5D0, 0x5EB},
                                      {0x4E00, 0x9000}, {0x1F300, 0x1F600}, {0x300, 0x370},
                                      {0x2028, 0x202A}, {0xFFFD, 0xFFFE}};
        const auto& range = ranges[below(std::size(ranges))];
        append_utf8(c, range[0] + static_cast<char32_t>(below(range[1] - range[0])));
      }
      if (without.find(c) == std::string::npos) text += c;
    }
    return text;
  }

  // Anything at all, with a bent towards what means something.
  Reply soup(size_t longest) {
    const std::vector<std::string> tags = {"<tool_call>",
                                           "</tool_call>",
                                           "<invoke name=\"search\">",
                                           "<invoke name='union'>",
                                           "<invoke name = write_file >",
                                           "<invoke name=\"refs\">",
                                           "</invoke>",
                                           "<query>",
                                           "</query>",
                                           "<filters>",
                                           "</filters>",
                                           "<item>",
                                           "</item>",
                                           "<node>",
                                           "</node>",
                                           "<children>",
                                           "</children>",
                                           "<a>",
                                           "</a>",
                                           "<invoke>",
                                           "<c>",
                                           "</c>",
                                           "<content>",
                                           "</content>"};
    Reply reply;
    for (size_t n = below(longest) + 1; n > 0; --n) {
      switch (below(8)) {
        case 0:
          reply.emplace_back(one_in(2) ? kThink : kEndThink);
          break;
        case 1:
          reply.emplace_back(script(6, ""));
          break;
        case 2:
          reply.emplace_back(pick({"null", "1", " ", "\n\n", "true", "{\"a\": 1}", "[1, 2", "<",
                                   "</", "<tool_", "\"", "\\", "\t", std::string(1, '\0')}));
          break;
        case 3:
          reply.emplace_back(pick(tags));
          break;
        default:
          reply.emplace_back(kNs);
          reply.emplace_back((one_in(9) ? " " : "") + pick(tags));
      }
    }
    // The soup mostly dies at its first text; mostly begin where calls are possible.
    if (!one_in(4))
      reply.insert(reply.begin(), {kNs, "<tool_call>", kNs, "<invoke name=\"refs\">"});
    return reply;
  }

  ThinkingMode mode() {
    return std::vector<ThinkingMode>{ThinkingMode::kUnset, ThinkingMode::kEnabled,
                                     ThinkingMode::kDisabled, ThinkingMode::kAdaptive}[below(4)];
  }
  std::shared_ptr<const ToolSet> tools() { return sets_.at(one_in(2) ? "basic" : "schemas"); }

  std::mt19937 random_{7};
  const ToolSets sets_ = golden_tool_sets();
};

// One open call at a time, numbered densely; nothing empty; the end comes last and once.
void expect_well_formed(const std::vector<OutputEvent>& events) {
  using Kind = OutputEvent::Kind;
  int calls = 0;
  bool open = false, cut = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const OutputEvent& event = events[i];
    EXPECT_EQ(event.kind == Kind::kFinish, i + 1 == events.size());
    EXPECT_FALSE(cut && event.kind == Kind::kToolStart) << "only the last call may be incomplete";
    if (event.kind == Kind::kToolEnd) {
      EXPECT_TRUE(event.text.empty());
    } else {
      EXPECT_FALSE(event.text.empty());
      EXPECT_TRUE(valid_utf8(event.text));
    }
    switch (event.kind) {
      case Kind::kToolStart:
        EXPECT_FALSE(open);
        EXPECT_EQ(event.tool, calls);
        open = true;
        break;
      case Kind::kToolArgs:
      case Kind::kToolEnd:
        EXPECT_TRUE(open);
        EXPECT_EQ(event.tool, calls);
        if (event.kind == Kind::kToolArgs) break;
        open = false;
        cut = !event.complete;
        ++calls;
        break;
      default:
        EXPECT_FALSE(open) << "no text inside a call";
        EXPECT_EQ(event.tool, -1);
    }
  }
}

void expect_arguments_are_json(const ParsedOutput& result) {
  for (const ParsedOutput::Call& call : result.calls) {
    if (!call.complete) continue;
    const Result<Json> arguments = parse_json(call.arguments, "arguments");
    ASSERT_TRUE(arguments) << call.arguments << ": " << arguments.error().message;
    EXPECT_TRUE(arguments->is_object());
  }
}

// B01
TEST_F(OutputProperty, EveryCutOfEveryReplyGivesTheSame) {
  for (int round = 0; round < 4000; ++round) {
    const Reply reply = soup(24);
    const auto offered = tools();
    const ThinkingMode start = mode();
    const std::string finish = one_in(2) ? "stop" : "length";
    const std::vector<OutputEvent> events = events_of(reply, offered, start, finish);
    expect_well_formed(events);
    const Json whole = as_json(joined(events));
    for (const Reply& cut : {by_character(reply), recut(reply, random_), recut(reply, random_)}) {
      const std::vector<OutputEvent> other = events_of(cut, offered, start, finish);
      expect_well_formed(other);
      ASSERT_EQ(as_json(joined(other)), whole);
    }
  }
}

TEST_F(OutputProperty, ArgumentsAreJsonAndHoldNoMarker) {
  for (int round = 0; round < 4000; ++round) {
    const ParsedOutput result = parsed(soup(40), tools(), mode());
    expect_arguments_are_json(result);
    for (const ParsedOutput::Call& call : result.calls) {
      EXPECT_EQ(call.arguments.find(kNsLiteral), std::string::npos);
      EXPECT_EQ(call.name.find(kNsLiteral), std::string::npos);
    }
    for (const std::string& text : {result.content.value_or(""), result.reasoning.value_or("")}) {
      for (const std::string_view marker : {kNsLiteral, kThinkLiteral, kEndThinkLiteral}) {
        EXPECT_EQ(text.find(marker), std::string::npos) << text;
      }
    }
  }
}

// However far the model got, what was sent is the beginning of what would have been sent.
TEST_F(OutputProperty, CutAnywhereWhatWasSentStands) {
  for (int round = 0; round < 400; ++round) {
    const Reply reply = by_character(soup(24));
    const auto offered = tools();
    const ThinkingMode start = mode();
    const ParsedOutput whole = parsed(reply, offered, start);
    for (size_t n = 0; n < reply.size(); ++n) {
      const Reply prefix(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(n));
      const std::vector<OutputEvent> events = events_of(prefix, offered, start, "length");
      expect_well_formed(events);
      const ParsedOutput cut = joined(events);
      EXPECT_EQ(cut.finish, "length");
      expect_arguments_are_json(cut);
      ASSERT_LE(cut.calls.size(), whole.calls.size());
      for (size_t i = 0; i < cut.calls.size(); ++i) {
        EXPECT_EQ(cut.calls[i].name, whole.calls[i].name);
        EXPECT_EQ(whole.calls[i].arguments.rfind(cut.calls[i].arguments, 0), 0u)
            << cut.calls[i].arguments << " in " << whole.calls[i].arguments;
      }
      EXPECT_EQ(whole.reasoning.value_or("").rfind(cut.reasoning.value_or(""), 0), 0u);
    }
  }
}

// Closing what is open gives JSON that begins with what was sent.
TEST_F(OutputProperty, IncompleteArgumentsAreTheBeginningOfJson) {
  int incomplete = 0;
  for (int round = 0; round < 4000; ++round) {
    Reply reply = soup(24);
    const auto offered = tools();
    const ThinkingMode start = mode();
    const ParsedOutput cut = parsed(reply, offered, start, "length");
    reply.insert(reply.end(), {kNs, "</tool_call>"});
    const ParsedOutput closed = parsed(reply, offered, start);
    expect_arguments_are_json(closed);
    ASSERT_EQ(cut.calls.size(), closed.calls.size());
    if (cut.calls.empty() || cut.calls.back().complete) continue;
    ++incomplete;
    EXPECT_TRUE(closed.calls.back().complete);
    EXPECT_EQ(closed.calls.back().arguments.rfind(cut.calls.back().arguments, 0), 0u);
  }
  EXPECT_GT(incomplete, 500);
}

TEST_F(OutputProperty, TextWithoutMarkersIsContentByteForByte) {
  for (int round = 0; round < 4000; ++round) {
    Reply reply;
    std::string text;
    for (size_t n = below(12) + 1; n > 0; --n) {
      const std::string piece = one_in(3) ? pick({"<tool_call>", "]<]minimax[>[", "<mm:think>",
                                                  "\n", " ", "</invoke>", "<invoke name=\"x\">"})
                                          : script(8, "");
      reply.emplace_back(piece);
      text += piece;
    }
    const ParsedOutput thought = parsed(reply, tools(), ThinkingMode::kEnabled);
    EXPECT_EQ(thought.reasoning.value_or(""), text);
    EXPECT_EQ(parsed(reply, tools(), ThinkingMode::kDisabled).content.value_or(""), text);
  }
}

// Damaged markup is text: of NS and characters that are no tag only NS goes.
TEST_F(OutputProperty, DamagedMarkupLosesNothingButTheMarker) {
  const std::vector<std::string> damaged = {"<tool_calls>", "<tool_call >", "<invoke name=\"f\">",
                                            "</invoke>",    "</tool_call>", "<query>",
                                            "tool_call>",   "<\n",          "<<tool_call>",
                                            "<Tool_call>",  " <tool-call>"};
  for (int round = 0; round < 4000; ++round) {
    Reply reply;
    std::string text;
    for (size_t n = below(10) + 1; n > 0; --n) {
      const std::string piece = one_in(2) ? pick(damaged) : script(8, "<") + "x";
      if (one_in(2)) reply.emplace_back(kNs);
      if (one_in(8)) reply.emplace_back(kNs);
      reply.emplace_back(piece);
      text += piece;
    }
    for (const ThinkingMode start : {ThinkingMode::kEnabled, ThinkingMode::kUnset}) {
      const ParsedOutput result = parsed(recut(reply, random_), tools(), start);
      EXPECT_EQ(start == ThinkingMode::kEnabled ? result.reasoning : result.content, text);
      EXPECT_TRUE(result.calls.empty());
    }
  }
}

// Names need not be XML names, and no value is changed on its way.
TEST_F(OutputProperty, AnyNamesAndAnyTextComeThrough) {
  for (int round = 0; round < 4000; ++round) {
    std::string tool = script(20, "\"");
    if (trim_markup_space(tool).empty()) tool = "-";
    Reply reply = {kNs, "<tool_call>", kNs, "<invoke name=\"" + tool + "\">"};
    Json expect = Json::object();
    for (size_t n = below(4); n > 0; --n) {
      std::string name = script(20, "<>");
      if (is_markup_space(name) || name[0] == '/') name = "-A";
      if (expect.contains(name)) continue;
      const std::string value = one_in(4) ? "" : script(20, "");
      expect[name] = value;
      reply.insert(reply.end(), {kNs, "<" + name + ">", value, kNs, "</" + name + ">"});
    }
    reply.insert(reply.end(), {kNs, "</invoke>", kNs, "</tool_call>"});
    const ParsedOutput result = parsed(recut(reply, random_));
    ASSERT_EQ(result.calls.size(), 1u);
    EXPECT_EQ(result.calls[0].name, trim_markup_space(tool));
    const Result<Json> arguments = parse_json(result.calls[0].arguments, "arguments");
    ASSERT_TRUE(arguments) << result.calls[0].arguments;
    EXPECT_EQ(*arguments, expect);
    EXPECT_EQ(result.content, std::nullopt);
  }
}

}  // namespace
}  // namespace minim
