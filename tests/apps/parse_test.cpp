// minim parse: the golden vectors through the program, and what it refuses.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "program.h"

namespace minim::testing {
namespace {

const std::string kParse = std::string(MINIM_TEST_DATA) + "/text/parse/";
const std::string kTokenizer = std::string(MINIM_TEST_DATA) + "/text/tokenizer";

struct Vector {
  Json line, expect;
};

// "order" is left out in the file where it is reasoning, content, calls.
Json expected(Json expect) {
  if (expect.contains("order")) return expect;
  Json order = Json::array();
  if (!expect["reasoning"].is_null()) {
    order.push_back(Json::array({"reasoning", expect["reasoning"]}));
  }
  if (!expect["content"].is_null()) order.push_back(Json::array({"text", expect["content"]}));
  for (size_t i = 0; i < expect["tool_calls"].size(); ++i) {
    order.push_back(Json::array({"tool", i}));
  }
  expect["order"] = order;
  return expect;
}

std::vector<Vector> vectors() {
  Outcome file;
  file.out = slurp(kParse + "vectors.jsonl");
  const Json tools = *read_json_file(kParse + "tools.json");
  std::vector<Vector> out;
  for (const Json& vector : file.lines()) {
    out.push_back({{{"tokens", vector["tokens"]},
                    {"thinking_mode", vector["thinking_mode"]},
                    {"tools", tools[vector["tools"].get<std::string>()]},
                    {"engine_finish", vector["engine_finish"]}},
                   expected(vector["expect"])});
  }
  EXPECT_EQ(out.size(), 660u);
  return out;
}

Outcome parse(const std::string& input, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"parse", "--model", kTokenizer});
  return run_minim(flags, {.input = input});
}

TEST(Parse, GoldenRepliesGiveTheirParts) {
  std::string input;
  const std::vector<Vector> all = vectors();
  for (const Vector& vector : all) input += dump_json(vector.line) + "\n";
  const Outcome outcome = parse(input, {"--m3-ids"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), all.size());
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], all[i].expect) << all[i].line;
}

// The same replies in ids of the loaded vocabulary.
TEST(Parse, IdsAreThoseOfTheLoadedVocabulary) {
  const std::map<int, int> own = {{200058, 1338}, {200059, 1339}, {200060, 1340},
                                  {200050, 1330}, {200051, 1331}, {200052, 1332},
                                  {200053, 1333}, {200019, 1299}, {200020, 1300}};
  std::string input;
  const std::vector<Vector> all = vectors();
  for (const Vector& vector : all) {
    Json line = vector.line;
    for (Json& token : line["tokens"]) {
      if (token.is_number()) token = own.at(token.get<int>());
    }
    input += dump_json(line) + "\n";
  }
  const Outcome outcome = parse(input);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), all.size());
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], all[i].expect) << all[i].line;
}

TEST(Parse, EventsAreWhatAStreamGets) {
  const Outcome outcome =
      parse(R"({"tokens": ["x", 200060, "a", 200058, "<tool_call>", 200058, "<invoke name='f'>",)"
            R"( 200058, "<k>", "v", "w", 200058, "</k>", 200058, "</invoke>"],)"
            R"( "thinking_mode": "enabled"})",
            {"--m3-ids", "--events"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.lines().at(0), *parse_json(R"([{"e": "reasoning", "d": "x"},
      {"e": "text", "d": "a"}, {"e": "tool_start", "i": 0, "name": "f"},
      {"e": "args", "i": 0, "d": "{\"k\": \"v"},
      {"e": "args", "i": 0, "d": "w"}, {"e": "args", "i": 0, "d": "\""},
      {"e": "args", "i": 0, "d": "}"}, {"e": "tool_end", "i": 0, "complete": true},
      {"e": "finish", "kind": "tool_calls"}])",
                                               "expected"));
}

TEST(Parse, BadLinesAreNamedAndEndWithCodeOne) {
  struct Case {
    std::string input;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"{}", {"line 1", "tokens", "missing"}},
      {"{\"tokens\": 1}", {"tokens", "is 1", "list"}},
      {"{\"tokens\": [null]}", {"token 0", "null", "id from 0"}},
      {"{\"tokens\": [\"a\", 1341]}", {"token 1", "1341", "1340"}},
      {"{\"tokens\": [200058]}", {"token 0", "200058"}},
      {"{\"tokens\": [-1]}", {"-1"}},
      {"{\"tokens\": [1.5]}", {"1.5"}},
      {"{\"tokens\": [18446744073709551615]}", {"18446744073709551615"}},
      {"{\"tokens\": [], \"thinking_mode\": \"on\"}", {"thinking_mode", "on", "enabled"}},
      {"{\"tokens\": [], \"engine_finish\": \"eos\"}", {"engine_finish", "eos", "length"}},
      {"{\"tokens\": [], \"tools\": {}}", {"line 1", "tools", "list"}},
      {"{\"tokens\": [], \"tools\": [{\"name\": 1}]}", {"line 1", "tools[0].name"}},
      {"{\"tokens\": [], \"mode\": 1}", {"unknown key", "mode", "thinking_mode"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.input);
    expect_refusal(parse(c.input + "\n"), 1, c.words);
  }
  expect_refusal(parse("{\"tokens\": [200061]}\n", {"--m3-ids"}), 1, {"200061", "1340"});
}

TEST(Parse, EmptyRepliesAndNullsAreFine) {
  const Outcome outcome = parse("{\"tokens\": [], \"thinking_mode\": null, \"tools\": null}\n");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(dump_json(outcome.lines().at(0)),
            R"({"reasoning":null,"content":null,"tool_calls":[],"finish":"stop","order":[]})");
}

}  // namespace
}  // namespace minim::testing
