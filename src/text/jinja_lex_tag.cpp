// Tokens inside tags: names, operators, and literals as Python spells them.
#include <fmt/format.h>

#include <charconv>

#include "text/jinja_lexer_class.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

}  // namespace

void Lexer::token(std::string* closers) {
  const char c = peek();
  if (is_digit(c)) return number();
  if (c == '\'' || c == '"') return string(c);
  size_t next = pos_;
  if (python_is_word(next_code_point(src_, &next))) return name();
  static constexpr std::string_view kOperators[] = {
      "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  "=",  ".", ":", "|", ",", ";", ">", "<"};
  for (const std::string_view op : kOperators) {
    if (!at(op)) continue;
    if (!balance(op, closers)) return;
    add(Token::kOperator, std::string(op));
    advance(op.size());
    return;
  }
  fail(fmt::format("unexpected character '{}'", src_.substr(pos_, next - pos_)));
}

bool Lexer::balance(std::string_view op, std::string* closers) {
  if (op == "{") *closers += '}';
  if (op == "(") *closers += ')';
  if (op == "[") *closers += ']';
  if (op != "}" && op != ")" && op != "]") return true;
  if (closers->empty()) {
    fail(fmt::format("unexpected '{}'", op));
    return false;
  }
  if (closers->back() != op[0]) {
    fail(fmt::format("unexpected '{}', expected '{}'", op, closers->back()));
    return false;
  }
  closers->pop_back();
  return true;
}

void Lexer::name() {
  size_t end = pos_;
  bool identifier = true;
  while (end < src_.size()) {
    size_t next = end;
    const char32_t c = next_code_point(src_, &next);
    if (!python_is_word(c)) break;
    if (end == pos_ && c != '_' && !python_is_alpha(c)) identifier = false;
    end = next;
  }
  if (!identifier) return fail(fmt::format("'{}' is not a name", src_.substr(pos_, end - pos_)));
  add(Token::kName, src_.substr(pos_, end - pos_));
  advance(end - pos_);
}

size_t Lexer::digits(size_t p, int base) const {
  const auto ok = [&](size_t i) { return i < src_.size() && digit_value(src_[i]) < base; };
  if (!ok(p)) return p;
  while (ok(p) || (p < src_.size() && src_[p] == '_' && ok(p + 1))) ++p;
  return p;
}

void Lexer::number() {
  const size_t end = digits(pos_, 10);
  size_t real_end = end;
  const bool after_dot = pos_ > 0 && src_[pos_ - 1] == '.';
  if (real_end < src_.size() && src_[real_end] == '.') real_end = digits(real_end + 1, 10);
  if (real_end <= end + 1) real_end = end;
  if (real_end < src_.size() && lower(src_[real_end]) == 'e') {
    const size_t sign =
        real_end + 1 < src_.size() && (src_[real_end + 1] == '+' || src_[real_end + 1] == '-') ? 1
                                                                                               : 0;
    const size_t exponent = digits(real_end + 1 + sign, 10);
    if (exponent > real_end + 1 + sign) real_end = exponent;
  }
  if (real_end > end && !after_dot) return real(real_end);
  integer(end);
}

std::string Lexer::without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

void Lexer::real(size_t end) {
  const std::string spelling = without_underscores(std::string_view(src_).substr(pos_, end - pos_));
  double value = 0;
  const auto parsed = std::from_chars(spelling.data(), spelling.data() + spelling.size(), value);
  if (parsed.ec == std::errc::result_out_of_range)
    return fail(fmt::format("the number {} is out of range", spelling));
  add(Token::kFloat, spelling);
  tokens_.back().real = value;
  advance(end - pos_);
}

void Lexer::integer(size_t end) {
  int base = 10;
  size_t begin = pos_;
  if (peek() == '0') {
    const char kind = lower(peek(1));
    const int other = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    // The underscore may also follow the prefix, as in 0x_ff.
    const size_t first = pos_ + 2 + (peek(2) == '_' ? 1 : 0);
    if (other != 10 && digits(first, other) > first) {
      base = other;
      begin = first;
      end = digits(first, other);
    } else {
      // A number that begins with 0 is only zeros; what follows is the next token.
      end = pos_ + 1;
      while (end < src_.size() && (src_[end] == '0' || (src_[end] == '_' && end + 1 < src_.size() &&
                                                        src_[end + 1] == '0')))
        ++end;
    }
  }
  Int value = 0;
  for (const char c : without_underscores(std::string_view(src_).substr(begin, end - begin))) {
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit_value(c)}, &value)) {
      return fail("the integer does not fit 128 bits");
    }
  }
  add(Token::kInteger, src_.substr(pos_, end - pos_));
  tokens_.back().integer = value;
  advance(end - pos_);
}

void Lexer::string(char quote) {
  size_t end = pos_ + 1;
  while (end < src_.size() && src_[end] != quote) end += src_[end] == '\\' ? 2 : 1;
  if (end >= src_.size()) return fail("a string literal does not end");
  std::string value;
  if (!unescape(std::string_view(src_).substr(pos_ + 1, end - pos_ - 1), &value)) return;
  add(Token::kString, std::move(value));
  advance(end + 1 - pos_);
}

bool Lexer::unescape(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      *out += text[i++];
      continue;
    }
    const char c = text[i + 1];
    static constexpr std::string_view kSimple = "abfnrtv\\'\"";
    static constexpr std::string_view kMeaning = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kSimple.find(c); at != std::string_view::npos) {
      *out += kMeaning[at];
      i += 2;
    } else if (c == '\n') {
      i += 2;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      size_t p = i + 1;
      for (; p < text.size() && p < i + 4 && text[p] >= '0' && text[p] <= '7'; ++p)
        value = value * 8 + static_cast<char32_t>(text[p] - '0');
      append_utf8(*out, value);
      i = p;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      if (!hex_escape(text, &i, c == 'x' ? 2 : c == 'u' ? 4 : 8, out)) return false;
    } else if (c == 'N') {
      fail("\\N{...} in a string literal is not supported");
      return false;
    } else {
      *out += text[i++];  // an unknown escape keeps its backslash
    }
  }
  return true;
}

bool Lexer::hex_escape(std::string_view text, size_t* i, size_t n, std::string* out) {
  char32_t value = 0;
  for (size_t k = 0; k < n; ++k) {
    const size_t p = *i + 2 + k;
    const int digit = p < text.size() ? digit_value(text[p]) : 99;
    if (digit > 15) {
      fail("truncated \\x or \\u escape in a string literal");
      return false;
    }
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    fail("an escape in a string literal is not a Unicode scalar value");
    return false;
  }
  append_utf8(*out, value);
  *i += 2 + n;
  return true;
}

}  // namespace minim::jinja
