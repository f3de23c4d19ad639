#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "allocation_count.h"
#include "engine/memory_budget.h"
#include "engine/session.h"

namespace minim {
namespace {

std::string golden_model(const std::string& name) {
  return std::string(MINIM_TEST_DATA) + "/model/" + name;
}

std::unique_ptr<Runtime> load(RuntimeOptions options) {
  Result<std::unique_ptr<Runtime>> runtime = Runtime::load(options, {});
  EXPECT_TRUE(runtime) << runtime.error().message;
  return runtime ? *std::move(runtime) : nullptr;
}

std::unique_ptr<Runtime> load_golden(int chunk = 512, int context = 1024) {
  return load({.model_dir = golden_model("m31-nvfp4"), .context = context, .chunk = chunk});
}

// A prompt with some structure and no meaning.
std::vector<int32_t> prompt(int n, int salt = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * 7 + i * i % 13 + salt) % 300);
  return tokens;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<float> logits_of(Runtime& runtime, const std::vector<int32_t>& tokens) {
  Session sequence(runtime);
  const Result<Ok> done = sequence.prefill(tokens, {});
  EXPECT_TRUE(done) << done.error().message;
  return {sequence.logits().begin(), sequence.logits().end()};
}

TEST(Session, FullyCachedPromptStillYieldsLogits) {
  const auto runtime = load_golden();
  ASSERT_NE(runtime, nullptr);
  const std::vector<int32_t> tokens = prompt(300);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(tokens, {}));
  const std::vector<float> first(sequence.logits().begin(), sequence.logits().end());
  EXPECT_EQ(sequence.reused(), 0);
  ASSERT_TRUE(sequence.prefill(tokens, {}));
  EXPECT_EQ(sequence.reused(), 299);
  EXPECT_TRUE(same_bits(sequence.logits(), first));
}

TEST(Session, ReuseOfAPrefixGivesTheBitsOfAFreshRun) {
  const auto runtime = load_golden();
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(prompt(400), {}));
  // Shares 130 tokens, then differs; shorter, longer, and cut inside and at the edge of a block.
  for (const int n : {131, 256, 257, 380, 500}) {
    std::vector<int32_t> other = prompt(n, 5);
    const std::vector<int32_t> shared = prompt(130);
    std::copy(shared.begin(), shared.end(), other.begin());
    ASSERT_TRUE(sequence.prefill(other, {}));
    EXPECT_GE(sequence.reused(), 130);
    const std::vector<float> reused(sequence.logits().begin(), sequence.logits().end());
    const auto fresh = load_golden();
    EXPECT_TRUE(same_bits(logits_of(*fresh, other), reused)) << n;
  }
}

TEST(Session, AppendedTokensGiveTheBitsOfAPrefill) {
  const auto runtime = load_golden();
  ASSERT_NE(runtime, nullptr);
  const std::vector<int32_t> all = prompt(280);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(std::span(all).first(250), {}));
  for (size_t i = 250; i < all.size(); ++i) ASSERT_TRUE(sequence.append(all[i]));
  EXPECT_EQ(sequence.length(), 280);
  const auto chunked = load_golden(7);
  EXPECT_TRUE(same_bits(logits_of(*chunked, all), sequence.logits()));
}

TEST(Session, TokensAppendedTogetherGiveTheBitsOfAppendingOneByOne) {
  const auto runtime = load_golden(16);
  ASSERT_NE(runtime, nullptr);
  const std::vector<int32_t> all = prompt(300);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(std::span(all).first(120), {}));
  size_t at = 120;
  for (const size_t n : {1u, 5u, 16u, 17u, 60u, 81u}) {  // below, at and above a chunk; two blocks
    ASSERT_TRUE(sequence.append(std::span(all).subspan(at, n)));
    at += n;
  }
  ASSERT_EQ(at, all.size());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), sequence.tokens().begin()));
  const auto other = load_golden();
  EXPECT_TRUE(same_bits(logits_of(*other, all), sequence.logits()));
}

TEST(Session, TokensThatDoNotFitTogetherAreRefusedAndNoneIsAppended) {
  const auto runtime = load_golden(64, 200);
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(prompt(190), {}));
  const Result<Ok> refused = sequence.append(prompt(11));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_NE(refused.error().message.find("room for 10, not for 11"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(sequence.append(std::vector<int32_t>{1, 2, 320000}).error().code, Code::kInvalid);
  EXPECT_EQ(sequence.length(), 190);
  EXPECT_TRUE(sequence.append(prompt(10)));
}

TEST(Session, AppendAllocatesNothing) {
  for (const char* name : {"m31-nvfp4", "m3-bf16", "m3-mxfp8"}) {
    const auto runtime = load({.model_dir = golden_model(name), .n_threads = 2, .context = 512});
    ASSERT_NE(runtime, nullptr);
    Session sequence(*runtime);
    ASSERT_TRUE(sequence.prefill(prompt(120), {}));
    const size_t before = allocation_count();
    for (int i = 0; i < 150; ++i) ASSERT_TRUE(sequence.append(i % 300));  // across two blocks
    EXPECT_EQ(allocation_count() - before, 0u) << name;
  }
}

TEST(Session, WhatDoesNotFitIsRefusedWithBothCounts) {
  const auto runtime = load_golden(64, 200);
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  const Result<Ok> longer = sequence.prefill(prompt(201), {});
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, Code::kExhausted);
  EXPECT_NE(longer.error().message.find("201"), std::string::npos);
  EXPECT_NE(longer.error().message.find("200"), std::string::npos);
  ASSERT_TRUE(sequence.prefill(prompt(199), {}));
  ASSERT_TRUE(sequence.append(1));
  const Result<Ok> full = sequence.append(1);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kExhausted);
}

TEST(Session, AnEmptyPromptIsRefusedAndHarmsNothing) {
  const auto runtime = load_golden();
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(prompt(20), {}));
  const Result<Ok> refused = sequence.prefill({}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(sequence.length(), 20);
}

TEST(Session, IdsOutsideTheVocabularyAreRefusedAndHarmNothing) {
  const auto runtime = load_golden();
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  ASSERT_TRUE(sequence.prefill(prompt(20), {}));
  for (const int32_t bad : {-1, 320, 2147483647}) {
    std::vector<int32_t> tokens = prompt(30);
    tokens[25] = bad;
    const Result<Ok> refused = sequence.prefill(tokens, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_FALSE(sequence.append(bad));
  }
  EXPECT_EQ(sequence.length(), 20);
}

TEST(Session, AStoppedPrefillGoesOnWhereItWas) {
  const auto runtime = load_golden(32);
  ASSERT_NE(runtime, nullptr);
  Session sequence(*runtime);
  const std::vector<int32_t> tokens = prompt(200);
  const Result<Ok> stopped =
      sequence.prefill(tokens, {[](std::string_view, size_t done, size_t) { return done < 96; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
  EXPECT_EQ(sequence.length(), 96);
  std::atomic<bool> stop{true};
  EXPECT_FALSE(sequence.prefill(tokens, {}, &stop));
  ASSERT_TRUE(sequence.prefill(tokens, {}));
  EXPECT_EQ(sequence.reused(), 96);
  const auto fresh = load_golden();
  EXPECT_TRUE(same_bits(logits_of(*fresh, tokens), sequence.logits()));
}

TEST(Runtime, OptionsOverrideTheCheckpoint) {
  const auto runtime = load({.model_dir = golden_model("m31-nvfp4"),
                             .isa = "scalar",
                             .n_threads = 3,
                             .kv = KvFormat::kFp8E4m3,
                             .index = KvFormat::kBf16,
                             .order = KvOrder::kLayerOuter,
                             .context = 129});
  ASSERT_NE(runtime, nullptr);
  EXPECT_EQ(runtime->layout().formats, (KvFormats{KvFormat::kFp8E4m3, KvFormat::kBf16}));
  EXPECT_EQ(runtime->n_blocks(), 2);
  EXPECT_EQ(runtime->isa(), "scalar");
  EXPECT_EQ(runtime->n_threads(), 3);
  EXPECT_EQ(runtime->cache_bytes(), 2 * runtime->layout().block_bytes);
}

TEST(Runtime, LoadingCanBeStopped) {
  const Result<std::unique_ptr<Runtime>> stopped =
      Runtime::load({.model_dir = golden_model("m3-bf16")},
                    {[](std::string_view, size_t, size_t) { return false; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
}

TEST(Runtime, AbsentFoldersAndUnknownTiersAreRefused) {
  EXPECT_FALSE(Runtime::load({.model_dir = "/nonexistent"}, {}));
  const Result<std::unique_ptr<Runtime>> tier =
      Runtime::load({.model_dir = golden_model("m3-text"), .isa = "mmx"}, {});
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code, Code::kInvalid);
}

// Loads with many threads in little address space and exits: 7 when the error is as it should be.
void load_with_refused_threads() {
  rlimit little = {};
  little.rlim_cur = little.rlim_max = rlim_t{1} << 30;
  setrlimit(RLIMIT_AS, &little);
  RuntimeOptions options;
  options.model_dir = golden_model("m3-text");
  options.n_threads = 1000;
  const Result<std::unique_ptr<Runtime>> refused = Runtime::load(options, {});
  const bool named = !refused && refused.error().code == Code::kExhausted &&
                     refused.error().message.find("1000 threads") != std::string::npos;
  std::_Exit(named ? 7 : 0);
}

TEST(Runtime, ThreadsThatTheSystemRefusesAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than this test leaves";
#endif
  EXPECT_EXIT(load_with_refused_threads(), ::testing::ExitedWithCode(7), "");
}

TEST(MemoryBudget, IsBelowTheMachineAndAboveNothing) {
  const MemoryBudget budget = read_memory_budget();
  EXPECT_GT(budget.available, 0u);
  EXPECT_LE(budget.available, budget.total);
  EXPECT_EQ(format_bytes(3 * 512 * 1024), "1.5 MiB");
  EXPECT_EQ(format_bytes(uint64_t{5} << 30), "5.0 GiB");
}

}  // namespace
}  // namespace minim
