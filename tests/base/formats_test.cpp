// Number formats: exhaustively against independent double arithmetic and against the golden
// vectors; every test runs with and without flushing of denormals.
#include "base/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/fp_env.h"
#include "base/sha256.h"
#include "support/golden_page.h"
#include "support/safetensors_file.h"

namespace minim::testing {
namespace {

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// Expected values are formed in the default environment, results in the tested one: the tests'
// own arithmetic must not be flushed.
class Formats : public ::testing::TestWithParam<bool> {
 protected:
  template <typename Body>
  static void tested(const Body& body) {
    std::optional<FlushDenormals> flush;
    if (GetParam()) flush.emplace();
    body();
  }

  template <typename Out, typename In, typename Convert>
  static std::vector<Out> converted(const std::vector<In>& in, Convert convert) {
    std::vector<Out> out(in.size());
    tested([&] {
      for (size_t i = 0; i < in.size(); ++i) out[i] = convert(in[i]);
    });
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Environments, Formats, ::testing::Bool(), [](const auto& environment) {
  return std::string(environment.param ? "flushed" : "default");
});

std::vector<uint8_t> all_bytes() {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  return codes;
}

// Floats of every kind: a stride over all bit patterns (odd, so that low bits vary too), the
// extremes and the special values.
std::vector<float> strided_floats() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 2051) {
    values.push_back(float_of(static_cast<uint32_t>(bits)));
  }
  for (const uint32_t bits : {0u, 1u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u,
                              0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
    values.push_back(float_of(bits));
    values.push_back(float_of(bits | 0x80000000u));
  }
  return values;
}

// A value and its float32 neighbours, both signs.
void append_around(float value, std::vector<float>* out) {
  const uint32_t bits = bits_of(value) & 0x7fffffffu;
  for (const uint32_t near : {bits - (bits > 0 ? 1 : 0), bits, bits + 1}) {
    out->push_back(float_of(near));
    out->push_back(float_of(near | 0x80000000u));
  }
}

// The code of the nearest of `magnitudes` (ascending, exact), ties to the even code, saturating.
uint8_t nearest_code(double magnitude, const std::vector<double>& magnitudes) {
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  if (above == magnitudes.end()) return static_cast<uint8_t>(magnitudes.size() - 1);
  const size_t high = static_cast<size_t>(above - magnitudes.begin());
  if (high == 0 || *above == magnitude) return static_cast<uint8_t>(high);
  const double up = magnitudes[high] - magnitude, down = magnitude - magnitudes[high - 1];
  if (up != down) return static_cast<uint8_t>(up < down ? high : high - 1);
  return static_cast<uint8_t>(high % 2 == 0 ? high : high - 1);
}

std::vector<double> e4m3_magnitudes() {
  std::vector<double> magnitudes;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    magnitudes.push_back(exponent == 0 ? std::ldexp(mantissa, -9)
                                       : std::ldexp(8 + mantissa, exponent - 10));
  }
  return magnitudes;
}

const std::vector<double> kE2m1Magnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// Round to nearest even on a grid of 8 significant bits, in double.
float expected_bf16(float value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const double x = value;
  const int exponent = std::max(std::ilogb(x), -126);
  const double grid = std::ldexp(1.0, exponent - 7);
  return static_cast<float>(std::nearbyint(x / grid) * grid);  // 2^128 becomes infinity
}

StFile codecs() {
  return StFile::open(std::string(MINIM_TEST_DATA) + "/model/golden/codecs.safetensors");
}

// ---- bf16 ----

TEST_P(Formats, EveryBf16ValueSurvivesTheRoundTrip) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const auto values =
      converted<uint32_t>(bits, [](uint16_t b) { return bits_of(bf16_to_float(b)); });
  const auto back =
      converted<uint16_t>(values, [](uint32_t b) { return float_to_bf16(float_of(b)); });
  for (size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<uint32_t>(i) << 16);
    const bool nan = (bits[i] & 0x7fffu) > 0x7f80u;
    ASSERT_EQ(back[i], nan ? (bits[i] | 0x40u) : bits[i]) << std::hex << i;
  }
}

TEST_P(Formats, Bf16RoundsToNearestEvenEverywhere) {
  std::vector<float> in = strided_floats();
  for (uint32_t high = 0; high < 0x7f80u; ++high)
    append_around(float_of(high << 16 | 0x8000u), &in);
  const auto out = converted<uint16_t>(in, float_to_bf16);
  for (size_t i = 0; i < in.size(); ++i) {
    if (std::isnan(in[i])) {
      ASSERT_TRUE(std::isnan(float_of(static_cast<uint32_t>(out[i]) << 16)));
      ASSERT_EQ(out[i] & 0x8000u, bits_of(in[i]) >> 16 & 0x8000u);
    } else {
      ASSERT_EQ(static_cast<uint32_t>(out[i]) << 16, bits_of(expected_bf16(in[i])))
          << std::hexfloat << in[i];
    }
  }
}

// ---- E4M3 ----

TEST_P(Formats, EveryE4m3CodeDecodesToItsValueAndBack) {
  const auto values =
      converted<uint32_t>(all_bytes(), [](uint8_t c) { return bits_of(e4m3_to_float(c)); });
  const auto back =
      converted<uint8_t>(values, [](uint32_t b) { return float_to_e4m3(float_of(b)); });
  const std::vector<double> magnitudes = e4m3_magnitudes();
  for (size_t code = 0; code < 256; ++code) {
    const float value = float_of(values[code]);
    EXPECT_EQ(values[code] >> 31, code >> 7);
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(back[code], 0x7f);
    } else {
      EXPECT_EQ(std::fabs(static_cast<double>(value)), magnitudes[code & 127]);
      EXPECT_EQ(back[code], code);
    }
  }
}

TEST_P(Formats, E4m3RoundsToNearestEvenAndSaturatesEverywhere) {
  const std::vector<double> magnitudes = e4m3_magnitudes();
  std::vector<float> in = strided_floats();
  for (size_t i = 0; i + 1 < magnitudes.size(); ++i) {
    append_around(static_cast<float>(magnitudes[i]), &in);
    append_around(static_cast<float>((magnitudes[i] + magnitudes[i + 1]) / 2), &in);
  }
  for (const float edge : {448.0f, 464.0f, 480.0f}) append_around(edge, &in);
  const auto out = converted<uint8_t>(in, float_to_e4m3);
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t sign = bits_of(in[i]) >> 31 << 7;
    const uint32_t want =
        std::isnan(in[i]) ? 0x7fu
                          : sign | nearest_code(std::fabs(static_cast<double>(in[i])), magnitudes);
    ASSERT_EQ(out[i], want) << std::hexfloat << in[i];
  }
}

// ---- E8M0 ----

TEST_P(Formats, E8m0IsAPowerOfTwoWithZeroAtTheBottomAndNanAtTheTop) {
  const auto values =
      converted<uint32_t>(all_bytes(), [](uint8_t c) { return bits_of(e8m0_to_float(c)); });
  EXPECT_EQ(values[0], 0u);
  for (size_t code = 1; code < 255; ++code) {
    EXPECT_EQ(static_cast<double>(float_of(values[code])),
              std::ldexp(1.0, static_cast<int>(code) - 127));
  }
  EXPECT_TRUE(std::isnan(float_of(values[255])));
}

// ---- E2M1 ----

TEST_P(Formats, E2m1RoundsToNearestEvenAndSaturatesEverywhere) {
  std::vector<float> in = strided_floats();
  for (const double m : kE2m1Magnitudes) append_around(static_cast<float>(m), &in);
  for (size_t i = 0; i + 1 < kE2m1Magnitudes.size(); ++i) {
    append_around(static_cast<float>((kE2m1Magnitudes[i] + kE2m1Magnitudes[i + 1]) / 2), &in);
  }
  const auto out = converted<uint8_t>(in, float_to_e2m1);
  const auto values = converted<float>(all_bytes(), e2m1_to_float);
  for (size_t i = 0; i < in.size(); ++i) {
    if (std::isnan(in[i])) continue;  // E2M1 has no NaN; nothing sends one
    const uint32_t sign = bits_of(in[i]) >> 31 << 3;
    ASSERT_EQ(out[i], sign | nearest_code(std::fabs(static_cast<double>(in[i])), kE2m1Magnitudes))
        << std::hexfloat << in[i];
  }
  for (size_t code = 0; code < 256; ++code) {
    EXPECT_EQ(std::fabs(static_cast<double>(values[code])), kE2m1Magnitudes[code & 7]);
    EXPECT_EQ(std::signbit(values[code]), (code & 8) != 0);
  }
}

TEST(FormatsOfDouble, E2m1OfADoubleIsNotRoundedTwice) {
  // In float32 each of these would first become the tie.
  EXPECT_EQ(to_e2m1(0.25 + 1e-12), 1);
  EXPECT_EQ(to_e2m1(0.75 - 1e-12), 1);
  EXPECT_EQ(to_e2m1(-5.0 - 1e-12), 8 + 7);
  EXPECT_EQ(to_e2m1(5.0), 6);
}

// ---- NVFP4 cache ----

struct KvGroup {
  uint8_t codes[8] = {};
  uint8_t scale = 0;
};

// The insert rule in double, by distance instead of thresholds; amax / 6 is a float32 division.
KvGroup expected_kv(const float* x, const std::vector<double>& e4m3) {
  float largest = 0;
  for (size_t i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(x[i]));
  KvGroup group;
  group.scale =
      nearest_code(std::clamp(static_cast<double>(largest / 6.0f), 1.0 / 512.0, 448.0), e4m3);
  const double s = e4m3[group.scale];
  for (size_t i = 0; i < 16; ++i) {
    const uint8_t magnitude =
        nearest_code(std::fabs(static_cast<double>(x[i])) / s, kE2m1Magnitudes);
    const int code = magnitude | (magnitude != 0 && x[i] < 0 ? 8 : 0);
    group.codes[i / 2] = static_cast<uint8_t>(group.codes[i / 2] | code << (i % 2 * 4));
  }
  return group;
}

TEST_P(Formats, Nvfp4CacheEncodingFollowsTheInsertRuleOverAllBinades) {
  std::mt19937 random(20260);
  std::normal_distribution<float> normal;
  std::vector<float> in;
  for (int group = 0; group < 60000; ++group) {
    const float size = std::ldexp(1.0f, group % 150 - 140);
    for (int i = 0; i < 16; ++i) in.push_back(normal(random) * size);
  }
  std::vector<KvGroup> out(in.size() / 16);
  tested([&] {
    for (size_t g = 0; g < out.size(); ++g)
      out[g].scale = nvfp4_kv_encode(&in[16 * g], out[g].codes);
  });
  const std::vector<double> e4m3 = e4m3_magnitudes();
  for (size_t g = 0; g < out.size(); ++g) {
    const KvGroup want = expected_kv(&in[16 * g], e4m3);
    ASSERT_EQ(out[g].scale, want.scale) << g;
    for (size_t i = 0; i < 8; ++i) {
      ASSERT_EQ(out[g].codes[i], want.codes[i]) << g;
      ASSERT_NE(out[g].codes[i] & 15, 8) << "-0";
      ASSERT_NE(out[g].codes[i] >> 4, 8) << "-0";
    }
  }
}

TEST_P(Formats, GoldenNvfp4CacheVectorsAreBitwise) {
  const StFile golden = codecs();
  const auto in = golden.get<float>("nvfp4_kv.in");
  const auto want_codes = golden.get<uint8_t>("nvfp4_kv.codes");
  const auto want_scales = golden.get<uint8_t>("nvfp4_kv.scales");
  const auto want_e4m3 = golden.get<uint8_t>("nvfp4_kv.e4m3");
  std::vector<uint8_t> codes(want_codes.size()), scales(want_scales.size());
  std::vector<uint8_t> e4m3(want_e4m3.size());
  tested([&] {
    for (size_t g = 0; g < scales.size(); ++g)
      scales[g] = nvfp4_kv_encode(&in[16 * g], &codes[8 * g]);
    for (size_t i = 0; i < e4m3.size(); ++i) {
      const uint8_t code = (want_codes[i / 2] >> (i % 2 * 4)) & 15u;
      e4m3[i] = float_to_e4m3(nvfp4_kv_value_gpu(code, want_scales[i / 16]));
    }
  });
  EXPECT_EQ(scales, want_scales);
  EXPECT_EQ(codes, want_codes);
  EXPECT_EQ(e4m3, want_e4m3);
}

TEST_P(Formats, GoldenNvfp4ProductTableIsBitwiseAndHasThePublishedHash) {
  std::vector<uint8_t> table(256 * 8);
  tested([&] {
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] =
          float_to_e4m3(nvfp4_kv_value(static_cast<uint8_t>(i % 8), static_cast<uint8_t>(i / 8)));
    }
  });
  EXPECT_EQ(table, codecs().get<uint8_t>("nvfp4_kv.product_table"));
  const std::string_view bytes(reinterpret_cast<const char*>(table.data()), table.size());
  EXPECT_EQ(sha256_hex(bytes.substr(0, 128 * 8)),
            "12fb27d984b90c0798e56d76d7e83170be8653d4a6af35aa27904c391200c758");
  EXPECT_EQ(sha256_hex(bytes), "0f6bedfe899cb3598f7fcdd4a23e832ace7ca6f5e873691cad744ddd65d47d24");
}

TEST_P(Formats, EveryNvfp4CacheValueIsTheExactProductAndFitsBf16) {
  const std::vector<double> e4m3 = e4m3_magnitudes();
  for (unsigned scale = 0; scale < 256; ++scale) {
    if ((scale & 127) == 127) continue;
    for (uint8_t code = 0; code < 16; ++code) {
      float value = 0, rounded = 0;
      tested([&] {
        value = nvfp4_kv_value(code, static_cast<uint8_t>(scale));
        rounded = round_to_bf16(value);
      });
      const double want = kE2m1Magnitudes[code & 7u] * e4m3[scale & 127] * (code < 8 ? 1 : -1);
      ASSERT_EQ(static_cast<double>(value), want);
      ASSERT_EQ(rounded, value);
    }
  }
}

TEST(GoldenPage, VScaleSwizzleMatchesTheVectors) {
  const StFile golden = codecs();
  EXPECT_EQ(swizzle_v_scales(golden.get<uint8_t>("nvfp4_kv.v_scale_in")),
            golden.get<uint8_t>("nvfp4_kv.v_scale_swizzled"));
}

// ---- golden tables and quantisers ----

TEST_P(Formats, GoldenValueTablesAreExact) {
  const StFile golden = codecs();
  const auto e2m1 = golden.get<float>("e2m1.values");
  const auto e4m3 = golden.get<float>("e4m3.values");
  const auto e8m0 = golden.get<float>("e8m0.values");
  tested([&] {
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(bits_of(e2m1_to_float(static_cast<uint8_t>(i))), bits_of(e2m1[i]));
    }
    for (size_t i = 0; i < 256; ++i) {
      if ((i & 127) == 127) continue;  // NaN
      EXPECT_EQ(bits_of(e4m3_to_float(static_cast<uint8_t>(i))), bits_of(e4m3[i]));
    }
    // Code 0 is 2^-127 in the table and zero here.
    for (size_t i = 1; i < 255; ++i) {
      EXPECT_EQ(bits_of(e8m0_to_float(static_cast<uint8_t>(i))), bits_of(e8m0[i]));
    }
  });
}

TEST_P(Formats, GoldenEncodeVectorsAreBitwise) {
  const StFile golden = codecs();
  EXPECT_EQ(converted<uint16_t>(golden.get<float>("bf16.encode_in"), float_to_bf16),
            golden.get<uint16_t>("bf16.encode_out"));
  EXPECT_EQ(converted<uint8_t>(golden.get<float>("e4m3.encode_in"), float_to_e4m3),
            golden.get<uint8_t>("e4m3.encode_out"));
  EXPECT_EQ(converted<uint8_t>(golden.get<float>("e2m1.encode_in"), float_to_e2m1),
            golden.get<uint8_t>("e2m1.encode_out"));
}

TEST_P(Formats, GoldenMxfp8VectorsAreBitwise) {
  const StFile golden = codecs();
  const auto in = golden.get<float>("mxfp8.in");
  std::vector<uint8_t> codes(in.size()), exponents(in.size() / 32);
  tested([&] {
    for (size_t g = 0; g < exponents.size(); ++g)
      exponents[g] = mxfp8_encode(&in[32 * g], &codes[32 * g]);
  });
  EXPECT_EQ(exponents, golden.get<uint8_t>("mxfp8.exponents"));
  EXPECT_EQ(codes, golden.get<uint8_t>("mxfp8.codes"));
}

TEST_P(Formats, GoldenTwoLevelNvfp4VectorsAreBitwise) {
  const StFile golden = codecs();
  const auto in = golden.get<float>("nvfp4_act.in");
  const auto global = golden.get<float>("nvfp4_act.global");
  std::vector<uint8_t> codes(in.size() / 2), scales(global.size());
  tested([&] {
    for (size_t g = 0; g < scales.size(); ++g) {
      scales[g] = nvfp4_encode(&in[16 * g], static_cast<double>(global[g]), &codes[8 * g]);
    }
  });
  EXPECT_EQ(scales, golden.get<uint8_t>("nvfp4_act.scales"));
  EXPECT_EQ(codes, golden.get<uint8_t>("nvfp4_act.codes"));
}

}  // namespace
}  // namespace minim::testing
