// Linear layers: every tier against scalar by bits, scalar against double precision.

#include "kernels/tier_fixture.h"

namespace minim {
namespace {

constexpr PanelFormat kWeights[] = {PanelFormat::kBf16, PanelFormat::kF32, PanelFormat::kNvfp4,
                                    PanelFormat::kMxfp8};

size_t unit_of(PanelFormat format) {
  return format == PanelFormat::kNvfp4 ? 16 : format == PanelFormat::kMxfp8 ? 32 : 1;
}

Panels panels_of(const TestMatrix& m, const uint8_t* data) {
  return {.format = m.format,
          .n_in = m.n_in,
          .n_panels = m.n_panels(),
          .data = data,
          .global = m.global};
}

std::vector<float> run(const Kernels& tier, const Panels& w, const std::vector<float>& x,
                       size_t x_stride, size_t n_tokens, size_t y_stride) {
  std::vector<float> y(n_tokens * y_stride, 77.0f);
  tier.linear(w, x.data(), x_stride, n_tokens, y.data(), y_stride);
  return y;
}

class LinearTiers : public TierTest {};
MINIM_OTHER_TIERS(LinearTiers);

TEST_P(LinearTiers, EqualScalarForAllSizesAndTokenCounts) {
  for (const PanelFormat format : kWeights) {
    std::vector<size_t> sizes(std::begin(kOddSizes), std::end(kOddSizes));
    for (const size_t n : {48, 80, 96, 128, 144, 256, 288}) sizes.push_back(n);
    for (const size_t n_in : sizes) {
      if (n_in % unit_of(format) != 0) continue;
      TestMatrix m = make_matrix(draw, format, 40, n_in);
      Aligned data = m.packed();
      for (const size_t n_tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 36, 39}) {
        const std::vector<float> x = ordinary(draw, n_tokens * n_in);
        const Panels w = panels_of(m, data.data());
        EXPECT_TRUE(same_bits(run(tier(), w, x, n_in, n_tokens, 48),
                              run(scalar(), w, x, n_in, n_tokens, 48)))
            << "format " << static_cast<int>(format) << " n_in " << n_in << " tokens " << n_tokens;
      }
    }
  }
}

TEST_P(LinearTiers, EqualScalarAtRealWidths) {
  for (const PanelFormat format : kWeights) {
    for (const size_t n_in : {3072, 6144}) {
      TestMatrix m = make_matrix(draw, format, 32, n_in);
      Aligned data = m.packed();
      for (const size_t n_tokens : {1, 4, 17}) {
        const std::vector<float> x = ordinary(draw, n_tokens * n_in);
        const Panels w = panels_of(m, data.data());
        EXPECT_TRUE(same_bits(run(tier(), w, x, n_in, n_tokens, 32),
                              run(scalar(), w, x, n_in, n_tokens, 32)));
      }
    }
  }
}

TEST_P(LinearTiers, EqualScalarForExtremeValuesAndStrides) {
  for (int round = 0; round < 200; ++round) {
    const PanelFormat format = kWeights[round % 4];
    const size_t n_in = unit_of(format) * draw.between(1, 9);
    TestMatrix m = make_matrix(draw, format, 16 * draw.between(1, 3), n_in, true);
    Aligned data = m.packed();
    const Panels w = panels_of(m, data.data());
    const size_t n_tokens = draw.between(1, 9), x_stride = n_in + draw.between(0, 7);
    const size_t y_stride = m.n_out + draw.between(0, 7);
    const std::vector<float> x = draw.values(n_tokens * x_stride, round % 3 == 0);
    EXPECT_TRUE(same_bits(run(tier(), w, x, x_stride, n_tokens, y_stride),
                          run(scalar(), w, x, x_stride, n_tokens, y_stride)))
        << "round " << round;
  }
}

TEST_P(LinearTiers, EqualScalarForCodesThatLoadersRefuse) {
  for (const PanelFormat format : {PanelFormat::kNvfp4, PanelFormat::kMxfp8}) {
    for (int round = 0; round < 20; ++round) {
      Aligned data(draw.bytes(2 * panel_bytes(format, 160)));
      const Panels w = {
          .format = format, .n_in = 160, .n_panels = 2, .data = data.data(), .global = 0.5f};
      const std::vector<float> x = ordinary(draw, 5 * 160);
      EXPECT_TRUE(same_bits(run(tier(), w, x, 160, 5, 32), run(scalar(), w, x, 160, 5, 32)));
    }
  }
}

class LinearMath : public TierTest {};
MINIM_ALL_TIERS(LinearMath);

TEST_P(LinearMath, AgreesWithDoublePrecision) {
  for (const PanelFormat format : kWeights) {
    for (const size_t n_in : {32, 96, 160, 1536}) {
      TestMatrix m = make_matrix(draw, format, 32, n_in);
      Aligned data = m.packed();
      const std::vector<float> x = ordinary(draw, 2 * n_in);
      const std::vector<float> y = run(tier(), panels_of(m, data.data()), x, n_in, 2, 32);
      for (size_t t = 0; t < 2; ++t) {
        for (size_t row = 0; row < 32; ++row) {
          double sum = 0, magnitude = 0;
          for (size_t k = 0; k < n_in; ++k) {
            const double product = m.value(row, k) * static_cast<double>(x[t * n_in + k]);
            sum += product;
            magnitude += std::fabs(product);
          }
          EXPECT_NEAR(y[t * 32 + row], sum, magnitude * 1e-6 + 1e-30)
              << "format " << static_cast<int>(format) << " n_in " << n_in << " row " << row;
        }
      }
    }
  }
}

TEST_P(LinearMath, NeverReadsPaddingIntoAResult) {
  for (const PanelFormat format : {PanelFormat::kNvfp4, PanelFormat::kMxfp8, PanelFormat::kBf16}) {
    const size_t n_in = format == PanelFormat::kBf16 ? 33 : 160;
    TestMatrix m = make_matrix(draw, format, 16, n_in);
    Aligned clean = m.packed();
    TestMatrix full = m;  // the same matrix, wider: what it has beyond n_in becomes the poison
    full.n_in = format == PanelFormat::kBf16 ? 34 : format == PanelFormat::kNvfp4 ? 192 : 256;
    const auto widen = [&](std::vector<uint8_t>& bytes, size_t row, size_t wide_row) {
      std::vector<uint8_t> out(16 * wide_row, 0x7f);
      for (size_t r = 0; r < 16 && !bytes.empty(); ++r)
        std::memcpy(&out[r * wide_row], &bytes[r * row], row);
      bytes = out;
    };
    if (format == PanelFormat::kBf16) widen(full.values, 66, 68);
    if (format == PanelFormat::kMxfp8) widen(full.values, 160, 256), widen(full.scales, 5, 8);
    if (format == PanelFormat::kNvfp4) widen(full.values, 80, 96), widen(full.scales, 10, 12);
    Aligned wide = full.packed();
    const size_t size = panel_bytes(format, n_in);
    ASSERT_EQ(size, panel_bytes(format, full.n_in));
    ASSERT_NE(std::memcmp(wide.data(), clean.data(), size), 0);
    for (const size_t n_tokens : {1, 5}) {
      std::vector<float> x = ordinary(draw, n_tokens * (n_in + 3));
      EXPECT_TRUE(same_bits(run(tier(), panels_of(m, clean.data()), x, n_in + 3, n_tokens, 16),
                            run(tier(), panels_of(m, wide.data()), x, n_in + 3, n_tokens, 16)));
    }
  }
}

TEST_P(LinearMath, ARowOfABatchEqualsTheRowAlone) {
  for (const PanelFormat format : kWeights) {
    TestMatrix m = make_matrix(draw, format, 48, 288);
    Aligned data = m.packed();
    const Panels w = panels_of(m, data.data());
    const std::vector<float> x = ordinary(draw, 23 * 288);
    const std::vector<float> batch = run(tier(), w, x, 288, 23, 48);
    for (size_t t = 0; t < 23; ++t) {
      const std::vector<float> row(x.begin() + static_cast<long>(t * 288),
                                   x.begin() + static_cast<long>((t + 1) * 288));
      EXPECT_TRUE(same_bits(std::span(batch).subspan(t * 48, 48), run(tier(), w, row, 288, 1, 48)))
          << "token " << t;
    }
    // And a panel of a run equals the panel alone.
    Panels last = w;
    last.data += 2 * panel_bytes(format, 288);
    last.n_panels = 1;
    const std::vector<float> alone = run(tier(), last, x, 288, 1, 16);
    EXPECT_TRUE(same_bits(std::span(batch).subspan(32, 16), alone));
  }
}

TEST_P(LinearMath, KeepsTinyScalesAndSubnormalCodes) {
  // The smallest E4M3 weight (2^-9) with the smallest normal E8M0 scale, and E2M1 0.5 with scale
  // 2^-9: DAZ must not eat them.
  TestMatrix mx{.format = PanelFormat::kMxfp8,
                .n_out = 16,
                .n_in = 32,
                .values = std::vector<uint8_t>(512, 0x01),
                .scales = std::vector<uint8_t>(16, 20),
                .global = 1.0f};
  Aligned mx_data = mx.packed();
  const std::vector<float> ones(32, 1.0f);
  EXPECT_EQ(run(tier(), panels_of(mx, mx_data.data()), ones, 32, 1, 16)[3],
            std::ldexp(32.0f, -9 + 20 - 127));
  TestMatrix nv{.format = PanelFormat::kNvfp4,
                .n_out = 16,
                .n_in = 32,
                .values = std::vector<uint8_t>(256, 0x11),
                .scales = std::vector<uint8_t>(32, 0x01),
                .global = 0x1p-60f};
  Aligned nv_data = nv.packed();
  EXPECT_EQ(run(tier(), panels_of(nv, nv_data.data()), ones, 32, 1, 16)[15],
            std::ldexp(16.0f, -9 - 60));
  // E8M0 byte 0 is zero.
  mx.scales.assign(16, 0);
  Aligned zero = mx.packed();
  EXPECT_EQ(run(tier(), panels_of(mx, zero.data()), std::vector<float>(32, 1e30f), 32, 1, 16)[0],
            0.0f);
}

}  // namespace
}  // namespace minim
