// The reference device: weights, rows and the plain steps.
//
// What this device is for: it says what every step *means*. Doubles, one thread, no fusion; a row
// is [width] doubles. With `rounded` it rounds to bf16 at exactly the points of the `exact`
// contract (each one is a call of rounded() or round_all() beside the step's formula), so that a
// device of the contract differs from it by the order of its fp32 sums alone. A reference made of
// the scalar kernels was not wanted: it would share their mistakes.
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/formats.h"
#include "device/ref/ref_device.h"

namespace minim {

std::unique_ptr<Device> make_ref_device(const ModelShape& shape, const RefOptions& options) {
  return std::make_unique<ref::RefDevice>(shape, options);
}

namespace ref {

Result<LinearId> RefDevice::load_linear(std::span<const MatrixView> parts) {
  Result<Matrix> matrix = dequantise(parts);
  if (!matrix) return matrix.error();
  weights_bytes_ += matrix->size() * sizeof(double);
  return keep<LinearId>(&linears_, *std::move(matrix));
}

Result<MlpId> RefDevice::load_mlp(const MatrixView& gate, const MatrixView& up,
                                  const MatrixView& down) {
  Result<Matrix> parts[3] = {dequantise({&gate, 1}), dequantise({&up, 1}), dequantise({&down, 1})};
  for (const Result<Matrix>& part : parts) {
    if (!part) return part.error();
    weights_bytes_ += part->size() * sizeof(double);
  }
  return keep<MlpId>(
      &mlps_,
      Mlp{.gate = *std::move(parts[0]), .up = *std::move(parts[1]), .down = *std::move(parts[2])});
}

Result<NormId> RefDevice::load_norm(std::span<const float> weight) {
  weights_bytes_ += weight.size() * sizeof(double);
  return keep<NormId>(&norms_, std::vector<double>(weight.begin(), weight.end()));
}

Result<RouterId> RefDevice::load_router(const MatrixView& gate, std::span<const float> bias) {
  Result<Matrix> matrix = dequantise({&gate, 1});
  if (!matrix) return matrix.error();
  weights_bytes_ += matrix->size() * sizeof(double) + bias.size_bytes();
  return keep<RouterId>(&routers_,
                        Router{.gate = *std::move(matrix), .bias = {bias.begin(), bias.end()}});
}

Result<EmbeddingId> RefDevice::load_embedding(const MatrixView& table) {
  CHECK(table.format == WeightFormat::kBf16);
  return keep<EmbeddingId>(&embeddings_, table);
}

Result<Ok> RefDevice::reserve(int max_rows) {
  max_rows_ = max_rows;
  return Ok{};
}

Rows RefDevice::make_rows(int width) {
  rows_.push_back(zeroed_doubles(static_cast<size_t>(max_rows_) * static_cast<size_t>(width)));
  return Rows{.data = rows_.back().get(), .width = width};
}

Result<Ok> RefDevice::make_cache(const KvLayout& layout, int n_blocks) {
  Result<Cache> cache = Cache::make(layout, n_blocks, /*keep_exact=*/!options_.rounded,
                                    options_.attention == AttentionMode::kGpu);
  if (!cache) return cache.error();
  layout_ = layout;
  cache_.emplace(*std::move(cache));
  return Ok{};
}

std::span<uint8_t> RefDevice::block_bytes(int layer, int block) {
  return cache_->block_bytes(layer, block);
}

void RefDevice::round_all(double* x, size_t n) const {
  for (size_t i = 0; i < n; ++i) x[i] = rounded(x[i]);
}

void RefDevice::embed(EmbeddingId table, std::span<const int32_t> tokens, Rows x) {
  const MatrixView& view = get(embeddings_, table);
  for (size_t t = 0; t < tokens.size(); ++t) {
    const uint8_t* bytes = view.values + static_cast<size_t>(tokens[t]) * view.n_in * 2;
    double* out = row(x, static_cast<int>(t));
    for (size_t i = 0; i < view.n_in; ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes + 2 * i, 2);
      out[i] = bf16_to_float(bits);
    }
  }
}

void RefDevice::rms_norm(NormId norm, Rows x, int n_rows, Rows out) {
  const std::vector<double>& weight = get(norms_, norm);
  for (int r = 0; r < n_rows; ++r) {
    ref::rms_norm(row(x, r), weight, shape_.norm_eps, row(out, r));
    round_all(row(out, r), weight.size());
  }
}

void RefDevice::linear(LinearId w, Rows x, int n_rows, Rows out) {
  const Matrix& matrix = get(linears_, w);
  multiply(matrix, row(x, 0), static_cast<size_t>(x.width), static_cast<size_t>(n_rows),
           matrix.n_in, row(out, 0), static_cast<size_t>(out.width));
  for (int r = 0; r < n_rows; ++r) round_all(row(out, r), matrix.n_out);
}

void RefDevice::linear_add(LinearId w, Rows y, int n_rows, Rows x) {
  const Matrix& matrix = get(linears_, w);
  std::vector<double> sums(static_cast<size_t>(n_rows) * matrix.n_out);
  multiply(matrix, row(y, 0), static_cast<size_t>(y.width), static_cast<size_t>(n_rows),
           matrix.n_in, sums.data(), matrix.n_out);
  for (int r = 0; r < n_rows; ++r) {
    double* out = row(x, r);
    const double* sum = sums.data() + static_cast<size_t>(r) * matrix.n_out;
    for (size_t i = 0; i < matrix.n_out; ++i) out[i] = rounded(out[i] + rounded(sum[i]));
  }
}

void RefDevice::logits(LinearId w, Rows h, std::span<const int32_t> rows, float* out) {
  const Matrix& matrix = get(linears_, w);
  std::vector<double> sums(matrix.n_out);
  for (size_t i = 0; i < rows.size(); ++i) {
    multiply(matrix, row(h, rows[i]), 0, 1, matrix.n_in, sums.data(), 0);
    for (size_t v = 0; v < matrix.n_out; ++v) {
      out[i * matrix.n_out + v] = static_cast<float>(sums[v]);
    }
  }
}

void RefDevice::read_row(Rows x, int index, std::span<float> out) const {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(row(x, index)[i]);
}

}  // namespace ref
}  // namespace minim
