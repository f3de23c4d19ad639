#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "program.h"
#include "support/safetensors_file.h"

namespace minim::testing {
namespace {

const std::string kModel = golden_model("m3-bf16");

StFile golden_prompt(const std::string& name) {
  return StFile::open(golden_model("golden/m3-bf16/" + name + ".safetensors"));
}

std::string token_line(const StFile& golden, const std::string& id) {
  return dump_json({{"id", id}, {"tokens", golden.get<int32_t>("input_ids")}}) + "\n";
}

// log softmax of the last stored row.
std::vector<double> last_row(const StFile& golden, const std::string& mode) {
  const std::vector<float> all = golden.get<float>(mode + ".logits");
  const size_t vocab = golden.shape(mode + ".logits")[1];
  std::vector<double> row(all.end() - static_cast<ptrdiff_t>(vocab), all.end());
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  for (double& x : row) x -= std::log(sum);
  return row;
}

TEST(Score, NextIsTheGoldenDistribution) {
  const TempFolder folder;
  const std::string file = folder / "tokens.jsonl";
  const std::vector<std::string> names = {"prompt-00017", "prompt-00129", "prompt-00001"};
  std::string input;
  for (const std::string& name : names) input += token_line(golden_prompt(name), name);
  write_file(file, input);
  const Outcome outcome = run_minim({"score", "--model", kModel, "--tokens-file", file, "--top",
                                     "320", "--numerics", "reference"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  size_t found = 0;
  for (const Json& line : outcome.lines()) {
    if (!line.contains("next")) continue;
    ASSERT_EQ(line["id"], names[found]);
    const std::vector<double> wanted = last_row(golden_prompt(names[found++]), "exact");
    ASSERT_EQ(line["next"].size(), wanted.size());
    double before = 0;
    for (const Json& entry : line["next"]) {
      const double value = entry["logprob"].get<double>();
      EXPECT_NEAR(value, wanted[entry["token"].get<size_t>()], 2e-5);
      EXPECT_LE(value, before);
      before = value;
    }
  }
  EXPECT_EQ(found, names.size());
}

TEST(Score, LinesHaveTheFormOfTheInterface) {
  const Outcome outcome =
      run_minim({"score", "--model", kModel, "--tokens", "5, 6,7", "--top", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 5u);
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i]["index"], i);
    EXPECT_EQ(lines[i]["token"], 5 + i);
    EXPECT_FALSE(lines[i].contains("id"));
    EXPECT_FALSE(lines[i].contains("experts"));
    EXPECT_EQ(lines[i]["logprob"].is_null(), i == 0);
    EXPECT_EQ(lines[i]["top"].is_null(), i == 0);
    if (i == 0) continue;
    EXPECT_EQ(lines[i]["top"].size(), 2u);
    EXPECT_GE(lines[i]["top"][0]["logprob"], lines[i]["top"][1]["logprob"]);
    sum += lines[i]["logprob"].get<double>();
  }
  EXPECT_EQ(lines[3]["next"].size(), 2u);
  EXPECT_EQ(lines[4]["summary"]["tokens"], 3);
  EXPECT_NEAR(lines[4]["summary"]["logprob"].get<double>(), sum, 1e-5);
  EXPECT_NEAR(lines[4]["summary"]["perplexity"].get<double>(), std::exp(-sum / 2), 1e-2);
}

TEST(Score, APositionDoesNotDependOnWhatFollowsOrOnTheChunk) {
  const StFile golden = golden_prompt("prompt-00600");
  const std::vector<int32_t> tokens = golden.get<int32_t>("input_ids");
  const TempFolder folder;
  const std::string file = folder / "t";
  write_file(
      file,
      dump_json({{"id", 1}, {"tokens", tokens}}) + "\n" +
          dump_json({{"tokens", std::vector<int32_t>(tokens.begin(), tokens.begin() + 200)}}) +
          "\n");
  const std::vector<std::string> words = {"score", "--model", kModel, "--tokens-file", file};
  const std::vector<Json> whole = run_minim(words).lines();
  ASSERT_EQ(whole.size(), 602u + 202u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(dump_json(whole[i]["logprob"]), dump_json(whole[602 + i]["logprob"])) << i;
  }
  std::vector<std::string> chunked = words;
  chunked.insert(chunked.end(), {"--chunk", "7", "--threads", "1", "--isa", "scalar"});
  EXPECT_EQ(run_minim(words).out, run_minim(chunked).out);
}

TEST(Score, TraceIsTheGoldenChoiceOfTheLastPosition) {
  const StFile golden = golden_prompt("prompt-00901");
  const TempFolder folder;
  write_file(folder / "t", token_line(golden, "x"));
  const Outcome outcome = run_minim({"score", "--model", kModel, "--tokens-file", folder / "t",
                                     "--trace", "--numerics", "reference"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 903u);
  const Json& last = lines[900];
  ASSERT_EQ(last["experts"].size(), 4u);
  ASSERT_EQ(last["blocks"].size(), 4u);
  EXPECT_TRUE(last["experts"][0].is_null());  // a dense FFN under dense attention
  EXPECT_TRUE(last["blocks"][0].is_null());
  for (size_t layer = 1; layer < 4; ++layer) {
    const std::string suffix = "." + std::to_string(layer);
    EXPECT_EQ(last["experts"][layer].get<std::vector<int32_t>>(),
              golden.get<int32_t>("exact.router_ids" + suffix));
    const std::vector<int32_t> blocks = golden.get<int32_t>("exact.blocks" + suffix);
    const size_t budget = golden.shape("exact.blocks" + suffix)[1];
    for (size_t group = 0; group < 2; ++group) {
      std::vector<int32_t> wanted(blocks.begin() + static_cast<ptrdiff_t>(group * budget),
                                  blocks.begin() + static_cast<ptrdiff_t>((group + 1) * budget));
      std::erase(wanted, -1);
      EXPECT_EQ(last["blocks"][layer][group].get<std::vector<int32_t>>(), wanted);
    }
  }
}

TEST(Score, TextGoesThroughTheTokenizerAndUnusedRowsAreNoTokens) {
  const std::string demo = MINIM_DEMO_MODEL;
  const Outcome ids = run_minim({"tokenize", "--model", demo, "--text", "The code of tiger"});
  std::string list;
  const Json tokens = ids.lines()[0]["tokens"];
  for (const Json& id : tokens) {
    list += (list.empty() ? "" : ",") + std::to_string(id.get<int>());
  }
  const Outcome text = run_minim({"score", "--model", demo, "--text", "The code of tiger"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, run_minim({"score", "--model", demo, "--tokens", list}).out);
  // Row 1343 of the demo vocabulary has no token.
  const std::vector<Json> lines =
      run_minim({"score", "--model", demo, "--tokens", "5,1343", "--top", "1344"}).lines();
  EXPECT_TRUE(lines[1]["logprob"].is_null());
  EXPECT_EQ(lines[1]["top"].size(), 1341u);
  double mass = 0;
  for (const Json& entry : lines[1]["top"]) mass += std::exp(entry["logprob"].get<double>());
  EXPECT_NEAR(mass, 1.0, 1e-4);
}

TEST(Score, BadTokensAreRefused) {
  const auto with = [](const std::string& tokens) {
    return run_minim({"score", "--model", kModel, "--tokens", tokens});
  };
  expect_refusal(with("1,320"), 1, {"token 1", "\"320\"", "319"});
  expect_refusal(with(""), 1, {"token 0"});
  expect_refusal(with("1,,2"), 1, {"token 1"});
  expect_refusal(with("1,x"), 1, {"\"x\""});
  expect_refusal(with("1 2"), 1, {"\"1 2\""});
  expect_refusal(run_minim({"score", "--model", kModel, "--text", "a"}), 1, {"tokenizer.json"});
  const auto line = [](const std::string& input) {
    return run_minim({"score", "--model", kModel, "--tokens-file", "-"}, {.input = input});
  };
  expect_refusal(line("{\"tokens\": []}\n"), 1, {"line 1", "at least one"});
  expect_refusal(line("{\"tokens\": [1], \"top\": 3}\n"), 1, {"line 1", "top", "id, tokens"});
  expect_refusal(line("{\"id\": 1}\n"), 1, {"tokens", "missing"});
  expect_refusal(line("{\"tokens\": [320]}\n"), 1, {"320", "319"});
}

TEST(Score, ASequenceLongerThanTheContextIsRefused) {
  const std::vector<std::string> words = {"score", "--model", kModel, "--context", "4"};
  std::vector<std::string> longer = words, streamed = words;
  longer.insert(longer.end(), {"--tokens", "1,2,3,4,5"});
  expect_refusal(run_minim(longer), 1, {"5 tokens", "context 4"});
  streamed.insert(streamed.end(), {"--tokens-file", "-"});
  expect_refusal(run_minim(streamed, {.input = "{\"tokens\": [1,2,3,4,5]}\n"}), 1,
                 {"5 tokens", "context 4"});
}

}  // namespace
}  // namespace minim::testing
