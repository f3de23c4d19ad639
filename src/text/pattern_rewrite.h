// Split patterns are written for Oniguruma; this is their translation for PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace minim {

// The same pattern for PCRE2 in UTF and UCP mode. \s and \S become explicit lists (PCRE2 10.42
// counts U+180E as a space, the reference does not). What PCRE2 would read with another meaning is
// refused by name: \h, \H, \Q, nested classes, && in classes, {n,m}+ and (* verbs. The message
// names no file.
Result<std::string> rewrite_for_pcre2(std::string_view pattern);

// A pattern that matches exactly `text`.
std::string pattern_of_literal(std::string_view text);

}  // namespace minim
