// Packing row-major weights into panels.
#include "kernels/tier_fixture.h"

namespace minim {
namespace {

constexpr PanelFormat kFormats[] = {PanelFormat::kBf16, PanelFormat::kF32, PanelFormat::kFp8,
                                    PanelFormat::kMxfp8, PanelFormat::kNvfp4};

size_t unit_of(PanelFormat f) {
  return f == PanelFormat::kNvfp4 ? 16 : f == PanelFormat::kMxfp8 ? 32 : 1;
}

class PackTiers : public TierTest {};
MINIM_OTHER_TIERS(PackTiers);

TEST_P(PackTiers, EqualScalarForAllShapes) {
  for (const PanelFormat format : kFormats) {
    for (const size_t n_in :
         {1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 80, 96, 128, 144, 160, 256, 288, 3072}) {
      if (n_in % unit_of(format) != 0) continue;
      for (const size_t n_out : {1, 15, 16, 17, 33}) {
        const TestMatrix m = make_matrix(draw, format, n_out, n_in, true);
        const size_t size = panel_bytes(format, n_in);
        for (size_t p = 0; p < m.n_panels(); ++p) {
          Aligned a(size + 1, 0x5a), b(size + 1, 0x5a);
          tier().pack_panel(m.source(), p, a.data());
          scalar().pack_panel(m.source(), p, b.data());
          ASSERT_EQ(a.bytes(), b.bytes())
              << "format " << static_cast<int>(format) << " " << n_out << " x " << n_in;
        }
      }
    }
  }
}

// The layout once more, straight from the words of kernels/panel.h.
float panel_value(const TestMatrix& m, const uint8_t* data, size_t row, size_t k) {
  const uint8_t* panel = data + row / 16 * panel_bytes(m.format, m.n_in);
  const size_t lane = row % 16;
  switch (m.format) {
    case PanelFormat::kBf16: {
      const uint8_t* p = panel + k / 2 * 64 + lane * 4 + k % 2 * 2;
      return bf16_to_float(static_cast<uint16_t>(p[0] | p[1] << 8));
    }
    case PanelFormat::kF32: {
      float v;
      std::memcpy(&v, panel + k * 64 + lane * 4, 4);
      return v;
    }
    case PanelFormat::kFp8:
      return e4m3_to_float(panel[k / 2 * 32 + lane * 2 + k % 2]);
    case PanelFormat::kMxfp8: {
      const uint8_t* group = panel + k / 128 * 2112;
      return e4m3_to_float(group[k % 128 / 2 * 32 + lane * 2 + k % 2]) *
             e8m0_to_float(group[2048 + k % 128 / 32 * 16 + lane]);
    }
    case PanelFormat::kNvfp4: {
      const uint8_t* group = panel + k / 64 * 576;
      const uint8_t byte = group[k % 64 / 16 * 128 + k % 16 / 8 * 64 + lane * 4 + k % 4];
      const uint8_t code = k % 8 < 4 ? byte & 15 : byte >> 4;
      return e2m1_to_float(code) * e4m3_to_float(group[512 + k % 64 / 16 * 16 + lane]);
    }
  }
  return 0;
}

class PackMath : public TierTest {};
MINIM_ALL_TIERS(PackMath);

TEST_P(PackMath, EveryWeightLiesWhereTheLayoutSays) {
  for (const PanelFormat format : kFormats) {
    const size_t n_in = unit_of(format) == 1 ? 77 : 160;
    const TestMatrix m = make_matrix(draw, format, 37, n_in);
    const size_t size = panel_bytes(format, n_in);
    Aligned data(3 * size, 0xcc);
    for (size_t p = 0; p < 3; ++p) tier().pack_panel(m.source(), p, data.data() + p * size);
    for (size_t row = 0; row < 48; ++row) {
      for (size_t k = 0; k < n_in; ++k) {
        const double wanted = row < 37 ? m.value(row, k) / static_cast<double>(m.global) : 0.0;
        ASSERT_EQ(panel_value(m, data.data(), row, k), static_cast<float>(wanted))
            << row << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace minim
