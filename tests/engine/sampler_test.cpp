#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "allocation_count.h"

namespace minim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Sampler make(const SamplingParams& params, size_t vocab) {
  return Sampler(params, static_cast<int>(vocab), {});
}

// Draws `n` times at positions 0, 1, ...; the penalties must be off.
std::map<int32_t, int> histogram(const SamplingParams& params, const std::vector<float>& logits,
                                 int n) {
  Sampler sampler = make(params, logits.size());
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    const Result<int32_t> token = sampler.sample(logits, i);
    EXPECT_TRUE(token);
    if (token) ++counts[*token];
  }
  return counts;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

TEST(Sampler, GreedyTakesTheLowestIdOfEqualLogits) {
  Sampler sampler = make({.temperature = 0.0}, 6);
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, 3, 2, 3, 3, -1}, 0), 1);
  EXPECT_EQ(*sampler.sample(std::vector<float>{-0.0f, 0.0f, -1, -2, -3, -4}, 1), 0);
}

TEST(Sampler, PhiloxGivesThePublishedVectors) {
  // Random123's known answer for counter and key zero; a draw is the upper 53 of the first 64
  // bits.
  EXPECT_EQ(uniform_draw(0, 0),
            static_cast<double>((0x6627e8d5ull << 32 | 0xe169c58dull) >> 11) * 0x1p-53);
}

TEST(Sampler, DrawsAreUniformAndDependOnSeedAndPositionOnly) {
  constexpr int kBins = 64, kDraws = 64000;
  for (const uint64_t seed : {0ull, 1ull, 0xfedcba9876543210ull}) {
    std::vector<int> bins(kBins, 0);
    for (int i = 0; i < kDraws; ++i) {
      const double u = uniform_draw(seed, i);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<size_t>(u * kBins)];
    }
    double chi_square = 0;
    for (const int count : bins) {
      const double off = count - kDraws / kBins;
      chi_square += off * off / (kDraws / kBins);
    }
    EXPECT_LT(chi_square, 110.0) << "63 degrees of freedom, seed " << seed;  // p = 2e-4
  }
  EXPECT_EQ(uniform_draw(7, 1000), uniform_draw(7, 1000));
  EXPECT_NE(uniform_draw(7, 1000), uniform_draw(8, 1000));
  EXPECT_NE(uniform_draw(7, 1000), uniform_draw(7, 1001));
  EXPECT_NE(uniform_draw(7, 1), uniform_draw(7, int64_t{1} << 32 | 1));
}

TEST(Sampler, TheSameSeedAndPositionGiveTheSameTokenWhateverHappenedBefore) {
  const std::vector<float> logits = logs({.2, .3, .1, .25, .15});
  Sampler fresh = make({.seed = 5}, logits.size());
  Sampler used = make({.seed = 5}, logits.size());
  for (int i = 0; i < 100; ++i) (void)used.sample(logits, 1000 + i);
  for (int position = 0; position < 50; ++position) {
    EXPECT_EQ(*fresh.sample(logits, position), *used.sample(logits, position));
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmaxAtEveryTemperature) {
  const std::vector<double> p = {.05, .4, .1, .2, .15, .1};
  constexpr int kDraws = 60000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> wanted;
    double sum = 0;
    for (const double x : p) sum += std::pow(x, 1 / temperature);
    for (const double x : p) wanted.push_back(std::pow(x, 1 / temperature) / sum);
    auto counts = histogram({.temperature = temperature, .seed = 11}, logs(p), kDraws);
    double chi_square = 0;
    for (size_t id = 0; id < p.size(); ++id) {
      const double off = counts[static_cast<int32_t>(id)] - wanted[id] * kDraws;
      chi_square += off * off / (wanted[id] * kDraws);
    }
    EXPECT_LT(chi_square, 22.0) << "5 degrees of freedom, temperature " << temperature;
  }
}

TEST(Sampler, TopKKeepsTheBestAndBreaksTiesByLowerId) {
  const std::vector<float> logits = {1, 2, 2, 2, 0};
  const auto counts = histogram({.top_k = 2, .seed = 1}, logits, 500);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.count(1) && counts.count(2));
  EXPECT_EQ(histogram({.top_k = 1}, logits, 20).begin()->first, 1);
  EXPECT_EQ(histogram({.top_k = 99, .seed = 2}, logits, 3000).size(), 5u);
}

TEST(Sampler, TopPKeepsTheShortestSetThatReachesTheMass) {
  const std::vector<float> logits = logs({.1, .4, .2, .3});
  const auto ids = [&](double top_p) {
    std::set<int32_t> out;
    const auto counts = histogram({.top_p = top_p, .seed = 3}, logits, 2000);
    for (const auto& [id, count] : counts) out.insert(id);
    return out;
  };
  EXPECT_EQ(ids(1e-9), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(0.39), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(0.41), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(ids(0.69), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(ids(0.75), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(ids(1.0), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(Sampler, TopPOverALargeFlatVocabularyKeepsItsShare) {
  // The prefix is sorted in batches; the cut must not depend on where one ends.
  constexpr size_t kVocab = 5000;
  const std::vector<float> logits(kVocab, 0.25f);
  Sampler sampler = make({.top_p = 0.1, .seed = 4}, kVocab);
  for (int i = 0; i < 500; ++i) EXPECT_LT(*sampler.sample(logits, i), 500);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheBest) {
  const std::vector<float> logits = logs({.5, .26, .14, .1});
  EXPECT_EQ(histogram({.min_p = 0.5, .seed = 5}, logits, 1000).size(), 2u);
  EXPECT_EQ(histogram({.min_p = 0.25, .seed = 5}, logits, 1000).size(), 3u);
  EXPECT_EQ(histogram({.min_p = 1.0, .seed = 5}, logits, 100).size(), 1u);
}

TEST(Sampler, RepetitionPenaltyCoversThePromptOnceWhateverTheSign) {
  Sampler sampler = make({.temperature = 0.0, .repetition_penalty = 2.0}, 4);
  sampler.observe_prompt(std::vector<int32_t>{0, 0, 0});
  EXPECT_EQ(*sampler.sample(std::vector<float>{3.0f, 1.6f, 0, 0}, 0), 1);  // 3 / 2 < 1.6
  // Negative logits are multiplied: -1 becomes -2.
  EXPECT_EQ(*sampler.sample(std::vector<float>{-1.0f, -1.0f, -1.5f, -9}, 1), 2);
}

TEST(Sampler, PresenceAndFrequencyCountGeneratedTokensOnly) {
  Sampler presence = make({.temperature = 0.0, .presence_penalty = 1.0}, 3);
  presence.observe_prompt(std::vector<int32_t>{0});
  const std::vector<float> close = {2.0f, 1.5f, 0.9f};
  EXPECT_EQ(*presence.sample(close, 0), 0);  // the prompt does not count
  EXPECT_EQ(*presence.sample(close, 1), 1);  // 2 - 1 < 1.5
  EXPECT_EQ(*presence.sample(close, 2), 0);  // 1, 0.5, 0.9
  EXPECT_EQ(*presence.sample(close, 3), 0);  // subtracted once, not twice

  Sampler frequency = make({.temperature = 0.0, .frequency_penalty = 0.4}, 2);
  const std::vector<float> two = {1.0f, 0.0f};
  EXPECT_EQ(*frequency.sample(two, 0), 0);
  EXPECT_EQ(*frequency.sample(two, 1), 0);  // 0.6
  EXPECT_EQ(*frequency.sample(two, 2), 0);  // 0.2
  EXPECT_EQ(*frequency.sample(two, 3), 1);  // -0.2
}

TEST(Sampler, ABadLogitIsLeftOutAndABadRowIsAnError) {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const size_t where : {0u, 2u, 4u}) {
      std::vector<float> logits = {0.5f, 0.4f, 0.3f, 0.2f, 0.6f};
      logits[where] = bad;
      Sampler greedy = make({.temperature = 0.0}, 5);
      EXPECT_EQ(*greedy.sample(logits, 0), where == 4 ? 0 : 4);
      Sampler random = make({.top_p = 0.99, .seed = 9}, 5);
      for (int i = 0; i < 200; ++i) {
        EXPECT_NE(*random.sample(logits, i), static_cast<int32_t>(where));
      }
    }
  }
  Sampler sampler = make({}, 3);
  const Result<int32_t> token = sampler.sample(std::vector<float>{kNan, kInf, -kInf}, 17);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::kInvalid);
  EXPECT_NE(token.error().message.find("17"), std::string::npos);
}

TEST(Sampler, RowsWithoutATokenAreNeverDrawn) {
  Sampler sampler({.temperature = 3.0, .seed = 1}, 4, TokenMask{1, 0, 1, 0});
  for (int i = 0; i < 300; ++i) {
    const int32_t token = *sampler.sample(std::vector<float>{0, 50, 0, 60}, i);
    EXPECT_TRUE(token == 0 || token == 2);
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayFinite) {
  const std::vector<float> logits = {3e38f, -3e38f, 3e38f, 0};
  for (const double temperature : {1e-300, 1e-6, 1.0, 100.0}) {
    Sampler sampler = make({.temperature = temperature, .top_p = 0.9, .seed = 2}, 4);
    for (int i = 0; i < 50; ++i) {
      const int32_t token = *sampler.sample(logits, i);
      EXPECT_TRUE(token == 0 || token == 2) << temperature;
    }
  }
}

std::vector<uint32_t> bits_of(std::initializer_list<int> ids, size_t n_ids) {
  std::vector<uint32_t> bits((n_ids + 31) / 32);
  for (const int id : ids) {
    bits[static_cast<size_t>(id) / 32] |= uint32_t{1} << (static_cast<size_t>(id) % 32);
  }
  return bits;
}

TEST(Sampler, WhatIsNotAllowedIsNeverDrawnAndTheRestKeepsItsProportions) {
  // Top-p sees the allowed tokens only: 3 of 100 hold all the mass that is left.
  std::vector<float> logits(100, 5.0f);
  logits[3] = 1.0f, logits[40] = 1.0f + std::log(2.0f), logits[99] = 1.0f;
  const std::vector<uint32_t> allowed = bits_of({3, 40, 99}, logits.size());
  Sampler sampler = make({.top_p = 0.9}, logits.size());
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[*sampler.sample(logits, i, allowed)];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[40], kDraws / 2, 300);
  EXPECT_NEAR(counts[3], kDraws / 4, 300);
}

TEST(Sampler, AllowingEverythingIsTheSameAsNoLimit) {
  const std::vector<float> logits = logs({.2, .3, .1, .25, .15});
  const std::vector<uint32_t> all = {0x1f};
  Sampler plain = make({.presence_penalty = 0.5}, 5), limited = make({.presence_penalty = 0.5}, 5);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(*plain.sample(logits, i), *limited.sample(logits, i, all));
  }
}

TEST(Sampler, IdsBehindTheEndOfTheBitsAreNotAllowed) {
  std::vector<float> logits(70, 0.0f);
  logits[69] = 50.0f;
  Sampler sampler = make({}, logits.size());
  const std::vector<uint32_t> first_words = {0, 2};  // ids 0 to 63
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*sampler.sample(logits, i, first_words), 33);
}

TEST(Sampler, AllowedTokensWithoutAFiniteLogitAreAnError) {
  Sampler sampler = make({}, 4);
  const Result<int32_t> nothing =
      sampler.sample(std::vector<float>{1, kNan, -kInf, 2}, 7, bits_of({1, 2}, 4));
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("position 7"), std::string::npos);
  EXPECT_NE(nothing.error().message.find("allowed"), std::string::npos);
}

TEST(Sampler, TakenTokensCountForThePenalties) {
  const std::vector<float> logits = {1.0f, 0.9f};
  Sampler sampler = make({.temperature = 0.0, .presence_penalty = 0.5}, 2);
  sampler.take(0);
  EXPECT_EQ(*sampler.sample(logits, 0), 1);
}

TEST(Sampler, SamplingAllocatesNothing) {
  constexpr size_t kVocab = 2000;
  std::vector<float> logits(kVocab);
  for (size_t i = 0; i < kVocab; ++i) logits[i] = static_cast<float>((i * 37) % 101) * 0.05f;
  const std::vector<uint32_t> allowed(kVocab / 32, 0x55555555);
  const std::vector<SamplingParams> all = {{.temperature = 0.0},
                                           {.top_k = 40, .top_p = 0.9, .min_p = 0.01},
                                           {.repetition_penalty = 1.1, .presence_penalty = 0.5}};
  for (const SamplingParams& params : all) {
    Sampler sampler = make(params, kVocab);
    const size_t before = allocation_count();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(sampler.sample(logits, i));
      ASSERT_TRUE(sampler.sample(logits, i, allowed));
    }
    EXPECT_EQ(allocation_count(), before);
  }
}

TEST(Sampler, ParametersOutOfRangeAreRefusedByName) {
  const std::vector<std::pair<SamplingParams, std::string>> bad = {
      {{.temperature = -0.1}, "temperature"},
      {{.temperature = static_cast<double>(kNan)}, "temperature"},
      {{.top_k = -1}, "top_k"},
      {{.top_p = 0.0}, "top_p"},
      {{.top_p = 1.01}, "top_p"},
      {{.min_p = -0.5}, "min_p"},
      {{.repetition_penalty = 0.0}, "repetition_penalty"},
      {{.presence_penalty = static_cast<double>(kInf)}, "presence_penalty"},
      {{.frequency_penalty = static_cast<double>(kNan)}, "frequency_penalty"}};
  for (const auto& [params, name] : bad) {
    const Result<Ok> checked = check_sampling(params);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().message.find(name), 0u) << checked.error().message;
  }
  EXPECT_TRUE(check_sampling({.temperature = 0.0, .top_k = 40, .top_p = 1.0}));
}

TEST(LogSoftmax, SumsToOneOverAllowedFiniteEntries) {
  std::vector<double> out;
  const std::vector<float> logits = {1.0f, 2.0f, kNan, 80.0f, -3.0f, kInf};
  log_softmax(logits, TokenMask{1, 1, 1, 0, 1, 1}, out);
  EXPECT_EQ(out[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(out[3], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(out[5], -std::numeric_limits<double>::infinity());
  const double log_sum = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(-3.0));
  EXPECT_NEAR(out[0], 1.0 - log_sum, 1e-14);
  EXPECT_NEAR(out[1], 2.0 - log_sum, 1e-14);
  EXPECT_NEAR(out[4], -3.0 - log_sum, 1e-14);
}

TEST(LogSoftmax, AgreesWithTheLibraryOverTheWholeRangeOfExp) {
  std::vector<double> out;
  for (int i = 0; i < 4000; ++i) {
    const float low = -0.05f * static_cast<float>(i);
    log_softmax(std::vector<float>{0.0f, low}, TokenMask{1, 1}, out);
    EXPECT_NEAR(out[0], -std::log1p(std::exp(static_cast<double>(low))), 2e-15);
  }
}

TEST(TopIds, OrdersByValueThenId) {
  EXPECT_EQ(top_ids(std::vector<double>{1, 5, 5, 2, 5}, 4), (std::vector<int32_t>{1, 2, 4, 3}));
  EXPECT_EQ(top_ids(std::vector<double>{1, 2}, 9), (std::vector<int32_t>{1, 0}));
  EXPECT_TRUE(top_ids(std::vector<double>{1, 2}, 0).empty());
}

}  // namespace
}  // namespace minim
