// Which rows of a step go through attention and index scoring together.
//
// A tile is a run of rows whose sequences have blocks in common, so that a block of the cache is
// unpacked once for all of them. Rows of one sequence have their whole past in common; sequences
// have what they share physically, as a prefix does that was found in the cache. Ordered by their
// block ids, sequences that share a stem lie side by side at every index of it; within a tile it
// is then enough to look at neighbours. Nothing is kept from one step to the next, so a block that
// was written again meanwhile cannot be taken for what it was. (Unpacking every shared block into
// a buffer of its own first, the usual form on GPUs, writes and reads 64 KiB a block again.)
//
// Who shares a tile never changes a row's result: a row sees its own blocks, in ascending order of
// their place in the sequence, and its own number of keys.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

namespace {

// The blocks that a sequence's rows of this step see.
std::span<const int32_t> used_blocks(const SequenceSpan& sequence) {
  const int last_position = sequence.first_position + sequence.n_rows - 1;
  return sequence.blocks.first(static_cast<size_t>(last_position) / kBlockTokens + 1);
}

// Any total order will do that keeps common beginnings together; bytes compare fastest.
bool blocks_before(const SequenceSpan& a, const SequenceSpan& b) {
  const std::span<const int32_t> x = used_blocks(a), y = used_blocks(b);
  const size_t n = std::min(x.size(), y.size());
  const int order = std::memcmp(x.data(), y.data(), n * sizeof(int32_t));
  if (order != 0) return order < 0;
  return x.size() != y.size() ? x.size() < y.size() : a.first_row < b.first_row;
}

bool share_blocks(const SequenceSpan& a, const SequenceSpan& b) {
  return a.blocks.front() == b.blocks.front();
}

}  // namespace

void RowTiles::reserve(size_t max_rows) {
  tiles.reserve(max_rows);
  rows.reserve(max_rows);
}

void RowTiles::clear() {
  tiles.clear();
  rows.clear();
}

void RowTiles::add(size_t row, bool starts_tile) {
  rows.push_back(static_cast<int32_t>(row));  // within the reserved memory: pointers stay valid
  if (starts_tile) tiles.push_back({.rows = &rows.back()});
  ++tiles.back().n_rows;
}

// Whether `what` was made already in this step. Outside of run_step nothing says that the batch is
// the one of before.
bool CpuDevice::planned(bool& what) const {
  const bool was = what;
  what = in_step_;
  return was;
}

// Places of the rows, and the sequences in the order in which tiles take them.
void CpuDevice::index_rows(const Batch& batch) {
  if (planned(planned_.rows)) return;
  CHECK(static_cast<size_t>(batch.n_rows()) <= max_rows_, "%d rows of %zu", batch.n_rows(),
        max_rows_);
  sequence_order_.clear();
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceSpan& sequence = batch.sequences[s];
    for (int i = 0; i < sequence.n_rows; ++i) {
      const size_t row = static_cast<size_t>(sequence.first_row + i);
      row_position_[row] = sequence.first_position + i;
      row_sequence_[row] = static_cast<int32_t>(s);
    }
    if (sequence.n_rows > 0) sequence_order_.push_back(static_cast<int32_t>(s));
  }
  std::sort(sequence_order_.begin(), sequence_order_.end(), [&](int32_t a, int32_t b) {
    return blocks_before(batch.sequences[static_cast<size_t>(a)],
                         batch.sequences[static_cast<size_t>(b)]);
  });
}

int32_t CpuDevice::block_id(const Batch& batch, size_t row, size_t block) const {
  return batch.sequences[static_cast<size_t>(row_sequence_[row])].blocks[block];
}

// Cuts all rows into tiles for attention: few enough rows a tile that every thread finds work, and
// whole lane tiles.
void CpuDevice::attend_tiles(const Batch& batch) {
  if (planned(planned_.attend)) return;
  const size_t threads = static_cast<size_t>(pool_.n_threads());
  const size_t n_items = static_cast<size_t>(batch.n_rows() * shape_.n_kv_heads);
  const size_t lane_rows = std::max<size_t>(1, kLanes / heads_per_group());
  const size_t fair = threads == 1 ? kAttendRows : (n_items + 2 * threads - 1) / (2 * threads);
  const size_t most_rows =
      std::clamp((fair + lane_rows - 1) / lane_rows * lane_rows, size_t{1}, kAttendRows);
  attend_tiles_.clear();
  const SequenceSpan* previous = nullptr;
  for (const int32_t s : sequence_order_) {
    const SequenceSpan& sequence = batch.sequences[static_cast<size_t>(s)];
    bool starts_tile = previous == nullptr || !share_blocks(*previous, sequence);
    for (int i = 0; i < sequence.n_rows; ++i) {
      if (!starts_tile) starts_tile = attend_tiles_.tiles.back().n_rows == most_rows;
      attend_tiles_.add(static_cast<size_t>(sequence.first_row + i), starts_tile);
      starts_tile = false;
    }
    previous = &sequence;
  }
}

// Cuts the rows that need scores into tiles; the others are settled here, for all layers.
void CpuDevice::score_tiles(const Batch& batch) {
  if (planned(planned_.score)) return;
  const size_t budget = static_cast<size_t>(shape_.top_k_blocks);
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  std::vector<RowTile>& tiles = score_tiles_.tiles;
  size_t tile_blocks = 0;
  most_blocks_ = 0;
  score_tiles_.clear();
  const SequenceSpan* previous = nullptr;
  for (const int32_t s : sequence_order_) {
    const SequenceSpan& sequence = batch.sequences[static_cast<size_t>(s)];
    bool starts_tile = previous == nullptr || !share_blocks(*previous, sequence);
    for (int i = 0; i < sequence.n_rows; ++i) {
      const size_t row = static_cast<size_t>(sequence.first_row + i);
      const size_t n_blocks = own_block(row_position_[row]) + 1;
      if (n_blocks <= budget) {
        keep_all(row, n_blocks);
        continue;
      }
      tile_blocks = starts_tile ? n_blocks : std::max(tile_blocks, n_blocks);
      if (!starts_tile) {
        const size_t n_rows = tiles.back().n_rows;
        starts_tile = n_rows == kScoreRows || (n_rows + 1) * n_groups * tile_blocks > n_scores_;
        if (starts_tile) tile_blocks = n_blocks;
      }
      score_tiles_.add(row, starts_tile);
      starts_tile = false;
      tiles.back().end_block = tile_blocks - n_local();
      most_blocks_ = std::max(most_blocks_, n_blocks);
      previous = &sequence;
    }
  }
}

}  // namespace minim::cpu
