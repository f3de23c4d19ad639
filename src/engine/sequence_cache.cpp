// A sequence owns one reference of each of its blocks, a transfer one of the block that it reads or
// writes. So a sequence may go away while its blocks are on their way, and a block that is being
// written to disk outlives the sequence that filled it.
//
// A cached token is one that another computation of the same chain of keys has left behind; since
// bytes depend on tokens and scope alone, it does not matter whose. Only whole blocks are shared. A
// partly filled one is never shared but may change hands: a finished conversation leaves its tail,
// and the next turn goes on writing behind it.
#include "engine/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/kv_layout.h"

namespace minim {
namespace {

// Full blocks in front of the first token whose logits are wanted: that one has to be computed.
int n_shareable(const Sequence& sequence) { return sequence.first_logits() / kBlockTokens; }

int n_blocks_for(int n_tokens) { return (n_tokens + kBlockTokens - 1) / kBlockTokens; }

std::span<const int32_t> block_tokens(const Sequence& sequence, size_t block) {
  return std::span<const int32_t>(sequence.tokens).subspan(block * kBlockTokens, kBlockTokens);
}

void extend_keys(Sequence& sequence, size_t n) {
  while (sequence.keys.size() < n) {
    const BlockKey& parent = sequence.keys.empty() ? sequence.root : sequence.keys.back();
    sequence.keys.push_back(next_key(parent, block_tokens(sequence, sequence.keys.size())));
  }
}

}  // namespace

SequenceCache::SequenceCache(int n_blocks, std::string scope, std::unique_ptr<KvTiers> tiers)
    : pool_(n_blocks), scope_(std::move(scope)), tiers_(std::move(tiers)) {
  if (tiers_ == nullptr) return;
  pool_.on_evict([this](const BlockKey& key, int32_t block) { tiers_->evicting(key, block); });
}

SequenceCache::~SequenceCache() = default;

void SequenceCache::take_cached(Sequence& sequence) {
  CHECK(sequence.n_computed == static_cast<int>(sequence.blocks.size()) * kBlockTokens);
  CacheMiss& miss = sequence.usage.miss;  // the first reason stays
  if (sequence.wants_prompt_logprobs()) miss = CacheMiss::kNotAsked;
  const size_t n = static_cast<size_t>(n_shareable(sequence));
  extend_keys(sequence, n);
  bool fetches = false;
  while (sequence.blocks.size() < n) {
    const BlockKey& key = sequence.keys[sequence.blocks.size()];
    if (const std::optional<int32_t> block = pool_.find(key)) {
      pool_.retain(*block);
      sequence.blocks.push_back(*block);
    } else if (fetch_next(sequence, key)) {
      fetches = true;
    } else {
      if (miss == CacheMiss::kNone) {
        miss = pool_.was_evicted(key) ? CacheMiss::kEvicted : CacheMiss::kNew;
      }
      break;
    }
  }
  if (fetches) {
    sequence.state = Sequence::State::kLoading;
    return;
  }
  sequence.n_sealed = static_cast<int>(sequence.blocks.size());
  sequence.n_computed = sequence.n_sealed * kBlockTokens;
  take_tail(sequence);
}

// What is left is less than a block that could be shared: the rest of one that nobody uses.
void SequenceCache::take_tail(Sequence& sequence) {
  const size_t have = sequence.blocks.size();
  const int known = sequence.n_uncomputed();
  const int wanted = sequence.first_logits() - sequence.n_computed;
  if (wanted < 1) return;
  if (known >= kBlockTokens) {
    extend_keys(sequence, have + 1);
    if (const std::optional<int32_t> block = pool_.adopt_sealed(sequence.keys[have])) {
      sequence.blocks.push_back(*block);
      sequence.n_computed += std::min(kBlockTokens, wanted);
      return;
    }
  }
  const BlockKey& parent = have == 0 ? sequence.root : sequence.keys[have - 1];
  const std::span<const int32_t> rest =
      std::span<const int32_t>(sequence.tokens)
          .subspan(static_cast<size_t>(sequence.n_computed),
                   static_cast<size_t>(std::min(known, kBlockTokens)));
  if (const std::optional<BlockPool::Tail> tail = pool_.adopt_tail(parent, rest)) {
    sequence.blocks.push_back(tail->block);
    sequence.n_computed += std::min(tail->n_agreeing, wanted);
  }
}

bool SequenceCache::fetch_next(Sequence& sequence, const BlockKey& key) {
  if (tiers_ == nullptr) return false;
  if (const auto found = fetching_.find(key); found != fetching_.end()) {
    pool_.retain(found->second);
    sequence.blocks.push_back(found->second);
    return true;
  }
  if (!tiers_->holds(key)) return false;
  const std::optional<int32_t> block = pool_.take();
  if (!block) return false;
  pool_.retain(*block);
  ++transfers_[*block];
  fetching_.emplace(key, *block);
  fetching_blocks_.insert(*block);
  sequence.blocks.push_back(*block);
  tiers_->fetch(key, *block);
  return true;
}

void SequenceCache::poll(const std::vector<std::unique_ptr<Sequence>>& sequences, bool wait) {
  if (tiers_ == nullptr) return;
  done_.clear();
  tiers_->poll(done_, wait);
  std::unordered_set<int32_t> failed;
  for (const KvTiers::Done& done : done_) {
    if (done.kind == KvTiers::Done::Kind::kFetched) {
      fetching_.erase(done.key);
      fetching_blocks_.erase(done.block);
      if (done.ok) {
        pool_.seal(done.block, done.key);
      } else {
        failed.insert(done.block);
      }
    } else {
      --n_storing_;
    }
    if (--transfers_[done.block] == 0) transfers_.erase(done.block);
  }
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    if (sequence->state == Sequence::State::kLoading) settle(*sequence, failed);
  }
  // After the sequences, so that a failed block is not taken again before they have let it go.
  for (const KvTiers::Done& done : done_) pool_.release(done.block);
}

void SequenceCache::settle(Sequence& sequence, const std::unordered_set<int32_t>& failed) {
  const auto bad = std::find_if(sequence.blocks.begin(), sequence.blocks.end(),
                                [&](int32_t block) { return failed.count(block) != 0; });
  if (bad != sequence.blocks.end()) {
    for (auto last = sequence.blocks.end(); last != bad;) pool_.release(*--last);
    sequence.blocks.erase(bad, sequence.blocks.end());
    sequence.usage.miss = CacheMiss::kDamaged;
  }
  const bool loading =
      std::any_of(sequence.blocks.begin(), sequence.blocks.end(),
                  [&](int32_t block) { return fetching_blocks_.count(block) != 0; });
  if (loading) return;
  sequence.state = Sequence::State::kRunning;
  sequence.n_sealed = static_cast<int>(sequence.blocks.size());
  sequence.n_computed = sequence.n_sealed * kBlockTokens;
}

bool SequenceCache::grow(Sequence& sequence, int n_tokens) {
  const size_t had = sequence.blocks.size();
  while (static_cast<int>(sequence.blocks.size()) < n_blocks_for(n_tokens)) {
    const std::optional<int32_t> block = pool_.take();
    if (!block) {
      for (; sequence.blocks.size() > had; sequence.blocks.pop_back()) {
        pool_.release(sequence.blocks.back());
      }
      return false;
    }
    sequence.blocks.push_back(*block);
  }
  return true;
}

void SequenceCache::seal(Sequence& sequence) {
  const int n_full = sequence.n_computed / kBlockTokens;
  extend_keys(sequence, static_cast<size_t>(n_full));
  for (; sequence.n_sealed < n_full; ++sequence.n_sealed) {
    const size_t i = static_cast<size_t>(sequence.n_sealed);
    const int32_t block = sequence.blocks[i];
    if (!pool_.seal(block, sequence.keys[i]) || tiers_ == nullptr) continue;
    if (!tiers_->store(sequence.keys[i], block)) continue;
    pool_.retain(block);
    ++transfers_[block];
    ++n_storing_;
  }
}

void SequenceCache::release(Sequence& sequence, bool worthless) {
  const size_t n_full = static_cast<size_t>(sequence.n_computed / kBlockTokens);
  const int n_tail = sequence.n_computed % kBlockTokens;
  const bool loading = sequence.state == Sequence::State::kLoading;
  if (!worthless && !loading && n_tail > 0) {
    extend_keys(sequence, n_full);
    const BlockKey& parent = n_full == 0 ? sequence.root : sequence.keys[n_full - 1];
    pool_.keep_tail(sequence.blocks[n_full], parent,
                    std::span<const int32_t>(sequence.tokens)
                        .subspan(n_full * kBlockTokens, static_cast<size_t>(n_tail)));
  }
  for (; !sequence.blocks.empty(); sequence.blocks.pop_back()) {
    if (worthless) pool_.unseal(sequence.blocks.back());
    pool_.release(sequence.blocks.back());
  }
  sequence.n_computed = 0;
  sequence.n_sealed = 0;
}

const BlockKey* SequenceCache::next_key_of(const Sequence& sequence) const {
  const size_t block = static_cast<size_t>(sequence.n_computed / kBlockTokens);
  const bool full = static_cast<int>(block) < n_shareable(sequence);
  return full && block < sequence.keys.size() ? &sequence.keys[block] : nullptr;
}

void SequenceCache::forget_all() { pool_.forget_all(); }

KvTiers::Stats SequenceCache::tier_stats() const {
  return tiers_ == nullptr ? KvTiers::Stats{} : tiers_->stats();
}

void SequenceCache::check_invariants(
    const std::vector<std::unique_ptr<Sequence>>& sequences) const {
  pool_.check_invariants();
  std::vector<int> expected(static_cast<size_t>(pool_.n_blocks()), 0);
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    CHECK(sequence->state != Sequence::State::kWaiting || sequence->blocks.empty());
    CHECK(sequence->n_computed <= static_cast<int>(sequence->blocks.size()) * kBlockTokens);
    CHECK(sequence->state == Sequence::State::kLoading ||
          n_blocks_for(sequence->n_computed) == static_cast<int>(sequence->blocks.size()));
    for (const int32_t block : sequence->blocks) ++expected[static_cast<size_t>(block)];
    for (size_t i = 0; i < sequence->blocks.size(); ++i) {
      // A block that is still being written may not be known to others.
      const bool complete =
          static_cast<int>(i) < sequence->n_sealed || sequence->state == Sequence::State::kLoading;
      CHECK(complete || pool_.key(sequence->blocks[i]) == nullptr);
      CHECK(complete || pool_.references(sequence->blocks[i]) == 1);
    }
  }
  for (const auto& [block, n] : transfers_) expected[static_cast<size_t>(block)] += n;
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(pool_.references(static_cast<int32_t>(i)) == expected[i], "block %zu: %d, wanted %d", i,
          pool_.references(static_cast<int32_t>(i)), expected[i]);
  }
}

}  // namespace minim
