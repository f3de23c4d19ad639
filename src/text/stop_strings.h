// Stop strings: texts that end a reply and are not shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minim {

// Searches the text, not the tokens: a match may begin and end inside tokens. The match that is
// completed first counts; of two that end at the same place the longer one. Work is linear in the
// text, whatever the strings.
class StopStrings {
 public:
  // Empty strings are left out. At most 2^31 bytes in all.
  explicit StopStrings(std::vector<std::string> stops);

  // Adds text and returns what may be shown now: everything that can no longer be part of a match,
  // and once matched, what stands in front of the match (then nothing more, ever).
  std::string push(std::string_view text);
  // The end of the reply: what was held back.
  std::string flush();
  // The stop string found.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  static constexpr int32_t kNone = -1, kRoot = 0;
  struct Node {  // of the trie of all stop strings
    char byte = 0;
    size_t depth = 0;
    int32_t first_child = kNone, next_sibling = kNone;
    int32_t shorter = kRoot;  // the longest proper end of this one that is a node too
    int32_t match = kNone;    // the longest stop string that ends here
  };
  void insert(size_t stop);
  void link();
  int32_t child(int32_t node, char byte) const;
  int32_t next(int32_t node, char byte) const;
  std::string release(size_t n);

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  int32_t node_ = kRoot;
  std::string held_;     // what may still become a match, behind what is released
  size_t released_ = 0;  // bytes of held_ that were shown already
  std::optional<std::string> matched_;
};

}  // namespace minim
