// Attention of the reference device: norm + RoPE into the cache, block selection, block-local
// attention.
//
// Loops run block by block and inside a block over all rows that want it, so a cached tile is
// decoded once a step; each row still meets its blocks in ascending order, which is the order of
// the merge. Nothing depends on which rows share a step.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/ref/ref_device.h"

namespace minim::ref {
namespace {

size_t visible_tokens(int position, int block) {
  return static_cast<size_t>(std::min(kBlockTokens, position - block * kBlockTokens + 1));
}

int n_blocks_of(const SequenceSpan& span) {
  return (span.first_position + span.n_rows + kBlockTokens - 1) / kBlockTokens;
}

size_t tokens_in_block(const SequenceSpan& span, int block) {
  return visible_tokens(span.first_position + span.n_rows - 1, block);
}

Matrix tile_matrix() {
  Result<Matrix> matrix = make_matrix(kBlockTokens, kHeadDim);
  CHECK(static_cast<bool>(matrix), "no memory for one tile");
  return *std::move(matrix);
}

}  // namespace

Probabilities RefDevice::probabilities() const {
  if (e4m3_arithmetic(layout_.formats.main)) return Probabilities::kE4m3;
  return options_.rounded ? Probabilities::kBf16 : Probabilities::kExact;
}

void RefDevice::norm_rope(NormId norm, const RopeTable& table, double* head) const {
  ref::rms_norm(head, get(norms_, norm), shape_.norm_eps, head);
  rotate(table, head);
}

void RefDevice::round_query(KvFormat lane, double* head) const {
  for (int i = 0; i < kHeadDim; ++i) {
    head[i] = e4m3_arithmetic(lane) ? round_e4m3(head[i]) : rounded(head[i]);
  }
}

void RefDevice::store_row(int layer, const AttentionNorms& norms, int block, int position,
                          double* row) {
  const RopeTable table =
      rope_table(position, static_cast<size_t>(shape_.rotary_dim / 2), shape_.rope_theta);
  const size_t token = static_cast<size_t>(position % kBlockTokens);
  double* head = row;
  for (int i = 0; i < shape_.n_heads; ++i, head += kHeadDim) {
    norm_rope(norms.q, table, head);
    round_query(layout_.formats.main, head);
  }
  for (int i = 0; i < shape_.n_kv_heads; ++i, head += kHeadDim) {
    norm_rope(norms.k, table, head);
    cache_->store({.layer = layer, .block = block, .lane = Lane::kKey, .head = i}, token, head);
  }
  for (int i = 0; i < shape_.n_kv_heads; ++i, head += kHeadDim) {
    cache_->store({.layer = layer, .block = block, .lane = Lane::kValue, .head = i}, token, head);
  }
  if (!layout_.has_index[static_cast<size_t>(layer)]) return;
  for (int i = 0; i < shape_.n_kv_heads; ++i, head += kHeadDim) {
    norm_rope(norms.index_q, table, head);
    round_query(layout_.formats.index, head);
  }
  norm_rope(norms.index_k, table, head);
  cache_->store({.layer = layer, .block = block, .lane = Lane::kIndexKey}, token, head);
}

void RefDevice::norm_rope_and_store(int layer, const AttentionNorms& norms, const Batch& batch,
                                    Rows projected) {
  for (const SequenceSpan& span : batch.sequences) {
    for (int r = 0; r < span.n_rows; ++r) {
      const int position = span.first_position + r;
      const int block = span.blocks[static_cast<size_t>(position / kBlockTokens)];
      store_row(layer, norms, block, position, row(projected, span.first_row + r));
    }
  }
}

void RefDevice::select_blocks(int layer, const Batch& batch, Rows projected) {
  const size_t groups = static_cast<size_t>(shape_.n_kv_heads);
  const int index_q = (shape_.n_heads + 2 * shape_.n_kv_heads) * kHeadDim;
  selected_.assign(static_cast<size_t>(batch.n_rows()) * groups, {});
  Matrix keys = tile_matrix();
  std::vector<double> token_scores(groups * kBlockTokens);
  for (const SequenceSpan& span : batch.sequences) {
    std::vector<std::vector<double>> scores(static_cast<size_t>(span.n_rows) * groups);
    for (int b = 0; b < n_blocks_of(span); ++b) {
      cache_->load(
          {.layer = layer, .block = span.blocks[static_cast<size_t>(b)], .lane = Lane::kIndexKey},
          tokens_in_block(span, b), &keys);
      for (int r = 0; r < span.n_rows; ++r) {
        const int position = span.first_position + r;
        if (position / kBlockTokens < b) continue;
        multiply(keys, row(projected, span.first_row + r) + index_q, kHeadDim, groups, kHeadDim,
                 token_scores.data(), kBlockTokens);
        for (size_t g = 0; g < groups; ++g) {
          scores[static_cast<size_t>(r) * groups + g].push_back(
              block_score({token_scores.data() + g * kBlockTokens, visible_tokens(position, b)}));
        }
      }
    }
    for (size_t i = 0; i < scores.size(); ++i) {
      selected_[static_cast<size_t>(span.first_row) * groups + i] =
          choose_blocks(scores[i], shape_.top_k_blocks, shape_.init_blocks, shape_.local_blocks);
    }
  }
}

bool RefDevice::attends_to(bool sparse, const SequenceSpan& span, int r, int group,
                           int block) const {
  if (!sparse) return (span.first_position + r) / kBlockTokens >= block;
  const auto& kept =
      selected_[static_cast<size_t>((span.first_row + r) * shape_.n_kv_heads + group)];
  return std::binary_search(kept.begin(), kept.end(), block);
}

void RefDevice::attend_group(int layer, const SequenceSpan& span, int group, bool sparse,
                             Rows projected, Rows out) {
  const int heads = shape_.n_heads / shape_.n_kv_heads;
  std::vector<AttentionState> states(static_cast<size_t>(span.n_rows * heads), empty_attention());
  Matrix keys = tile_matrix(), values = tile_matrix();
  for (int b = 0; b < n_blocks_of(span); ++b) {
    bool loaded = false;
    for (int r = 0; r < span.n_rows; ++r) {
      if (!attends_to(sparse, span, r, group, b)) continue;
      if (!loaded) {
        TileName tile{.layer = layer,
                      .block = span.blocks[static_cast<size_t>(b)],
                      .lane = Lane::kKey,
                      .head = group};
        cache_->load(tile, tokens_in_block(span, b), &keys);
        tile.lane = Lane::kValue;
        cache_->load(tile, tokens_in_block(span, b), &values);
        loaded = true;
      }
      attend_block(row(projected, span.first_row + r) + group * heads * kHeadDim,
                   static_cast<size_t>(heads), keys, values,
                   visible_tokens(span.first_position + r, b), probabilities(),
                   &states[static_cast<size_t>(r * heads)]);
    }
  }
  for (int r = 0; r < span.n_rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      double* head = row(out, span.first_row + r) + (group * heads + h) * kHeadDim;
      finish_attention(states[static_cast<size_t>(r * heads + h)], head);
      round_all(head, kHeadDim);
    }
  }
}

void RefDevice::attend(int layer, const Batch& batch, bool sparse, Rows projected, Rows out) {
  for (const SequenceSpan& span : batch.sequences) {
    for (int group = 0; group < shape_.n_kv_heads; ++group) {
      attend_group(layer, span, group, sparse, projected, out);
    }
  }
}

std::vector<int32_t> RefDevice::selected_blocks(int row, int group) const {
  return selected_[static_cast<size_t>(row * shape_.n_kv_heads + group)];
}

}  // namespace minim::ref
