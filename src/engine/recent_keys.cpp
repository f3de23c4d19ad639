// A ring in order of arrival, whose entries are also linked by hash, youngest first. The entry that
// the ring overwrites is the oldest of all, so it is the last of its chain. A set beside a queue
// would do the same with an allocation for each key.
#include "engine/recent_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace minim {
namespace {

uint64_t prefix_of(const BlockKey& key) {
  uint64_t prefix = 0;
  std::memcpy(&prefix, key.data(), sizeof prefix);
  return prefix;
}

}  // namespace

RecentKeys::RecentKeys(size_t capacity) : ring_(capacity), chains_(std::bit_ceil(capacity), -1) {
  CHECK(capacity > 0);
}

void RecentKeys::add(const BlockKey& key) {
  const auto at = static_cast<int32_t>(added_ % ring_.size());
  Entry& entry = ring_[static_cast<size_t>(at)];
  if (added_ >= ring_.size()) {
    int32_t* link = &chain(entry.prefix);
    while (*link != at) link = &ring_[static_cast<size_t>(*link)].next;
    *link = entry.next;
  }
  entry.prefix = prefix_of(key);
  int32_t& youngest = chain(entry.prefix);
  entry.next = youngest;
  youngest = at;
  ++added_;
}

bool RecentKeys::contains(const BlockKey& key) const {
  const uint64_t prefix = prefix_of(key);
  int32_t at = chains_[prefix & (chains_.size() - 1)];
  while (at >= 0 && ring_[static_cast<size_t>(at)].prefix != prefix) {
    at = ring_[static_cast<size_t>(at)].next;
  }
  return at >= 0;
}

void RecentKeys::clear() {
  std::fill(chains_.begin(), chains_.end(), -1);
  added_ = 0;
}

}  // namespace minim
