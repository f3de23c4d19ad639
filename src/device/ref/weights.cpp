// Weights of the reference device: every stored format becomes doubles at load, exactly.
//
// A bf16, E4M3 x 2^e or E2M1 x E4M3 x fp32 product has at most 24 + 4 + 2 significant bits, so a
// double holds it without rounding and no rule of a quantised dot product can hide in the order of
// its scales. The price is eight bytes a weight: this device is for checking, not for serving.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/formats.h"
#include "device/ref/matrix.h"

namespace minim::ref {
namespace {

double element(const MatrixView& view, size_t row, size_t column) {
  const size_t i = row * view.n_in + column;
  switch (view.format) {
    case WeightFormat::kBf16: {
      const uint32_t low = view.values[2 * i], high = view.values[2 * i + 1];
      return bf16_to_float(static_cast<uint16_t>(low | high << 8));
    }
    case WeightFormat::kF32: {
      float value;
      std::memcpy(&value, view.values + 4 * i, sizeof value);
      return value;
    }
    case WeightFormat::kMxfp8:
      return static_cast<double>(e4m3_to_float(view.values[i])) *
             e8m0_to_float(view.scales[i / kMxfp8Group]);
    case WeightFormat::kNvfp4: {
      const uint8_t code = (view.values[i / 2] >> (i % 2 * 4)) & 15u;
      return static_cast<double>(e2m1_to_float(code)) *
             e4m3_to_float(view.scales[i / kNvfp4Group]) * view.global;
    }
  }
  return 0;
}

}  // namespace

Result<Matrix> make_matrix(size_t n_out, size_t n_in) {
  Matrix matrix{.n_out = n_out, .n_in = n_in, .data = nullptr};
  matrix.data = zeroed_doubles(matrix.size());
  if (!matrix.data) return out_of_memory(matrix.size(), "a matrix");
  return matrix;
}

Result<Matrix> dequantise(std::span<const MatrixView> parts) {
  CHECK(!parts.empty());
  size_t n_out = 0;
  for (const MatrixView& part : parts) {
    CHECK(part.n_in == parts[0].n_in, "parts of one matrix differ in width");
    n_out += part.n_out;
  }
  Result<Matrix> matrix = make_matrix(n_out, parts[0].n_in);
  if (!matrix) return matrix;
  size_t first = 0;
  for (const MatrixView& part : parts) {
    for (size_t row = 0; row < part.n_out; ++row) {
      for (size_t k = 0; k < part.n_in; ++k) matrix->at(first + row, k) = element(part, row, k);
    }
    first += part.n_out;
  }
  return matrix;
}

// A tile of weights stays in the first-level cache while all rows of x pass over it. Two sums share
// a register: baseline x86-64 has it, and without the explicit pairs the compiler vectorises along
// k, which would need another order of the sum to be fast.
void multiply(const Matrix& w, const double* x, size_t x_stride, size_t n_rows, size_t n_used,
              double* y, size_t y_stride) {
  using Pair [[gnu::vector_size(16), gnu::may_alias]] = double;
  constexpr size_t kPairs = kTileRows / 2;
  for (size_t i = 0; i < w.n_tiles(); ++i) {
    const Pair* tile = reinterpret_cast<const Pair*>(w.tile(i));
    const size_t first = i * kTileRows;
    const size_t n = std::min(kTileRows, w.n_out - first);
    for (size_t t = 0; t < n_rows; ++t) {
      Pair sum[kPairs] = {};
      for (size_t k = 0; k < n_used; ++k) {
        const double value = x[t * x_stride + k];
        for (size_t r = 0; r < kPairs; ++r) sum[r] += tile[k * kPairs + r] * value;
      }
      std::memcpy(y + t * y_stride + first, sum, n * sizeof(double));
    }
  }
}

}  // namespace minim::ref
