// Block selection: which blocks of its past a row attends to, per group.
//
// Scoring reads every index key of the past, so it is arranged by tile of keys: the rows of a tile
// (row_tiles.cpp) pass over the blocks together, and a block's keys are unpacked once for all rows
// that have it and all groups. Forced blocks are never scored, and rows whose whole past fits the
// budget are not scored at all. Scores go to a table [row, group, block] of bounded size; steps
// that need more take several passes. Then each (row, group) keeps its best by one 64-bit key in
// which ties are impossible, so that any split of the work gives the same list. (Running lists
// inside the scoring items lost: decode cuts one row's past into many items, whose lists would have
// to be merged.)
#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

uint64_t rank_key(float score, uint32_t id) {
  uint32_t bits = std::bit_cast<uint32_t>(score);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0xff800000u;  // NaN: -inf
  if (bits == 0x80000000u) bits = 0;                           // -0: +0
  const uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return uint64_t{ordered} << 32 | static_cast<uint32_t>(~id);
}

namespace {

constexpr size_t kMinItemBlocks = 4, kMaxItemBlocks = 64;

}  // namespace

void CpuDevice::keep_all(size_t row, size_t n_visible_blocks) {
  const size_t budget = static_cast<size_t>(shape_.top_k_blocks);
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  for (size_t group = 0; group < n_groups; ++group) {
    int32_t* const out = selected_.data() + (row * n_groups + group) * budget;
    for (size_t i = 0; i < budget; ++i) {
      out[i] = i < n_visible_blocks ? static_cast<int32_t>(i) : kNoBlock;
    }
  }
}

// Scores of one block for rows [first, end) of a tile, which all have it in the same place.
void CpuDevice::score_block(int layer, const Batch& batch, const RowTile& tile, size_t first,
                            size_t end, size_t block, size_t score_stride, ThreadScratch& scratch) {
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const size_t n_queries = (end - first) * n_groups;
  for (size_t i = 0; i < n_queries; ++i) {
    const int position = row_position_[tile_row(tile, first + i / n_groups)];
    scratch.n_visible[i] =
        std::min(position - static_cast<int>(block) * kBlockTokens + 1, kBlockTokens);
  }
  const int32_t id = block_id(batch, tile_row(tile, first), block);
  kernels_.index_scores(static_cast<TileFormat>(layout_.formats.index), mode_,
                        layer_tiles(layer, id) + layout_.index_tile(),
                        scratch.index_queries + first * n_groups * kHeadDim, n_queries,
                        scratch.n_visible, scratch.maxima);
  scratch.bytes_read += kv_tile_bytes(layout_.formats.index);
  float* const out = scores_ + (tile.first_score + first) * n_groups * score_stride + block;
  for (size_t i = 0; i < n_queries; ++i) out[i * score_stride] = scratch.maxima[i];
}

void CpuDevice::score_item(int layer, const Batch& batch, Rows projected, const RowTile& tile,
                           size_t first_block, size_t end_block, size_t score_stride,
                           ThreadScratch& scratch) {
  const size_t width = static_cast<size_t>(shape_.n_kv_heads) * kHeadDim;
  const size_t column = static_cast<size_t>(shape_.n_heads + 2 * shape_.n_kv_heads) * kHeadDim;
  for (size_t i = 0; i < tile.n_rows; ++i) {
    std::copy_n(row(projected, tile_row(tile, i)) + column, width,
                scratch.index_queries + i * width);
  }
  for (size_t block = first_block; block < end_block; ++block) {
    const auto wanted = [&](size_t i) {
      const size_t row = tile_row(tile, i);
      const bool scored = own_block(row_position_[row]) >= block + n_local();
      return scored ? block_id(batch, row, block) : kNoBlock;
    };
    for (size_t first = 0, end = 0; first < tile.n_rows; first = end) {
      const int32_t id = wanted(first);
      for (end = first + 1; end < tile.n_rows && wanted(end) == id;) ++end;
      if (id == kNoBlock) continue;
      score_block(layer, batch, tile, first, end, block, score_stride, scratch);
    }
  }
}

void CpuDevice::choose(size_t row, const float* scores, size_t score_stride,
                       ThreadScratch& scratch) {
  const size_t budget = static_cast<size_t>(shape_.top_k_blocks);
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const size_t n_init = static_cast<size_t>(shape_.init_blocks);
  const size_t first_local = own_block(row_position_[row]) + 1 - n_local();
  const size_t n_free = budget - n_init - n_local();
  for (size_t group = 0; group < n_groups; ++group, scores += score_stride) {
    uint64_t* const best = scratch.best;  // descending
    std::fill_n(best, n_free, 0);
    for (size_t block = n_init; block < first_local && n_free > 0; ++block) {
      const uint64_t key = rank_key(scores[block], static_cast<uint32_t>(block));
      if (key <= best[n_free - 1]) continue;
      size_t at = n_free - 1;
      for (; at > 0 && best[at - 1] < key; --at) best[at] = best[at - 1];
      best[at] = key;
    }
    int32_t* out = selected_.data() + (row * n_groups + group) * budget;
    int32_t* const first_out = out;
    for (size_t i = 0; i < n_init; ++i) *out++ = static_cast<int32_t>(i);
    for (size_t i = 0; i < n_free; ++i) *out++ = static_cast<int32_t>(ranked_id(best[i]));
    for (size_t i = 0; i < n_local(); ++i) *out++ = static_cast<int32_t>(first_local + i);
    std::sort(first_out, out);
  }
}

void CpuDevice::run_pass(int layer, const Batch& batch, Rows projected, size_t first_tile,
                         size_t end_tile) {
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const size_t n_init = static_cast<size_t>(shape_.init_blocks);
  RowTile* const begin = score_tiles_.tiles.data() + first_tile;
  RowTile* const end = score_tiles_.tiles.data() + end_tile;
  size_t total = 0, score_stride = 0;
  for (const RowTile* tile = begin; tile < end; ++tile) {
    total += tile->end_block - n_init;
    score_stride = std::max(score_stride, tile->end_block);
  }
  const size_t wanted_items = 8 * static_cast<size_t>(pool_.n_threads());
  const size_t step = std::clamp(total / wanted_items, kMinItemBlocks, kMaxItemBlocks);
  size_t n_items = 0, n_rows = 0;
  for (RowTile* tile = begin; tile < end; ++tile) {  // the same in every layer
    tile->first_item = n_items;
    tile->first_score = n_rows;
    n_items += (tile->end_block - n_init + step - 1) / step;
    n_rows += tile->n_rows;
  }
  add_loop(n_items, [=, this, batch = &batch](size_t item, size_t thread) {
    const RowTile* tile =
        std::upper_bound(begin, end, item,
                         [](size_t i, const RowTile& t) { return i < t.first_item; }) -
        1;
    const size_t first_block = n_init + (item - tile->first_item) * step;
    score_item(layer, *batch, projected, *tile, first_block,
               std::min(first_block + step, tile->end_block), score_stride, scratch_[thread]);
  });
  add_loop(static_cast<size_t>(end - begin), [=, this](size_t i, size_t thread) {
    const RowTile& tile = begin[i];
    for (size_t r = 0; r < tile.n_rows; ++r) {
      choose(tile_row(tile, r), scores_ + (tile.first_score + r) * n_groups * score_stride,
             score_stride, scratch_[thread]);
    }
  });
}

void CpuDevice::select_blocks(int layer, const Batch& batch, Rows projected) {
  CHECK(layout_.has_index[static_cast<size_t>(layer)], "layer %d has no index keys", layer);
  index_rows(batch);
  score_tiles(batch);
  const std::vector<RowTile>& tiles = score_tiles_.tiles;
  const size_t row_scores = most_blocks_ * static_cast<size_t>(shape_.n_kv_heads);
  for (size_t first = 0; first < tiles.size();) {
    size_t end = first;
    for (size_t n_rows = tiles[end++].n_rows;
         end < tiles.size() && (n_rows + tiles[end].n_rows) * row_scores <= n_scores_; ++end) {
      n_rows += tiles[end].n_rows;
    }
    run_pass(layer, batch, projected, first, end);
    first = end;
  }
}

}  // namespace minim::cpu
