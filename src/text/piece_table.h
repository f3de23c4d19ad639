// Which pieces of text are a token as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace minim {

// A hash of short texts; not one that withstands chosen keys.
uint64_t hash_of_piece(std::string_view piece);

class PieceTable {
 public:
  PieceTable() = default;
  // Room for `n` pieces.
  explicit PieceTable(size_t n);

  // `piece` is not in the table yet. Total bytes below 4 GiB.
  void add(std::string_view piece, TokenId id);

  // The id, or -1. `hash` is hash_of_piece(piece).
  TokenId find(std::string_view piece, uint64_t hash) const;

 private:
  struct Slot {
    uint32_t tag = 0;  // other bits of the hash than those that choose the slot
    uint32_t length = 0;
    uint32_t begin = 0;
    TokenId id = -1;
  };
  size_t first_slot(uint64_t hash) const { return hash & (slots_.size() - 1); }

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // a power of two, never full
  std::vector<char> arena_;
  size_t used_ = 0;
};

}  // namespace minim
