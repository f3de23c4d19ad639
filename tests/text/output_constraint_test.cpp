#include "text/output_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/schema_check.h"
#include "text/constraint_walk.h"

namespace minim {
namespace {

using testing::add_markup;
using testing::added;
using testing::demo_tokenizer;
using testing::SchemaCheck;
using testing::Walk;

constexpr const char* kEnd = "[e~[";
constexpr const char* kNs = "]<]minimax[>[";
constexpr const char* kThink = "<mm:think>";
constexpr const char* kEndThink = "</mm:think>";

const char* const kWeather =
    R"([{"type": "function", "function": {"name": "get_weather", "strict": true,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8},
    "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city", "days"],
    "additionalProperties": false}}}, {"type": "function", "function": {"name": "ping"}}])";
const char* const kSchema = R"({"type": "object", "properties": {"answer": {"type": "integer"},
    "why": {"type": "string", "maxLength": 10}}, "required": ["answer", "why"],
    "additionalProperties": false})";

std::shared_ptr<const ToolSet> weather_tools() {
  Result<ToolSet> tools = ToolSet::parse(*parse_json(kWeather, "tools"));
  EXPECT_TRUE(tools) << tools.error().message;
  return std::make_shared<const ToolSet>(*std::move(tools));
}

GrammarSpec schema_spec() {
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kJsonSchema;
  spec.text = kSchema;
  return spec;
}

ConstraintRequest request_of(ThinkingMode mode) {
  ConstraintRequest request;
  request.mode = mode;
  request.stop_ids = {added(kEnd)};
  return request;
}

Result<std::unique_ptr<OutputConstraint>> try_make(const ConstraintRequest& request) {
  static GrammarCompiler* const compiler = [] {
    return GrammarCompiler::available()
               ? GrammarCompiler::create(demo_tokenizer(), std::vector<TokenId>{added(kEnd)}, {})
                     ->release()
               : nullptr;
  }();
  return OutputConstraint::create(request, demo_tokenizer(), compiler);
}

std::unique_ptr<OutputConstraint> make(const ConstraintRequest& request) {
  Result<std::unique_ptr<OutputConstraint>> made = try_make(request);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

bool allows(OutputConstraint& constraint, TokenId id) {
  const TokenBits* bits = constraint.allowed();
  return bits == nullptr || ((*bits)[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

// Feeds a text with markup; false at the first token that is not allowed.
bool feed(OutputConstraint& constraint, const std::string& text) {
  for (const TokenId token : add_markup(text)) {
    if (!allows(constraint, token)) return false;
    constraint.accept(token);
  }
  return true;
}

#define SKIP_WITHOUT_GRAMMARS() \
  if (!GrammarCompiler::available()) GTEST_SKIP() << "a build without grammars"

TEST(OutputConstraint, AFreeRequestHasNone) {
  for (const ThinkingMode mode :
       {ThinkingMode::kUnset, ThinkingMode::kEnabled, ThinkingMode::kAdaptive}) {
    EXPECT_EQ(make(request_of(mode)), nullptr);
  }
  // Tools that are not strict leave calls to the model.
  ConstraintRequest request = request_of(ThinkingMode::kUnset);
  request.tools = std::make_shared<const ToolSet>(
      *ToolSet::parse(*parse_json(R"([{"name": "ping"}, {"name": "pong"}])", "tools")));
  EXPECT_FALSE(OutputConstraint::needs_grammar(request));
  EXPECT_EQ(make(request), nullptr);
}

TEST(OutputConstraint, DisabledThinkingCannotBeOpened) {
  const auto constraint = make(request_of(ThinkingMode::kDisabled));
  ASSERT_NE(constraint, nullptr);
  EXPECT_FALSE(allows(*constraint, added(kThink)));
  EXPECT_TRUE(allows(*constraint, added(kNs)));
  EXPECT_TRUE(allows(*constraint, added(kEnd)));
  EXPECT_TRUE(feed(*constraint, "some words"));
  EXPECT_FALSE(allows(*constraint, added(kThink)));
}

TEST(OutputConstraint, ToolChoiceNoneForbidsTheMarkerOfCalls) {
  ConstraintRequest request = request_of(ThinkingMode::kUnset);
  request.tools = weather_tools();
  request.choice.kind = ToolChoice::Kind::kNone;
  const auto constraint = make(request);
  ASSERT_NE(constraint, nullptr);
  EXPECT_FALSE(allows(*constraint, added(kNs)));
  EXPECT_TRUE(feed(*constraint, "\x02thoughts"));
  EXPECT_FALSE(allows(*constraint, added(kNs)));
}

TEST(OutputConstraint, TheClosingMarkerIsForcedWhenTheBudgetIsSpent) {
  for (const ThinkingMode mode : {ThinkingMode::kEnabled, ThinkingMode::kUnset}) {
    ConstraintRequest request = request_of(mode);
    request.thinking_budget = 3;
    const auto constraint = make(request);
    ASSERT_NE(constraint, nullptr);
    if (mode == ThinkingMode::kUnset) constraint->accept(added(kThink));
    const std::vector<TokenId> words = demo_tokenizer().encode("a b c d e f", false);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(constraint->forced().empty());
      EXPECT_EQ(constraint->allowed(), nullptr);
      constraint->accept(words[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(constraint->forced(), std::vector<TokenId>{added(kEndThink)});
    EXPECT_TRUE(allows(*constraint, added(kEndThink)));
    EXPECT_FALSE(allows(*constraint, words[3]));
    EXPECT_FALSE(allows(*constraint, added(kEnd)));
    constraint->accept(added(kEndThink));
    EXPECT_EQ(constraint->allowed(), nullptr);
    EXPECT_TRUE(constraint->forced().empty());
    // Thinking that is opened again has nothing left.
    constraint->accept(words[4]);
    constraint->accept(added(kThink));
    EXPECT_EQ(constraint->forced(), std::vector<TokenId>{added(kEndThink)});
  }
}

TEST(OutputConstraint, ABudgetOfZeroClosesAtOnce) {
  ConstraintRequest request = request_of(ThinkingMode::kEnabled);
  request.thinking_budget = 0;
  EXPECT_EQ(make(request)->forced(), std::vector<TokenId>{added(kEndThink)});
}

TEST(OutputConstraint, ABudgetDoesNotCountCallsThatEndTheThinking) {
  ConstraintRequest request = request_of(ThinkingMode::kEnabled);
  request.thinking_budget = 2;
  const auto constraint = make(request);
  ASSERT_TRUE(feed(*constraint,
                   "\x01<tool_call>\n\x01<invoke name=\"f\">\x01<x>a long value of many "
                   "tokens\x01</x>\x01</invoke>\n\x01</tool_call> and words behind it"));
  EXPECT_TRUE(constraint->forced().empty());
}

TEST(OutputConstraint, AFormatBeginsBehindTheThinking) {
  SKIP_WITHOUT_GRAMMARS();
  const std::string json = R"({"answer": 42, "why": "x"})";
  for (const char* before : {"", "\x03", "\x02{not json\x03"}) {
    ConstraintRequest request = request_of(ThinkingMode::kAdaptive);
    request.format = schema_spec();
    const auto constraint = make(request);
    EXPECT_TRUE(feed(*constraint, before + json)) << before;
    EXPECT_TRUE(allows(*constraint, added(kEnd)));
    EXPECT_FALSE(allows(*constraint, added(kThink)));
    EXPECT_FALSE(allows(*constraint, added(kNs)));
  }
  ConstraintRequest request = request_of(ThinkingMode::kEnabled);
  request.format = schema_spec();
  const auto constraint = make(request);
  EXPECT_FALSE(allows(*constraint, added(kEnd)));  // nothing was answered
  EXPECT_FALSE(allows(*constraint, added(kNs)));
  EXPECT_TRUE(feed(*constraint, "any thoughts\x03"));
  EXPECT_FALSE(feed(*constraint, "words"));
  request.mode = ThinkingMode::kDisabled;
  EXPECT_FALSE(allows(*make(request), added(kThink)));
}

TEST(OutputConstraint, ARequiredCallIsAllThatComesBehindTheThinking) {
  SKIP_WITHOUT_GRAMMARS();
  ConstraintRequest request = request_of(ThinkingMode::kAdaptive);
  request.tools = weather_tools();
  request.choice.kind = ToolChoice::Kind::kRequired;
  auto constraint = make(request);
  EXPECT_TRUE(allows(*constraint, added(kNs)));
  EXPECT_TRUE(allows(*constraint, added(kThink)));
  EXPECT_FALSE(allows(*constraint, added(kEnd)));
  EXPECT_FALSE(feed(*constraint, "words"));
  const std::string call =
      "\x01<invoke name=\"get_weather\">\x01<city>Rome\x01</city>\x01<days>3"
      "\x01</days>\x01</invoke>\n";
  EXPECT_TRUE(feed(*constraint,
                   "\x02"
                   "thoughts\x03\x01<tool_call>\n" +
                       call + call));
  EXPECT_TRUE(feed(*constraint, "\x01</tool_call>"));
  EXPECT_TRUE(allows(*constraint, added(kEnd)));
  EXPECT_FALSE(allows(*constraint, added(kNs)));
  // In thinking too the marker opens the block.
  constraint = make(request);
  EXPECT_TRUE(feed(*constraint,
                   "\x02"
                   "thoughts\x01<tool_call>\n" +
                       call + "\x01</tool_call>"));
  request.choice = {.kind = ToolChoice::Kind::kNamed, .name = "ping", .parallel = false};
  constraint = make(request);
  EXPECT_TRUE(feed(*constraint, "\x03"));
  // From here on nothing is left to choose but the parameters.
  std::string forced;
  for (auto tokens = constraint->forced(); !tokens.empty(); tokens = constraint->forced()) {
    for (const TokenId token : tokens) constraint->accept(token);
    forced += decode(demo_tokenizer(), tokens, false);
  }
  EXPECT_TRUE(forced.starts_with("]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"ping"))
      << forced;
}

TEST(OutputConstraint, StrictCallsAreHeldToTheirSchemasWithinFreeContent) {
  SKIP_WITHOUT_GRAMMARS();
  ConstraintRequest request = request_of(ThinkingMode::kUnset);
  request.tools = weather_tools();
  auto constraint = make(request);
  const std::string block =
      "\x01<tool_call>\n\x01<invoke name=\"get_weather\">\x01<city>Rome\x01"
      "</city>\x01<days>3\x01</days>\x01</invoke>\n\x01</tool_call>";
  EXPECT_EQ(constraint->allowed() == nullptr || allows(*constraint, added(kEnd)), true);
  EXPECT_TRUE(feed(*constraint, "words \x02more\x03 words" + block + "and again" + block));
  EXPECT_TRUE(allows(*constraint, added(kEnd)));
  EXPECT_TRUE(feed(*constraint, "\x01<tool_call>\n\x01<invoke name=\""));
  EXPECT_FALSE(feed(*constraint, "unknown"));
  request.choice.parallel = false;
  constraint = make(request);
  EXPECT_TRUE(feed(*constraint, block + "words"));
  EXPECT_FALSE(allows(*constraint, added(kNs)));
}

TEST(OutputConstraint, AFormatWithToolsIsEitherOfThem) {
  SKIP_WITHOUT_GRAMMARS();
  ConstraintRequest request = request_of(ThinkingMode::kUnset);
  request.tools = weather_tools();
  request.format = schema_spec();
  auto constraint = make(request);
  EXPECT_TRUE(feed(*constraint, R"({"answer": 1, "why": ""})"));
  EXPECT_FALSE(allows(*constraint, added(kNs)));
  constraint = make(request);
  EXPECT_TRUE(feed(*constraint,
                   "\x03\x01<tool_call>\n\x01<invoke name=\"ping\">\x01</invoke>\n"
                   "\x01</tool_call>"));
  EXPECT_TRUE(allows(*constraint, added(kEnd)));
  EXPECT_FALSE(feed(*constraint, "{"));
}

TEST(OutputConstraint, RequestsThatCannotBeAreRefused) {
  ConstraintRequest request = request_of(ThinkingMode::kUnset);
  request.choice.kind = ToolChoice::Kind::kRequired;
  EXPECT_EQ(try_make(request).error().code, Code::kInvalid);
  request.tools = weather_tools();
  request.choice = {.kind = ToolChoice::Kind::kNamed, .name = "nothing"};
  const Error unknown = try_make(request).error();
  for (const char* word : {"nothing", "get_weather", "ping"}) {
    EXPECT_NE(unknown.message.find(word), std::string::npos) << unknown.message;
  }
  request.choice = ToolChoice{};
  request.choice.kind = ToolChoice::Kind::kRequired;
  request.format = schema_spec();
  EXPECT_EQ(try_make(request).error().code, Code::kInvalid);
}

// Every combination that makes sense, walked as the generation loop would.
TEST(OutputConstraint, WalksEndAndGiveWhatWasAskedFor) {
  SKIP_WITHOUT_GRAMMARS();
  const Json schema = *parse_json(kSchema, "schema");
  size_t n_forced = 0;
  for (const ThinkingMode mode : {ThinkingMode::kUnset, ThinkingMode::kEnabled,
                                  ThinkingMode::kDisabled, ThinkingMode::kAdaptive}) {
    for (int kind = 0; kind < 5; ++kind) {
      ConstraintRequest request = request_of(mode);
      request.thinking_budget = 20;
      if (kind != 0) request.tools = weather_tools();
      if (kind < 2) request.format = schema_spec();
      if (kind == 2) request.choice.kind = ToolChoice::Kind::kRequired;
      if (kind == 3) request.choice = {.kind = ToolChoice::Kind::kNamed, .name = "get_weather"};
      for (unsigned seed = 0; seed < 12; ++seed) {
        const auto constraint = make(request);
        Walk walk(seed, 60);
        const std::vector<TokenId> tokens = walk.run(*constraint);
        n_forced += walk.n_forced();
        const std::string context = "kind " + std::to_string(kind) + testing::shown(tokens);
        ASSERT_FALSE(walk.stuck()) << context;
        const ParsedOutput output = testing::parse(tokens, request.tools, mode, "stop");
        const bool called = !output.calls.empty();
        if (kind == 2 || kind == 3) {
          EXPECT_TRUE(called && !output.content) << context;
        }
        if (kind < 2) {
          EXPECT_NE(called, output.content.has_value()) << context;
          if (output.content) {
            const Result<Json> value = parse_json(*output.content, "");
            ASSERT_TRUE(value) << context;
            EXPECT_EQ(SchemaCheck(schema).why_not(*value), "") << context;
          }
        }
        for (const ParsedOutput::Call& call : output.calls) {
          EXPECT_TRUE(call.complete) << context;
          const Tool* tool = weather_tools()->find(call.name);
          if (kind == 3) {
            EXPECT_EQ(call.name, "get_weather");
          }
          ASSERT_TRUE(tool != nullptr || kind == 0) << call.name << context;
        }
        if (mode == ThinkingMode::kDisabled) {
          EXPECT_FALSE(output.reasoning) << context;
        }
        // The same walk again is the same reply.
        if (seed == 0) {
          EXPECT_EQ(Walk(seed, 60).run(*make(request)), tokens);
        }
      }
    }
  }
  EXPECT_GT(n_forced, 1000u);
}

}  // namespace
}  // namespace minim
