// Owns the spelling of numbers and escapes. Prompt bytes depend on it: a tool schema that says 1e20
// is trained as 1e+20. The digits come from std::to_chars, which is shortest round-trip like
// Python's repr; only the layout is done here.
#include "text/python_repr.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "text/python_chars.h"

namespace minim {

std::string python_float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view printed(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = printed.find('e');
  std::string digits;
  for (const char c : printed.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  int exponent = 0;
  const size_t sign_of_exponent = e + 1;
  std::from_chars(printed.data() + sign_of_exponent + 1, end, exponent);
  if (printed[sign_of_exponent] == '-') exponent = -exponent;

  std::string out = printed.front() == '-' ? "-" : "";
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out.append(".").append(digits, 1);
    out += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  } else if (n <= exponent + 1) {
    out.append(digits).append(static_cast<size_t>(exponent + 1 - n), '0').append(".0");
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    out.append(digits, 0, whole).append(".").append(digits, whole);
  }
  return out;
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return python_float_repr(value);
}

void append_json_escaped(char32_t c, std::string_view raw, bool ensure_ascii, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\b':
      *out += "\\b";
      return;
    case '\f':
      *out += "\\f";
      return;
    default:
      break;
  }
  if (c < 0x20 || (ensure_ascii && c > 0x7E && c < 0x10000)) {
    *out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else if (ensure_ascii && c >= 0x10000) {
    const unsigned v = static_cast<unsigned>(c) - 0x10000;
    *out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
  } else {
    *out += raw;
  }
}

void append_repr_escaped(char32_t c, std::string_view raw, char quote, std::string* out) {
  if (c == '\\' || c == static_cast<char32_t>(quote)) {
    *out += '\\';
    *out += static_cast<char>(c);
  } else if (c == '\n') {
    *out += "\\n";
  } else if (c == '\r') {
    *out += "\\r";
  } else if (c == '\t') {
    *out += "\\t";
  } else if (python_is_printable(c)) {
    *out += raw;
  } else if (c < 0x100) {
    *out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  } else if (c < 0x10000) {
    *out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    *out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
  }
}

char repr_quote(std::string_view text) {
  return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos
             ? '"'
             : '\'';
}

}  // namespace minim
