// Rounding, norms, RoPE, activations: every tier against scalar by bits, and against double
// precision.
#include <algorithm>
#include <array>

#include "kernels/tier_fixture.h"

namespace minim {
namespace {

constexpr size_t kRealSizes[] = {1,  3,  7,  8,  9,   15,  16,  17,  31,   32,
                                 33, 48, 64, 80, 128, 144, 256, 488, 3072, 6144};

class ElementwiseTiers : public TierTest {
 protected:
  // Runs call(tier, array) on both tiers from the same start.
  template <typename Call>
  void expect_same(const std::vector<float>& start, const Call& call) {
    std::vector<float> a = start, b = start;
    a.push_back(5.0f), b.push_back(5.0f);  // nothing may be written behind the end
    call(tier(), a.data());
    call(scalar(), b.data());
    EXPECT_TRUE(same_bits(a, b)) << start.size() << " values";
    EXPECT_EQ(a.back(), 5.0f);
  }
};
MINIM_OTHER_TIERS(ElementwiseTiers);

TEST_P(ElementwiseTiers, EqualScalarForAllSizes) {
  for (const size_t n : kRealSizes) {
    for (const bool any : {false, true}) {
      const std::vector<float> x = draw.values(n, any, true), y = draw.values(n, any, true);
      const float w = draw.wide_value(any);
      expect_same(x, [&](const Kernels& t, float* out) { t.round_bf16(out, n); });
      expect_same(x, [&](const Kernels& t, float* out) { t.round_e4m3(out, n); });
      expect_same(x, [&](const Kernels& t, float* out) { t.add_bf16(out, y.data(), n); });
      expect_same(x, [&](const Kernels& t, float* out) { t.accumulate(w, y.data(), out, n); });
      expect_same(x, [&](const Kernels& t, float* out) { t.sigmoid(y.data(), n, out); });
      expect_same(x, [&](const Kernels& t, float* out) {
        t.swiglu(x.data(), y.data(), n, 1.702f, 7.0f, out);
      });
      if (n % 16 != 0) continue;
      expect_same(
          x, [&](const Kernels& t, float* out) { t.rms_norm(x.data(), y.data(), n, 1e-6f, out); });
    }
  }
}

TEST_P(ElementwiseTiers, NormRopeEqualsScalarForEveryRotatedWidth) {
  for (const size_t half : {0, 16, 32, 48, 64}) {
    const std::vector<float> x = draw.values(128, false), w = draw.values(128, false);
    const std::vector<float> cos = draw.values(half + 1, false, true);
    const std::vector<float> sin = draw.values(half + 1, false, true);
    expect_same(x, [&](const Kernels& t, float* out) {
      t.norm_rope(out, w.data(), 1e-6f, cos.data(), sin.data(), half, out);
    });
    expect_same(std::vector<float>(128), [&](const Kernels& t, float* out) {
      t.norm_rope(x.data(), w.data(), 1e-6f, cos.data(), sin.data(), half, out);
    });
  }
}

TEST_P(ElementwiseTiers, RoundEveryTieLikeScalar) {
  // All bf16 and E4M3 values, the midpoints between them and their neighbours are multiples of 2^12
  // ulp +-1.
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1u << 15) {
    for (const int off : {-1, 0, 1}) {
      const auto v = static_cast<uint32_t>(bits + static_cast<uint64_t>(static_cast<int64_t>(off)));
      x.push_back(std::bit_cast<float>(v));
    }
  }
  expect_same(x, [&](const Kernels& t, float* out) { t.round_bf16(out, x.size()); });
  expect_same(x, [&](const Kernels& t, float* out) { t.round_e4m3(out, x.size()); });
}

TEST_P(ElementwiseTiers, WidenEveryBf16) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> out(bits.size());
  tier().widen_bf16(bits.data(), bits.size(), out.data());
  for (size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), static_cast<uint32_t>(i) << 16);
  }
}

// exp is inside larger entries; merging shows it bare: with M = 0 and a partial of maximum x <= 0
// and denominator 1, the merged denominator is fma(exp(x), 1, exp(0) * 0).
std::array<float, kLanes> exp_by_merge(const Kernels& k, const std::array<float, kLanes>& x) {
  AttentionPartial partial = {};
  std::array<float, kLanes> state_max = {}, denominator = {};
  for (size_t l = 0; l < kLanes; ++l) {
    partial.max[l] = x[l];
    partial.denominator[l] = 1.0f;
  }
  std::vector<float> value(128 * kLanes);
  k.merge_partial(partial, 0, kLanes, state_max.data(), denominator.data(), value.data());
  return denominator;
}

class ElementwiseMath : public TierTest {};
MINIM_ALL_TIERS(ElementwiseMath);

TEST_P(ElementwiseMath, ExpIsWithinOneUlpAndEqualOnAllTiers) {
  // x <= 0, as in attention: every 1021st float down to -87.
  double worst = 0;
  const uint32_t end = std::bit_cast<uint32_t>(-87.0f), stride = 1021;
  for (uint32_t bits = 0x80000000u; bits < end - kLanes * stride; bits += kLanes * stride) {
    std::array<float, kLanes> x;
    for (uint32_t l = 0; l < kLanes; ++l) x[l] = std::bit_cast<float>(bits + l * stride);
    const std::array<float, kLanes> e = exp_by_merge(tier(), x);
    ASSERT_TRUE(same_bits(e, exp_by_merge(scalar(), x)));
    for (size_t l = 0; l < kLanes; ++l) {
      const double exact = std::exp(static_cast<double>(x[l]));
      const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
      worst = std::max(worst, std::fabs(static_cast<double>(e[l]) - exact) / ulp);
    }
  }
  EXPECT_LE(worst, 1.1);
  EXPECT_GT(worst, 0.5);  // it was looked at
  EXPECT_EQ(exp_by_merge(tier(), {})[3], 1.0f);
}

TEST_P(ElementwiseMath, SigmoidAgreesWithDoublePrecision) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x42b00000u; bits += 40009) {  // up to 88
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  std::vector<float> y(x.size());
  tier().sigmoid(x.data(), x.size(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    ASSERT_NEAR(y[i], exact, exact * 4e-7 + 2e-38) << x[i];  // smaller results flush to zero
  }
}

TEST_P(ElementwiseMath, SwigluClampsTheGateFromAboveOnly) {
  const float g[] = {7.5f, 100.0f, -100.0f, -8.0f, 1.0f};
  const float u[] = {-9.0f, 9.0f, 1.0f, 0.5f, -1.0f};
  float out[5];
  tier().swiglu(g, u, 5, 1.702f, 7.0f, out);
  for (int i = 0; i < 5; ++i) {
    const double gate = std::min(static_cast<double>(g[i]), 7.0);
    const double up = std::clamp(static_cast<double>(u[i]), -7.0, 7.0);
    const double exact = (up + 1) * gate / (1 + std::exp(-static_cast<double>(1.702f) * gate));
    EXPECT_NEAR(out[i], exact, std::fabs(exact) * 0x1p-8 + 1e-38) << i;
  }
}

TEST_P(ElementwiseMath, NormAgreesWithDoublePrecision) {
  for (const size_t n : {16, 128, 6144}) {
    const std::vector<float> x = ordinary(draw, n), w = ordinary(draw, n);
    std::vector<float> out(n);
    tier().rms_norm(x.data(), w.data(), n, 1e-6f, out.data());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
    for (size_t i = 0; i < n; ++i) {
      const double exact = static_cast<double>(x[i]) * r * static_cast<double>(w[i]);
      EXPECT_NEAR(out[i], exact, std::fabs(exact) * 0x1.01p-8 + 1e-30);
      EXPECT_EQ(out[i], round_to_bf16(out[i]));
    }
  }
}

TEST_P(ElementwiseMath, NaNInActivationsStaysVisible) {
  const float nan = std::bit_cast<float>(0x7fc00000u);
  std::vector<float> x(48, 1.0f), one(48, 1.0f), out(48);
  x[17] = nan;
  tier().rms_norm(x.data(), one.data(), 48, 1e-6f, out.data());
  EXPECT_TRUE(std::isnan(out[3]));
  tier().swiglu(x.data(), one.data(), 48, 1.702f, 7.0f, out.data());
  EXPECT_TRUE(std::isnan(out[17]));
  tier().swiglu(one.data(), x.data(), 48, 1.702f, 7.0f, out.data());
  EXPECT_TRUE(std::isnan(out[17]));
  tier().sigmoid(x.data(), 48, out.data());
  EXPECT_TRUE(std::isnan(out[17]));
  EXPECT_FALSE(std::isnan(out[16]));
}

}  // namespace
}  // namespace minim
