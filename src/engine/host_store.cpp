// One mapping cut into slots, and a list of them in order of use. The mapping is made whole at the
// start, so the limit holds by construction and there is no allocation that could fail later; pages
// that were never written cost nothing. A slot of its own for every block would leave it to the
// allocator when memory of evicted ones goes back.
#include "engine/host_store.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace minim {

Result<HostStore> HostStore::make(uint64_t bytes, size_t block_bytes) {
  CHECK(block_bytes > 0);
  const size_t n_slots = static_cast<size_t>(bytes / block_bytes);
  Result<AlignedBuffer> memory = AlignedBuffer::make(n_slots * block_bytes);
  if (!memory) return memory.error();
  return HostStore(std::move(*memory), n_slots, block_bytes);
}

void HostStore::put(const BlockKey& key, BlockPieces pieces) {
  if (n_slots_ == 0) return;
  if (const auto it = slots_.find(key); it != slots_.end()) {
    order_.splice(order_.end(), order_, it->second);
    return;
  }
  const size_t slot = room();
  uint8_t* to = at(slot);
  for (const std::span<uint8_t> piece : pieces) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  CHECK(to == at(slot) + block_bytes_, "pieces do not make up a block");
  order_.push_back({.key = key, .slot = slot});
  slots_.emplace(key, std::prev(order_.end()));
}

// A slot that holds nothing; the oldest block goes for it when there is none.
size_t HostStore::room() {
  if (order_.size() < n_slots_) return order_.size();  // slots fill in order and stay full
  const Entry oldest = order_.front();
  slots_.erase(oldest.key);
  order_.pop_front();
  ++evictions_;
  return oldest.slot;
}

bool HostStore::get(const BlockKey& key, BlockPieces pieces) {
  const auto it = slots_.find(key);
  if (it == slots_.end()) return false;
  order_.splice(order_.end(), order_, it->second);
  const uint8_t* from = at(it->second->slot);
  for (const std::span<uint8_t> piece : pieces) {
    std::memcpy(piece.data(), from, piece.size());
    from += piece.size();
  }
  ++hits_;
  return true;
}

}  // namespace minim
