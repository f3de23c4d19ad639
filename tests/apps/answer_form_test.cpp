// minim run with flags that say what form the answer has, on the demo model at a temperature at
// which it writes nonsense when it may.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "program.h"
#include "support/schema_check.h"
#include "text/grammar.h"

namespace minim::testing {
namespace {

const char* const kTools =
    R"([{"type": "function", "function": {"name": "get_weather", "strict": true,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12},
    "days": {"type": "integer", "minimum": 1, "maximum": 5}}, "required": ["city", "days"],
    "additionalProperties": false}}}, {"type": "function", "function": {"name": "roll", "strict": true,
    "parameters": {"type": "object", "properties": {"sides": {"enum": [4, 6, 20]}}, "required":
    ["sides"], "additionalProperties": false}}}])";
const char* const kSchema = R"({"type": "object", "properties": {"answer": {"type": "integer",
    "minimum": 0, "maximum": 99}, "why": {"type": "string", "maxLength": 12}}, "required":
    ["answer", "why"], "additionalProperties": false})";

Outcome run_demo(std::vector<std::string> words, const RunOptions& options = {}) {
  words.insert(words.begin(), {"run", "--model", MINIM_DEMO_MODEL});
  words.push_back("What is 12 + 30?");
  return run_minim(words, options);
}

Json answer(std::vector<std::string> words, int seed = 0) {
  words.insert(words.begin(), {"--json", "--quiet", "--temperature", "1.5", "--top-p", "1",
                               "--max-tokens", "600", "--seed", std::to_string(seed)});
  const Outcome outcome = run_demo(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  return lines.empty() ? Json::object() : lines[0];
}

class AnswerForm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::available()) GTEST_SKIP() << "a build without grammars";
    write_file(folder_ / "tools", kTools);
    write_file(folder_ / "schema", kSchema);
  }
  const TempFolder folder_;
};

TEST_F(AnswerForm, ASchemaHoldsWhateverTheThinking) {
  const Json schema = *parse_json(kSchema, "schema");
  for (const char* mode : {"enabled", "disabled", "adaptive"}) {
    for (int seed = 0; seed < 3; ++seed) {
      const Json made = answer(
          {"--thinking", mode, "--thinking-budget", "30", "--json-schema", folder_ / "schema"},
          seed);
      ASSERT_EQ(made["finish_reason"], "stop") << made;
      const Result<Json> value = parse_json(made["text"].get<std::string>(), "text");
      ASSERT_TRUE(value) << made;
      EXPECT_EQ(SchemaCheck(schema).why_not(*value), "") << made;
      EXPECT_GT(made["usage"]["forced_tokens"], 0);
    }
  }
  EXPECT_EQ(answer({"--json-schema-text", R"({"const": [1, 2]})"})["text"], "[1, 2]");
}

TEST_F(AnswerForm, TheOtherFormatsHold) {
  const Json chosen = answer({"--choice", R"(["yes", "no", "maybe so"])"});
  EXPECT_TRUE(chosen["text"] == "yes" || chosen["text"] == "no" || chosen["text"] == "maybe so");
  EXPECT_TRUE(
      std::regex_match(answer({"--regex", "[0-9]{3}-[a-z]{2,4}"})["text"].get<std::string>(),
                       std::regex("[0-9]{3}-[a-z]{2,4}")));
  write_file(folder_ / "grammar", "root ::= \"<\" [ab]{3} \">\"\n");
  EXPECT_TRUE(
      std::regex_match(answer({"--grammar", folder_ / "grammar"})["text"].get<std::string>(),
                       std::regex("<[ab]{3}>")));
  const Json object = answer({"--json-object", "--greedy"});
  if (object["finish_reason"] == "stop") {
    EXPECT_TRUE(parse_json(object["text"].get<std::string>(), "text")->is_object()) << object;
  }
}

TEST_F(AnswerForm, ARequiredCallComesAndIsValid) {
  const Json tools = *parse_json(kTools, "tools");
  for (int seed = 0; seed < 4; ++seed) {
    const Json made =
        answer({"--tools", folder_ / "tools", "--tool-choice", "required", "--thinking",
                seed % 2 == 0 ? "disabled" : "enabled", "--thinking-budget", "10"},
               seed);
    ASSERT_GE(made["tool_calls"].size(), 1u) << made;
    EXPECT_EQ(made["text"], "");
    for (const Json& call : made["tool_calls"]) {
      if (!call["complete"].get<bool>()) continue;
      const bool roll = call["name"] == "roll";
      const Result<Json> arguments = parse_json(call["arguments"].get<std::string>(), "arguments");
      ASSERT_TRUE(arguments) << made;
      EXPECT_EQ(SchemaCheck(tools[roll ? 1 : 0]["function"]["parameters"]).why_not(*arguments), "");
    }
  }
}

TEST_F(AnswerForm, ANamedToolIsTheOneThatIsCalled) {
  for (int seed = 0; seed < 3; ++seed) {
    const Json made = answer({"--tools", folder_ / "tools", "--tool-choice", "roll"}, seed);
    ASSERT_GE(made["tool_calls"].size(), 1u) << made;
    for (const Json& call : made["tool_calls"]) EXPECT_EQ(call["name"], "roll");
  }
  const Json none = answer({"--tools", folder_ / "tools", "--tool-choice", "none"});
  EXPECT_EQ(none["tool_calls"], Json::array());
}

TEST_F(AnswerForm, OneSeedGivesOneAnswer) {
  const std::vector<std::string> words = {"--tools", folder_ / "tools", "--tool-choice",
                                          "required"};
  std::vector<std::string> alone = words;
  alone.insert(alone.end(), {"--threads", "1", "--chunk", "2"});
  EXPECT_EQ(answer(words, 3)["tokens"], answer(alone, 3)["tokens"]);
}

TEST(AnswerFormFlags, ABudgetBoundsTheThinking) {
  for (const char* budget : {"0", "5"}) {
    const Json made = answer({"--thinking", "enabled", "--thinking-budget", budget});
    const Json& tokens = made["tokens"];
    const auto closing = std::find(tokens.begin(), tokens.end(), 1340);
    ASSERT_NE(closing, tokens.end()) << made;
    EXPECT_LE(closing - tokens.begin(), std::stoi(budget));
  }
}

TEST(AnswerFormFlags, EffortIsThinkingInOtherWords) {
  const auto tokens = [](const char* flag, const char* word) {
    return answer({flag, word, "--greedy"})["tokens"];
  };
  EXPECT_EQ(tokens("--effort", "high"), tokens("--thinking", "enabled"));
  EXPECT_EQ(tokens("--effort", "none"), tokens("--thinking", "disabled"));
  EXPECT_EQ(tokens("--effort", "low"), tokens("--thinking", "adaptive"));
}

TEST(AnswerFormFlags, FlagsThatExcludeEachOtherAreUsageErrors) {
  const TempFolder folder;
  write_file(folder / "tools", kTools);
  expect_refusal(run_demo({"--thinking", "enabled", "--effort", "high"}), 2, {"--effort"});
  expect_refusal(run_demo({"--effort", "huge"}), 2, {"--effort", "medium"});
  expect_refusal(run_demo({"--json-object", "--regex", "a"}), 2, {"--json-object", "--regex"});
  expect_refusal(run_demo({"--tool-choice", "required"}), 2, {"--tools"});
  expect_refusal(
      run_demo({"--tools", folder / "tools", "--tool-choice", "required", "--json-object"}), 2,
      {"--json-object", "required"});
  expect_refusal(run_demo({"--thinking-budget", "-1"}), 2, {"--thinking-budget"});
}

TEST(AnswerFormFlags, WhatCannotBeDoneIsRefusedByName) {
  if (!GrammarCompiler::available()) {
    expect_refusal(run_demo({"--json-object"}), 1, {"--json-object", "xgrammar"});
    return;
  }
  const TempFolder folder;
  write_file(folder / "tools", kTools);
  expect_refusal(run_demo({"--json-schema-text", R"({"type": "string", "pattern": "("})"}), 1,
                 {"--json-schema-text", "pattern"});
  expect_refusal(run_demo({"--json-schema-text", "{"}), 1, {"--json-schema-text"});
  expect_refusal(run_demo({"--json-schema", folder / "none"}), 1, {"none"});
  expect_refusal(run_demo({"--regex", "(?=a)"}), 1, {"--regex"});
  expect_refusal(run_demo({"--choice", "yes"}), 1, {"--choice", "list"});
  expect_refusal(run_demo({"--choice", "[]"}), 1, {"--choice"});
  expect_refusal(run_demo({"--tools", folder / "tools", "--tool-choice", "unknown"}), 1,
                 {"--tool-choice", "unknown", "get_weather"});
  write_file(folder / "strict", R"([{"name": "f", "strict": true, "parameters": {"type": "object",
      "properties": {"x": {"type": "integer", "multipleOf": 7}}}}])");
  expect_refusal(run_demo({"--tools", folder / "strict"}), 1,
                 {"--tools", "\"f\"", "multipleOf", "/properties/x"});
}

}  // namespace
}  // namespace minim::testing
