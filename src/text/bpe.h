// Byte-pair merging of one piece of text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace minim {

class Bpe {
 public:
  // Buffers that calls reuse; one per thread, any Bpe.
  struct Scratch {
    struct Symbol {
      TokenId id;
      int32_t previous, next;  // neighbours that are still alive, -1 at the ends
      uint32_t rank;           // of the merge with the next symbol; kNoRank: none, or dead
      TokenId merged;
    };
    // Positions that wait for one merge, ascending: a list through `waiting`.
    struct Queue {
      int32_t first = -1, last = -1;
    };
    struct Waiting {
      int32_t position, next;
    };
    std::vector<Symbol> symbols;
    std::vector<Queue> queues;  // by rank; all empty between calls
    std::vector<Waiting> waiting;
    std::vector<uint32_t> ranks;  // heap of the ranks whose queue is not empty
    std::vector<uint64_t> late;   // heap of rank << 32 | position that came out of order
  };

  Bpe() = default;
  // byte_ids: the token of each single byte. n_merges: how many add_merge calls will follow.
  Bpe(const std::array<TokenId, 256>& byte_ids, size_t n_merges);

  // The next merge in order of rank. A pair that comes twice keeps its last rank, as in the
  // reference.
  void add_merge(TokenId left, TokenId right, TokenId merged);

  // Appends the ids of `piece`: starting from single bytes, the adjacent pair of lowest rank is
  // merged, the leftmost of equals first, until no pair has a merge. O(n log n). Nothing is merged
  // across the multiples of 64 MiB of a piece that is longer than that.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;
    TokenId merged = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  size_t slot_of(uint64_t pair) const;
  // The pair's merge; rank kNoRank if there is none.
  const Merge& find(TokenId left, TokenId right) const {
    return merges_[slot_of(pair_of(left, right))];
  }
  static uint64_t pair_of(TokenId left, TokenId right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  // Looks up the merge of the symbol at `position` with the next, and queues it.
  void queue_merge(int32_t position, Scratch& scratch) const;
  static bool take_merge(Scratch& scratch, uint64_t& taken);

  std::array<TokenId, 256> byte_ids_{};
  std::vector<Merge> merges_ =
      std::vector<Merge>(1);  // open addressing, a power of two, never full
  uint32_t next_rank_ = 0;
  int shift_ = 63;
};

}  // namespace minim
