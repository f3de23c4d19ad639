// The only file pair that knows CLI11: words to flags.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/options.h"
#include "base/result.h"

namespace minim {

struct ParsedWords {
  std::vector<std::pair<const OptionSpec*, std::string>> flags;  // a switch has "true" or "false"
  std::vector<std::string> words;
  bool help = false;
};
// Everything behind a word "--" is no flag.
Result<ParsedWords> parse_words(std::span<const OptionSpec* const> options,
                                const std::vector<std::string>& words);

}  // namespace minim
