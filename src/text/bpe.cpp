// Merging, twice: the same rule by two algorithms.
//
// Short pieces (nearly all: words) keep the symbols and the merge of each adjacent pair in two
// small arrays and search the minimum anew after each merge: quadratic, but in registers and L1.
// Long pieces use a doubly linked list of symbols and a heap of candidate merges, so that a
// megabyte of one letter costs n log n. A candidate is stale when its left symbol is dead or its
// pair has another merge by now. Boundaries between symbols only vanish, so a pair at one position
// that still gives the same token is the same pair: comparing the resulting id is enough.
//
// The merge table is an open-addressing hash of id pairs, 16 bytes an entry, at most half full.
// std::unordered_map did the same at several times the cache misses.
#include "text/bpe.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace minim {
namespace {

constexpr size_t kShortPiece = 40;
constexpr size_t kLongestPiece = size_t{1} << 28;  // what 32-bit positions and sane memory allow

// Order of a max-heap whose top is the lowest rank, then the leftmost position.
struct Later {
  bool operator()(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

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

void Bpe::push_candidate(int32_t position, Scratch& scratch) const {
  const Scratch::Symbol& left = scratch.symbols[static_cast<size_t>(position)];
  const Merge& merge = find(left.id, scratch.symbols[static_cast<size_t>(left.next)].id);
  if (merge.rank != kNoRank) scratch.heap.push_back({merge.rank, position, merge.merged});
}

void Bpe::encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const int32_t n = static_cast<int32_t>(piece.size());
  symbols.resize(piece.size());
  heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    const uint8_t byte = static_cast<uint8_t>(piece[static_cast<size_t>(i)]);
    symbols[static_cast<size_t>(i)] = {byte_ids_[byte], i - 1, i + 1 < n ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < n; ++i) push_candidate(i, scratch);
  std::make_heap(heap.begin(), heap.end(), Later{});

  const auto push = [&](int32_t position) {
    const size_t before = heap.size();
    push_candidate(position, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), Later{});
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), Later{});
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(candidate.position)];
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (find(left.id, right.id).merged != candidate.merged) continue;
    left.id = candidate.merged;
    right.id = -1;  // dead: its candidates are stale
    left.next = right.next;
    if (left.next >= 0) {
      symbols[static_cast<size_t>(left.next)].previous = candidate.position;
      push(candidate.position);
    }
    if (left.previous >= 0) push(left.previous);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    out.push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace minim
