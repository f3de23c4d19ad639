// The split pattern of the o200k family (MiniMax M2 and M3, GPT-4o) by hand.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "text/char_classes.h"

namespace minim {

class O200kSplitter {
 public:
  // A splitter that cuts exactly as this pattern of a tokenizer.json does, or nothing if the
  // pattern is not one of the family, character by character.
  static std::optional<O200kSplitter> for_pattern(std::string_view pattern);

  // Where the piece ends that begins at `at` < text.size(). `text` is well-formed UTF-8, `at` a
  // place where the piece before ended (or 0). The pattern matches everywhere, so pieces have no
  // gaps. Walking through a text looks at each character a fixed number of times at most.
  size_t piece_end(std::string_view text, size_t at) const;

 private:
  struct Letters;

  explicit O200kSplitter(bool slash_in_tail);
  // Class of the character at `at`, which moves behind it.
  uint8_t take(std::string_view text, size_t& at) const;
  // Behind the characters from `at` on whose class is in `classes`.
  size_t skip(std::string_view text, size_t at, uint8_t classes) const;
  Letters letters(std::string_view text, size_t at) const;
  size_t symbols_end(std::string_view text, size_t at) const;
  size_t space_end(std::string_view text, size_t at) const;

  CharClasses classes_;
  std::array<uint8_t, 128> ascii_;  // classes_ of ASCII
  bool slash_in_tail_;              // [\r\n/]* behind symbols, else [\r\n]*
};

}  // namespace minim
