// Merging, twice: the same rule by two algorithms.
//
// Short pieces (nearly all: words) keep the symbols and the merge of each adjacent pair in two
// small arrays and search the minimum anew after each merge: quadratic, but in registers and L1.
// Long pieces use a doubly linked list of symbols and one queue of positions for each rank, with a
// heap of the ranks in use. Positions come to a queue in ascending order, as long as a token has
// only one way to be made; then taking the next is O(1). One that comes late goes to a heap of its
// own, so the bound is n log n for any merges. A queued position is stale when its symbol waits for
// another rank by now. (One heap of all candidates took five times as long on a megabyte of
// spaces, for which all candidates are in order from the start.)
//
// The merge table is an open-addressing hash of id pairs, 16 bytes an entry, at most half full.
// std::unordered_map did the same at several times the cache misses.
#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace minim {
namespace {

constexpr size_t kShortPiece = 40;
constexpr size_t kLongestPiece = size_t{1} << 26;  // what 32-bit positions and sane memory allow

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, size_t n_merges) : byte_ids_(byte_ids) {
  const size_t n_slots = std::bit_ceil(2 * n_merges + 2);
  merges_.assign(n_slots, Merge{});
  shift_ = 64 - std::countr_zero(n_slots);
}

size_t Bpe::slot_of(uint64_t pair) const {
  const size_t mask = merges_.size() - 1;
  size_t slot = static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_) & mask;
  while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

void Bpe::add_merge(TokenId left, TokenId right, TokenId merged) {
  CHECK(left >= 0 && right >= 0 && next_rank_ < merges_.size() / 2);
  const uint64_t pair = pair_of(left, right);
  merges_[slot_of(pair)] = {pair, next_rank_++, merged};
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  while (piece.size() > kLongestPiece) {
    encode_long(piece.substr(0, kLongestPiece), scratch, out);
    piece.remove_prefix(kLongestPiece);
  }
  if (piece.size() <= kShortPiece) {
    encode_short(piece, out);
  } else {
    encode_long(piece, scratch, out);
  }
}

void Bpe::encode_short(std::string_view piece, std::vector<TokenId>& out) const {
  struct Next {
    uint32_t rank;
    TokenId merged;
  };
  std::array<TokenId, kShortPiece> ids;
  std::array<Next, kShortPiece> next;  // next[i]: the merge of ids[i] and ids[i + 1]
  size_t n = piece.size();
  const auto look_up = [&](size_t i) {
    const Merge& merge = find(ids[i], ids[i + 1]);
    next[i] = {merge.rank, merge.merged};
  };
  for (size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == kNoRank) break;
    ids[best] = next[best].merged;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      next[i] = next[i + 1];
    }
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

void Bpe::queue_merge(int32_t position, Scratch& scratch) const {
  Scratch::Symbol& left = scratch.symbols[static_cast<size_t>(position)];
  left.rank = kNoRank;
  if (left.next < 0) return;
  const Merge& merge = find(left.id, scratch.symbols[static_cast<size_t>(left.next)].id);
  if (merge.rank == kNoRank) return;
  left.rank = merge.rank;
  left.merged = merge.merged;
  Scratch::Queue& queue = scratch.queues[merge.rank];
  const int32_t entry = static_cast<int32_t>(scratch.waiting.size());
  if (queue.first < 0) {
    queue.first = entry;
    scratch.ranks.push_back(merge.rank);
    std::push_heap(scratch.ranks.begin(), scratch.ranks.end(), std::greater<>{});
  } else if (scratch.waiting[static_cast<size_t>(queue.last)].position < position) {
    scratch.waiting[static_cast<size_t>(queue.last)].next = entry;
  } else {
    scratch.late.push_back(uint64_t{merge.rank} << 32 | static_cast<uint32_t>(position));
    std::push_heap(scratch.late.begin(), scratch.late.end(), std::greater<>{});
    return;
  }
  queue.last = entry;
  scratch.waiting.push_back({position, -1});
}

// The next queued merge as rank << 32 | position; false if there is none.
bool Bpe::take_merge(Scratch& scratch, uint64_t& taken) {
  constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t queued = kNone;
  if (!scratch.ranks.empty()) {
    const uint32_t rank = scratch.ranks.front();
    const int32_t first = scratch.queues[rank].first;
    const int32_t position = scratch.waiting[static_cast<size_t>(first)].position;
    queued = uint64_t{rank} << 32 | static_cast<uint32_t>(position);
  }
  const uint64_t late = scratch.late.empty() ? kNone : scratch.late.front();
  taken = std::min(queued, late);
  if (taken == kNone) return false;
  if (late <= queued) {
    std::pop_heap(scratch.late.begin(), scratch.late.end(), std::greater<>{});
    scratch.late.pop_back();
    return true;
  }
  Scratch::Queue& queue = scratch.queues[scratch.ranks.front()];
  queue.first = scratch.waiting[static_cast<size_t>(queue.first)].next;
  if (queue.first < 0) {
    queue.last = -1;
    std::pop_heap(scratch.ranks.begin(), scratch.ranks.end(), std::greater<>{});
    scratch.ranks.pop_back();
  }
  return true;
}

void Bpe::encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  const int32_t n = static_cast<int32_t>(piece.size());
  symbols.resize(piece.size());
  scratch.waiting.clear();
  if (scratch.queues.size() < next_rank_) scratch.queues.resize(next_rank_);
  for (int32_t i = 0; i < n; ++i) {
    const uint8_t byte = static_cast<uint8_t>(piece[static_cast<size_t>(i)]);
    symbols[static_cast<size_t>(i)] = {byte_ids_[byte], i - 1, i + 1 < n ? i + 1 : -1, kNoRank, -1};
  }
  for (int32_t i = 0; i + 1 < n; ++i) queue_merge(i, scratch);
  for (uint64_t taken = 0; take_merge(scratch, taken);) {
    const int32_t position = static_cast<int32_t>(taken & 0xFFFFFFFF);
    Scratch::Symbol& left = symbols[static_cast<size_t>(position)];
    if (left.rank != static_cast<uint32_t>(taken >> 32)) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = left.merged;
    right.rank = kNoRank;  // dead: what it waits for is stale
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    if (left.previous >= 0) queue_merge(left.previous, scratch);
    queue_merge(position, scratch);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    out.push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace minim
