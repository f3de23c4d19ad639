// Attention of 16 lanes to a block, and merging.
#include <algorithm>
#include <numeric>

#include "kernels/tier_fixture.h"

namespace minim {
namespace {

constexpr size_t kChannels = 128;
constexpr AttentionMode kModes[] = {AttentionMode::kDirect, AttentionMode::kGpu};

struct Case {
  std::vector<float> q, k, v;
  std::vector<int32_t> n_visible;
  size_t n_keys = 0;
};

AttentionPartial run(const Kernels& t, const Case& c, AttentionMode mode) {
  AttentionPartial out;
  t.attend_block(c.q.data(), c.k.data(), c.v.data(), c.n_keys, c.n_visible.data(), mode, &out);
  return out;
}

std::span<const float> floats(const AttentionPartial& p) {
  return {p.max, sizeof(p) / sizeof(float)};
}

Case make_case(Draw& draw, std::vector<int32_t> n_visible, bool extreme = false) {
  Case c;
  c.n_visible = std::move(n_visible);
  c.n_keys = static_cast<size_t>(*std::max_element(c.n_visible.begin(), c.n_visible.end()));
  const auto values = [&](size_t n) { return extreme ? draw.values(n, false) : ordinary(draw, n); };
  c.q = values(kChannels * kLanes);
  c.k = values(c.n_keys * kChannels);
  c.v = values(c.n_keys * kChannels);
  return c;
}

std::vector<int32_t> random_visibility(Draw& draw, size_t limit) {
  std::vector<int32_t> n(kLanes);
  for (int32_t& v : n) v = static_cast<int32_t>(draw.between(0, limit));
  n[draw.between(0, 15)] = static_cast<int32_t>(limit);
  return n;
}

class AttendTiers : public TierTest {};
MINIM_OTHER_TIERS(AttendTiers);

TEST_P(AttendTiers, EqualScalarForEveryNumberOfKeys) {
  for (int32_t n = 1; n <= 128; n += n < 20 ? 1 : 9) {
    for (const AttentionMode mode : kModes) {
      for (const Case& c :
           {make_case(draw, std::vector<int32_t>(kLanes, n)),
            make_case(draw, random_visibility(draw, static_cast<size_t>(n))),
            make_case(draw, random_visibility(draw, static_cast<size_t>(n)), true)}) {
        EXPECT_TRUE(same_bits(floats(run(tier(), c, mode)), floats(run(scalar(), c, mode))))
            << n << " keys";
      }
    }
  }
}

class AttendMath : public TierTest {};
MINIM_ALL_TIERS(AttendMath);

TEST_P(AttendMath, AgreesWithDoublePrecision) {
  for (const int32_t n : {1, 2, 5, 64, 127, 128}) {
    const Case c = make_case(draw, random_visibility(draw, static_cast<size_t>(n)));
    for (const AttentionMode mode : kModes) {
      const AttentionPartial out = run(tier(), c, mode);
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const auto seen = static_cast<size_t>(c.n_visible[lane]);
        if (seen == 0) continue;
        std::vector<double> p(seen);
        double largest = -1e300, sum = 0;
        for (size_t j = 0; j < seen; ++j) {
          for (size_t d = 0; d < kChannels; ++d) {
            p[j] += static_cast<double>(c.q[d * kLanes + lane]) *
                    static_cast<double>(c.k[j * kChannels + d]);
          }
          p[j] /= std::sqrt(128.0);
          largest = std::max(largest, p[j]);
        }
        for (double& x : p)
          sum += x = std::exp(x - largest) * (mode == AttentionMode::kGpu ? 448.0 : 1.0);
        EXPECT_NEAR(out.max[lane], largest, 1e-4);
        EXPECT_NEAR(out.denominator[lane], sum, sum * 1e-4);
        // P is rounded: to 8 bits (bf16) or 4 bits (E4M3, and to a grid of 2^-9 when small).
        const double relative = mode == AttentionMode::kGpu ? 0x1p-4 : 0x1p-8;
        const double absolute = mode == AttentionMode::kGpu ? 0x1p-10 : 1e-6;
        for (size_t d = 0; d < kChannels; ++d) {
          double exact = 0, slack = 0;
          for (size_t j = 0; j < seen; ++j) {
            const double v = static_cast<double>(c.v[j * kChannels + d]);
            exact += p[j] * v;
            slack += std::fabs(v) * (p[j] * (relative + 2e-4) + absolute);
          }
          EXPECT_NEAR(out.value[d][lane], exact, slack);
        }
      }
    }
  }
}

TEST_P(AttendMath, PermutedLanesGivePermutedBits) {
  const Case c = make_case(draw, random_visibility(draw, 77));
  std::vector<size_t> order(kLanes);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = kLanes; i-- > 1;) std::swap(order[i], order[draw.between(0, i)]);
  Case permuted = c;
  for (size_t l = 0; l < kLanes; ++l) {
    permuted.n_visible[l] = c.n_visible[order[l]];
    for (size_t d = 0; d < kChannels; ++d) permuted.q[d * kLanes + l] = c.q[d * kLanes + order[l]];
  }
  const AttentionPartial a = run(tier(), c, AttentionMode::kDirect);
  const AttentionPartial b = run(tier(), permuted, AttentionMode::kDirect);
  for (size_t l = 0; l < kLanes; ++l) {
    EXPECT_EQ(b.max[l], a.max[order[l]]);
    EXPECT_EQ(b.denominator[l], a.denominator[order[l]]);
    for (size_t d = 0; d < kChannels; ++d) EXPECT_EQ(b.value[d][l], a.value[d][order[l]]);
  }
}

TEST_P(AttendMath, ALaneAloneGivesItsBitsInCompany) {
  const Case c = make_case(draw, random_visibility(draw, 90));
  const AttentionPartial all = run(tier(), c, AttentionMode::kDirect);
  for (size_t l = 0; l < kLanes; ++l) {
    if (c.n_visible[l] == 0) continue;
    Case alone = c;
    std::fill(alone.n_visible.begin(), alone.n_visible.end(), 0);
    alone.n_visible[l] = c.n_visible[l];
    alone.n_keys = static_cast<size_t>(c.n_visible[l]);
    alone.k.resize(alone.n_keys * kChannels);
    alone.v.resize(alone.n_keys * kChannels);
    const AttentionPartial one = run(tier(), alone, AttentionMode::kDirect);
    EXPECT_EQ(one.max[l], all.max[l]);
    EXPECT_EQ(one.denominator[l], all.denominator[l]);
    for (size_t d = 0; d < kChannels; ++d) EXPECT_EQ(one.value[d][l], all.value[d][l]);
  }
}

TEST_P(AttendMath, HiddenKeysNeitherPoisonNorFlipASign) {
  // Key 1 is hidden from most lanes and holds NaN; lanes that see only key 0 with v = -0 must keep
  // a chain that starts at +0: fma(-0, p, +0) = +0, whereas adding a hidden +-0 product could not
  // be told apart. So the values are compared by bits.
  Case c = make_case(draw, std::vector<int32_t>(kLanes, 1));
  c.n_visible[5] = 3;
  c.n_keys = 3;
  c.k.resize(3 * kChannels, std::bit_cast<float>(0x7fc00000u));
  c.v.resize(3 * kChannels, std::bit_cast<float>(0x7fc00000u));
  const AttentionPartial out = run(tier(), c, AttentionMode::kDirect);
  for (size_t l = 0; l < kLanes; ++l) {
    for (size_t d = 0; d < kChannels; ++d) {
      if (l == 5) {
        EXPECT_TRUE(std::isnan(out.value[d][l]));
      } else {
        EXPECT_EQ(out.value[d][l], c.v[d]);  // P = 1
      }
    }
    EXPECT_EQ(std::isnan(out.denominator[l]), l == 5);
  }
}

TEST_P(AttendMath, IdleLanesGiveZeros) {
  Case c = make_case(draw, std::vector<int32_t>(kLanes, 7));
  c.n_visible[0] = c.n_visible[15] = 0;
  for (size_t d = 0; d < kChannels; ++d) c.q[d * kLanes] = std::bit_cast<float>(0x7fc00000u);
  const AttentionPartial out = run(tier(), c, AttentionMode::kDirect);
  for (const size_t l : {size_t{0}, size_t{15}}) {
    EXPECT_EQ(out.max[l], 0.0f);
    EXPECT_EQ(out.denominator[l], 0.0f);
    for (size_t d = 0; d < kChannels; ++d) EXPECT_EQ(std::bit_cast<uint32_t>(out.value[d][l]), 0u);
  }
  EXPECT_GE(out.denominator[1], 1.0f);
}

// ---- merging ----

struct State {
  std::vector<float> max, denominator, value;
  explicit State(size_t n)
      : max(n, -std::numeric_limits<float>::infinity()), denominator(n), value(n * kChannels) {}
};

void merge(const Kernels& t, const AttentionPartial& p, size_t first, size_t n, State* s) {
  t.merge_partial(p, first, n, s->max.data(), s->denominator.data(), s->value.data());
}

TEST_P(AttendMath, MergedBlocksAgreeWithOneSoftmax) {
  std::vector<Case> blocks;
  State state(kLanes);
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(make_case(draw, std::vector<int32_t>(kLanes, 30 + i)));
    blocks[static_cast<size_t>(i)].q = blocks[0].q;
    merge(tier(), run(tier(), blocks.back(), AttentionMode::kDirect), 0, kLanes, &state);
  }
  for (size_t l = 0; l < kLanes; ++l) {
    std::vector<double> exact(kChannels);
    double sum = 0;
    for (const Case& c : blocks) {
      for (size_t j = 0; j < c.n_keys; ++j) {
        double s = 0;
        for (size_t d = 0; d < kChannels; ++d) {
          s += static_cast<double>(c.q[d * kLanes + l]) *
               static_cast<double>(c.k[j * kChannels + d]);
        }
        const double p = std::exp(s / std::sqrt(128.0) - 20);
        sum += p;
        for (size_t d = 0; d < kChannels; ++d)
          exact[d] += p * static_cast<double>(c.v[j * kChannels + d]);
      }
    }
    for (size_t d = 0; d < kChannels; ++d) {
      EXPECT_NEAR(state.value[d * kLanes + l] / state.denominator[l], exact[d] / sum, 0x1p-7);
    }
  }
}

TEST_P(AttendTiers, MergeEqualsScalarForEveryLaneRange) {
  for (size_t first = 0; first < kLanes; ++first) {
    for (size_t n = 1; n <= kLanes - first; ++n) {
      State a(n), b(n);
      for (int i = 0; i < 3; ++i) {
        const AttentionPartial p =
            run(scalar(), make_case(draw, std::vector<int32_t>(kLanes, 3)), AttentionMode::kDirect);
        merge(tier(), p, first, n, &a);
        merge(scalar(), p, first, n, &b);
      }
      EXPECT_TRUE(same_bits(a.max, b.max));
      EXPECT_TRUE(same_bits(a.denominator, b.denominator));
      EXPECT_TRUE(same_bits(a.value, b.value));
    }
  }
}

}  // namespace
}  // namespace minim
