// What Python's str methods know about a character. Tables of Unicode 14, made by
// scripts/make_python_chars.py.
#pragma once

#include <string>

namespace minim {

bool python_is_space(char32_t c);      // str.isspace, str.strip, str.split
bool python_is_printable(char32_t c);  // str.isprintable, repr
bool python_is_alpha(char32_t c);
bool python_is_decimal(char32_t c);
bool python_is_digit(char32_t c);
bool python_is_numeric(char32_t c);
bool python_is_upper(char32_t c);  // one character's own property
bool python_is_lower(char32_t c);
bool python_is_title(char32_t c);  // title case letters such as U+01C5
bool python_is_cased(char32_t c);
bool python_is_case_ignorable(char32_t c);
bool python_is_word(char32_t c);  // \w of Python's re

// Full case mappings (one character may become up to three), appended as UTF-8.
// Lower: without the final-sigma rule, which needs the neighbours.
void append_upper(char32_t c, std::string* out);
void append_lower(char32_t c, std::string* out);
void append_title(char32_t c, std::string* out);

}  // namespace minim
