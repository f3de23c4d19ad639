// UTF-8 at the level of single characters: where one ends, where bytes stop being well-formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace minim {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : uint8_t {
  kCharacter,   // a well-formed character
  kIllFormed,   // a maximal subpart that no further byte can repair (Unicode chapter 3, table 3-7)
  kIncomplete,  // the bytes end inside what may still become a character
};

struct Utf8Element {
  Utf8Kind kind;
  uint8_t length;  // bytes, 1..4
};

// The element at the start of `bytes`, which must not be empty.
Utf8Element utf8_first(std::string_view bytes);

// Length of the longest prefix that consists of whole well-formed characters.
size_t valid_utf8_length(std::string_view bytes);

bool valid_utf8(std::string_view bytes);

// The code point of exactly one well-formed character.
char32_t utf8_code_point(std::string_view character);

// Appends the UTF-8 form of a scalar value (not a surrogate, at most U+10FFFF).
void append_utf8(std::string& out, char32_t code_point);

// Text by code point. It must be well-formed.
size_t count_code_points(std::string_view text);
// Byte offset of code point `index` (or the size, if there are fewer).
size_t byte_offset(std::string_view text, size_t index);
// Decodes the code point at *pos and moves past it.
char32_t next_code_point(std::string_view text, size_t* pos);

// Unicode's White_Space property; it has not changed since Unicode 6.3.
bool is_white_space(char32_t code_point);

}  // namespace minim
