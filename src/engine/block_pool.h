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

namespace minim {

class BlockPool {
 public:
  explicit BlockPool(int n_blocks);

  int n_blocks() const;
  int n_free() const;  // kept or empty
  int references(int32_t block) const;

  // Called with a sealed block that is about to lose its content, which is still readable then.
  void on_evict(std::function<void(const BlockKey&, int32_t block)> hook);

  // A block with one reference and undefined content: an empty one, else the least recently
  // released kept one. nullopt when all blocks are referenced.
  std::optional<int32_t> take();
  // One more reference, of a referenced or a kept block.
  void retain(int32_t block);
  // One reference less; at zero the block is kept (most recently released) or, without a key or a
  // tail, empty. A sequence releases its blocks last to first, so that tails go before stems.
  void release(int32_t block);

  // Gives a referenced block its key. False when another block holds that key already: this one
  // stays as it is, unknown to find().
  bool seal(int32_t block, const BlockKey& key);
  const BlockKey* key(int32_t block) const;  // null: not sealed
  std::optional<int32_t> find(const BlockKey& key) const;

  // A partly filled block: `tokens` of it are written, behind the block `parent` (the root key for
  // a first block). Said just before the last release; forgotten when the block is taken. A newer
  // tail behind the same parent replaces the older one.
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

  // Forgets all content of free blocks, and the keys of referenced ones (the weights changed).
  void forget_all();

  // Why a key is not here: kept until evicted, never seen, ... (bounded memory: the youngest
  // evictions are remembered).
  bool was_evicted(const BlockKey& key) const;

  // CHECKs that every block is in one condition, that counts and lists agree. O(n_blocks).
  void check_invariants() const;

 private:
  // (the owner of this file fills this in)
};

}  // namespace minim
