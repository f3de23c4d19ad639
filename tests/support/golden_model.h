// What golden.json and the prompt files say, compared with a run; limits as
// tests/golden/model/README.md gives them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/model_fixture.h"
#include "support/safetensors_file.h"

namespace minim::testing {

struct GoldenLimits {
  double first8, mean_rms;  // of hidden values, in units of the stored rms
  double block_margin;      // below it the pair at the cut may swap
  double router_margin;     // below it the choice may differ; weights within four times it
  double chain_margin;      // below it the argmax may differ
};

inline std::string golden_model_path(const std::string& path) {
  return std::string(MINIM_TEST_DATA) + "/model/" + path;
}

// Text prompts of a checkpoint, as golden.json lists them.
inline std::vector<Json> golden_prompts(const std::string& checkpoint) {
  const Result<Json> index =
      read_json_file(golden_model_path("golden/" + checkpoint + "/golden.json"));
  EXPECT_TRUE(index) << index.error().message;
  std::vector<Json> prompts;
  if (!index) return prompts;
  for (const Json& prompt : (*index)["prompts"]) {
    if (!prompt.contains("kind")) prompts.push_back(prompt);  // "kind": with image or video
  }
  return prompts;
}

inline StFile open_prompt(const std::string& checkpoint, const Json& prompt) {
  return StFile::open(
      golden_model_path("golden/" + checkpoint + "/" + prompt["file"].get<std::string>()));
}

// The hidden state of the last position after every layer.
inline void expect_golden_hidden(const StFile& golden, const std::string& mode, const Trace& trace,
                                 const GoldenLimits& limits) {
  const auto rms = golden.as_double(mode + ".hidden_rms");
  const auto mean = golden.as_double(mode + ".hidden_mean");
  const auto first8 = golden.as_double(mode + ".hidden_first8");
  ASSERT_EQ(rms.size(), trace.hidden.size());
  for (size_t layer = 0; layer < rms.size(); ++layer) {
    const std::vector<float>& row = trace.hidden[layer].back();
    double sum = 0, squares = 0;
    for (const float value : row) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double n = static_cast<double>(row.size());
    EXPECT_LE(std::fabs(sum / n - mean[layer]), limits.mean_rms * rms[layer]) << "layer " << layer;
    EXPECT_LE(std::fabs(std::sqrt(squares / n) - rms[layer]), limits.mean_rms * rms[layer])
        << "layer " << layer;
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_LE(std::fabs(static_cast<double>(row[i]) - first8[8 * layer + i]),
                limits.first8 * rms[layer])
          << "layer " << layer << " channel " << i;
    }
  }
}

// The kept blocks of the last position.
inline void expect_golden_blocks(const StFile& golden, const std::string& mode, const Trace& trace,
                                 const GoldenLimits& limits) {
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    const std::string name = mode + ".blocks." + std::to_string(layer);
    const auto& groups = trace.layers[layer].back().blocks;
    ASSERT_EQ(golden.has(name), !groups.empty()) << name;
    if (groups.empty()) continue;
    const auto want = golden.get<int32_t>(name);
    const auto margin = golden.as_double(mode + ".block_margin." + std::to_string(layer));
    const size_t budget = golden.shape(name)[1];
    ASSERT_EQ(groups.size(), golden.shape(name)[0]);
    for (size_t g = 0; g < groups.size(); ++g) {
      std::vector<int32_t> wanted(want.begin() + static_cast<ptrdiff_t>(g * budget),
                                  want.begin() + static_cast<ptrdiff_t>((g + 1) * budget));
      wanted.erase(std::remove(wanted.begin(), wanted.end(), -1), wanted.end());
      if (margin[g] > limits.block_margin) {
        EXPECT_EQ(groups[g], wanted) << name << " group " << g;
        continue;
      }
      std::vector<int32_t> common;
      std::set_intersection(wanted.begin(), wanted.end(), groups[g].begin(), groups[g].end(),
                            std::back_inserter(common));
      EXPECT_EQ(groups[g].size(), wanted.size()) << name << " group " << g;
      EXPECT_GE(common.size() + 1, wanted.size()) << name << " group " << g;
    }
  }
}

// The experts of the last position. Above the margin the set is certain; the order inside it may
// still be a near-tie, so weights are compared by id.
inline void expect_golden_routing(const StFile& golden, const std::string& mode, const Trace& trace,
                                  const GoldenLimits& limits) {
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    const std::string suffix = std::string(".").append(std::to_string(layer));
    const LayerTrace& row = trace.layers[layer].back();
    ASSERT_EQ(golden.has(mode + ".router_ids" + suffix), !row.experts.empty());
    if (row.experts.empty()) continue;
    if (golden.as_double(mode + ".router_margin" + suffix)[0] <= limits.router_margin) continue;
    const auto ids = golden.get<int32_t>(mode + ".router_ids" + suffix);
    const auto weights = golden.as_double(mode + ".router_weights" + suffix);
    ASSERT_EQ(row.experts.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto at = std::find(row.experts.begin(), row.experts.end(), ids[i]);
      ASSERT_NE(at, row.experts.end()) << "layer " << layer << " lacks expert " << ids[i];
      const size_t j = static_cast<size_t>(at - row.experts.begin());
      EXPECT_NEAR(static_cast<double>(row.expert_weights[j]), weights[i], 4 * limits.router_margin)
          << "layer " << layer << " expert " << ids[i];
    }
  }
}

// Feeds the golden continuation and compares the argmax of each step with it; returns how many
// steps were decided (above the margin).
inline size_t expect_golden_chain(const StFile& golden, const std::string& mode,
                                  SequenceRunner& runner, std::vector<float> logits,
                                  const GoldenLimits& limits) {
  const auto chain = golden.get<int32_t>(mode + ".chain");
  const auto margin = golden.as_double(mode + ".chain_margin");
  size_t decided = 0;
  for (size_t step = 0; step < chain.size(); ++step) {
    if (margin[step] > limits.chain_margin) {
      const auto best = std::max_element(logits.begin(), logits.end());
      EXPECT_EQ(best - logits.begin(), chain[step]) << "step " << step;
      ++decided;
    }
    logits = runner.run(std::span(&chain[step], 1), 1, 1);
  }
  return decided;
}

}  // namespace minim::testing
