// What several fuzz targets need: a check that the fuzzer sees, and text as the library takes it.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "text/utf8.h"

inline void require(bool holds) {
  if (!holds) std::abort();
}

// `bytes` with every ill-formed part replaced by U+FFFD, one for each maximal subpart.
inline std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t valid = minim::valid_utf8_length(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += minim::kReplacement;
    bytes.remove_prefix(minim::utf8_first(bytes).length);
  }
  return text;
}
