// Classes follow ECMA-262 with the u flag, except that a lone { } ] stands for itself, as it does
// everywhere without that flag. What other engines read differently ({,n}) is refused.
#include "text/regex_classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace minim {
namespace {

CharSet digits() { return {{'0', '9'}}; }
CharSet word_chars() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharSet spaces() {
  return {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<uint32_t> hex_value(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'f') return static_cast<uint32_t>(lower - 'a' + 10);
  return std::nullopt;
}

std::optional<uint32_t> control_escape(char c) {
  switch (c) {
    case 't':
      return 9;
    case 'n':
      return 10;
    case 'v':
      return 11;
    case 'f':
      return 12;
    case 'r':
      return 13;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool RegexScanner::take(char c) {
  if (at_end() || peek() != c) return false;
  ++position;
  return true;
}

Error RegexScanner::invalid(const std::string& what) const {
  return {Code::kInvalid, fmt::format("{} at byte {}", what, position)};
}
Error RegexScanner::unsupported(const std::string& what) const {
  return {Code::kUnsupported, fmt::format("{} at byte {} is not supported", what, position)};
}

Result<Ok> RegexScanner::open_group() {
  const std::string_view rest = pattern.substr(position);
  if (!rest.starts_with("(?")) {
    ++position;
    return Ok{};
  }
  if (rest.starts_with("(?:")) {
    position += 3;
    return Ok{};
  }
  if (rest.starts_with("(?=") || rest.starts_with("(?!") || rest.starts_with("(?<=") ||
      rest.starts_with("(?<!")) {
    return unsupported("look-around");
  }
  if (rest.starts_with("(?<")) {
    const size_t end = rest.find('>');
    if (end == std::string_view::npos || end == 3) return invalid("a group name without end");
    position += end + 1;
    return Ok{};
  }
  return unsupported("this kind of group");
}

size_t RegexScanner::closing_bracket() const {
  int open = 0;
  bool in_class = false;
  for (size_t i = position; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++open;
    } else if (c == ')' && --open == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

bool RegexScanner::count_follows() const {
  size_t i = position + 1;
  if (at_end() || peek() != '{') return false;
  const auto skip_digits = [&] {
    while (i < pattern.size() && is_digit(pattern[i])) ++i;
  };
  skip_digits();
  if (i < pattern.size() && pattern[i] == ',') {
    ++i;
    skip_digits();
  }
  return i > position + 1 && i < pattern.size() && pattern[i] == '}';
}

bool RegexScanner::quantifier_follows() const {
  return !at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || count_follows());
}

Result<std::optional<RegexScanner::Count>> RegexScanner::quantifier(int64_t limit) {
  if (!quantifier_follows()) return std::optional<Count>();
  Count count{0, -1};
  const char c = pattern[position++];
  if (c == '+') count.min = 1;
  if (c == '?') count.max = 1;
  if (c == '{') {
    const auto number = [&]() -> int64_t {
      int64_t value = 0;
      while (is_digit(peek())) {
        value = std::min(value * 10 + (peek() - '0'), limit + 1);
        ++position;
      }
      return value;
    };
    if (peek() == ',') return invalid("{,n} means different things in different engines; {0,n}");
    count.min = count.max = number();
    if (take(',')) count.max = peek() == '}' ? -1 : number();
    if (count.max >= 0 && count.min > count.max) return invalid("{n,m} with n above m");
    if (std::max(count.min, count.max) > limit) {
      return invalid(fmt::format("a count above {}", limit));
    }
    ++position;
  }
  take('?');
  return std::optional<Count>(count);
}

Result<CharSet> RegexScanner::set() {
  const char c = peek();
  if (c == '[') return bracket_class();
  if (c == '\\') return escape(false);
  if (c == '.') {
    ++position;
    return CharSet{{10, 10}, {13, 13}, {0x2028, 0x2029}}.complement();
  }
  const char32_t point = next_code_point(pattern, &position);
  return CharSet{{point, point}};
}

Result<CharSet> RegexScanner::bracket_class() {
  ++position;
  const bool negative = take('^');
  CharSet set;
  while (true) {
    if (at_end()) return invalid("missing ']'");
    if (take(']')) break;
    Result<CharSet> first = class_item();
    if (!first) return first;
    const bool range =
        position + 1 < pattern.size() && peek() == '-' && pattern[position + 1] != ']';
    if (!range) {
      set.add(*first);
      continue;
    }
    ++position;
    Result<CharSet> last = class_item();
    if (!last) return last;
    const auto single = [](const CharSet& item) {
      return item.ranges().size() == 1 && item.ranges()[0].first == item.ranges()[0].last;
    };
    if (!single(*first) || !single(*last)) return invalid("a range between classes");
    if (first->ranges()[0].first > last->ranges()[0].first) return invalid("a range upside down");
    set.add(first->ranges()[0].first, last->ranges()[0].first);
  }
  return negative ? set.complement() : set;
}

Result<CharSet> RegexScanner::class_item() {
  if (at_end()) return invalid("missing ']'");
  if (peek() == '\\') return escape(true);
  const char32_t point = next_code_point(pattern, &position);
  return CharSet{{point, point}};
}

std::optional<uint32_t> RegexScanner::hex(size_t digits) {
  if (pattern.size() - position < digits) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const std::optional<uint32_t> digit = hex_value(pattern[position + i]);
    if (!digit) return std::nullopt;
    value = value << 4 | *digit;
  }
  position += digits;
  return value;
}

Result<uint32_t> RegexScanner::unicode_escape() {
  if (take('{')) {
    const size_t end = pattern.find('}', position);
    if (end == std::string_view::npos || end == position || end - position > 6) {
      return invalid("\\u{} without a code point");
    }
    const std::optional<uint32_t> value = hex(end - position);
    if (!value || *value > kLastCodePoint || !take('}')) return invalid("a bad code point");
    return *value;
  }
  const std::optional<uint32_t> high = hex(4);
  if (!high) return invalid("\\u without four hexadecimal digits");
  if (*high < 0xD800 || *high > 0xDFFF) return *high;
  if (*high <= 0xDBFF && pattern.substr(position).starts_with("\\u")) {
    position += 2;
    const std::optional<uint32_t> low = hex(4);
    if (low && *low >= 0xDC00 && *low <= 0xDFFF) {
      return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
    }
  }
  return invalid("half of a surrogate pair");
}

Result<CharSet> RegexScanner::escape(bool in_class) {
  ++position;
  if (at_end()) return invalid("\\ at the end");
  const char c = peek();
  const auto one = [](uint32_t point) { return CharSet{{point, point}}; };
  if ((c >= '1' && c <= '9') || c == 'k') return unsupported("a back-reference");
  if (c == 'p' || c == 'P') return unsupported("a Unicode property");
  if (!in_class && (c == 'b' || c == 'B')) return unsupported("a word boundary");
  if (static_cast<unsigned char>(c) >= 0x80) return set();
  ++position;
  if (const std::optional<uint32_t> control = control_escape(c)) return one(*control);
  switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().complement();
    case 'w':
      return word_chars();
    case 'W':
      return word_chars().complement();
    case 's':
      return spaces();
    case 'S':
      return spaces().complement();
    case 'b':
      return one(8);
    case '0':
      if (!at_end() && is_digit(peek())) return invalid("an octal escape");
      return one(0);
    case 'x': {
      const std::optional<uint32_t> value = hex(2);
      if (!value) return invalid("\\x without two hexadecimal digits");
      return one(*value);
    }
    case 'u': {
      Result<uint32_t> point = unicode_escape();
      if (!point) return point.error();
      if (*point >= 0xD800 && *point <= 0xDFFF) return invalid("half of a surrogate pair");
      return one(*point);
    }
    case 'c': {
      const char lower = at_end() ? '\0' : static_cast<char>(peek() | 0x20);
      if (lower < 'a' || lower > 'z') return invalid("\\c without a letter");
      ++position;
      return one(static_cast<uint32_t>(lower - 'a' + 1));
    }
    default:
      break;
  }
  const char lower = static_cast<char>(c | 0x20);
  if ((lower >= 'a' && lower <= 'z') || c == '_') {
    return invalid(fmt::format("unknown escape \\{}", c));
  }
  return one(static_cast<uint32_t>(c));
}

}  // namespace minim
