// The cache as sequences see it: blocks found instead of computed, blocks taken, sealed and given
// back; over the pool and what lies beyond it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/block_pool.h"
#include "engine/kv_tiers.h"
#include "engine/sequence.h"

namespace minim {

class SequenceCache {
 public:
  // `tiers` may be null.
  SequenceCache(int n_blocks, std::string scope, std::unique_ptr<KvTiers> tiers);
  ~SequenceCache();

  const std::string& scope() const { return scope_; }
  const BlockPool& pool() const { return pool_; }

  // Extends a sequence whose computed tokens end at a block's edge by what is cached, up to its
  // last token, which is always computed. Blocks that have to be fetched turn it to kLoading.
  void take_cached(Sequence& sequence);
  // Looks at fetches and stores that ended; sequences that have all their blocks are kRunning
  // again. `wait`: until something has ended, if anything is under way.
  void poll(const std::vector<std::unique_ptr<Sequence>>& sequences, bool wait);
  bool is_transferring() const { return !fetching_.empty() || n_storing_ > 0; }

  // Blocks for the first n_tokens positions; false, and nothing changes, when there are not enough.
  bool grow(Sequence& sequence, int n_tokens);
  // After a step: full blocks get their keys.
  void seal(Sequence& sequence);
  // Gives all blocks back; what they hold can be found again, unless it is `worthless`.
  void release(Sequence& sequence, bool worthless = false);

  // The key of the block that the sequence computes next, when that block will be full and others
  // may want it; null otherwise.
  const BlockKey* next_key_of(const Sequence& sequence) const;
  void forget_all();
  KvTiers::Stats tier_stats() const;

  // CHECKs that the pool counts exactly what these sequences and the transfers refer to.
  void check_invariants(const std::vector<std::unique_ptr<Sequence>>& sequences) const;

 private:
  void take_tail(Sequence& sequence);
  bool fetch_next(Sequence& sequence, const BlockKey& key);
  void settle(Sequence& sequence, const std::unordered_set<int32_t>& failed);

  BlockPool pool_;
  std::string scope_;
  std::unique_ptr<KvTiers> tiers_;
  std::unordered_map<BlockKey, int32_t, BlockKeyHash> fetching_;  // into which block
  std::unordered_set<int32_t> fetching_blocks_;
  int n_storing_ = 0;
  std::unordered_map<int32_t, int> transfers_;  // references held for transfers, per block
  std::vector<KvTiers::Done> done_;
};

}  // namespace minim
