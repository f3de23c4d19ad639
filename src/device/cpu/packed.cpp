// Repacking: read each stored byte once, write each panel once, in parallel over panels, so that
// loading is bound by the disk and not by one core. The copy is the only one that stays; the views
// can go afterwards.
#include "device/cpu/packed.h"

#include "base/check.h"
#include "base/formats.h"

namespace minim::cpu {

namespace {

PanelFormat panel_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return PanelFormat::kBf16;
    case WeightFormat::kF32:
      return PanelFormat::kF32;
    case WeightFormat::kMxfp8:
      return PanelFormat::kMxfp8;
    case WeightFormat::kNvfp4:
      return PanelFormat::kNvfp4;
  }
  CHECK(false, "weight format %d", static_cast<int>(format));
}

std::vector<float> widen(const MatrixView& view, const Kernels& kernels) {
  std::vector<float> wide(view.n_out * view.n_in);
  kernels.widen_bf16(reinterpret_cast<const uint16_t*>(view.values), wide.size(), wide.data());
  return wide;
}

}  // namespace

Result<PackedMatrix> pack(const MatrixView& view, bool as_f32, const Kernels& kernels,
                          ThreadPool& pool, Arena& arena, size_t& total_bytes) {
  CHECK(view.values != nullptr && view.n_out > 0 && view.n_in > 0, "an empty matrix");
  PackSource source{.format = panel_format(view.format),
                    .n_out = view.n_out,
                    .n_in = view.n_in,
                    .values = view.values,
                    .scales = view.scales};
  std::vector<float> wide;
  if (as_f32 && view.format == WeightFormat::kBf16) {
    wide = widen(view, kernels);
    source.format = PanelFormat::kF32;
    source.values = reinterpret_cast<const uint8_t*>(wide.data());
  }
  const size_t n_panels = (view.n_out + kPanelRows - 1) / kPanelRows;
  const size_t stride = panel_bytes(source.format, view.n_in);
  const Result<uint8_t*> memory = arena.take(n_panels * stride);
  if (!memory) return memory.error();
  uint8_t* const data = *memory;
  pool.parallel_for(
      n_panels, [&](size_t panel) { kernels.pack_panel(source, panel, data + panel * stride); });
  total_bytes += n_panels * stride;
  return PackedMatrix{.panels = {.format = source.format,
                                 .n_in = view.n_in,
                                 .n_panels = n_panels,
                                 .data = data,
                                 .global = view.global},
                      .n_out = view.n_out};
}

}  // namespace minim::cpu
