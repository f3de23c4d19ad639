// What a request may forbid or favour, and that a sampler's answers are those of the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "allocation_count.h"
#include "engine/sampler_oracle.h"

namespace minim {
namespace {

std::set<int32_t> drawn(Sampler sampler, const std::vector<float>& logits, int n = 400) {
  std::set<int32_t> out;
  for (int i = 0; i < n; ++i) out.insert(*sampler.sample(logits, i));
  return out;
}

TEST(SamplerRules, ABiasIsAddedAndMinus100MeansNever) {
  const std::vector<float> logits = {1.0f, 0.0f, 200.0f, 0.5f};
  const SamplingParams params = {.temperature = 0.0,
                                 .logit_bias = {{2, -100.0f}, {1, 1.25f}, {3, 0.25f}}};
  Sampler sampler(params, 4, {});
  EXPECT_EQ(*sampler.sample(logits, 0), 1);  // 1, 1.25, never, 0.75
  const SamplingParams warm = {.temperature = 5.0, .logit_bias = {{2, -1000.0f}}};
  EXPECT_EQ(drawn(Sampler(warm, 4, {}), logits), (std::set<int32_t>{0, 1, 3}));
}

TEST(SamplerRules, TheBiasComesBeforeThePenalties) {
  // (3 + 1) / 2 = 2 loses to 2.2, where 3 / 2 + 1 = 2.5 would win.
  const SamplingParams params = {
      .temperature = 0.0, .repetition_penalty = 2.0, .logit_bias = {{0, 1.0f}}};
  Sampler sampler(params, 2, {});
  sampler.observe_prompt(std::vector<int32_t>{0});
  EXPECT_EQ(*sampler.sample(std::vector<float>{3.0f, 2.2f}, 0), 1);
}

TEST(SamplerRules, OnlyAllowedTokensComeAndTheMaskStillHolds) {
  const std::vector<float> logits(6, 1.0f);
  const SamplingParams params = {.allowed_tokens = {1, 4, 5}};
  EXPECT_EQ(drawn(Sampler(params, 6, TokenMask{1, 1, 1, 1, 1, 0}), logits),
            (std::set<int32_t>{1, 4}));
}

TEST(SamplerRules, ABadWordOfOneTokenNeverComes) {
  const SamplingParams params = {.bad_words = {{2}}};
  EXPECT_EQ(drawn(Sampler(params, 4, {}), std::vector<float>(4, 0.0f)),
            (std::set<int32_t>{0, 1, 3}));
}

TEST(SamplerRules, TheLastTokenOfABadWordIsLeftOutWhereTheRestStandsBefore) {
  const SamplingParams params = {.temperature = 0.0, .bad_words = {{1, 2, 3}, {3, 3}}};
  const std::vector<float> three_then_two = {0, 1, 2, 3};
  Sampler sampler(params, 4, {});
  EXPECT_EQ(*sampler.sample(three_then_two, 0), 3);
  EXPECT_EQ(*sampler.sample(three_then_two, 1), 2);  // 3 3 is bad
  EXPECT_EQ(*sampler.sample(three_then_two, 2), 3);  // 3 2 3 is not 1 2 3
  sampler.take(1), sampler.take(2);
  EXPECT_EQ(*sampler.sample(three_then_two, 5), 2);  // 1 2 3 is bad
  EXPECT_EQ(*sampler.sample(three_then_two, 6), 3);  // 2 2 3 is not
}

TEST(SamplerRules, ABadWordMayBeginInThePrompt) {
  const SamplingParams params = {.temperature = 0.0, .bad_words = {{0, 0, 1}}};
  const std::vector<float> logits = {1, 2, 0};
  Sampler with(params, 3, {}), without(params, 3, {}), short_prompt(params, 3, {});
  with.observe_prompt(std::vector<int32_t>{2, 2, 2, 0, 0});
  without.observe_prompt(std::vector<int32_t>{0, 0, 2});
  short_prompt.observe_prompt(std::vector<int32_t>{0});
  EXPECT_EQ(*with.sample(logits, 5), 0);
  EXPECT_EQ(*without.sample(logits, 3), 1);
  EXPECT_EQ(*short_prompt.sample(logits, 1), 1);
}

TEST(SamplerRules, LeftOutIdsDoNotComeThisOnce) {
  const std::vector<float> logits = {0, 1, 2, 3};
  Sampler sampler({.temperature = 0.0}, 4, {});
  EXPECT_EQ(*sampler.sample(logits, 0, {}, std::vector<int32_t>{3, 2, 77, -1}), 1);
  EXPECT_EQ(*sampler.sample(logits, 1), 3);
  const Result<int32_t> nothing =
      sampler.sample(logits, 2, std::vector<uint32_t>{0x8}, std::vector<int32_t>{3});
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("nothing may come at position 2"), std::string::npos);
}

TEST(SamplerRules, AForkDrawsAsItsOwnSeedAndKnowsThePrompt) {
  const SamplingParams params = {.repetition_penalty = 1.5, .seed = 40, .bad_words = {{3, 1}}};
  SamplingParams second = params;
  second.seed = 42;
  const std::vector<int32_t> prompt = {3, 5, 3};
  Sampler first(params, 64, {}), alone(second, 64, {});
  first.observe_prompt(prompt), alone.observe_prompt(prompt);
  Sampler forked = first.fork(2);
  std::vector<float> logits(64, 0.0f);
  for (size_t i = 0; i < 64; ++i) logits[i] = static_cast<float>(i % 5);
  int differ = 0;
  for (int i = 3; i < 60; ++i) {
    const int32_t of_first = *first.sample(logits, i), of_fork = *forked.sample(logits, i);
    EXPECT_EQ(of_fork, *alone.sample(logits, i));
    differ += of_first != of_fork;
  }
  EXPECT_GT(differ, 20);
}

TEST(SamplerRules, IdsOutsideTheVocabularyAreRefusedByName) {
  const std::vector<std::pair<SamplingParams, std::string>> bad = {
      {{.logit_bias = {{10, 1.0f}}}, "logit_bias"},
      {{.logit_bias = {{-1, 1.0f}}}, "logit_bias"},
      {{.logit_bias = {{1, 100.5f}}}, "logit_bias"},
      {{.logit_bias = {{1, NAN}}}, "logit_bias"},
      {{.logit_bias = {{1, 1.0f}, {2, 1.0f}, {1, 2.0f}}}, "logit_bias"},
      {{.bad_words = {{1, 10}}}, "bad_words"},
      {{.bad_words = {{1}, {}}}, "bad_words"},
      {{.allowed_tokens = {3, 10}}, "allowed_tokens"},
      {{.top_k = -1}, "top_k"}};
  for (const auto& [params, name] : bad) {
    const Result<Ok> checked = check_sampling(params, 10);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().message.find(name), 0u) << checked.error().message;
  }
  const SamplingParams good = {
      .logit_bias = {{9, -500.0f}, {0, 100.0f}}, .bad_words = {{9}}, .allowed_tokens = {0}};
  EXPECT_TRUE(check_sampling(good, 10));
}

// Any mix of parameters.
SamplingParams random_params(std::mt19937& random, size_t vocab) {
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto id = [&] { return static_cast<int32_t>(pick(vocab)); };
  constexpr double kTemperatures[] = {0.0, 1.0, 1.0, 0.7, 0.2, 2.0};
  constexpr int kTopK[] = {0, 0, 1, 40, 500, 1 << 30};
  constexpr double kTopP[] = {1.0, 1.0, 0.95, 0.5, 0.999999, 1e-12};
  constexpr double kMinP[] = {0.0, 0.0, 0.05, 1e-6};
  SamplingParams params;
  params.temperature = kTemperatures[pick(6)];
  params.top_k = kTopK[pick(6)];
  params.top_p = kTopP[pick(6)];
  params.min_p = kMinP[pick(4)];
  if (pick(3) == 0) params.repetition_penalty = pick(2) == 0 ? 1.3 : 0.8;
  if (pick(3) == 0) params.presence_penalty = 0.7;
  if (pick(3) == 0) params.frequency_penalty = -0.3;
  params.seed = random();
  std::set<int32_t> biased;
  for (size_t n = pick(3) == 0 ? pick(20) : 0; n > 0; --n) biased.insert(id());
  for (const int32_t token : biased) {
    params.logit_bias.emplace_back(token, static_cast<float>(pick(140)) - 120.0f);
  }
  for (size_t n = pick(4) == 0 ? pick(30) : 0; n > 0; --n) {
    params.bad_words.emplace_back();
    for (size_t m = 1 + pick(3); m > 0; --m) params.bad_words.back().push_back(id());
  }
  for (size_t n = pick(6) == 0 ? 1 + pick(vocab) : 0; n > 0; --n) {
    params.allowed_tokens.push_back(id());
  }
  return params;
}

TEST(SamplerRules, TokensAreThoseOfTheDefinitionWhateverTheParameters) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  constexpr size_t kVocabularies[] = {3, 40, 128, 1000, 5000};
  for (int round = 0; round < 1200; ++round) {
    const size_t vocab = kVocabularies[random() % 5];
    const SamplingParams params = random_params(random, vocab);
    TokenMask mask(vocab, 1);
    if (random() % 2 == 0) mask[random() % vocab] = 0, mask.back() = 0;
    Sampler sampler(params, static_cast<int>(vocab), mask);
    oracle::OracleSampler definition(params, mask);
    std::vector<int32_t> prompt(random() % 20);
    for (int32_t& token : prompt) token = static_cast<int32_t>(random() % vocab);
    sampler.observe_prompt(prompt), definition.observe(prompt);
    for (int step = 0; step < 12; ++step) {
      std::vector<float> logits(vocab);
      const float scale = static_cast<float>(random() % 8);
      for (float& x : logits) x = scale * normal(random);
      if (random() % 2 == 0) logits[random() % vocab] = NAN;
      if (random() % 4 == 0) logits[random() % vocab] = INFINITY;
      std::vector<uint32_t> allowed(random() % 3 == 0 ? (vocab + 31) / 32 : 0);
      for (uint32_t& word : allowed) word = static_cast<uint32_t>(random() & random());
      std::vector<int32_t> left_out(random() % 3);
      for (int32_t& token : left_out) token = static_cast<int32_t>(random() % vocab);
      const int32_t wanted = definition.sample(logits, step, allowed, left_out);
      const Result<int32_t> token = sampler.sample(logits, step, allowed, left_out);
      ASSERT_EQ(token ? *token : -1, wanted) << "round " << round << ", step " << step;
    }
  }
}

TEST(SamplerRules, NothingIsAllocatedWhereTokensAreExpected) {
  constexpr size_t kVocab = 20000;
  std::vector<float> logits(kVocab);
  for (size_t i = 0; i < kVocab; ++i) logits[i] = static_cast<float>((i * 37) % 101) * 0.05f;
  const SamplingParams params = {
      .top_p = 0.9, .presence_penalty = 0.5, .logit_bias = {{5, 1.0f}}, .bad_words = {{1, 2}, {3}}};
  Sampler sampler(params, kVocab, {});
  sampler.reserve(500);
  const std::vector<int32_t> left_out = {7};
  const size_t before = allocation_count();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(sampler.sample(logits, i, {}, left_out));
  EXPECT_EQ(allocation_count(), before);
}

TEST(TokenLogprobs, AreTheLogSoftmaxAndItsBest) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 300; ++round) {
    const size_t vocab = 1 + random() % 2000;
    std::vector<float> logits(vocab);
    const float scale = static_cast<float>(random() % 40);
    for (float& x : logits) x = std::round(scale * normal(random));  // with ties
    logits[random() % vocab] = NAN, logits[random() % vocab] = INFINITY;
    TokenMask mask(vocab, 1);
    for (size_t n = random() % 5; n > 0; --n) mask[random() % vocab] = 0;
    const int32_t token = static_cast<int32_t>(random() % vocab);
    const int k = static_cast<int>(random() % 21);
    std::vector<double> all;
    log_softmax(logits, mask, all);
    const TokenLogprobs out = token_logprobs(logits, mask, token, k);
    EXPECT_EQ(out.token, token);
    EXPECT_EQ(out.logprob, static_cast<float>(all[static_cast<size_t>(token)]));
    std::vector<std::pair<int32_t, float>> wanted;
    for (const int32_t id : top_ids(all, k)) {
      const float value = static_cast<float>(all[static_cast<size_t>(id)]);
      if (std::isfinite(value)) wanted.emplace_back(id, value);
    }
    EXPECT_EQ(out.top, wanted);
  }
}

TEST(TokenLogprobs, ARowWithNothingLeftHasMinusInfinity) {
  const TokenLogprobs out = token_logprobs(std::vector<float>{NAN, INFINITY}, {}, 1, 5);
  EXPECT_EQ(out.logprob, -INFINITY);
  EXPECT_TRUE(out.top.empty());
}

TEST(TokenLogprobs, AllocateTheListOnly) {
  const std::vector<float> logits(5000, 1.0f);
  size_t before = allocation_count();
  (void)token_logprobs(logits, {}, 3, 0);
  EXPECT_EQ(allocation_count(), before);
  (void)token_logprobs(logits, {}, 3, 20);
  EXPECT_EQ(allocation_count(), before + 1);
}

}  // namespace
}  // namespace minim
