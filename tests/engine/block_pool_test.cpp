#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "allocation_count.h"
#include "base/check.h"
#include "device/kv_layout.h"

namespace minim {
namespace {

BlockKey key_of(int i) {
  BlockKey key{};
  for (size_t b = 0; b < key.size(); ++b) key[b] = static_cast<uint8_t>(i >> 8 * (b % 2));
  key[2] = 0x55;
  return key;
}

int32_t taken(BlockPool& pool) {
  const std::optional<int32_t> block = pool.take();
  CHECK(block.has_value());
  return *block;
}

int32_t sealed(BlockPool& pool, int key) {
  const int32_t block = taken(pool);
  CHECK(pool.seal(block, key_of(key)));
  return block;
}

TEST(BlockPool, EmptyBlocksGoBeforeKeptOnes) {
  BlockPool pool(3);
  const int32_t kept = sealed(pool, 1);
  pool.release(kept);
  EXPECT_EQ(pool.n_free(), 3);
  EXPECT_NE(taken(pool), kept);
  EXPECT_NE(taken(pool), kept);
  EXPECT_EQ(pool.find(key_of(1)), kept);
  EXPECT_EQ(taken(pool), kept);
  EXPECT_EQ(pool.find(key_of(1)), std::nullopt);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_EQ(pool.n_free(), 0);
}

TEST(BlockPool, T_k7_TheLeastRecentlyReleasedGoesFirstAndTailsBeforeStems) {
  BlockPool pool(6);
  std::vector<int> order;
  pool.on_evict([&](const BlockKey& key, int32_t block) {
    EXPECT_EQ(*pool.key(block), key) << "the content must still be known";
    order.push_back(key[0]);
  });
  // Two sequences of three blocks, released last to first; the second shares the stem of the first.
  std::vector<int32_t> first, second;
  for (int i = 0; i < 3; ++i) first.push_back(sealed(pool, i));
  pool.retain(first[0]);
  second = {first[0], sealed(pool, 10), sealed(pool, 11)};
  for (auto it = first.rbegin(); it != first.rend(); ++it) pool.release(*it);
  for (auto it = second.rbegin(); it != second.rend(); ++it) pool.release(*it);
  // The stem of the first is touched once more: it is the last to go.
  pool.retain(first[1]);
  pool.release(first[1]);
  for (int i = 0; i < 6; ++i) taken(pool);
  EXPECT_EQ(order, (std::vector<int>{2, 11, 10, 0, 1}));
  for (const int key : {0, 1, 2, 10, 11}) EXPECT_TRUE(pool.was_evicted(key_of(key)));
  EXPECT_FALSE(pool.was_evicted(key_of(3)));
  pool.check_invariants();
}

TEST(BlockPool, AKeyBelongsToOneBlock) {
  BlockPool pool(2);
  const int32_t first = sealed(pool, 1), second = taken(pool);
  EXPECT_FALSE(pool.seal(second, key_of(1)));
  EXPECT_EQ(pool.key(second), nullptr);
  EXPECT_EQ(pool.find(key_of(1)), first);
  pool.release(second);
  pool.check_invariants();
  EXPECT_EQ(taken(pool), second);
  EXPECT_FALSE(pool.was_evicted(key_of(1)));
}

TEST(BlockPool, TailsAreAdoptedAsFarAsTheyAgree) {
  BlockPool pool(3);
  const int32_t block = taken(pool);
  pool.keep_tail(block, key_of(9), std::vector<int32_t>{5, 6, 7});
  EXPECT_EQ(pool.adopt_tail(key_of(9), std::vector<int32_t>{5}), std::nullopt) << "still written";
  pool.release(block);
  EXPECT_EQ(pool.adopt_tail(key_of(8), std::vector<int32_t>{5}), std::nullopt);
  EXPECT_EQ(pool.adopt_tail(key_of(9), std::vector<int32_t>{6}), std::nullopt);
  EXPECT_EQ(pool.adopt_tail(key_of(9), {}), std::nullopt);
  const auto tail = pool.adopt_tail(key_of(9), std::vector<int32_t>{5, 6, 8, 9});
  ASSERT_TRUE(tail.has_value());
  EXPECT_EQ(tail->block, block);
  EXPECT_EQ(tail->n_agreeing, 2);
  EXPECT_EQ(pool.references(block), 1);
  EXPECT_EQ(pool.adopt_tail(key_of(9), std::vector<int32_t>{5}), std::nullopt);
  pool.check_invariants();
}

TEST(BlockPool, ANewerTailReplacesTheOlder) {
  BlockPool pool(2);
  const int32_t older = taken(pool), newer = taken(pool);
  pool.keep_tail(older, key_of(9), std::vector<int32_t>{1, 2});
  pool.release(older);
  pool.keep_tail(newer, key_of(9), std::vector<int32_t>{3});
  pool.release(newer);
  pool.check_invariants();
  EXPECT_EQ(pool.adopt_tail(key_of(9), std::vector<int32_t>{1}), std::nullopt);
  EXPECT_EQ(taken(pool), older);
  const auto tail = pool.adopt_tail(key_of(9), std::vector<int32_t>{3, 4});
  ASSERT_TRUE(tail.has_value());
  EXPECT_EQ(tail->block, newer);
}

TEST(BlockPool, ASealedBlockIsAdoptedOnlyWhenNobodyHasIt) {
  BlockPool pool(2);
  const int32_t block = sealed(pool, 1);
  EXPECT_EQ(pool.adopt_sealed(key_of(1)), std::nullopt);
  pool.release(block);
  EXPECT_EQ(pool.adopt_sealed(key_of(1)), block);
  EXPECT_EQ(pool.key(block), nullptr);
  EXPECT_EQ(pool.find(key_of(1)), std::nullopt);
  EXPECT_FALSE(pool.was_evicted(key_of(1)));
  EXPECT_TRUE(pool.seal(block, key_of(1)));
  pool.check_invariants();
}

TEST(BlockPool, AfterForgettingNothingIsFoundAndNothingIsFreed) {
  BlockPool pool(4);
  pool.on_evict([](const BlockKey&, int32_t) { FAIL(); });
  const int32_t used = sealed(pool, 1), kept = sealed(pool, 2), tail = taken(pool);
  pool.release(kept);
  pool.keep_tail(tail, key_of(2), std::vector<int32_t>{1});
  pool.release(tail);
  pool.forget_all();
  pool.check_invariants();
  EXPECT_EQ(pool.references(used), 1);
  EXPECT_EQ(pool.n_free(), 3);
  EXPECT_EQ(pool.find(key_of(1)), std::nullopt);
  EXPECT_EQ(pool.adopt_tail(key_of(2), std::vector<int32_t>{1}), std::nullopt);
  for (int i = 0; i < 3; ++i) taken(pool);
}

TEST(BlockPool, AfterWarmUpTakingAndReleasingAllocatesNothing) {
  BlockPool pool(8);
  std::vector<int32_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(sealed(pool, i));
  for (const int32_t block : blocks) pool.release(block);
  const size_t before = allocation_count();
  for (int i = 0; i < 8; ++i) blocks[static_cast<size_t>(i)] = taken(pool);
  for (const int32_t block : blocks) pool.retain(block);
  for (const int32_t block : blocks) pool.release(block);
  for (const int32_t block : blocks) pool.release(block);
  EXPECT_EQ(allocation_count(), before);
}

TEST(BlockPoolDeathTest, WrongUseIsFound) {
  BlockPool pool(2);
  const int32_t block = taken(pool);
  EXPECT_DEATH(pool.release(1 - block), "CHECK");
  EXPECT_DEATH(pool.retain(1 - block), "CHECK");
  EXPECT_DEATH(pool.release(2), "block 2 of 2");
  EXPECT_DEATH(pool.seal(1 - block, key_of(1)), "CHECK");
  EXPECT_DEATH(pool.keep_tail(block, key_of(1), {}), "0 tokens");
  EXPECT_TRUE(pool.seal(block, key_of(1)));
  EXPECT_DEATH(pool.seal(block, key_of(2)), "CHECK");
  EXPECT_DEATH(pool.keep_tail(block, key_of(2), std::vector<int32_t>{1}), "CHECK");
}

// The same rules, written without lists or tables.
class NaivePool {
 public:
  struct Block {
    int references = 0;
    std::optional<BlockKey> key, parent;
    std::vector<int32_t> tail;
    uint64_t released = 0;
    bool free() const { return references == 0; }
    bool known() const { return key || parent; }
  };

  explicit NaivePool(int n) : blocks(static_cast<size_t>(n)) {}

  // The blocks that take() may give; more than one only when several are empty.
  std::set<int32_t> next() const {
    std::set<int32_t> empty;
    std::map<uint64_t, int32_t> kept;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (!blocks[i].free()) continue;
      if (blocks[i].known()) {
        kept[blocks[i].released] = static_cast<int32_t>(i);
      } else {
        empty.insert(static_cast<int32_t>(i));
      }
    }
    if (!empty.empty() || kept.empty()) return empty;
    return {kept.begin()->second};
  }
  void take(int32_t block) {
    Block& b = at(block);
    if (b.key) evicted.push_front(*b.key);
    b = {};
    b.references = 1;
  }
  void release(int32_t block) {
    if (--at(block).references == 0) at(block).released = ++clock;
  }
  std::optional<int32_t> find(const BlockKey& key) const {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].key == key) return static_cast<int32_t>(i);
    }
    return std::nullopt;
  }
  Block& at(int32_t block) { return blocks[static_cast<size_t>(block)]; }

  std::vector<Block> blocks;
  std::deque<BlockKey> evicted;
  uint64_t clock = 0;
};

class PoolFuzz {
 public:
  PoolFuzz(int n_blocks, uint32_t seed)
      : n_(n_blocks), pool_(n_blocks), naive_(n_blocks), random_(seed) {
    pool_.on_evict([this](const BlockKey& key, int32_t) { hooked_.push_back(key); });
  }

  void step() {
    switch (below(9)) {
      case 0:
      case 1:
        take();
        break;
      case 2:
        retain();
        break;
      case 3:
      case 4:
        release();
        break;
      case 5:
        seal();
        break;
      case 6:
        keep_tail();
        break;
      case 7:
        adopt_tail();
        break;
      default:
        below(40) == 0 ? forget_all() : adopt_sealed();
        break;
    }
    compare();
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int32_t any_block() { return below(n_); }
  BlockKey any_key() { return key_of(below(3 * n_)); }
  std::vector<int32_t> any_tokens() {
    std::vector<int32_t> tokens(static_cast<size_t>(1 + below(4)));
    for (int32_t& token : tokens) token = below(2);
    return tokens;
  }

  void take() {
    const std::set<int32_t> allowed = naive_.next();
    const std::optional<int32_t> block = pool_.take();
    ASSERT_EQ(block.has_value(), !allowed.empty());
    if (!block) return;
    ASSERT_TRUE(allowed.count(*block));
    const std::optional<BlockKey> lost = naive_.at(*block).key;
    ASSERT_EQ(hooked_, lost ? std::vector{*lost} : std::vector<BlockKey>());
    hooked_.clear();
    naive_.take(*block);
  }
  void retain() {
    const int32_t block = any_block();
    NaivePool::Block& b = naive_.at(block);
    if (b.free() && !b.key) return;
    pool_.retain(block);
    ++b.references;
  }
  void release() {
    const int32_t block = any_block();
    if (naive_.at(block).free()) return;
    pool_.release(block);
    naive_.release(block);
  }
  void seal() {
    const int32_t block = any_block();
    NaivePool::Block& b = naive_.at(block);
    if (b.free() || b.key) return;
    const BlockKey key = any_key();
    const bool is_new = !naive_.find(key);
    ASSERT_EQ(pool_.seal(block, key), is_new);
    if (!is_new) return;
    b.key = key;
    b.parent.reset();
  }
  void keep_tail() {
    const int32_t block = any_block();
    NaivePool::Block& b = naive_.at(block);
    if (b.references != 1 || b.key) return;
    const BlockKey parent = any_key();
    const std::vector<int32_t> tokens = any_tokens();
    pool_.keep_tail(block, parent, tokens);
    for (NaivePool::Block& other : naive_.blocks) {
      if (other.parent == parent) other.parent.reset();
    }
    b.parent = parent;
    b.tail = tokens;
    if (below(2) == 0) return;
    pool_.release(block);
    naive_.release(block);
  }
  void adopt_tail() {
    const BlockKey parent = any_key();
    const std::vector<int32_t> tokens = any_tokens();
    std::optional<int32_t> wanted;
    int agreeing = 0;
    for (size_t i = 0; i < naive_.blocks.size(); ++i) {
      const NaivePool::Block& b = naive_.blocks[i];
      if (!b.free() || b.parent != parent || b.tail[0] != tokens[0]) continue;
      wanted = static_cast<int32_t>(i);
      for (size_t t = 0; t < std::min(b.tail.size(), tokens.size()); ++t) {
        if (b.tail[t] != tokens[t]) break;
        ++agreeing;
      }
    }
    const auto tail = pool_.adopt_tail(parent, tokens);
    ASSERT_EQ(tail.has_value(), wanted.has_value());
    if (!tail) return;
    EXPECT_EQ(tail->block, *wanted);
    EXPECT_EQ(tail->n_agreeing, agreeing);
    naive_.at(*wanted) = {};
    naive_.at(*wanted).references = 1;
  }
  void adopt_sealed() {
    const BlockKey key = any_key();
    std::optional<int32_t> wanted = naive_.find(key);
    if (wanted && !naive_.at(*wanted).free()) wanted.reset();
    ASSERT_EQ(pool_.adopt_sealed(key), wanted);
    if (!wanted) return;
    naive_.at(*wanted) = {};
    naive_.at(*wanted).references = 1;
  }
  void forget_all() {
    pool_.forget_all();
    for (NaivePool::Block& b : naive_.blocks) {
      b.key.reset();
      b.parent.reset();
    }
    naive_.evicted.clear();
  }

  void compare() {
    pool_.check_invariants();
    int n_free = 0;
    for (int32_t block = 0; block < n_; ++block) {
      const NaivePool::Block& b = naive_.at(block);
      n_free += b.free();
      ASSERT_EQ(pool_.references(block), b.references);
      ASSERT_EQ(pool_.key(block) != nullptr, b.key.has_value());
      if (b.key) {
        ASSERT_EQ(*pool_.key(block), *b.key);
      }
    }
    ASSERT_EQ(pool_.n_free(), n_free);
    const size_t n_remembered = 4 * static_cast<size_t>(n_);
    if (naive_.evicted.size() > n_remembered) naive_.evicted.resize(n_remembered);
    for (int i = 0; i < 3 * n_; ++i) {
      const auto found = std::find(naive_.evicted.begin(), naive_.evicted.end(), key_of(i));
      ASSERT_EQ(pool_.find(key_of(i)), naive_.find(key_of(i)));
      ASSERT_EQ(pool_.was_evicted(key_of(i)), found != naive_.evicted.end());
    }
  }

  int n_;
  BlockPool pool_;
  NaivePool naive_;
  std::mt19937 random_;
  std::vector<BlockKey> hooked_;
};

TEST(BlockPool, T_k2_RandomUseAgreesWithANaivePool) {
  for (const int n_blocks : {1, 2, 5, 12}) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      PoolFuzz fuzz(n_blocks, seed);
      for (int i = 0; i < 2500; ++i) {
        fuzz.step();
        if (testing::Test::HasFatalFailure()) FAIL() << n_blocks << " seed " << seed << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace minim
