// Conditions are two doubly linked lists through the blocks themselves and one count a block, so
// that every step is O(1) and moves no memory; two tables find blocks by key. Invariant: a block is
// in kept_ iff it has no references and a key or a tail, in empty_ iff it has neither; sealed_ and
// tails_ hold exactly the blocks that say so. A heap by time of release lost: the order of releases
// is the order of the list.
#include "engine/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/kv_layout.h"

namespace minim {
namespace {

constexpr size_t kEvictionsPerBlock = 4;

}  // namespace

BlockPool::BlockPool(int n_blocks)
    : blocks_(static_cast<size_t>(std::max(n_blocks, 0))),
      evicted_(kEvictionsPerBlock * static_cast<size_t>(std::max(n_blocks, 1))) {
  CHECK(n_blocks > 0, "%d blocks", n_blocks);
  sealed_.reserve(blocks_.size());
  tails_.reserve(blocks_.size());
  for (int32_t block = 0; block < n_blocks; ++block) append(empty_, block);
}

int BlockPool::n_blocks() const { return static_cast<int>(blocks_.size()); }
int BlockPool::n_free() const { return kept_.size + empty_.size; }
int BlockPool::references(int32_t block) const { return at(block).references; }

void BlockPool::on_evict(std::function<void(const BlockKey&, int32_t)> hook) {
  on_evict_ = std::move(hook);
}

std::optional<int32_t> BlockPool::take() {
  const int32_t block = empty_.size > 0 ? empty_.first : kept_.first;
  if (block < 0) return std::nullopt;
  if (at(block).sealed) {
    if (on_evict_) on_evict_(at(block).key, block);
    evicted_.add(at(block).key);
  }
  take_out(block);
  forget(block);
  return block;
}

void BlockPool::retain(int32_t block) {
  Block& b = at(block);
  if (b.references > 0) {
    ++b.references;
    return;
  }
  CHECK(b.sealed, "block %d is free and has no key", block);
  take_out(block);
}

void BlockPool::release(int32_t block) {
  Block& b = at(block);
  CHECK(b.references > 0, "block %d", block);
  if (--b.references > 0) return;
  if (b.sealed || b.has_tail) {
    append(kept_, block);
  } else {
    prepend(empty_, block);
  }
}

bool BlockPool::seal(int32_t block, const BlockKey& key) {
  Block& b = at(block);
  CHECK(b.references > 0 && !b.sealed, "block %d", block);
  if (!sealed_.emplace(key, block).second) return false;
  forget(block);
  b.sealed = true;
  b.key = key;
  return true;
}

const BlockKey* BlockPool::key(int32_t block) const {
  return at(block).sealed ? &at(block).key : nullptr;
}

std::optional<int32_t> BlockPool::find(const BlockKey& key) const {
  const auto it = sealed_.find(key);
  return it == sealed_.end() ? std::nullopt : std::optional(it->second);
}

void BlockPool::keep_tail(int32_t block, const BlockKey& parent, std::span<const int32_t> tokens) {
  Block& b = at(block);
  CHECK(b.references == 1 && !b.sealed, "block %d", block);
  CHECK(!tokens.empty() && tokens.size() <= kBlockTokens, "%zu tokens", tokens.size());
  forget(block);
  const auto [it, is_new] = tails_.emplace(parent, block);
  if (!is_new) {
    const int32_t older = it->second;
    at(older).has_tail = false;
    if (at(older).references == 0) {
      remove(kept_, older);
      prepend(empty_, older);
    }
    it->second = block;
  }
  b.has_tail = true;
  b.key = parent;
  b.tail.assign(tokens.begin(), tokens.end());
}

std::optional<BlockPool::Tail> BlockPool::adopt_tail(const BlockKey& parent,
                                                     std::span<const int32_t> tokens) {
  const auto it = tails_.find(parent);
  if (it == tails_.end() || at(it->second).references > 0) return std::nullopt;
  const int32_t block = it->second;
  const std::vector<int32_t>& tail = at(block).tail;
  const auto differs = std::mismatch(tail.begin(), tail.end(), tokens.begin(), tokens.end()).first;
  const int n_agreeing = static_cast<int>(differs - tail.begin());
  if (n_agreeing == 0) return std::nullopt;
  take_out(block);
  forget(block);
  return Tail{.block = block, .n_agreeing = n_agreeing};
}

std::optional<int32_t> BlockPool::adopt_sealed(const BlockKey& key) {
  const std::optional<int32_t> block = find(key);
  if (!block || at(*block).references > 0) return std::nullopt;
  take_out(*block);
  forget(*block);
  return block;
}

void BlockPool::forget_all() {
  while (kept_.size > 0) {
    const int32_t block = kept_.first;
    remove(kept_, block);
    append(empty_, block);
  }
  for (int32_t block = 0; block < n_blocks(); ++block) forget(block);
  evicted_.clear();
}

bool BlockPool::was_evicted(const BlockKey& key) const { return evicted_.contains(key); }

BlockPool::Block& BlockPool::at(int32_t block) {
  CHECK(block >= 0 && block < n_blocks(), "block %d of %d", block, n_blocks());
  return blocks_[static_cast<size_t>(block)];
}

const BlockPool::Block& BlockPool::at(int32_t block) const {
  return const_cast<BlockPool*>(this)->at(block);
}

void BlockPool::append(List& list, int32_t block) {
  at(block).prev = list.last;
  at(block).next = -1;
  (list.last >= 0 ? at(list.last).next : list.first) = block;
  list.last = block;
  ++list.size;
}

void BlockPool::prepend(List& list, int32_t block) {
  at(block).prev = -1;
  at(block).next = list.first;
  (list.first >= 0 ? at(list.first).prev : list.last) = block;
  list.first = block;
  ++list.size;
}

void BlockPool::remove(List& list, int32_t block) {
  Block& b = at(block);
  (b.prev >= 0 ? at(b.prev).next : list.first) = b.next;
  (b.next >= 0 ? at(b.next).prev : list.last) = b.prev;
  b.prev = b.next = -1;
  --list.size;
}

void BlockPool::take_out(int32_t block) {
  Block& b = at(block);
  remove(b.sealed || b.has_tail ? kept_ : empty_, block);
  b.references = 1;
}

void BlockPool::unseal(int32_t block) {
  CHECK(at(block).references > 0, "block %d is free", block);
  forget(block);
}

void BlockPool::forget(int32_t block) {
  Block& b = at(block);
  if (b.sealed) sealed_.erase(b.key);
  if (b.has_tail) tails_.erase(b.key);
  b.sealed = b.has_tail = false;
}

void BlockPool::check_list(const List& list, bool kept) const {
  int size = 0;
  int32_t prev = -1;
  for (int32_t block = list.first; block >= 0; block = at(block).next) {
    const Block& b = at(block);
    CHECK(b.prev == prev && b.references == 0, "block %d", block);
    CHECK((b.sealed || b.has_tail) == kept, "block %d", block);
    CHECK(++size <= list.size, "a list of %d goes on", list.size);
    prev = block;
  }
  CHECK(size == list.size && list.last == prev, "%d listed, %d counted", size, list.size);
}

void BlockPool::check_invariants() const {
  check_list(kept_, true);
  check_list(empty_, false);
  size_t referenced = 0, n_sealed = 0, n_tails = 0;
  for (int32_t block = 0; block < n_blocks(); ++block) {
    const Block& b = at(block);
    CHECK(b.references >= 0 && !(b.sealed && b.has_tail), "block %d", block);
    referenced += b.references > 0;
    n_sealed += b.sealed;
    n_tails += b.has_tail;
    if (b.sealed) CHECK(find(b.key) == block, "block %d", block);
    if (b.has_tail) CHECK(tails_.at(b.key) == block, "block %d", block);
  }
  // Lists hold only unreferenced blocks, each once; with the right sum they hold all of them.
  CHECK(referenced + static_cast<size_t>(n_free()) == blocks_.size());
  CHECK(n_sealed == sealed_.size() && n_tails == tails_.size());
}

}  // namespace minim
