#include "engine/logit_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/sampler_oracle.h"
#include "engine/softmax.h"

namespace minim {
namespace {

// Rows of all kinds: peaked, flat, with ties, with bad entries, of lengths that fill no block.
struct Row {
  std::vector<float> logits;
  std::vector<uint32_t> open;
  std::vector<Candidate> adjusted;
};

Row random_row(std::mt19937& random) {
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  constexpr size_t kSizes[] = {1, 5, 127, 128, 129, 700, 3000, 9000};
  constexpr float kScales[] = {0.0f, 0.1f, 1.0f, 3.0f, 12.0f, 400.0f};
  Row row;
  row.logits.resize(kSizes[pick(8)]);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const float scale = kScales[pick(6)];
  const bool coarse = pick(3) == 0;  // many ties
  for (float& x : row.logits) {
    x = scale * normal(random);
    if (coarse) x = std::round(x);
  }
  const float bad[] = {NAN, INFINITY, -INFINITY, -0.0f, 3.4e38f};
  for (size_t n = pick(4); n > 0; --n) row.logits[pick(row.logits.size())] = bad[pick(5)];
  row.open.assign((row.logits.size() + 127) / 128 * 4, 0);
  const size_t openness = pick(4);
  for (size_t id = 0; id < row.logits.size(); ++id) {
    const bool in = openness == 0 ? pick(50) == 0 : openness == 1 ? pick(2) == 0 : true;
    if (in) row.open[id / 32] |= uint32_t{1} << (id % 32);
  }
  for (size_t id = pick(9); id < row.logits.size() && openness != 3; id += 1 + pick(300)) {
    row.open[id / 32] &= ~(uint32_t{1} << (id % 32));
    row.adjusted.emplace_back(static_cast<double>(scale) * static_cast<double>(normal(random)),
                              static_cast<int32_t>(id));
  }
  return row;
}

std::vector<Candidate> list_of(const Row& row) {
  std::vector<Candidate> out;
  auto next = row.adjusted.begin();
  for (size_t id = 0; id < row.logits.size(); ++id) {
    const int32_t token = static_cast<int32_t>(id);
    if (next != row.adjusted.end() && next->second == token) {
      out.push_back(*next++);
    } else if ((row.open[id / 32] >> (id % 32) & 1) != 0 && std::isfinite(row.logits[id])) {
      out.emplace_back(row.logits[id], token);
    }
  }
  return out;
}

LogitRow start(const Row& row) {
  LogitRow out(row.logits.size(), row.logits.size());
  std::copy(row.open.begin(), row.open.end(), out.open().begin());
  out.start(row.logits, row.adjusted);
  return out;
}

TEST(LogitRow, FindsWhatASortOfAllFinds) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const Row row = random_row(random);
    std::vector<Candidate> list = list_of(row);
    LogitRow found = start(row);
    ASSERT_EQ(found.empty(), list.empty());
    if (list.empty()) continue;
    ASSERT_EQ(found.best(), std::min_element(list.begin(), list.end(), ahead)->second);
    const int k = 1 + static_cast<int>(random() % (random() % 2 == 0 ? 60 : 4000));
    oracle::keep_top_k(list, k);
    ASSERT_EQ(found.best_candidates(static_cast<size_t>(k)), list) << "row " << i << ", k " << k;
  }
}

TEST(LogitRow, TheListOfTheBestStaysInItsBoundWhenAllAreEqual) {
  Row row;
  row.logits.assign(128 * 40, 2.0f);
  row.open.assign(row.logits.size() / 32, ~uint32_t{0});
  const size_t bound = LogitRow::candidates_of_best(row.logits.size(), 7);
  ASSERT_LT(bound, row.logits.size());
  LogitRow found(row.logits.size(), bound);
  std::copy(row.open.begin(), row.open.end(), found.open().begin());
  found.start(row.logits, {});
  const std::vector<Candidate>& best = found.best_candidates(7);
  EXPECT_EQ(best.size(), 7u);
  EXPECT_EQ(best.back().second, 6);
  EXPECT_EQ(best.capacity(), bound);
}

// Sums are the same to the last bit: targets at and right beside every border fall the same way.
TEST(LogitRow, ADrawFallsAsItDoesInOneLongSum) {
  std::mt19937 random(2);
  constexpr double kTemperatures[] = {1.0, 0.7, 0.05, 3.0, 1e-300, 100.0};
  for (int i = 0; i < 1500; ++i) {
    const Row row = random_row(random);
    std::vector<Candidate> list = list_of(row);
    if (list.empty()) continue;
    const double temperature = kTemperatures[random() % 6];
    const double min_p = random() % 2 == 0 ? 0.0 : std::pow(10.0, -static_cast<int>(random() % 9));
    LogitRow found = start(row);
    found.sum_weights(temperature, min_p);
    oracle::to_weights(list, temperature);
    oracle::keep_min_p(list, min_p);
    std::vector<double> sums;
    double total = 0.0;
    for (const Candidate& c : list) sums.push_back(total += c.first);
    for (int draw = 0; draw < 20; ++draw) {
      double uniform = sums[random() % sums.size()] / total;
      for (size_t n = random() % 4; n > 0; --n) uniform = std::nextafter(uniform, random() % 2);
      uniform = std::clamp(uniform, 0.0, 1.0 - 0x1p-53);
      ASSERT_EQ(found.draw(uniform), oracle::draw(list, uniform))
          << "row " << i << ", " << temperature << ", " << min_p;
    }
  }
}

TEST(LogitRow, TheHeaviestAreThoseOfASortedList) {
  std::mt19937 random(3);
  constexpr double kShares[] = {0.95, 0.5, 1e-9, 0.999, 1 - 0x1p-53, 0.9999999999};
  for (int i = 0; i < 1500; ++i) {
    const Row row = random_row(random);
    std::vector<Candidate> list = list_of(row);
    if (list.empty()) continue;
    const double temperature = random() % 2 == 0 ? 1.0 : 0.6;
    const double share = kShares[random() % 6];
    LogitRow found = start(row);
    found.sum_weights(temperature, 0.0);
    oracle::to_weights(list, temperature);
    oracle::keep_top_p(list, share);
    std::erase_if(list, [](const Candidate& c) { return c.first <= 0.0; });
    ASSERT_EQ(found.heaviest_candidates(share), list) << "row " << i << ", share " << share;
  }
}

TEST(Softmax, ExpOfAPairIsExpOfEach) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200000; ++i) {
    const double x = -std::ldexp(static_cast<double>(random() >> 11), -53) * 720;
    const double y = -std::exp2(-static_cast<double>(random() % 80)) * (1 + x / 1000);
    const DoublePair both = exp_of_negative(DoublePair{x, y});
    ASSERT_EQ(both[0], oracle::exp_of_negative(x)) << x;
    ASSERT_EQ(both[1], oracle::exp_of_negative(y)) << y;
  }
  EXPECT_EQ(exp_of_negative(kNever), 0.0);
  EXPECT_EQ(exp_of_negative(static_cast<double>(NAN)), 0.0);
  EXPECT_EQ(exp_of_negative(-0.0), 1.0);
}

TEST(Softmax, LogAgreesWithTheLibrary) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::exp2(static_cast<double>(random() >> 11) * 0x1p-53 * 40);
    ASSERT_NEAR(log_of(x), std::log(x), 4e-16 * std::max(1.0, std::log(x))) << x;
  }
  EXPECT_EQ(log_of(1.0), 0.0);
}

}  // namespace
}  // namespace minim
