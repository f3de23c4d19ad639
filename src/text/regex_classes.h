// The lower half of the regular-expression parser: characters, classes, escapes, counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/char_set.h"

namespace minim {

struct RegexScanner {
  struct Count {
    int64_t min;
    int64_t max;  // -1: no end
  };

  std::string_view pattern;  // valid UTF-8
  size_t position = 0;

  bool at_end() const { return position == pattern.size(); }
  char peek() const { return pattern[position]; }
  bool take(char c);

  Error invalid(const std::string& what) const;
  Error unsupported(const std::string& what) const;

  // Moves past "(", "(?:" or "(?<name>"; other groups are refused.
  Result<Ok> open_group();
  // Where the group that opens here closes; npos if it does not.
  size_t closing_bracket() const;
  // Whether "{n}", "{n,}" or "{n,m}" stands here; whether any quantifier does.
  bool count_follows() const;
  bool quantifier_follows() const;
  // A quantifier, with the ? that makes it lazy: for the texts that match that is no difference.
  Result<std::optional<Count>> quantifier(int64_t limit);
  // One character, escape, dot or class, as the set of what it matches.
  Result<CharSet> set();

 private:
  Result<CharSet> bracket_class();
  Result<CharSet> escape(bool in_class);
  Result<CharSet> class_item();
  std::optional<uint32_t> hex(size_t digits);
  Result<uint32_t> unicode_escape();
};

}  // namespace minim
