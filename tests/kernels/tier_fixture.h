// Shared by the kernel tests: the tiers as test parameters, seeded inputs, aligned memory,
// comparison of bits.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/formats.h"
#include "base/fp_env.h"
#include "kernels/differential.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace minim {

#ifdef MINIM_HAS_EMULATED_AVX512
extern const Kernels kEmulatedAvx512Kernels;
#endif

// The table of that name, or null when this host cannot run it.
inline const Kernels* find_tier(std::string_view name) {
#ifdef MINIM_HAS_EMULATED_AVX512
  if (name == "avx512_emulated") return &kEmulatedAvx512Kernels;
#endif
  for (const Kernels* tier : available_kernels()) {
    if (name == tier->name) return tier;
  }
  return nullptr;
}

// A test that runs once a tier, with FTZ and DAZ set.
class TierTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tier_ = find_tier(GetParam());
    if (tier_ == nullptr) GTEST_SKIP() << "this host cannot run the " << GetParam() << " kernels";
  }
  const Kernels& tier() const { return *tier_; }
  const Kernels& scalar() const { return kScalarKernels; }

  Draw draw{20261129};

 private:
  const Kernels* tier_ = nullptr;
  FlushDenormals flush_;
};

inline std::string tier_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

#ifdef MINIM_HAS_EMULATED_AVX512
#define MINIM_TIERS "avx2", "avx512", "avx512_emulated"
#else
#define MINIM_TIERS "avx2", "avx512"
#endif
// Comparisons with scalar run on the other tiers, checks against mathematics on all.
#define MINIM_OTHER_TIERS(suite) \
  INSTANTIATE_TEST_SUITE_P(Tiers, suite, testing::Values(MINIM_TIERS), tier_name)
#define MINIM_ALL_TIERS(suite) \
  INSTANTIATE_TEST_SUITE_P(Tiers, suite, testing::Values("scalar", MINIM_TIERS), tier_name)

inline constexpr size_t kOddSizes[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64};

// Bytes at a multiple of 64.
class Aligned {
 public:
  explicit Aligned(size_t size, uint8_t fill = 0) : storage_(size + 64, fill), size_(size) {}
  explicit Aligned(const std::vector<uint8_t>& bytes) : Aligned(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  uint8_t* data() {
    return storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
  }
  std::vector<uint8_t> bytes() { return {data(), data() + size_}; }

 private:
  std::vector<uint8_t> storage_;
  size_t size_;
};

// Names the first difference; NaN equals NaN.
inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    return testing::AssertionFailure() << a.size() << " and " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i) {
    if (same_floats(a.subspan(i, 1), b.subspan(i, 1))) continue;
    return testing::AssertionFailure()
           << "at " << i << ": " << a[i] << " (0x" << std::hex << std::bit_cast<uint32_t>(a[i])
           << ") and " << b[i] << " (0x" << std::bit_cast<uint32_t>(b[i]) << ")";
  }
  return testing::AssertionSuccess();
}

// Ordinary bf16 values around 1, for checks against double precision.
inline std::vector<float> ordinary(Draw& draw, size_t n) {
  std::vector<float> out(n);
  for (float& v : out) {
    v = round_to_bf16((static_cast<float>(draw.bits() >> 8) * 0x1p-24f - 0.5f) * 4.0f);
  }
  return out;
}

// ---- weights
// -------------------------------------------------------------------------------------------------

// A row-major matrix as checkpoints store it, its panels and its values as doubles.
struct TestMatrix {
  PanelFormat format;
  size_t n_out = 0, n_in = 0;
  std::vector<uint8_t> values, scales;
  float global = 1.0f;

  PackSource source() const {
    return {.format = format,
            .n_out = n_out,
            .n_in = n_in,
            .values = values.data(),
            .scales = scales.data()};
  }
  size_t n_panels() const { return (n_out + kPanelRows - 1) / kPanelRows; }
  Aligned packed() const {
    Aligned out(n_panels() * panel_bytes(format, n_in), 0xa5);
    for (size_t p = 0; p < n_panels(); ++p) {
      kScalarKernels.pack_panel(source(), p, out.data() + p * panel_bytes(format, n_in));
    }
    return out;
  }
  double value(size_t row, size_t k) const {
    const size_t i = row * n_in + k;
    float v = 0;
    switch (format) {
      case PanelFormat::kF32:
        std::memcpy(&v, &values[4 * i], 4);
        return v;
      case PanelFormat::kBf16:
        return bf16_to_float(static_cast<uint16_t>(values[2 * i] | values[2 * i + 1] << 8));
      case PanelFormat::kFp8:
        return e4m3_to_float(values[i]);
      case PanelFormat::kMxfp8:
        return static_cast<double>(e4m3_to_float(values[i])) *
               e8m0_to_float(scales[row * (n_in / 32) + k / 32]);
      case PanelFormat::kNvfp4: {
        const auto code = static_cast<uint8_t>(values[i / 2] >> (i % 2 * 4));
        return static_cast<double>(e2m1_to_float(code)) *
               e4m3_to_float(scales[row * (n_in / 16) + k / 16]) * static_cast<double>(global);
      }
    }
    return 0;
  }
};

// Finite weights of every code, scales of ordinary size unless `extreme`.
inline TestMatrix make_matrix(Draw& draw, PanelFormat format, size_t n_out, size_t n_in,
                              bool extreme = false) {
  TestMatrix m{
      .format = format, .n_out = n_out, .n_in = n_in, .values = {}, .scales = {}, .global = 1.0f};
  const size_t n = n_out * n_in;
  switch (format) {
    case PanelFormat::kF32:
    case PanelFormat::kBf16:
      for (size_t i = 0; i < n; ++i) {
        const float v = extreme ? draw.value(false) : ordinary(draw, 1)[0];
        const auto* b = reinterpret_cast<const uint8_t*>(&v);
        m.values.insert(m.values.end(), b + (format == PanelFormat::kF32 ? 0 : 2), b + 4);
      }
      break;
    case PanelFormat::kFp8:
    case PanelFormat::kMxfp8:
      m.values = draw.bytes(n);
      for (uint8_t& code : m.values) code = (code & 0x7f) == 0x7f ? uint8_t{0x81} : code;
      for (size_t i = 0; i < n / 32; ++i) {
        m.scales.push_back(
            static_cast<uint8_t>(extreme ? draw.between(0, 254) : draw.between(110, 121)));
      }
      break;
    case PanelFormat::kNvfp4:
      m.values = draw.bytes(n / 2);
      for (size_t i = 0; i < n / 16; ++i) {
        m.scales.push_back(
            static_cast<uint8_t>(extreme ? draw.between(0, 0x7e) : draw.between(0x28, 0x7e)));
      }
      m.global = extreme ? 0x1.8p-100f : 0.0123f;
      break;
  }
  return m;
}

}  // namespace minim
