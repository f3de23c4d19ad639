// Attention of query heads to the blocks that their rows selected.
//
// An item is a tile of rows that have blocks in common (row_tiles.cpp) and one group. It walks the
// blocks that any of its rows wants, in ascending order of their place in the sequence; a block's
// keys and values become floats once for all rows that have it, and each row's partial result is
// merged into its running state at once. So a row does arithmetic for its own blocks only, partials
// never go to memory, and the merge order is the ascending one of the contract whatever the rows
// beside it select. (Working by block with all rows that want it, the usual form on GPUs, needs a
// buffer of sixteen partials a row and a second pass.)
//
// A lane is one head of one row. Heads of a group fill a tile of 16 lanes: several rows where the
// group is small, several tiles a row where it is large. Keys behind a row's own position, whatever
// bytes they hold, are outside n_visible and take no part.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

namespace {

constexpr size_t kLaneTileFloats = kHeadDim * kLanes;
constexpr int32_t kDone = std::numeric_limits<int32_t>::max();

}  // namespace

size_t CpuDevice::lane_tiles(size_t n_rows) const {
  if (heads_per_group() > kLanes) return n_rows * segments_per_row();
  const size_t rows_per_tile = kLanes / heads_per_group();
  return (n_rows + rows_per_tile - 1) / rows_per_tile;
}

LaneSegment CpuDevice::lane_segment(size_t segment) const {
  const size_t heads = heads_per_group();
  if (heads <= kLanes) {
    const size_t rows_per_tile = kLanes / heads;
    return {.row = segment,
            .lane_tile = segment / rows_per_tile,
            .first_lane = segment % rows_per_tile * heads,
            .n_lanes = heads,
            .first_head = 0};
  }
  const size_t part = segment % segments_per_row();
  return {.row = segment / segments_per_row(),
          .lane_tile = segment,
          .first_lane = 0,
          .n_lanes = std::min(kLanes, heads - part * kLanes),
          .first_head = part * kLanes};
}

// A segment's running state: [n_lanes] maxima, [n_lanes] denominators, [128, n_lanes] values.
float* CpuDevice::state(const ThreadScratch& scratch, size_t segment) const {
  return scratch.states + segment * (kHeadDim + 2) * std::min(kLanes, heads_per_group());
}

void CpuDevice::start_lanes(const RowTile& tile, size_t group, Rows projected,
                            ThreadScratch& scratch) const {
  std::fill_n(scratch.lane_queries, lane_tiles(tile.n_rows) * kLaneTileFloats, 0.0f);
  for (size_t s = 0; s < tile.n_rows * segments_per_row(); ++s) {
    const LaneSegment segment = lane_segment(s);
    const size_t head = group * heads_per_group() + segment.first_head;
    const float* const q = row(projected, tile_row(tile, segment.row)) + head * kHeadDim;
    float* const lanes =
        scratch.lane_queries + segment.lane_tile * kLaneTileFloats + segment.first_lane;
    for (size_t lane = 0; lane < segment.n_lanes; ++lane) {
      for (size_t d = 0; d < kHeadDim; ++d) lanes[d * kLanes + lane] = q[lane * kHeadDim + d];
    }
    std::fill_n(state(scratch, s), segment.n_lanes, -std::numeric_limits<float>::infinity());
  }
}

// One block for the rows with visible[row] > 0: scratch.keys and scratch.values hold it.
void CpuDevice::attend_rows(const RowTile& tile, const int32_t* visible,
                            ThreadScratch& scratch) const {
  const size_t n_segments = tile.n_rows * segments_per_row();
  for (size_t first = 0; first < n_segments;) {
    const size_t lane_tile = lane_segment(first).lane_tile;
    int32_t lane_visible[kLanes] = {};
    int32_t n_keys = 0;
    size_t end = first;
    for (; end < n_segments && lane_segment(end).lane_tile == lane_tile; ++end) {
      const LaneSegment segment = lane_segment(end);
      std::fill_n(lane_visible + segment.first_lane, segment.n_lanes, visible[segment.row]);
      n_keys = std::max(n_keys, visible[segment.row]);
    }
    if (n_keys > 0) {
      kernels_.attend_block(scratch.lane_queries + lane_tile * kLaneTileFloats, scratch.keys,
                            scratch.values, static_cast<size_t>(n_keys), lane_visible, mode_,
                            scratch.partial);
      for (size_t s = first; s < end; ++s) {
        const LaneSegment segment = lane_segment(s);
        if (visible[segment.row] == 0) continue;
        float* const running = state(scratch, s);
        kernels_.merge_partial(*scratch.partial, segment.first_lane, segment.n_lanes, running,
                               running + segment.n_lanes, running + 2 * segment.n_lanes);
      }
    }
    first = end;
  }
}

void CpuDevice::finish_lanes(const RowTile& tile, size_t group, Rows out,
                             ThreadScratch& scratch) const {
  for (size_t s = 0; s < tile.n_rows * segments_per_row(); ++s) {
    const LaneSegment segment = lane_segment(s);
    const size_t head = group * heads_per_group() + segment.first_head;
    const float* const denominators = state(scratch, s) + segment.n_lanes;
    const float* const values = denominators + segment.n_lanes;
    float* const result = row(out, tile_row(tile, segment.row)) + head * kHeadDim;
    for (size_t lane = 0; lane < segment.n_lanes; ++lane) {
      for (size_t d = 0; d < kHeadDim; ++d) {
        result[lane * kHeadDim + d] = values[d * segment.n_lanes + lane] / denominators[lane];
      }
    }
    kernels_.round_bf16(result, segment.n_lanes * kHeadDim);
  }
}

// The first keys and values of one head of a block as floats.
void CpuDevice::load_block(int layer, int32_t id, size_t group, size_t n_keys,
                           ThreadScratch& scratch) const {
  const TileFormat format = static_cast<TileFormat>(layout_.formats.main);
  const uint8_t* const tiles = layer_tiles(layer, id);
  const int head = static_cast<int>(group);
  kernels_.load_vectors(format, mode_, tiles + layout_.k_tile(head), n_keys, scratch.keys);
  kernels_.load_vectors(format, mode_, tiles + layout_.v_tile(head), n_keys, scratch.values);
  scratch.bytes_read += 2 * n_keys * kv_vector_bytes(layout_.formats.main);
}

void CpuDevice::attend_item(int layer, const Batch& batch, const RowTile& tile, size_t group,
                            bool sparse, Rows projected, Rows out, ThreadScratch& scratch) {
  const size_t budget = static_cast<size_t>(shape_.top_k_blocks);
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const auto position = [&](size_t r) { return row_position_[tile_row(tile, r)]; };
  size_t cursor[kAttendRows] = {};  // into a row's list: dense rows list every block
  const auto wanted = [&](size_t r) {
    const int32_t block = static_cast<int32_t>(cursor[r]);
    if (!sparse) return block <= position(r) / kBlockTokens ? block : kDone;
    if (cursor[r] == budget) return kDone;
    const size_t list = tile_row(tile, r) * n_groups + group;
    const int32_t chosen = selected_[list * budget + cursor[r]];
    return chosen == kNoBlock ? kDone : chosen;
  };
  start_lanes(tile, group, projected, scratch);
  for (;;) {
    int32_t block = kDone;
    for (size_t r = 0; r < tile.n_rows; ++r) block = std::min(block, wanted(r));
    if (block == kDone) break;
    // The rows that have this block in the same place; others come in a later turn.
    int32_t id = kNoBlock, n_keys = 0;
    int32_t visible[kAttendRows] = {};
    for (size_t r = 0; r < tile.n_rows; ++r) {
      if (wanted(r) != block) continue;
      const int32_t row_id = block_id(batch, tile_row(tile, r), static_cast<size_t>(block));
      if (id == kNoBlock) id = row_id;
      if (row_id != id) continue;
      visible[r] = std::min(position(r) - block * kBlockTokens + 1, kBlockTokens);
      n_keys = std::max(n_keys, visible[r]);
      ++cursor[r];
    }
    load_block(layer, id, group, static_cast<size_t>(n_keys), scratch);
    attend_rows(tile, visible, scratch);
  }
  finish_lanes(tile, group, out, scratch);
}

void CpuDevice::attend(int layer, const Batch& batch, bool sparse, Rows projected, Rows out) {
  CHECK(out.width == shape_.n_heads * kHeadDim, "attention into %d columns", out.width);
  index_rows(batch);
  attend_tiles(batch);
  if (attend_tiles_.tiles.empty()) return;
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const RowTile* const last = &attend_tiles_.tiles.back();
  add_loop(
      attend_tiles_.tiles.size() * n_groups, [=, this, batch = &batch](size_t item, size_t thread) {
        const RowTile& tile = *(last - item / n_groups);  // the longest pasts first
        attend_item(layer, *batch, tile, item % n_groups, sparse, projected, out, scratch_[thread]);
      });
}

}  // namespace minim::cpu
