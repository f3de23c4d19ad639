// The youngest of a stream of keys, in memory of a fixed size.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/block_key.h"

namespace minim {

class RecentKeys {
 public:
  explicit RecentKeys(size_t capacity);

  // Remembers a key; the oldest goes when `capacity` are remembered. Allocates nothing.
  void add(const BlockKey& key);
  // Among the last `capacity` added? By the first 64 bits: wrong by chance only.
  bool contains(const BlockKey& key) const;
  void clear();

 private:
  struct Entry {
    uint64_t prefix = 0;
    int32_t next = -1;  // the next older one in the same chain
  };
  int32_t& chain(uint64_t prefix) { return chains_[prefix & (chains_.size() - 1)]; }

  std::vector<Entry> ring_;      // [capacity]
  std::vector<int32_t> chains_;  // youngest entry by the last bits of the prefix; a power of two
  size_t added_ = 0;  // entry i of the ring is the last one added with added_ % size == i
};

}  // namespace minim
