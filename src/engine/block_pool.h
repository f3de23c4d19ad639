// Which blocks of the cache are in use, by how many, and what the others still hold.
//
// A block is in one of three conditions:
//   referenced   by one or more sequences (or a transfer), `references` times; never taken away
//   kept         by nobody, its content known by a key or as a tail; the next to go is the least
//                recently released
//   empty        by nobody, content worthless
// Kept and empty blocks together are free. Sealed: the content is complete, has a key, and is never
// written again while it is sealed. One thread owns a pool. The pool knows ids, not bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/block_key.h"
#include "engine/recent_keys.h"

namespace minim {

class BlockPool {
 public:
  explicit BlockPool(int n_blocks);

  int n_blocks() const;
  int n_free() const;  // kept or empty
  int references(int32_t block) const;

  // Called by take() with a sealed block that is about to lose its content, which is still readable
  // then. The hook may not change the pool.
  void on_evict(std::function<void(const BlockKey&, int32_t block)> hook);

  // A block with one reference and undefined content: an empty one, else the least recently
  // released kept one. nullopt when all blocks are referenced.
  std::optional<int32_t> take();
  // One more reference, of a referenced block or a kept sealed one (a tail has adopt_tail()).
  void retain(int32_t block);
  // One reference less; at zero the block is kept (most recently released) or, without a key or a
  // tail, empty. A sequence releases its blocks last to first, so that tails go before stems.
  void release(int32_t block);

  // Gives a referenced block its key. False when another block holds that key already: this one
  // stays as it is, unknown to find().
  bool seal(int32_t block, const BlockKey& key);
  const BlockKey* key(int32_t block) const;  // null: not sealed
  std::optional<int32_t> find(const BlockKey& key) const;
  // The content of a referenced block is not what its key promises: the key is forgotten.
  void unseal(int32_t block);

  // A partly filled block: `tokens` of it (1 to kBlockTokens) are written, behind the block
  // `parent` (the root key for a first block). Said of a block without key, just before its last
  // release; forgotten when the block is taken. A newer tail behind the same parent replaces the
  // older one.
  void keep_tail(int32_t block, const BlockKey& parent, std::span<const int32_t> tokens);
  // The kept tail behind `parent`, when at least its first token agrees with `tokens`: now with one
  // reference and no longer known, the caller's to write behind the agreeing tokens.
  struct Tail {
    int32_t block = -1;
    int n_agreeing = 0;  // at most tokens.size()
  };
  std::optional<Tail> adopt_tail(const BlockKey& parent, std::span<const int32_t> tokens);
  // The sealed block of this key if nobody references it: now with one reference and without its
  // key, so that its last token may be run again.
  std::optional<int32_t> adopt_sealed(const BlockKey& key);

  // Forgets all content of free blocks, the keys of referenced ones and all evictions (the weights
  // changed). Nothing is evicted by that.
  void forget_all();

  // Why a key is not here: kept until evicted, or never seen. Bounded memory: the youngest
  // evictions are remembered, four for each block.
  bool was_evicted(const BlockKey& key) const;

  // CHECKs that every block is in one condition, that counts and lists agree. O(n_blocks).
  void check_invariants() const;

 private:
  struct Block {
    int references = 0;
    int32_t prev = -1, next = -1;  // in the list of its condition; a referenced block is in none
    bool sealed = false, has_tail = false;
    BlockKey key{};             // sealed: its own; tail: its parent's
    std::vector<int32_t> tail;  // the tokens, when has_tail
  };
  struct List {
    int32_t first = -1, last = -1;
    int size = 0;
  };
  using BlockByKey = std::unordered_map<BlockKey, int32_t, BlockKeyHash>;

  Block& at(int32_t block);
  const Block& at(int32_t block) const;
  void append(List& list, int32_t block);
  void prepend(List& list, int32_t block);
  void remove(List& list, int32_t block);
  void take_out(int32_t block);  // of its list: now with one reference
  void forget(int32_t block);    // its key or tail; lists stay
  void check_list(const List& list, bool kept) const;

  std::vector<Block> blocks_;
  List kept_;   // first: the next to go
  List empty_;  // first: the youngest, whose memory is warm
  BlockByKey sealed_, tails_;
  RecentKeys evicted_;
  std::function<void(const BlockKey&, int32_t)> on_evict_;
};

}  // namespace minim
