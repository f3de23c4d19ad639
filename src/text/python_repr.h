// Numbers and strings as Python prints them: str(), repr() and json.dumps().
#pragma once

#include <string>
#include <string_view>

namespace minim {

// repr(float): the shortest digits that read back as the same double; exponent form
// outside 1e-4 <= |x| < 1e16 ("1e+16", "1e-07", "1000000000000000.0", "-0.0", "inf", "nan").
std::string python_float_repr(double value);

// json.dumps(float): as repr, but Infinity, -Infinity and NaN.
std::string json_float(double value);

// What one code point becomes inside json.dumps("..."), without the quotes around the string.
// Appends to `out`; `raw` is the code point's own UTF-8.
void append_json_escaped(char32_t c, std::string_view raw, bool ensure_ascii, std::string* out);

// What one code point becomes inside repr(str) with this quote.
void append_repr_escaped(char32_t c, std::string_view raw, char quote, std::string* out);

// The quote that repr() chooses: ' unless the text holds ' and no ".
char repr_quote(std::string_view text);

}  // namespace minim
