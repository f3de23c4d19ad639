// The golden vectors of single functions (tests/golden/model/golden), written by a NumPy reference
// in double precision.
#include <algorithm>

#include "kernels/tier_fixture.h"
#include "support/safetensors_file.h"

namespace minim {
namespace {

std::vector<float> as_float(const std::vector<double>& v) {
  std::vector<float> out(v.size());
  std::transform(v.begin(), v.end(), out.begin(), [](double x) { return static_cast<float>(x); });
  return out;
}

double largest(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::fabs(x));
  return m;
}

class GoldenMath : public TierTest {
 protected:
  StFile file = StFile::open(MINIM_TEST_DATA "/model/golden/operators.safetensors");
  std::vector<float> floats(const char* name) const { return as_float(file.as_double(name)); }
};
MINIM_ALL_TIERS(GoldenMath);

TEST_P(GoldenMath, NormRope) {
  const std::vector<float> x = floats("normrope.in"), weight = floats("normrope.weight");
  const std::vector<float> cos = floats("rope.cos"), sin = floats("rope.sin");
  const std::vector<double> wanted = file.as_double("normrope.out");
  std::vector<float> w1(128), out(128);
  for (size_t i = 0; i < 128; ++i) w1[i] = 1.0f + weight[i];
  for (size_t row = 0; row < 24; ++row) {
    tier().norm_rope(&x[row * 128], w1.data(), 1e-6f, &cos[row / 2 * 32], &sin[row / 2 * 32], 32,
                     out.data());
    for (size_t i = 0; i < 128; ++i) {
      EXPECT_NEAR(out[i], wanted[row * 128 + i], 2e-6 * largest(wanted)) << row << " " << i;
    }
  }
}

TEST_P(GoldenMath, Swiglu) {
  const std::vector<float> gate = floats("swiglu.gate"), up = floats("swiglu.up");
  const std::vector<double> wanted = file.as_double("swiglu.out");
  std::vector<float> out(gate.size());
  tier().swiglu(gate.data(), up.data(), gate.size(), 1.702f, 7.0f, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], wanted[i], std::fabs(wanted[i]) * 0x1.01p-8 + 1e-30)
        << i;  // half a bf16 step
  }
}

TEST_P(GoldenMath, RouterSigmoid) {
  const std::vector<float> logits = floats("router.logits");
  const std::vector<double> weights = file.as_double("router.weights");
  const std::vector<int32_t> ids = file.get<int32_t>("router.ids");
  std::vector<float> p(16);
  for (size_t row = 0; row < 64; ++row) {
    tier().sigmoid(&logits[row * 16], 16, p.data());
    float sum = 0;
    for (size_t j = 0; j < 4; ++j) sum += p[static_cast<size_t>(ids[row * 4 + j])];
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(p[static_cast<size_t>(ids[row * 4 + j])] / sum, weights[row * 4 + j], 2e-6);
    }
  }
}

// Three rows, four heads over two groups, 300 keys, chosen blocks; lanes 0, 1 of a group are its
// two heads.
TEST_P(GoldenMath, Attend) {
  const std::vector<float> q = floats("attend.q"), k = floats("attend.k"), v = floats("attend.v");
  const std::vector<int32_t> positions = file.get<int32_t>("attend.positions");
  const std::vector<uint8_t> selected = file.get<uint8_t>("attend.selected");
  for (const AttentionMode mode : {AttentionMode::kDirect, AttentionMode::kGpu}) {
    const std::vector<double> wanted =
        file.as_double(mode == AttentionMode::kGpu ? "attend.out_e4m3" : "attend.out_fp32");
    // kDirect rounds P to bf16, the golden does not; E4M3 is compared closely, but for P on a
    // rounding boundary.
    const double slack = (mode == AttentionMode::kGpu ? 1e-5 : 0x1p-8) * largest(wanted);
    size_t beyond = 0;
    for (size_t row = 0; row < 3; ++row) {
      for (size_t group = 0; group < 2; ++group) {
        std::vector<float> lanes(128 * kLanes), max(2, -std::numeric_limits<float>::infinity()),
            sum(2), value(2 * 128);
        for (size_t h = 0; h < 2; ++h) {
          for (size_t d = 0; d < 128; ++d)
            lanes[d * kLanes + h] = q[(row * 4 + group * 2 + h) * 128 + d];
        }
        for (size_t block = 0; block < 3; ++block) {
          const int32_t seen =
              std::min(128, positions[row] + 1 - static_cast<int32_t>(block) * 128);
          if (selected[(group * 3 + row) * 3 + block] == 0 || seen <= 0) continue;
          std::vector<float> kb, vb;
          for (size_t j = 0; j < static_cast<size_t>(seen); ++j) {
            const size_t at = ((block * 128 + j) * 2 + group) * 128;
            kb.insert(kb.end(), &k[at], &k[at] + 128);
            vb.insert(vb.end(), &v[at], &v[at] + 128);
          }
          std::vector<int32_t> n_visible(kLanes, 0);
          n_visible[0] = n_visible[1] = seen;
          AttentionPartial partial;
          tier().attend_block(lanes.data(), kb.data(), vb.data(), static_cast<size_t>(seen),
                              n_visible.data(), mode, &partial);
          tier().merge_partial(partial, 0, 2, max.data(), sum.data(), value.data());
        }
        for (size_t h = 0; h < 2; ++h) {
          for (size_t d = 0; d < 128; ++d) {
            const double own = value[d * 2 + h] / sum[h];
            const double golden = wanted[(row * 4 + group * 2 + h) * 128 + d];
            beyond += std::fabs(own - golden) > slack ? 1 : 0;
            EXPECT_NEAR(own, golden, std::max(slack, 0.02 * largest(wanted)));
          }
        }
      }
    }
    EXPECT_LE(beyond, mode == AttentionMode::kGpu ? 3u * 128u : 0u);
  }
}

TEST_P(GoldenMath, Nvfp4CacheAndRoundings) {
  const StFile codecs = StFile::open(MINIM_TEST_DATA "/model/golden/codecs.safetensors");
  const std::vector<float> in = codecs.get<float>("nvfp4_kv.in");
  const std::vector<uint8_t> codes = codecs.get<uint8_t>("nvfp4_kv.codes");
  const std::vector<uint8_t> scales = codecs.get<uint8_t>("nvfp4_kv.scales");
  const std::vector<uint8_t> rounded = codecs.get<uint8_t>("nvfp4_kv.e4m3");
  Aligned tile(128 * 72);
  for (size_t g = 0; g + 8 <= scales.size(); g += 8) {  // eight groups make a vector
    tier().store_vector(TileFormat::kNvfp4, &in[g * 16], 0, tile.data());
    ASSERT_EQ(std::memcmp(tile.data(), &codes[g * 8], 64), 0) << "group " << g;
    ASSERT_EQ(std::memcmp(tile.data() + 128 * 64, &scales[g], 8), 0) << "group " << g;
    float out[128];
    tier().load_vectors(TileFormat::kNvfp4, AttentionMode::kGpu, tile.data(), 1, out);
    for (size_t i = 0; i < 128; ++i)
      ASSERT_EQ(out[i], e4m3_to_float(rounded[g * 16 + i])) << "group " << g;
  }
  std::vector<float> x = codecs.get<float>("e4m3.encode_in");
  const std::vector<uint8_t> e4m3 = codecs.get<uint8_t>("e4m3.encode_out");
  tier().round_e4m3(x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float wanted = e4m3_to_float(e4m3[i]);
    EXPECT_TRUE(x[i] == wanted || (std::isnan(x[i]) && std::isnan(wanted))) << i;
  }
  x = codecs.get<float>("bf16.encode_in");
  const std::vector<uint16_t> bf16 = codecs.get<uint16_t>("bf16.encode_out");
  tier().round_bf16(x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float wanted = bf16_to_float(bf16[i]);
    EXPECT_TRUE(x[i] == wanted || (std::isnan(x[i]) && std::isnan(wanted))) << i;
  }
}

}  // namespace
}  // namespace minim
