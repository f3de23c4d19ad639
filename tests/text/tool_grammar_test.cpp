// The grammar of tool calls against the parser of tool calls: what one lets through, the other must
// read as calls whose arguments a third party finds valid.
#include "text/tool_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/schema_check.h"
#include "text/constraint_walk.h"
#include "text/output_parser.h"

namespace minim {
namespace {

using testing::add_markup;
using testing::demo_tokenizer;
using testing::SchemaCheck;
using testing::Walk;

// Tools by name with their schemas; all strict.
const char* const kToolSets[] = {
    // leaves
    R"({"get_weather": {"type": "object", "properties": {"city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14}, "metric": {"type": "boolean"},
        "where": {"type": "number", "exclusiveMinimum": -90, "maximum": 90.5}},
        "required": ["city", "days"], "additionalProperties": false}})",
    // odd names
    R"({"get-time.now v2": {"type": "object", "properties": {"time-zone": {"type": "string",
        "maxLength": 5}, "-A": {"type": "integer"}, "a b": {"type": "boolean"}, "größe":
        {"type": "number"}, "$id": {"type": "string", "maxLength": 3}, "时区": {"enum": ["x", "漢字"]},
        "invoke": {"type": "integer"}, "invoker": {"type": "null"}, "\"q'": {"const": "]<]minimax[>["}}}})",
    // enumerations
    R"({"convert": {"type": "object", "properties": {"unit": {"enum": ["C", "F", "a\"b", "x\ny", " ", ""]},
        "mode": {"enum": ["fast", 1, 2.5, null, true, "1", "null"]}, "level": {"type": "integer",
        "enum": [1, 2, 3]}, "kind": {"const": "</invoke>"}, "deep": {"enum": [{"a": [1, {}]}, [1, 2], []]}},
        "required": ["unit", "mode", "kind", "deep"], "additionalProperties": false}})",
    // strings with rules
    R"({"find": {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[a-f0-9]{8}$"},
        "tag": {"type": "string", "pattern": "[a-z0-9]"}, "short": {"type": "string", "minLength": 2,
        "maxLength": 4}, "code": {"type": "string", "pattern": "^(cat|dog)s?$"}},
        "required": ["id", "tag", "short", "code"]}})",
    // nested
    R"({"edit": {"type": "object", "properties": {"path": {"type": "string", "minLength": 1,
        "maxLength": 6}, "edits": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type":
        "object", "properties": {"old": {"type": "string", "maxLength": 4}, "all": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}, "required": ["old"],
        "additionalProperties": false}}, "pair": {"type": "array", "prefixItems": [{"type": "string",
        "maxLength": 2}, {"type": "integer"}], "items": false, "minItems": 1}},
        "required": ["path", "edits"]}})",
    R"({"matrix": {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "array",
        "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, "maxItems": 3}, "opt": {"type":
        "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}},
        "additionalProperties": false}, "c": {"type": "string", "maxLength": 3}},
        "additionalProperties": false}, "item": {"type": "array", "items": {"type": "object",
        "properties": {"item": {"type": "integer"}}, "required": ["item"]}, "maxItems": 2}},
        "required": ["rows", "opt"]}})",
    // unions
    R"({"mixed": {"type": "object", "properties": {"a": {"anyOf": [{"type": "string", "maxLength": 3},
        {"type": "integer"}]}, "b": {"type": ["integer", "string"], "maxLength": 3, "minimum": 100},
        "c": {"type": ["string", "null"], "maxLength": 4}, "d": {"anyOf": [{"type": "array", "items":
        {"type": "integer"}, "maxItems": 2}, {"type": "null"}]}, "e": {"oneOf": [{"type": "boolean"},
        {"type": "string", "maxLength": 5}]}, "f": {"anyOf": [{"const": true}, {"type": "string",
        "maxLength": 4}]}, "g": {"type": ["object", "null"], "properties": {"x": {"type": "integer"}},
        "additionalProperties": false}}, "required": ["a", "b", "c", "d", "e", "f", "g"]}})",
    R"({"shape": {"type": "object", "properties": {"s": {"anyOf": [{"type": "object", "properties":
        {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"],
        "additionalProperties": false}, {"type": "object", "properties": {"kind": {"const": "box"},
        "w": {"type": "integer"}, "name": {"type": "string", "pattern": "^[a-c]{2}$"}}, "required":
        ["kind", "w", "name"], "additionalProperties": false}]}, "t": {"anyOf": [{"type": "array",
        "items": {"type": "string", "maxLength": 2}, "maxItems": 2}, {"type": "object", "properties":
        {"item": {"type": "integer"}}, "required": ["item"], "additionalProperties": false}]}},
        "required": ["s", "t"]}})",
    // free JSON, maps, references, recursion
    R"({"store": {"type": "object", "properties": {"map": {"type": "object", "additionalProperties":
        {"type": "integer"}, "maxProperties": 2}, "near": {"type": "object", "properties": {"a":
        {"type": "string", "maxLength": 2}}, "required": ["a"], "additionalProperties": {"type":
        "boolean"}}}, "required": ["map", "near"]}})",
    R"({"tree": {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "c":
        {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 1}}, "required": ["v", "c"],
        "additionalProperties": false}, "u": {"enum": ["C", "F"]}}, "type": "object", "properties":
        {"root": {"$ref": "#/$defs/n"}, "unit": {"$ref": "#/$defs/u"}}, "required": ["root", "unit"],
        "additionalProperties": false}})",
    // several, one without parameters, one without a type at a leaf
    R"({"ping": {"type": "object", "properties": {}, "additionalProperties": false},
        "say": {"type": "object", "properties": {"what": {}, "how": {"type": "null"}},
        "required": ["what"]}, "get_weather": {"type": "object", "properties": {"city": {"enum":
        ["Paris", "Köln"]}}, "required": ["city"]}})",
};

Json tools_of(const Json& schemas, bool strict) {
  Json tools = Json::array();
  for (const auto& [name, schema] : schemas.items()) {
    tools.push_back({{"type", "function"},
                     {"function", {{"name", name}, {"parameters", schema}, {"strict", strict}}}});
  }
  return tools;
}

struct Fixture {
  explicit Fixture(const Json& schemas, bool strict = true, bool parallel = true) {
    Result<ToolSet> parsed = ToolSet::parse(tools_of(schemas, strict));
    EXPECT_TRUE(parsed) << parsed.error().message;
    tools = std::make_shared<const ToolSet>(*std::move(parsed));
    std::vector<const Tool*> all;
    for (const Tool& tool : tools->tools()) all.push_back(&tool);
    Result<GrammarSpec> made = tool_call_grammar(all, parallel, demo_tokenizer());
    if (!made) {
      error = made.error().message;
      return;
    }
    const std::vector<TokenId> stops = {*demo_tokenizer().find_added("[e~[")};
    compiler = *GrammarCompiler::create(demo_tokenizer(), stops, {});
    Result<std::shared_ptr<const CompiledGrammar>> compiled = compiler->compile(*made);
    EXPECT_TRUE(compiled) << compiled.error().message << "\n" << made->text;
    if (compiled) grammar = *std::move(compiled);
  }

  ParsedOutput parse(const std::vector<TokenId>& tokens, const char* finish) const {
    return testing::parse(tokens, tools, ThinkingMode::kDisabled, finish);
  }
  // The tokens of a block; "\x01" in the text stands for the namespace marker.
  bool accepts(const std::string& calls) const {
    GrammarMatcher matcher(grammar);
    for (const TokenId token : add_markup("\x01<tool_call>\n" + calls + "\x01</tool_call>")) {
      if (!matcher.accept(token)) return false;
    }
    return matcher.may_end();
  }

  std::string error;
  std::shared_ptr<const ToolSet> tools;
  std::unique_ptr<GrammarCompiler> compiler;
  std::shared_ptr<const CompiledGrammar> grammar;
};

class ToolGrammar : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::available()) GTEST_SKIP() << "a build without grammars";
  }
};

// Complete calls satisfy their tools' schemas.
void expect_valid(const Fixture& fixture, const ParsedOutput& output, const std::string& context) {
  EXPECT_FALSE(output.content.has_value()) << context << *output.content;
  for (const ParsedOutput::Call& call : output.calls) {
    const Tool* tool = fixture.tools->find(call.name);
    ASSERT_NE(tool, nullptr) << call.name;
    if (!call.complete) continue;
    const Result<Json> arguments = parse_json(call.arguments, "arguments");
    ASSERT_TRUE(arguments) << call.arguments << context;
    if (tool->strict) {
      EXPECT_EQ(SchemaCheck(tool->parameters).why_not(*arguments), "") << call.arguments << "\n"
                                                                       << context;
    }
  }
}

TEST_F(ToolGrammar, FinishedWalksAreCallsWhoseArgumentsAreValid) {
  constexpr size_t kSteps = 10000;
  for (const char* set : kToolSets) {
    const Fixture fixture(*parse_json(set, "tools"));
    ASSERT_EQ(fixture.error, "") << set;
    size_t steps = 0;
    for (unsigned seed = 0; steps < kSteps / 2; ++seed) {
      GrammarMatcher matcher(fixture.grammar);
      Walk walk(seed, 150);
      const std::vector<TokenId> tokens = walk.run(matcher);
      steps += tokens.size();
      ASSERT_FALSE(walk.stuck()) << set << testing::shown(tokens);
      const ParsedOutput output = fixture.parse(tokens, "stop");
      ASSERT_GE(output.calls.size(), 1u) << testing::shown(tokens);
      for (const ParsedOutput::Call& call : output.calls) {
        EXPECT_TRUE(call.complete) << testing::shown(tokens);
      }
      EXPECT_EQ(output.finish, "tool_calls");
      expect_valid(fixture, output, testing::shown(tokens));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

TEST_F(ToolGrammar, EveryCutOfAWalkIsWellFormed) {
  for (const char* set : kToolSets) {
    const Fixture fixture(*parse_json(set, "tools"));
    ASSERT_EQ(fixture.error, "") << set;
    for (unsigned seed = 0; seed < 3; ++seed) {
      GrammarMatcher matcher(fixture.grammar);
      const std::vector<TokenId> tokens = Walk(seed + 100, 60).run(matcher);
      for (size_t n = 0; n < tokens.size(); ++n) {
        const std::vector<TokenId> cut(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
        const ParsedOutput output = fixture.parse(cut, "length");
        expect_valid(fixture, output, testing::shown(cut));
        for (size_t i = 0; i + 1 < output.calls.size(); ++i) EXPECT_TRUE(output.calls[i].complete);
        EXPECT_EQ(output.finish, "length");
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }
}

TEST_F(ToolGrammar, WhatTheTemplateWritesIsInTheLanguage) {
  const Fixture edit(*parse_json(kToolSets[4], "tools"));
  EXPECT_TRUE(
      edit.accepts("\x01<invoke name=\"edit\">\x01<path>a\x01</path>\x01<edits>\x01<item>"
                   "\x01<old><b>\"\x01</old>\x01<all>true\x01</all>\x01</item>\x01</edits>"
                   "\x01</invoke>\n"));
  const std::string call =
      "\x01<invoke name=\"edit\">\x01<path>a\x01</path>\x01<edits>\x01<item>"
      "\x01<old>x\x01</old>\x01<lines>\x01<item>5\x01</item>\x01</lines>"
      "\x01</item>\x01</edits>\x01<pair>\x01<item>q\x01</item>\x01<item>7"
      "\x01</item>\x01</pair>\x01</invoke>\n";
  EXPECT_TRUE(edit.accepts(call));
  EXPECT_TRUE(edit.accepts(call + call));
  const Fixture one(*parse_json(kToolSets[4], "tools"), true, false);
  EXPECT_TRUE(one.accepts(call));
  EXPECT_FALSE(one.accepts(call + call));
}

TEST_F(ToolGrammar, WhatBreaksTheSchemaIsNot) {
  const Fixture weather(*parse_json(kToolSets[0], "tools"));
  const auto call = [&](const std::string& name, const std::string& parameters) {
    return weather.accepts("\x01<invoke name=\"" + name + "\">" + parameters + "\x01</invoke>\n");
  };
  const std::string city = "\x01<city>Paris\x01</city>", days = "\x01<days>3\x01</days>";
  EXPECT_TRUE(call("get_weather", city + days));
  EXPECT_TRUE(
      call("get_weather", "\x01<city>\x01</city>" + days + "\x01<metric>false\x01</metric>"));
  EXPECT_FALSE(call("get_weathers", city + days));
  EXPECT_FALSE(call("get_weather", city));                                 // required
  EXPECT_FALSE(call("get_weather", days + city));                          // order
  EXPECT_FALSE(call("get_weather", city + "\x01<days>15\x01</days>"));     // maximum
  EXPECT_FALSE(call("get_weather", city + "\x01<days>three\x01</days>"));  // type
  EXPECT_FALSE(call("get_weather", city + days + "\x01<metric>maybe\x01</metric>"));
  EXPECT_FALSE(call("get_weather", city + days + "\x01<other>1\x01</other>"));  // closed
  EXPECT_FALSE(call("get_weather", city + days + "\x01<where>-90\x01</where>"));
  EXPECT_TRUE(call("get_weather", city + days + "\x01<where>-89.99\x01</where>"));
}

// What the parser would not take as JSON any more may not be written.
TEST_F(ToolGrammar, JsonTextInAnArgumentIsBoundedInDepth) {
  const Fixture fixture(*parse_json(
      R"({"f": {"type": "object", "properties": {"any": {"type": "object"}, "tree": {"type":
          "object", "additionalProperties": {"$ref": "#/properties/tree"}}, "flat": {"type":
          "object", "additionalProperties": {"type": "integer"}}}}})",
      "tools"));
  ASSERT_EQ(fixture.error, "");
  const auto nested = [](size_t levels, const std::string& open, const std::string& close,
                         const std::string& inside) {
    std::string text;
    for (size_t i = 0; i < levels; ++i) text += open;
    text += inside;
    for (size_t i = 0; i < levels; ++i) text += close;
    return text;
  };
  const auto call = [&](const std::string& name, const std::string& value) {
    return fixture.accepts("\x01<invoke name=\"f\">\x01<" + name + ">" + value + "\x01</" + name +
                           ">\x01</invoke>\n");
  };
  constexpr size_t kLevels = 32;
  for (const size_t levels :
       {size_t{1}, size_t{2}, kLevels - 1, kLevels, kLevels + 1, 2 * kLevels}) {
    const bool fits = levels <= kLevels;
    const std::string lists = nested(levels - 1, "[", "]", "");
    EXPECT_EQ(call("any", "{\"a\": " + (levels == 1 ? "0" : lists) + "}"), fits) << levels;
    EXPECT_EQ(call("any", "{\"a\": {\"b\": 1}, \"c\": [2, " + (levels == 1 ? "0" : lists) + "]}"),
              levels < kLevels)
        << levels;
    EXPECT_EQ(call("tree", nested(levels - 1, "{\"\": ", "}", "{}")), fits) << levels;
  }
  EXPECT_TRUE(call("flat", "{\"a\": 1, \"b\": 2}"));
  EXPECT_FALSE(call("flat", "{\"a\": {}}"));
}

TEST_F(ToolGrammar, WhatCannotBeHeldToIsRefusedByToolKeywordAndPlace) {
  const auto refusal = [](const std::string& parameters) {
    return Fixture(*parse_json("{\"the tool\": " + parameters + "}", "tools")).error;
  };
  const auto in_property = [&](const std::string& schema) {
    return refusal(R"({"type": "object", "properties": {"p": )" + schema + "}}");
  };
  struct Case {
    std::string error;
    std::vector<std::string> names;
  };
  const std::vector<Case> cases = {
      {in_property(R"({"type": "string", "pattern": "(?=a)b"})"), {"\"pattern\"", "/properties/p"}},
      {in_property(R"({"type": "integer", "multipleOf": 3})"), {"\"multipleOf\"", "/properties/p"}},
      {in_property(R"({"$ref": "#/$defs/none"})"), {"\"$ref\"", "/properties/p"}},
      {in_property(R"({"anyOf": [{"type": "integer", "minimum": 5}, {"type": "string",
                       "pattern": "^[0-9]$"}]})"),
       {"\"pattern\"", "/properties/p"}},
      {refusal(R"({"type": "object", "additionalProperties": {"type": "string"}})"),
       {"\"additionalProperties\""}},
      {refusal(R"({"type": "object", "properties": {"a<b": {"type": "string"}}})"),
       {"\"properties\"", "a<b"}},
      {refusal(R"({"type": "object", "properties": {"tool_call": {"type": "string"}}})"),
       {"\"properties\"", "tool_call"}},
      {refusal(R"({"type": "string"})"), {"object"}},
      {refusal(R"({"anyOf": [{"type": "object"}, {"type": "object", "properties": {}}]})"),
       {"object"}},
  };
  for (const Case& one : cases) {
    EXPECT_NE(one.error.find("tool \"the tool\""), std::string::npos) << one.error;
    for (const std::string& name : one.names) {
      EXPECT_NE(one.error.find(name), std::string::npos) << name << " in " << one.error;
    }
  }
  EXPECT_NE(Fixture(*parse_json(R"({"a\"b": {"type": "object", "properties": {}}})", "")).error,
            "");
}

TEST_F(ToolGrammar, ToolsThatAreNotStrictAreHeldToTheirNamesOnly) {
  const Fixture loose(*parse_json(kToolSets[4], "tools"), false);
  ASSERT_EQ(loose.error, "");
  const auto call = [&](const std::string& parameters) {
    return loose.accepts("\x01<invoke name=\"edit\">" + parameters + "\x01</invoke>\n");
  };
  EXPECT_TRUE(call(""));
  EXPECT_TRUE(call("\x01<edits>anything at all\x01</edits>\x01<path>x\x01</path>"));
  EXPECT_TRUE(
      call("\x01<edits>\x01<item>\x01<all>1\x01</all>\x01<old>\x01</old>\x01</item>\x01</edits>"));
  EXPECT_FALSE(call("\x01<other>x\x01</other>"));
  EXPECT_FALSE(call("\x01<edits>\x01<item>\x01<none>1\x01</none>\x01</item>\x01</edits>"));
  const Fixture undeclared(*parse_json(R"({"f": {"type": "object"}})", "tools"), false);
  EXPECT_TRUE(
      undeclared.accepts("\x01<invoke name=\"f\">\x01<any-name>x\x01</any-name>\x01</invoke>\n"));
  // A strict tool beside them is held to its schema all the same.
  for (unsigned seed = 0; seed < 20; ++seed) {
    GrammarMatcher matcher(loose.grammar);
    Walk walk(seed, 100);
    const std::vector<TokenId> tokens = walk.run(matcher);
    ASSERT_FALSE(walk.stuck());
    expect_valid(loose, loose.parse(tokens, "stop"), testing::shown(tokens));
  }
}

}  // namespace
}  // namespace minim
