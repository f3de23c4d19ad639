// The reference operations against golden/operators.safetensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/ref/math.h"
#include "support/near.h"
#include "support/safetensors_file.h"

namespace minim::testing {
namespace {

using ref::Matrix;

// The stored results are float32: 2e-6 of the largest value.
constexpr Near kStored{.relative = 2e-6};

StFile operators() {
  return StFile::open(std::string(MINIM_TEST_DATA) + "/model/golden/operators.safetensors");
}

std::vector<double> slice(const std::vector<double>& values, size_t first, size_t count) {
  return {values.begin() + static_cast<ptrdiff_t>(first),
          values.begin() + static_cast<ptrdiff_t>(first + count)};
}

TEST(RefMath, RopeTablesReachOneMillionPositions) {
  const StFile golden = operators();
  const auto positions = golden.get<int32_t>("rope.positions");
  const auto cos = golden.as_double("rope.cos"), sin = golden.as_double("rope.sin");
  ASSERT_EQ(positions.back(), 1048575);
  for (size_t i = 0; i < positions.size(); ++i) {
    const ref::RopeTable table = ref::rope_table(positions[i], 32, 5e6);
    EXPECT_TRUE(near(table.cos, slice(cos, 32 * i, 32), kStored)) << positions[i];
    EXPECT_TRUE(near(table.sin, slice(sin, 32 * i, 32), kStored)) << positions[i];
  }
}

TEST(RefMath, NormAndRopeOfAHeadAreTheGoldenValues) {
  const StFile golden = operators();
  const auto positions = golden.get<int32_t>("rope.positions");
  const auto weight = golden.as_double("normrope.weight");
  auto heads = golden.as_double("normrope.in");
  for (size_t i = 0; i < positions.size(); ++i) {
    for (size_t head = 0; head < 2; ++head) {
      double* x = &heads[(2 * i + head) * 128];
      ref::rms_norm(x, weight, 1e-6, x);
      ref::rotate(ref::rope_table(positions[i], 32, 5e6), x);
    }
  }
  EXPECT_TRUE(near(heads, golden.as_double("normrope.out"), kStored));
}

TEST(RefMath, SwigluIsClampedAboveOnTheGateAndBothWaysOnTheOther) {
  const StFile golden = operators();
  const auto gate = golden.as_double("swiglu.gate"), up = golden.as_double("swiglu.up");
  std::vector<double> got;
  for (size_t i = 0; i < gate.size(); ++i) got.push_back(ref::swiglu(gate[i], up[i], 1.702, 7.0));
  const auto want = golden.as_double("swiglu.out");
  EXPECT_TRUE(near(got, want, kStored));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-6 * std::fabs(want[i]) + 1e-30) << gate[i] << " " << up[i];
  }
}

TEST(RefMath, ExpertsAreChosenWithBiasAndWeighedWithout) {
  const StFile golden = operators();
  const auto logits = golden.as_double("router.logits");
  const auto bias = golden.get<float>("router.bias");
  std::vector<int32_t> ids;
  std::vector<double> weights;
  for (size_t row = 0; row < 64; ++row) {
    const auto choice = ref::choose_experts(std::span(&logits[16 * row], 16), bias, 4, 2.0);
    ids.insert(ids.end(), choice.ids.begin(), choice.ids.end());
    for (const double w : choice.weights) weights.push_back(w / 2.0);
  }
  EXPECT_EQ(ids, golden.get<int32_t>("router.ids"));
  EXPECT_TRUE(near(weights, golden.as_double("router.weights"), kStored));
}

TEST(RefMath, AnExpertWithoutANumberIsChosenLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> logits = {nan, -3.0, nan, 1.0};
  const std::vector<float> bias(4, 0.0f);
  EXPECT_EQ(ref::choose_experts(logits, bias, 3, 1.0).ids, (std::vector<int32_t>{3, 1, 0}));
}

TEST(RefMath, BlocksAreTheGoldenOnesForBothBudgets) {
  const StFile golden = operators();
  const auto scores = golden.as_double("select.scores");
  const auto positions = golden.get<int32_t>("select.positions");
  for (const int budget : {4, 16}) {
    const auto want = golden.get<int32_t>("select.ids" + std::to_string(budget));
    std::vector<int32_t> got;
    for (size_t row = 0; row < positions.size(); ++row) {
      // Columns behind a row's own block are junk.
      const size_t n_visible = static_cast<size_t>(positions[row] / kBlockTokens + 1);
      auto ids = ref::choose_blocks(std::span(&scores[40 * row], n_visible), budget, 0, 1);
      ids.resize(static_cast<size_t>(budget), -1);
      got.insert(got.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(got, want) << "budget " << budget;
  }
}

TEST(RefMath, ForcedBlocksCountInsideTheBudget) {
  const std::vector<double> scores = {0.1, 5, 9, 7, 9, -1};
  EXPECT_EQ(ref::choose_blocks(scores, 3, 1, 1), (std::vector<int32_t>{0, 2, 5}));
  EXPECT_EQ(ref::choose_blocks(scores, 3, 0, 2), (std::vector<int32_t>{2, 4, 5}));
  EXPECT_EQ(ref::choose_blocks(scores, 6, 1, 1), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ref::choose_blocks(std::vector<double>{3.0}, 3, 1, 1), (std::vector<int32_t>{0}));
}

TEST(RefMath, TheScoreOfABlockIgnoresWhatIsNotANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ref::block_score(std::vector<double>{nan, -2, nan, -5}), -2);
  EXPECT_EQ(ref::block_score(std::vector<double>{nan, nan}), -infinity);
}

// Keys [n, 128] or transposed values [128, n] of a group and block as the device hands them over.
Matrix tile_of(const std::vector<double>& lane, size_t group, size_t first, size_t n, bool values) {
  Matrix matrix = *ref::make_matrix(values ? 128 : n, values ? n : 128);
  for (size_t token = 0; token < n; ++token) {
    for (size_t d = 0; d < 128; ++d) {
      const double x = lane[((first + token) * 2 + group) * 128 + d];
      (values ? matrix.at(d, token) : matrix.at(token, d)) = x;
    }
  }
  return matrix;
}

std::vector<double> attended(const StFile& golden, ref::Probabilities probabilities) {
  const auto q = golden.as_double("attend.q"), k = golden.as_double("attend.k"),
             v = golden.as_double("attend.v");
  const auto positions = golden.get<int32_t>("attend.positions");
  const auto selected = golden.get<uint8_t>("attend.selected");  // [2 groups, 3 rows, 3 blocks]
  std::vector<double> out(q.size());
  for (size_t row = 0; row < 3; ++row) {
    for (size_t group = 0; group < 2; ++group) {
      std::vector<ref::AttentionState> states(2, ref::empty_attention());
      const size_t first_head = (row * 4 + group * 2) * 128;
      for (size_t block = 0; block < 3; ++block) {
        if (selected[(group * 3 + row) * 3 + block] == 0) continue;
        const size_t first = block * 128, n = std::min<size_t>(128, 300 - first);
        const size_t n_visible = std::min(n, static_cast<size_t>(positions[row]) - first + 1);
        ref::attend_block(&q[first_head], 2, tile_of(k, group, first, n, false),
                          tile_of(v, group, first, n, true), n_visible, probabilities,
                          states.data());
      }
      for (size_t h = 0; h < 2; ++h) ref::finish_attention(states[h], &out[first_head + h * 128]);
    }
  }
  return out;
}

TEST(RefMath, AttentionOverChosenBlocksIsTheGoldenOne) {
  const StFile golden = operators();
  const auto exact = attended(golden, ref::Probabilities::kExact);
  EXPECT_TRUE(near(exact, golden.as_double("attend.out_fp32"), kStored));
  const auto e4m3 = attended(golden, ref::Probabilities::kE4m3);
  EXPECT_TRUE(near(e4m3, golden.as_double("attend.out_e4m3"), {.relative = 1e-5}));
  EXPECT_FALSE(near(e4m3, golden.as_double("attend.out_fp32"), {.relative = 1e-3}));
  const auto bf16 = attended(golden, ref::Probabilities::kBf16);
  EXPECT_TRUE(near(bf16, golden.as_double("attend.out_fp32"), {.relative = 4e-3}));
  EXPECT_FALSE(near(bf16, golden.as_double("attend.out_fp32"), {.relative = 1e-6}));
}

TEST(RefMath, ANumberThatIsMissingInAMaskedKeyOrValueIsNeverTouched) {
  const StFile golden = operators();
  const auto q = golden.as_double("attend.q");
  Matrix keys = tile_of(golden.as_double("attend.k"), 0, 0, 128, false);
  Matrix values = tile_of(golden.as_double("attend.v"), 0, 0, 128, true);
  const auto run = [&] {
    ref::AttentionState state = ref::empty_attention();
    ref::attend_block(q.data(), 1, keys, values, 100, ref::Probabilities::kExact, &state);
    std::vector<double> out(128);
    ref::finish_attention(state, out.data());
    return out;
  };
  const std::vector<double> clean = run();
  for (size_t token = 100; token < 128; ++token) {
    for (size_t d = 0; d < 128; ++d) {
      keys.at(token, d) = values.at(d, token) = std::numeric_limits<double>::quiet_NaN();
    }
  }
  EXPECT_EQ(run(), clean);
}

}  // namespace
}  // namespace minim::testing
