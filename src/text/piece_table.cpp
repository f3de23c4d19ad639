// Open addressing with linear probing, at most half full, over one arena of keys. Only the file
// fills it, so text cannot lengthen its runs. std::unordered_map did the same with three misses of
// the cache where this has two, and an allocation for each look-up's key.
#include "text/piece_table.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace minim {
namespace {

template <typename T>
uint64_t load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

}  // namespace

uint64_t hash_of_piece(std::string_view piece) {
  const char* data = piece.data();
  size_t n = piece.size();
  uint64_t hash = n;
  for (; n > 16; n -= 8, data += 8) hash = mix(hash, load<uint64_t>(data));
  // The rest as two loads that may overlap.
  if (n >= 8) return mix(mix(hash, load<uint64_t>(data)), load<uint64_t>(data + n - 8));
  if (n >= 4) return mix(hash, load<uint32_t>(data) << 32 | load<uint32_t>(data + n - 4));
  if (n == 0) return hash;
  return mix(hash, load<uint8_t>(data) << 16 | load<uint8_t>(data + n / 2) << 8 |
                       load<uint8_t>(data + n - 1));
}

PieceTable::PieceTable(size_t n) : slots_(std::bit_ceil(2 * n + 2)) {}

void PieceTable::add(std::string_view piece, TokenId id) {
  CHECK(id >= 0 && ++used_ <= slots_.size() / 2);
  CHECK(arena_.size() + piece.size() < UINT32_MAX);
  const uint64_t hash = hash_of_piece(piece);
  size_t at = first_slot(hash);
  while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(piece.size()),
                static_cast<uint32_t>(arena_.size()), id};
  arena_.insert(arena_.end(), piece.begin(), piece.end());
}

TokenId PieceTable::find(std::string_view piece, uint64_t hash) const {
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = first_slot(hash); slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.tag == tag && slot.length == piece.size() &&
        std::memcmp(arena_.data() + slot.begin, piece.data(), piece.size()) == 0) {
      return slot.id;
    }
  }
  return -1;
}

}  // namespace minim
