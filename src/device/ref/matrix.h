// Matrices of the reference device, and the one product it knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "device/ref/buffer.h"
#include "device/weights.h"

namespace minim::ref {

// Rows that lie side by side, so that 16 dot products run down one stream of memory.
inline constexpr size_t kTileRows = 16;

// A matrix [n_out, n_in] of doubles: tile by tile of 16 rows, inside a tile channel by channel.
// Rows behind n_out are zeros.
struct Matrix {
  size_t n_out = 0, n_in = 0;
  Doubles data;

  size_t n_tiles() const { return (n_out + kTileRows - 1) / kTileRows; }
  size_t size() const { return n_tiles() * kTileRows * n_in; }
  double* tile(size_t i) const { return data.get() + i * kTileRows * n_in; }
  double& at(size_t row, size_t column) const {
    return tile(row / kTileRows)[column * kTileRows + row % kTileRows];
  }
};

// A zeroed matrix; kExhausted when the memory cannot be had.
Result<Matrix> make_matrix(size_t n_out, size_t n_in);

// The rows of all parts, one below the other, dequantised exactly.
Result<Matrix> dequantise(std::span<const MatrixView> parts);

// y[t * y_stride + r] = sum over k < n_used, ascending, of w[r][k] x[t * x_stride + k], for all
// r < n_out, t < n_rows. n_used <= n_in: channels behind it are not read.
void multiply(const Matrix& w, const double* x, size_t x_stride, size_t n_rows, size_t n_used,
              double* y, size_t y_stride);

}  // namespace minim::ref
