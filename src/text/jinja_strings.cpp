// Operations on marked strings that filters and methods share. All work by code point and keep each
// character's origin.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_runtime.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

// Applies a mapping to every character.
template <typename Map>
Text map_chars(const Text& text, Map map) {
  Text out;
  std::string piece;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text.view(), &pos);
    piece.clear();
    map(c, begin, pos, &piece);
    out.append(piece, text.from_template_at(begin));
  }
  return out;
}

// Unicode's Final_Sigma: a cased letter before, none after, case-ignorable characters between not
// counted.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  constexpr size_t kFar = 64;  // longer runs of ignorable characters count as no letter
  bool before = false;
  for (size_t pos = begin, n = 0; pos > 0 && n < kFar; ++n) {
    do --pos;
    while (pos > 0 && (text[pos] & 0xC0) == 0x80);
    size_t after = pos;
    const char32_t c = next_code_point(text, &after);
    if (python_is_case_ignorable(c)) continue;
    before = python_is_cased(c);
    break;
  }
  if (!before) return false;
  for (size_t pos = end, n = 0; pos < text.size() && n < kFar; ++n) {
    const char32_t c = next_code_point(text, &pos);
    if (!python_is_case_ignorable(c)) return !python_is_cased(c);
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    if (python_is_space(next_code_point(text, &pos))) continue;
    begin = std::min(begin, at);
    end = pos;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// Removes single underscores between digits; false for any other underscore.
bool drop_underscores(std::string_view text, std::string* out) {
  const auto alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      *out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !alnum(text[i - 1]) || !alnum(text[i + 1])) {
      return false;
    }
  }
  return true;
}

}  // namespace

Text text_upper(const Text& text) {
  return map_chars(text,
                   [](char32_t c, size_t, size_t, std::string* out) { append_upper(c, out); });
}

Text text_lower(const Text& text) {
  const std::string_view bytes = text.view();
  return map_chars(text, [bytes](char32_t c, size_t begin, size_t end, std::string* out) {
    constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
    if (c == kSigma && is_final_sigma(bytes, begin, end))
      append_utf8(*out, kFinalSigma);
    else
      append_lower(c, out);
  });
}

Text text_capitalize(const Text& text) {
  const std::string_view bytes = text.view();
  return map_chars(text, [bytes](char32_t c, size_t begin, size_t end, std::string* out) {
    constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
    if (begin == 0)
      append_title(c, out);
    else if (c == kSigma && is_final_sigma(bytes, begin, end))
      append_utf8(*out, kFinalSigma);
    else
      append_lower(c, out);
  });
}

Text text_strip(const Text& text, const Text* chars, int sides) {
  std::u32string set;
  for (size_t pos = 0; chars && pos < chars->size();) set += next_code_point(chars->view(), &pos);
  const auto goes = [&](char32_t c) {
    return chars ? set.find(c) != std::u32string::npos : python_is_space(c);
  };
  const std::string_view bytes = text.view();
  size_t begin = 0, end = bytes.size();
  while ((sides & 1) && begin < end) {
    size_t after = begin;
    if (!goes(next_code_point(bytes, &after))) break;
    begin = after;
  }
  while ((sides & 2) && end > begin) {
    size_t at = end;
    do --at;
    while (at > begin && (bytes[at] & 0xC0) == 0x80);
    size_t after = at;
    if (!goes(next_code_point(bytes, &after))) break;
    end = at;
  }
  return text.slice(begin, end);
}

Text text_replace(Runtime& rt, const Text& text, const Text& from, const Text& to, Int count) {
  Text out;
  const std::string_view bytes = text.view();
  if (!rt.spend_search(text.view(), from.view())) return out;
  size_t pos = 0;
  const auto too_long = [&] { return out.size() > kMaxStringBytes && !rt.room(out.size()); };
  if (from.empty()) {
    // An empty needle matches before every character and at the end.
    for (; count != 0; --count) {
      if (!rt.spend()) return out;
      out.append(to);
      if (pos >= bytes.size()) break;
      size_t next = pos;
      next_code_point(bytes, &next);
      out.append(text, pos, next);
      pos = next;
      if (too_long()) return out;
    }
  } else {
    for (; count != 0; --count) {
      const size_t at = bytes.find(from.view(), pos);
      if (at == std::string_view::npos || !rt.spend()) break;
      out.append(text, pos, at);
      out.append(to);
      pos = at + from.size();
      if (too_long()) return out;
    }
  }
  if (pos < text.size()) out.append(text, pos, text.size());
  return out;
}

std::vector<Text> text_split_lines(Runtime& rt, const Text& text, bool keep_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<Text> lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t at = pos;
    const char32_t c = next_code_point(bytes, &pos);
    if (!ends_line(c)) continue;
    if (!rt.spend()) return {};
    if (c == '\r' && pos < bytes.size() && bytes[pos] == '\n') ++pos;
    lines.push_back(text.slice(begin, keep_ends ? pos : at));
    begin = pos;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

std::vector<Text> text_words(Runtime& rt, const Text& text) {
  std::vector<Text> words;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  bool inside = false;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t at = pos;
    const bool space = python_is_space(next_code_point(bytes, &pos));
    if (space && inside) {
      if (!rt.spend()) return {};
      words.push_back(text.slice(begin, at));
    }
    if (!space && !inside) begin = at;
    inside = !space;
  }
  if (inside) words.push_back(text.slice(begin, bytes.size()));
  return words;
}

Text text_center(const Text& text, Int width, std::string_view fill) {
  const Int size = static_cast<Int>(count_code_points(text.view()));
  const Int pad = std::max<Int>(width - size, 0);
  // CPython puts the odd blank on the left only when the width is odd too.
  const Int left = pad / 2 + (pad & width & 1);
  Text out;
  for (Int i = 0; i < left; ++i) out.append(fill, false);
  out.append(text);
  for (Int i = left; i < pad; ++i) out.append(fill, false);
  return out;
}

std::vector<Text> text_chars(const Text& text) {
  std::vector<Text> out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    next_code_point(text.view(), &pos);
    out.push_back(text.slice(begin, pos));
  }
  return out;
}

std::optional<Int> parse_python_int(std::string_view text, int base) {
  text = trimmed(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (base == 1 || base < 0 || base > 36) return std::nullopt;
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int prefixed = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == prefixed || base == 0)) {
      base = prefixed;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  std::string digits;
  if (!drop_underscores(text, &digits) || digits.empty()) return std::nullopt;
  if (base == 0) {
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
      return std::nullopt;
    base = 10;
  }
  Int value = 0;
  for (const char c : digits) {
    const char low = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9'       ? c - '0'
                      : low >= 'a' && low <= 'z' ? low - 'a' + 10
                                                 : 99;
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value)) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::optional<double> parse_python_float(std::string_view text) {
  std::string number;
  if (!drop_underscores(trimmed(text), &number) || number.empty()) return std::nullopt;
  // from_chars takes no "+" and knows "nan(...)", Python the other way round.
  if (number[0] == '+') {
    number.erase(0, 1);
    if (number.empty() || number[0] == '-') return std::nullopt;
  }
  if (number.find('(') != std::string::npos) return std::nullopt;
  double value = 0;
  const char* end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, value);
  if (parsed.ptr != end) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) return std::strtod(number.c_str(), nullptr);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace minim::jinja
