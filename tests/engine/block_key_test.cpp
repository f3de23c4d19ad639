#include "engine/block_key.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "device/kv_layout.h"
#include "engine/recent_keys.h"

namespace minim {
namespace {

std::vector<int32_t> counted(int first, int step, size_t n = kBlockTokens) {
  std::vector<int32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = first + step * static_cast<int32_t>(i);
  return tokens;
}

// Made by three lines of Python: length-prefixed fields, little-endian, through hashlib.sha256.
TEST(BlockKey, T_k3_KeysAreThoseOfTheWrittenEncoding) {
  const BlockKey root = root_key({.cache = "cache", .adapter = "adapter", .salt = "salt"});
  EXPECT_EQ(to_hex(root), "2c9757dbfa8f80291ecc7415c94249d7005d641d952bcfe05e651abd2bfef2c5");
  EXPECT_EQ(to_hex(root_key({})),
            "2ba24db83ce77208af60c79031eaeb890c60e383a036aca1c6681d3a22dcfcf1");
  const BlockKey first = next_key(root, counted(0, 1));
  EXPECT_EQ(to_hex(first), "d749b8c58e7ad6db69dddcf62cd05b1bdf23977521301f640e97e480e56a10f7");
  EXPECT_EQ(to_hex(next_key(first, counted(-5, 1561))),
            "c6fcce0b640af5e986a383531a60fc6558b6e63e60594ed4a336e05784ad3a03");
}

TEST(BlockKey, T_k3_EveryPartOfAScopeChangesTheKey) {
  std::set<BlockKey> roots;
  const std::vector<BlockKeyScope> scopes = {
      {.cache = "", .adapter = "", .salt = ""},
      {.cache = "a", .adapter = "", .salt = ""},
      {.cache = "", .adapter = "a", .salt = ""},
      {.cache = "", .adapter = "", .salt = "a"},
      {.cache = "ab", .adapter = "", .salt = ""},
      {.cache = "a", .adapter = "b", .salt = ""},
      {.cache = "", .adapter = "ab", .salt = ""},
      {.cache = "", .adapter = "a", .salt = "b"},
      {.cache = std::string(1, '\0'), .adapter = "", .salt = ""},
      {.cache = std::string(8, '\0'), .adapter = "", .salt = ""}};
  for (const BlockKeyScope& scope : scopes) roots.insert(root_key(scope));
  EXPECT_EQ(roots.size(), scopes.size());
}

TEST(BlockKey, T_k3_EveryTokenAndItsPlaceChangeTheKey) {
  const BlockKey root = root_key({.cache = "c", .adapter = "", .salt = ""});
  const std::vector<int32_t> tokens = counted(1000, 3);
  std::set<BlockKey> keys = {next_key(root, tokens)};
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<int32_t> changed = tokens;
    changed[i] ^= 1 << (i % 31);
    keys.insert(next_key(root, changed));
  }
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    std::vector<int32_t> swapped = tokens;
    std::swap(swapped[i], swapped[i + 1]);
    keys.insert(next_key(root, swapped));
  }
  EXPECT_EQ(keys.size(), 1 + tokens.size() + tokens.size() - 1);
}

TEST(BlockKey, T_k3_TheSameTokensElsewhereHaveAnotherKey) {
  const std::vector<int32_t> twice = counted(7, 0, 2 * kBlockTokens);
  const BlockKey root = root_key({});
  const std::vector<BlockKey> keys = chain_keys(root, twice);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(root, keys[0]);
}

TEST(BlockKey, ChainsHoldFullBlocksOnlyAndAgreeWithLinks) {
  const std::vector<int32_t> tokens = counted(0, 7, 3 * kBlockTokens + 1);
  const BlockKey root = root_key({});
  for (const size_t n : {size_t{0}, size_t{127}, size_t{128}, size_t{255}, size_t{385}}) {
    const auto part = std::span(tokens).first(n);
    const std::vector<BlockKey> keys = chain_keys(root, part);
    ASSERT_EQ(keys.size(), n / kBlockTokens);
    BlockKey parent = root;
    for (size_t i = 0; i < keys.size(); ++i) {
      parent = next_key(parent, part.subspan(i * kBlockTokens, kBlockTokens));
      EXPECT_EQ(keys[i], parent);
    }
  }
}

TEST(BlockKeyDeathTest, APartOfABlockHasNoKey) {
  EXPECT_DEATH(next_key(root_key({}), counted(0, 1, kBlockTokens - 1)), "127 tokens");
}

TEST(RecentKeys, ExactlyTheYoungestAreRemembered) {
  for (const size_t capacity : {size_t{1}, size_t{2}, size_t{5}, size_t{64}}) {
    RecentKeys recent(capacity);
    std::vector<BlockKey> added;
    uint32_t state = 1;
    for (int i = 0; i < 1000; ++i) {
      state = state * 1664525 + 1013904223;
      BlockKey key{};
      // Few different ones, so that keys come again and chains are long.
      key[0] = static_cast<uint8_t>(state >> 24 & 0x1F);
      key[7] = static_cast<uint8_t>(state >> 16 & 0x3);
      recent.add(key);
      added.push_back(key);
      const size_t n = std::min(capacity, added.size());
      const std::set<BlockKey> young(added.end() - static_cast<std::ptrdiff_t>(n), added.end());
      for (const BlockKey& old : std::set<BlockKey>(added.begin(), added.end())) {
        ASSERT_EQ(recent.contains(old), young.count(old) == 1) << capacity << " " << i;
      }
    }
    recent.clear();
    EXPECT_FALSE(recent.contains(added.back()));
    recent.add(added.front());
    EXPECT_TRUE(recent.contains(added.front()));
  }
}

}  // namespace
}  // namespace minim
