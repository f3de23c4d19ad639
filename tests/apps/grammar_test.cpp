#include "text/grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program.h"

namespace minim::testing {
namespace {

const std::string kText = std::string(MINIM_TEST_DATA) + "/text/";
const std::vector<std::string> kGrammar = {"grammar", "--model", kText + "tokenizer"};

std::vector<Json> schema_lines(const std::string& name) {
  Outcome file;
  file.out = slurp(kText + "schema/" + name);
  return file.lines();
}

TEST(Grammar, EveryKindAnswersItsTexts) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "no xgrammar in this build";
  const Outcome outcome =
      run_minim(kGrammar, {.input = R"LINES({"regex": "a+", "texts": ["aa", "b"]}
{"choice": ["x", "y"], "texts": ["y", "xy"]}
{"ebnf": "root ::= \"q\" root | \"q\"", "texts": ["qqq", ""]}
{"schema": {"type": "boolean"}, "texts": ["true", "1"]}
{"regex": "(?=a)", "texts": []}
)LINES"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i]["accepts"], Json({true, false})) << i;
  EXPECT_EQ(lines[4]["refused"], "regex: look-around at byte 0 is not supported");
  EXPECT_EQ(outcome.err, "");
}

TEST(Grammar, GoldenSchemasThroughTheProgram) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "no xgrammar in this build";
  std::string input;
  std::vector<Json> wanted;
  for (const Json& vector : schema_lines("schemas.jsonl")) {
    Json texts = Json::array(), accepts = Json::array();
    for (const char* list : {"accept", "reject"}) {
      for (const Json& text : vector[list]) {
        texts.push_back(text);
        accepts.push_back(std::string(list) == "accept");
      }
    }
    input += dump_json(Json{{"schema", vector["schema"]}, {"texts", texts}}) + "\n";
    wanted.push_back(accepts);
  }
  const Outcome outcome = run_minim(kGrammar, {.input = input});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), wanted.size());
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["accepts"], wanted[i]) << i;
}

TEST(Grammar, ABuildWithoutTheLibraryNamesIt) {
  if (GrammarCompiler::available()) GTEST_SKIP() << "this build has xgrammar";
  const Outcome outcome = run_minim(kGrammar, {.input = "{\"regex\": \"a\", \"texts\": []}\n"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("not part of this build"), std::string::npos) << outcome.out;
}

TEST(Grammar, WrongLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"texts": []})", "line 1: none of"},
      {R"({"regex": "a", "ebnf": "b", "texts": []})", "both given"},
      {R"({"regex": "a"})", "\"texts\" is missing"},
      {R"({"regex": 5, "texts": []})", "\"regex\" is 5"},
      {R"({"regex": "a", "texts": [1]})", "\"texts\" is not one"},
      {R"({"pattern": "a", "texts": []})", "unknown key \"pattern\""},
  };
  for (const auto& [input, wanted] : cases) {
    const Outcome outcome = run_minim(kGrammar, {.input = input + "\n"});
    EXPECT_EQ(outcome.code, 1) << input;
    EXPECT_NE(outcome.err.find(wanted), std::string::npos) << input << "\n" << outcome.err;
  }
}

}  // namespace
}  // namespace minim::testing
