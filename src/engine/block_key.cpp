// Keys are SHA-256 over fields that carry their length, so that the encoding of one scope or block
// is never the beginning or a rearrangement of another's. Roots and links begin with different
// words: no choice of salt makes a root look like a link. Whoever can send prompts can choose what
// is hashed, so a fast hash that is not collision-free would let one client read another's cache.
#include "engine/block_key.h"

#include <cstring>

#include "base/check.h"
#include "device/kv_layout.h"

namespace minim {
namespace {

// The number says which encoding; a change of it makes every stored block unknown.
constexpr std::string_view kRootWord = "minim.block_key.root.1";
constexpr std::string_view kLinkWord = "minim.block_key.link.1";

}  // namespace

size_t BlockKeyHash::operator()(const BlockKey& key) const {
  size_t first = 0;
  std::memcpy(&first, key.data(), sizeof first);
  return first;
}

BlockKey root_key(const BlockKeyScope& scope) {
  Sha256 hash;
  hash.update_field(kRootWord);
  hash.update_field(scope.cache);
  hash.update_field(scope.adapter);
  hash.update_field(scope.salt);
  return hash.finish();
}

BlockKey next_key(const BlockKey& parent, std::span<const int32_t> tokens) {
  CHECK(tokens.size() == kBlockTokens, "%zu tokens", tokens.size());
  std::array<char, 4 * kBlockTokens> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(static_cast<uint32_t>(tokens[i / 4]) >> 8 * (i % 4) & 0xFF);
  }
  Sha256 hash;
  hash.update_field(kLinkWord);
  hash.update_field({reinterpret_cast<const char*>(parent.data()), parent.size()});
  hash.update_field({bytes.data(), bytes.size()});
  return hash.finish();
}

std::vector<BlockKey> chain_keys(const BlockKey& root, std::span<const int32_t> tokens) {
  std::vector<BlockKey> keys;
  keys.reserve(tokens.size() / kBlockTokens);
  const BlockKey* parent = &root;
  for (size_t at = 0; at + kBlockTokens <= tokens.size(); at += kBlockTokens) {
    keys.push_back(next_key(*parent, tokens.subspan(at, kBlockTokens)));
    parent = &keys.back();
  }
  return keys;
}

}  // namespace minim
