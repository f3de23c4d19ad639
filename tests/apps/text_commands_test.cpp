#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "program.h"

namespace minim::testing {
namespace {

const std::string kText = std::string(MINIM_TEST_DATA) + "/text/";
const std::string kTokenizer = kText + "tokenizer";

std::vector<Json> golden_lines(const std::string& path) {
  Outcome file;
  file.out = slurp(path);
  return file.lines();
}

TEST(Tokenize, GoldenTextsGiveTheirIdsBothWays) {
  std::string input;
  std::vector<Json> wanted;
  for (const Json& vector : golden_lines(kTokenizer + "/encode.jsonl")) {
    for (const bool special : {false, true}) {
      Json line{{"text", vector["text"]}};
      if (special) line["parse_special"] = true;
      input += dump_json(line) + "\n";
      wanted.push_back(vector[!special && vector.contains("ids_plain") ? "ids_plain" : "ids"]);
    }
  }
  ASSERT_GT(wanted.size(), 1000u);
  const Outcome outcome = run_minim({"tokenize", "--model", kTokenizer}, {.input = input});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), wanted.size());
  for (size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i]["tokens"], wanted[i]) << i;
}

TEST(Detokenize, GoldenIdsGiveTheirTextAndDeltas) {
  std::string input;
  std::vector<Json> vectors;
  for (Json& vector : golden_lines(kTokenizer + "/detokenize.jsonl")) {
    if (vector["skip_special"] == true) continue;
    input += dump_json({{"tokens", vector["ids"]}}) + "\n";
    input += dump_json({{"tokens", vector["ids"]}, {"stream", true}}) + "\n";
    vectors.push_back(std::move(vector));
  }
  ASSERT_GT(vectors.size(), 100u);
  const Outcome outcome = run_minim({"detokenize", "--model", kTokenizer}, {.input = input});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 2 * vectors.size());
  for (size_t i = 0; i < vectors.size(); ++i) {
    Json deltas = vectors[i]["deltas"];
    if (vectors[i]["flush"] != "") deltas.push_back(vectors[i]["flush"]);
    std::string text;
    for (const Json& delta : deltas) text += delta.get<std::string>();
    EXPECT_EQ(lines[2 * i]["text"], text) << vectors[i]["id"];
    EXPECT_EQ(lines[2 * i + 1]["deltas"], deltas) << vectors[i]["id"];
  }
}

TEST(Template, GoldenConversationsGiveTheirPromptsOrErrors) {
  std::string input;
  std::vector<Json> vectors;
  for (Json& vector : golden_lines(kText + "template/chat.jsonl")) {
    Json line = Json::object(), kwargs = Json::object();
    const Json& vars = vector["vars"];
    if (!vars.contains("messages") || !vars["messages"].is_array()) continue;
    for (const auto& [key, value] : vars.items()) {
      const bool own = key == "messages" || key == "tools" || key == "add_generation_prompt";
      (own ? line : kwargs)[key] = value;
    }
    if (!vars.contains("add_generation_prompt")) line["add_generation_prompt"] = false;
    if (!kwargs.empty()) line["chat_template_kwargs"] = kwargs;
    input += dump_json(line) + "\n";
    vectors.push_back(std::move(vector));
  }
  ASSERT_GT(vectors.size(), 200u);
  const Outcome outcome = run_minim(
      {"template", "--template", kText + "template/chat_template.jinja"}, {.input = input});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), vectors.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (vectors[i].contains("error")) {
      EXPECT_TRUE(lines[i].contains("error")) << vectors[i]["name"];
    } else {
      EXPECT_EQ(lines[i]["text"], vectors[i]["text"]) << vectors[i]["name"];
    }
  }
}

TEST(Tokenize, FlagsAreOneInput) {
  const Outcome ids = run_minim({"tokenize", "--model", kTokenizer, "--text", "a[e~[b"});
  const Outcome special =
      run_minim({"tokenize", "--model", kTokenizer, "--text", "a[e~[b", "--parse-special"});
  EXPECT_EQ(special.lines()[0]["tokens"].size(), 3u);
  EXPECT_GT(ids.lines()[0]["tokens"].size(), 3u);
  std::string list;
  const Json tokens = ids.lines()[0]["tokens"];
  for (const Json& id : tokens) {
    list += (list.empty() ? "" : ",") + std::to_string(id.get<int>());
  }
  const Outcome back = run_minim({"detokenize", "--model", kTokenizer, "--tokens", list});
  EXPECT_EQ(back.lines()[0]["text"], "a[e~[b");
}

TEST(TextCommands, BadLinesAreNamedAndEndWithCodeOne) {
  struct Case {
    std::string command, input;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"tokenize", "{\"text\": 1}\n", {"line 1", "text", "a string"}},
      {"tokenize", "\n\n{\"txt\": \"a\"}\n", {"line 3", "txt", "parse_special"}},
      {"tokenize", "{\"text\": \"a\", \"parse_special\": 1}\n", {"parse_special", "true or false"}},
      {"tokenize", "{}\n", {"line 1", "text", "missing"}},
      {"tokenize", "[1]\n", {"line 1", "object"}},
      {"tokenize", "{\"text\": \"a\"\n", {"line 1", "JSON"}},
      {"tokenize", std::string(100000, '['), {"line 1", "deep"}},
      {"detokenize", "{\"tokens\": [1, 99999]}\n", {"token 1", "99999", "1340"}},
      {"detokenize", "{\"tokens\": [-1]}\n", {"-1"}},
      {"detokenize", "{\"tokens\": [1.5]}\n", {"1.5"}},
      {"detokenize", "{\"tokens\": [1e300]}\n", {"token 0"}},
      {"detokenize", "{\"tokens\": [18446744073709551615]}\n", {"18446744073709551615"}},
      {"detokenize", "{\"tokens\": \"1\"}\n", {"list of token ids"}},
      {"template", "{\"messages\": 1}\n", {"messages"}},
      {"template", "{\"messages\": [], \"chat_template_kwargs\": []}\n", {"chat_template_kwargs"}},
      {"template", "{\"messages\": [], \"mode\": 1}\n", {"mode", "chat_template_kwargs"}},
  };
  for (const Case& c : cases) {
    std::vector<std::string> words = {c.command};
    if (c.command == "template") {
      words.insert(words.end(), {"--template", kText + "template/chat_template.jinja"});
    } else {
      words.insert(words.end(), {"--model", kTokenizer});
    }
    SCOPED_TRACE(c.input.substr(0, 60));
    expect_refusal(run_minim(words, {.input = c.input}), 1, c.words);
  }
}

TEST(TextCommands, WhatWasGoodBeforeABadLineIsStillWritten) {
  const Outcome outcome = run_minim({"tokenize", "--model", kTokenizer},
                                    {.input = "{\"text\": \"a\"}\n{\"text\": 2}\n"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.lines().size(), 1u);
}

TEST(TextCommands, BrokenFilesAreRefusedInOneLine) {
  const TempFolder folder;
  expect_refusal(run_minim({"tokenize", "--model", folder / "none", "--text", "a"}), 1,
                 {"none", "does not exist"});
  expect_refusal(run_minim({"tokenize", "--model", folder.path(), "--text", "a"}), 1,
                 {"tokenizer.json"});
  write_file(folder / "tokenizer.json", "{\"model\": ");
  expect_refusal(run_minim({"tokenize", "--model", folder.path(), "--text", "a"}), 1,
                 {"tokenizer.json", "JSON"});
  write_file(folder / "tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
  expect_refusal(run_minim({"tokenize", "--model", folder.path(), "--text", "a"}), 1,
                 {"tokenizer.json"});
  write_file(folder / "bad.jinja", "{% if x %}");
  expect_refusal(run_minim({"template", "--template", folder / "bad.jinja"}), 1, {"bad.jinja"});
  expect_refusal(run_minim({"template", "--template", folder / "none.jinja"}), 1, {"none.jinja"});
  expect_refusal(run_minim({"tokenize", "--model", kTokenizer, "--file", folder / "none"}), 1,
                 {"none"});
}

}  // namespace
}  // namespace minim::testing
