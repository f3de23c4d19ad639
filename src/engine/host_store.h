// Copies of blocks in memory of a fixed size, the least recently used going first.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "engine/block_key.h"
#include "engine/segment_file.h"

namespace minim {

class HostStore {
 public:
  // As many slots as `bytes` hold; their memory is committed when they are first used and never
  // grows beyond that. kExhausted when the system refuses the address space.
  static Result<HostStore> make(uint64_t bytes, size_t block_bytes);

  bool contains(const BlockKey& key) const { return slots_.count(key) > 0; }
  // Copies a block in, over the least recently used one when all slots are full. A key that is
  // there becomes the youngest.
  void put(const BlockKey& key, BlockPieces pieces);
  // Copies it out, and makes it the youngest. False: not there.
  bool get(const BlockKey& key, BlockPieces pieces);

  uint64_t n_blocks() const { return slots_.size(); }
  uint64_t hits() const { return hits_; }
  uint64_t evictions() const { return evictions_; }

 private:
  struct Entry {
    BlockKey key{};
    size_t slot = 0;
  };
  using Order = std::list<Entry>;

  HostStore(AlignedBuffer memory, size_t n_slots, size_t block_bytes)
      : memory_(std::move(memory)), n_slots_(n_slots), block_bytes_(block_bytes) {}
  uint8_t* at(size_t slot) const { return memory_.data() + slot * block_bytes_; }
  size_t room();

  AlignedBuffer memory_;
  size_t n_slots_, block_bytes_;
  Order order_;  // first: the next to go
  std::unordered_map<BlockKey, Order::iterator, BlockKeyHash> slots_;
  uint64_t hits_ = 0, evictions_ = 0;
};

}  // namespace minim
