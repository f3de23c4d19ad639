// The name of a block's content: what it was computed from.
//
// A block's bytes are a function of all tokens up to its end and of whatever else changes bytes. So
// keys form a chain: a root for everything that is not tokens, then one key a full block. Equal
// keys mean equal bytes, which is why a block may be found by its key instead of being computed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace minim {

using BlockKey = Sha256::Digest;

struct BlockKeyHash {
  size_t operator()(const BlockKey& key) const;  // keys are uniform: their first bytes
};

// What must agree beside the tokens. `cache`: layout tag of the bytes (formats, order of tiles,
// attention mode, numeric contract) and the weights' identity, one string for a runtime. `adapter`:
// changes to the weights that one request asks for; empty: none. `salt`: whose cache it is;
// requests with different salts never share, so that nobody learns from timing what others have
// asked.
struct BlockKeyScope {
  std::string cache;
  std::string adapter;
  std::string salt;
};

// SHA-256 over a canonical encoding in which no two scopes, and no two blocks, look alike.
BlockKey root_key(const BlockKeyScope& scope);
// `tokens`: exactly kBlockTokens ids.
BlockKey next_key(const BlockKey& parent, std::span<const int32_t> tokens);
// Keys of all full blocks of `tokens`: [tokens.size() / kBlockTokens].
std::vector<BlockKey> chain_keys(const BlockKey& root, std::span<const int32_t> tokens);

}  // namespace minim
