// The promise "the same tokens, always" at the level of the whole model: logits and cache bytes by
// memcmp, whatever the instruction set, the number of threads, the prefill chunks, the order of the
// pool and the place of blocks in it.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "kernels/kernels.h"
#include "support/model_fixture.h"

namespace minim::testing {
namespace {

struct Outcome {
  std::vector<float> logits;  // of the last 3 prompt rows and of 6 decoded tokens
  std::vector<uint8_t> cache;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int32_t> prompt(int n, int vocab) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab - 8)));
  }
  return tokens;
}

struct Variant {
  const Kernels* kernels = nullptr;
  int n_threads = 1;
  int chunk = 1000;
  KvOrder order = KvOrder::kBlockOuter;
  bool reversed_blocks = false;
  AttentionMode attention = AttentionMode::kDirect;
  std::optional<KvFormats> formats = std::nullopt;
  bool traced = false;  // operation by operation instead of one launch a step
};

Outcome run(const std::string& checkpoint, const Variant& variant, int n_tokens) {
  LoadedModel loaded = load_model(
      std::string(MINIM_TEST_DATA) + "/model/" + checkpoint,
      cpu_factory(variant.kernels, variant.n_threads, variant.attention),
      {.formats = variant.formats, .order = variant.order, .max_rows = 1000, .n_blocks = 16});
  if (loaded.model == nullptr) return {};
  std::vector<int32_t> table(16);
  for (int i = 0; i < 16; ++i) table[static_cast<size_t>(i)] = variant.reversed_blocks ? 15 - i : i;
  SequenceRunner runner(loaded, table);
  const auto tokens = prompt(n_tokens, loaded.config.vocab);
  Outcome outcome;
  // Only the last row's logits are compared across chunkings; a chunk of one row returns just that
  // row.
  Trace trace;
  Trace* const traced = variant.traced ? &trace : nullptr;
  outcome.logits = runner.run(tokens, variant.chunk, 3, traced);
  for (int step = 0; step < 6; ++step) {
    const auto best =
        std::max_element(outcome.logits.end() - loaded.config.vocab, outcome.logits.end());
    const int32_t token = static_cast<int32_t>(best - (outcome.logits.end() - loaded.config.vocab));
    const auto next = runner.run(std::span(&token, 1), 1, 1, traced);
    outcome.logits.insert(outcome.logits.end(), next.begin(), next.end());
  }
  outcome.cache = runner.cache_bytes();
  return outcome;
}

class SameBits : public ::testing::TestWithParam<std::string> {
 protected:
  // Beyond the budget of the small checkpoints (3 or 4 blocks), and not a multiple of the block.
  static constexpr int kTokens = 601;
};

// T_d6 (chunks), T_a1 (places of blocks), T_a5 (orders of the pool), T_h1 (one launch a step or one
// an operation), T_h2 (more threads than processors), tiers and threads against one scalar run in
// one chunk.
TEST_P(SameBits, T_d6_T_a1_T_a5_T_h1_T_h2_WhateverTierThreadsChunksLaunchesAndPlaceOfBlocks) {
  const Kernels* best = available_kernels().back();
  std::vector<std::pair<std::string, Variant>> variants;
  for (const Kernels* tier : available_kernels())
    variants.push_back({tier->name, {.kernels = tier, .chunk = 500}});
  for (const int n : {2, 3})
    variants.push_back({std::to_string(n) + " threads", {.kernels = best, .n_threads = n}});
  for (const int chunk : {1, 7, 128}) {
    variants.push_back(
        {"chunks of " + std::to_string(chunk), {.kernels = best, .n_threads = 2, .chunk = chunk}});
  }
  variants.push_back({"reversed blocks", {.kernels = best, .reversed_blocks = true}});
  variants.push_back({"by operation", {.kernels = best, .n_threads = 2, .traced = true}});
  variants.push_back({"8 threads", {.kernels = best, .n_threads = 8, .chunk = 128}});
  variants.push_back({"layer-outer pool", {.kernels = best, .order = KvOrder::kLayerOuter}});

  const Outcome want = run(GetParam(), {.kernels = available_kernels().front()}, kTokens);
  ASSERT_FALSE(want.logits.empty());
  for (const auto& [what, variant] : variants) {
    const Outcome got = run(GetParam(), variant, kTokens);
    EXPECT_TRUE(same(got.logits, want.logits)) << what << ": logits differ";
    EXPECT_TRUE(got.cache == want.cache) << what << ": cache bytes differ";
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SameBits,
                         ::testing::Values("m3-bf16", "m3-nvfp4", "m3-ct-nvfp4", "m3-text",
                                           "m31-release"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Every cache format and attention mode, on one checkpoint: chunks and tiers at once.
TEST(SameBitsFormats, EveryCacheFormatInBothAttentionModes) {
  for (const KvFormat main : {KvFormat::kBf16, KvFormat::kFp8E4m3, KvFormat::kNvfp4}) {
    for (const KvFormat index : {KvFormat::kBf16, KvFormat::kFp8E4m3, KvFormat::kNvfp4}) {
      for (const AttentionMode mode : {AttentionMode::kDirect, AttentionMode::kGpu}) {
        Variant variant{.kernels = available_kernels().front(), .attention = mode};
        variant.formats = KvFormats{.main = main, .index = index};
        const Outcome want = run("m3-text", variant, 450);
        variant.kernels = available_kernels().back();
        variant.n_threads = 2;
        variant.chunk = 37;
        const Outcome got = run("m3-text", variant, 450);
        ASSERT_FALSE(want.logits.empty());
        EXPECT_TRUE(same(got.logits, want.logits) && got.cache == want.cache)
            << "main " << static_cast<int>(main) << " index " << static_cast<int>(index) << " mode "
            << static_cast<int>(mode);
      }
    }
  }
}

}  // namespace
}  // namespace minim::testing
