// Finds added tokens (control tokens, markers) in text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace minim {

struct AddedToken {
  TokenId id;
  std::string literal;  // 1..kMaxAddedLiteral bytes
  bool strip_left;      // takes white space before it along
  bool strip_right;     // takes white space behind it along
  bool normalized;      // looked for only in what the others leave
  bool special;         // hidden when special tokens are skipped
};

inline constexpr size_t kMaxAddedLiteral = 256;

class AddedTokens {
 public:
  // A stretch of text that is one added token (id >= 0, with the white space it takes), or none (id
  // -1).
  struct Stretch {
    std::string_view text;
    TokenId id;
  };

  AddedTokens() = default;
  // Literals are distinct.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Cuts `text` (any bytes) into stretches that cover it. From left to right, the longest literal
  // at a place wins. Thread-safe.
  std::vector<Stretch> find(std::string_view text) const;

  std::optional<TokenId> id_of(std::string_view literal) const;

 private:
  // A trie of literals. Nodes are numbered breadth first, so a node's children are neighbours.
  struct Node {
    int32_t first_child;
    uint16_t n_children;
    uint8_t byte;   // that leads here
    int32_t token;  // whose literal ends here, or -1
  };
  struct Set {
    std::vector<AddedToken> tokens;
    std::vector<Node> nodes;
    std::array<int32_t, 256> roots;  // the node of a first byte, or -1

    explicit Set(std::vector<AddedToken> sorted = {});
    const AddedToken* longest_at(std::string_view text) const;
    void cut(std::string_view text, std::vector<Stretch>& out) const;
  };
  Set plain_, normalized_;
};

}  // namespace minim
