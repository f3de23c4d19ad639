// What lies between the projection and attention: head norms, rotary positions and the cache.
//
// One pass a row: every head is read once, normalised and rotated in fp32, and rounded once, to
// where it goes (q and index q back into the row, k and index k into the cache's format). A token's
// bytes in the cache depend on that token alone and touch no other token's, so rows may be written
// by any thread, in any chunking.
//
// Angles are position * theta^(-2i / rotary) in double; only cos and sin are rounded. A row keeps
// its angles until its position changes, so that the layers of one step share them.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

namespace {
TileFormat tile_format(KvFormat format) { return static_cast<TileFormat>(format); }
static_assert(static_cast<int>(TileFormat::kBf16) == static_cast<int>(KvFormat::kBf16) &&
              static_cast<int>(TileFormat::kFp8E4m3) == static_cast<int>(KvFormat::kFp8E4m3) &&
              static_cast<int>(TileFormat::kNvfp4) == static_cast<int>(KvFormat::kNvfp4));
}  // namespace

void CpuDevice::rms_norm(NormId norm, Rows x, int n_rows, Rows out) {
  CHECK(x.width == out.width, "%d columns into %d", x.width, out.width);
  const size_t width = static_cast<size_t>(x.width);
  const float* weight = norm_weight(norm);
  add_loop(static_cast<size_t>(n_rows), [=, this](size_t i) {
    kernels_.rms_norm(row(x, i), weight, width, shape_.norm_eps, row(out, i));
  });
}

const float* CpuDevice::rope_row(size_t row) {
  const size_t half = inverse_frequencies_.size();
  float* const angles = rope_ + row * 2 * half;
  if (rope_position_[row] == row_position_[row]) return angles;
  rope_position_[row] = row_position_[row];
  for (size_t i = 0; i < half; ++i) {
    const double angle = row_position_[row] * inverse_frequencies_[i];
    angles[i] = static_cast<float>(std::cos(angle));
    angles[half + i] = static_cast<float>(std::sin(angle));
  }
  return angles;
}

void CpuDevice::norm_rope_row(int layer, const AttentionNorms& norms, const Batch& batch,
                              size_t row, float* projected) {
  const size_t half = inverse_frequencies_.size();
  const float* const cos = rope_row(row);
  const auto rotate = [&](const float* x, NormId norm, float* out) {
    kernels_.norm_rope(x, norm_weight(norm), shape_.norm_eps, cos, cos + half, half, out);
  };
  const auto round = [&](KvFormat format, float* x, size_t n) {
    const bool e4m3 = mode_ == AttentionMode::kGpu && format != KvFormat::kBf16;
    (e4m3 ? kernels_.round_e4m3 : kernels_.round_bf16)(x, n);
  };
  const size_t n_heads = static_cast<size_t>(shape_.n_heads);
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const size_t position = static_cast<size_t>(row_position_[row]);
  const size_t token = position % kBlockTokens;
  const SequenceSpan& sequence = batch.sequences[static_cast<size_t>(row_sequence_[row])];
  uint8_t* const tiles = layer_tiles(layer, sequence.blocks[position / kBlockTokens]);
  const TileFormat format = tile_format(layout_.formats.main);
  alignas(64) float head[kHeadDim];

  float* x = projected;
  for (size_t i = 0; i < n_heads; ++i) rotate(x + i * kHeadDim, norms.q, x + i * kHeadDim);
  round(layout_.formats.main, x, n_heads * kHeadDim);
  x += n_heads * kHeadDim;
  for (size_t i = 0; i < n_groups; ++i, x += kHeadDim) {
    rotate(x, norms.k, head);
    kernels_.store_vector(format, head, token, tiles + layout_.k_tile(static_cast<int>(i)));
  }
  for (size_t i = 0; i < n_groups; ++i, x += kHeadDim) {
    kernels_.store_vector(format, x, token, tiles + layout_.v_tile(static_cast<int>(i)));
  }
  if (!layout_.has_index[static_cast<size_t>(layer)]) return;
  for (size_t i = 0; i < n_groups; ++i) {
    rotate(x + i * kHeadDim, norms.index_q, x + i * kHeadDim);
  }
  round(layout_.formats.index, x, n_groups * kHeadDim);
  x += n_groups * kHeadDim;
  rotate(x, norms.index_k, head);
  kernels_.store_index(tile_format(layout_.formats.index), head, token,
                       tiles + layout_.index_tile());
}

void CpuDevice::norm_rope_and_store(int layer, const AttentionNorms& norms, const Batch& batch,
                                    Rows projected) {
  const bool has_index = layout_.has_index[static_cast<size_t>(layer)];
  const int n_vectors =
      shape_.n_heads + 2 * shape_.n_kv_heads + (has_index ? shape_.n_kv_heads + 1 : 0);
  CHECK(projected.width >= n_vectors * kHeadDim, "%d columns for %d heads", projected.width,
        n_vectors);
  index_rows(batch);
  add_loop(static_cast<size_t>(batch.n_rows()), [=, this, batch = &batch](size_t i) {
    norm_rope_row(layer, norms, *batch, i, row(projected, i));
  });
}

}  // namespace minim::cpu
