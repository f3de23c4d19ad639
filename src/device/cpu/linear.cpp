// Matrix products.
//
// A product is cut by output only: an item is a group of up to 16 neighbouring panels with all
// rows, so that every thread reads long runs of weights, each weight byte comes from memory once a
// step, and no sum is ever split. Inside an item rows go in tiles whose activations stay in the
// second-level cache while the group's panels pass. What follows a product (rounding, the residual)
// is done by the same item while the columns are still in cache; a phase of its own would cost
// another fork and join and another pass.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

// Few panels: enough items for the pool to balance; many: long runs. Multiples of 4, since kernels
// interleave panels.
size_t CpuDevice::panels_per_item(size_t n_panels) const {
  const size_t threads = static_cast<size_t>(pool_.n_threads());
  if (threads == 1) return kGroupPanels;
  const size_t fair = (n_panels / (4 * threads) + 3) / 4 * 4;
  return std::clamp<size_t>(fair, 4, kGroupPanels);
}

RowSource CpuDevice::tile_rows(const RowSource& x, size_t first, size_t n_rows, size_t width,
                               ThreadScratch& scratch) const {
  if (x.ids == nullptr) return {x.data + first * x.stride, x.stride, nullptr};
  const int32_t* ids = x.ids + first;
  const size_t first_row = static_cast<size_t>(ids[0]);
  if (static_cast<size_t>(ids[n_rows - 1]) - first_row == n_rows - 1) {  // ascending and distinct
    return {x.data + first_row * x.stride, x.stride, nullptr};
  }
  const size_t stride = padded(width);
  for (size_t i = 0; i < n_rows; ++i) {
    std::memcpy(scratch.gathered + i * stride, x.data + static_cast<size_t>(ids[i]) * x.stride,
                width * sizeof(float));
  }
  return {scratch.gathered, stride, nullptr};
}

void CpuDevice::multiply(const PackedMatrix& w, size_t first_panel, size_t n_panels,
                         const RowSource& x, size_t n_rows, float* y, size_t y_stride) const {
  Panels group = w.panels;
  group.data += first_panel * panel_bytes(group.format, group.n_in);
  group.n_panels = n_panels;
  kernels_.linear(group, x.data, x.stride, n_rows, y, y_stride);
}

void CpuDevice::linear_item(const PackedLinear::Part& part, size_t first_panel, size_t n_panels,
                            const RowSource& x, size_t n_rows, Sink sink, float* out,
                            size_t out_stride, ThreadScratch& scratch) const {
  const size_t columns =
      std::min(n_panels * kPanelRows, part.matrix.n_out - first_panel * kPanelRows);
  // The padding rows of a last panel must not land in a neighbour's columns.
  const bool in_place = sink != Sink::kAdded && columns == n_panels * kPanelRows;
  float* const target = out + part.column + first_panel * kPanelRows;
  for (size_t first = 0; first < n_rows; first += kTileRows) {
    const size_t n = std::min(kTileRows, n_rows - first);
    float* const y = in_place ? target + first * out_stride : scratch.product;
    const size_t y_stride = in_place ? out_stride : n_panels * kPanelRows;
    multiply(part.matrix, first_panel, n_panels,
             tile_rows(x, first, n, part.matrix.panels.n_in, scratch), n, y, y_stride);
    for (size_t i = 0; i < n; ++i) {
      float* const product = y + i * y_stride;
      float* const result = target + (first + i) * out_stride;
      if (sink != Sink::kRaw) kernels_.round_bf16(product, columns);
      if (sink == Sink::kAdded) {
        kernels_.add_bf16(result, product, columns);
      } else if (!in_place) {
        std::memcpy(result, product, columns * sizeof(float));
      }
    }
  }
}

void CpuDevice::run_linear(const PackedLinear& w, const RowSource& x, size_t n_rows, Sink sink,
                           float* out, size_t out_stride) {
  if (n_rows == 0) return;
  size_t n_panels = 0, n_items = 0;
  for (const PackedLinear::Part& part : w.parts) n_panels += part.matrix.panels.n_panels;
  const size_t step = panels_per_item(n_panels);
  const auto items_of = [step](const PackedLinear::Part& part) {
    return (part.matrix.panels.n_panels + step - 1) / step;
  };
  for (const PackedLinear::Part& part : w.parts) {
    n_items += items_of(part);
    weight_bytes_read_ += part.matrix.bytes();
  }
  add_loop(n_items, [=, this, parts = w.parts.data()](size_t item, size_t thread) {
    const PackedLinear::Part* part = parts;
    while (item >= items_of(*part)) item -= items_of(*part++);
    const size_t first_panel = item * step;
    linear_item(*part, first_panel, std::min(step, part->matrix.panels.n_panels - first_panel), x,
                n_rows, sink, out, out_stride, scratch_[thread]);
  });
}

void CpuDevice::linear(LinearId w, Rows x, int n_rows, Rows out) {
  const PackedLinear& weights = linears_[static_cast<size_t>(w)];
  CHECK(weights.n_in == static_cast<size_t>(x.width), "%d columns for %zu", x.width, weights.n_in);
  CHECK(weights.n_out <= static_cast<size_t>(out.width), "%zu rows into %d columns", weights.n_out,
        out.width);
  run_linear(weights, source(x), static_cast<size_t>(n_rows), Sink::kRounded, row(out, 0),
             padded(static_cast<size_t>(out.width)));
}

void CpuDevice::linear_add(LinearId w, Rows y, int n_rows, Rows x) {
  const PackedLinear& weights = linears_[static_cast<size_t>(w)];
  CHECK(weights.n_in == static_cast<size_t>(y.width), "%d columns for %zu", y.width, weights.n_in);
  CHECK(weights.n_out == static_cast<size_t>(x.width), "%zu rows into %d columns", weights.n_out,
        x.width);
  run_linear(weights, source(y), static_cast<size_t>(n_rows), Sink::kAdded, row(x, 0),
             padded(static_cast<size_t>(x.width)));
}

void CpuDevice::logits(LinearId w, Rows h, std::span<const int32_t> rows, float* out) {
  const PackedLinear& weights = linears_[static_cast<size_t>(w)];
  CHECK(weights.n_in == static_cast<size_t>(h.width) && h.width == shape_.hidden,
        "%d columns for %zu", h.width, weights.n_in);
  RowSource x = source(h);
  x.ids = rows.data();
  run_linear(weights, x, rows.size(), Sink::kRaw, out, weights.n_out);
}

}  // namespace minim::cpu
