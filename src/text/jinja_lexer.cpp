// Text outside tags decides most prompt bytes, so whitespace control follows jinja2's lexer case by
// case:
//   "-" beside a delimiter strips all whitespace on that side; "+" switches lstrip_blocks /
//   trim_blocks off there; lstrip_blocks removes blanks between the line's start and a block or
//   comment tag (never a variable tag); trim_blocks removes one line end behind a block or comment
//   tag (never behind {% raw %} itself).
// A closing delimiter inside brackets is not one: "{{ {'a': {}} }}" works because brackets are
// balanced first. jinja2 builds this from regular expressions; a hand-written scanner needs no
// engine and cannot backtrack.
#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "text/python_chars.h"

namespace minim::jinja {
namespace {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

class Lexer {
 public:
  Lexer(std::string source, std::string_view name) : src_(std::move(source)), name_(name) {}

  Result<std::vector<LexedToken>> run() {
    while (pos_ < src_.size() && !error_) root();
    if (error_) return *error_;
    add(Token::kEnd);
    return std::move(tokens_);
  }

 private:
  void fail(std::string what) {
    if (!error_) error_ = Error{Code::kInvalid, fmt::format("{}:{}: {}", name_, line_, what)};
  }

  void add(Token type, std::string value = "") {
    LexedToken token;
    token.type = type;
    token.value = std::move(value);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  bool at(std::string_view what) const {
    return std::string_view(src_).substr(pos_, what.size()) == what;
  }
  char peek(size_t ahead = 0) const {
    return pos_ + ahead < src_.size() ? src_[pos_ + ahead] : '\0';
  }

  void advance(size_t n) {
    for (size_t i = 0; i < n; ++i) line_ += src_[pos_ + i] == '\n';
    pos_ += n;
  }

  // Bytes of whitespace that begin at `pos`.
  size_t space_at(size_t pos) const {
    const size_t start = pos;
    while (pos < src_.size()) {
      size_t next = pos;
      if (!python_is_space(next_code_point(src_, &next))) break;
      pos = next;
    }
    return pos - start;
  }

  static std::string_view rstrip(std::string_view text) {
    size_t keep = 0;
    for (size_t pos = 0; pos < text.size();) {
      if (!python_is_space(next_code_point(text, &pos))) keep = pos;
    }
    return text.substr(0, keep);
  }

  // The data before a tag at `tag`, after the tag's own sign and lstrip_blocks were applied.
  std::string_view before_tag(std::string_view data, char sign, bool variable) const {
    if (sign == '-') return rstrip(data);
    if (sign == '+' || variable) return data;
    const size_t newline = data.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if ((start > 0 || line_starting_) && rstrip(data.substr(start)).empty())
      return data.substr(0, start);
    return data;
  }

  void emit_data(std::string_view data) {
    if (!data.empty()) add(Token::kData, std::string(data));
  }

  void root() {
    size_t tag = pos_;
    for (;; ++tag) {
      tag = src_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= src_.size()) {
        emit_data(std::string_view(src_).substr(pos_));
        pos_ = src_.size();
        return;
      }
      const char c = src_[tag + 1];
      if (c == '{' || c == '%' || c == '#') break;
    }
    const char kind = src_[tag + 1];
    const char sign = tag + 2 < src_.size() && (src_[tag + 2] == '-' || src_[tag + 2] == '+')
                          ? src_[tag + 2]
                          : '\0';
    emit_data(before_tag(std::string_view(src_).substr(pos_, tag - pos_), sign, kind == '{'));
    advance(tag - pos_);
    const size_t tag_size = sign ? 3 : 2;
    line_starting_ = false;
    if (kind == '#') {
      advance(tag_size);
      comment();
    } else if (kind == '%') {
      if (!raw_block(tag_size)) block(tag_size);
    } else {
      add(Token::kVariableBegin);
      advance(tag_size);
      inside(false);
    }
  }

  // Moves past `end_size` bytes of a closing delimiter and what trim_blocks or "-" removes behind
  // it.
  void close(char sign, size_t end_size, bool trim) {
    size_t n = end_size + (sign ? 1 : 0);
    if (sign == '-') {
      n += space_at(pos_ + n);
    } else if (trim && sign != '+' && pos_ + n < src_.size() && src_[pos_ + n] == '\n') {
      ++n;
    }
    line_starting_ = src_[pos_ + n - 1] == '\n';
    advance(n);
  }

  void comment() {
    const size_t end = src_.find("#}", pos_);
    if (end == std::string::npos) return fail("missing end of comment tag");
    char sign = '\0';
    size_t close_at = end;
    if (end > pos_ && (src_[end - 1] == '-' || src_[end - 1] == '+')) {
      sign = src_[end - 1];
      --close_at;
    }
    advance(close_at - pos_);
    close(sign, 2, true);
  }

  // {% raw %}...{% endraw %}; false if this block is something else.
  bool raw_block(size_t tag_size) {
    size_t p = pos_ + tag_size;
    p += space_at(p);
    if (src_.compare(p, 3, "raw") != 0) return false;
    p += 3;
    p += space_at(p);
    const bool strip = p < src_.size() && src_[p] == '-';
    if (strip) ++p;
    if (src_.compare(p, 2, "%}") != 0) return false;
    p += 2;
    if (strip) p += space_at(p);
    line_starting_ = src_[p - 1] == '\n';
    advance(p - pos_);
    for (size_t tag = src_.find("{%", pos_); tag != std::string::npos;
         tag = src_.find("{%", tag + 1)) {
      size_t q = tag + 2;
      const char sign = q < src_.size() && (src_[q] == '-' || src_[q] == '+') ? src_[q] : '\0';
      if (sign) ++q;
      q += space_at(q);
      if (src_.compare(q, 6, "endraw") != 0) continue;
      q += 6;
      q += space_at(q);
      const char end_sign = q < src_.size() && (src_[q] == '-' || src_[q] == '+') ? src_[q] : '\0';
      if (src_.compare(q + (end_sign ? 1 : 0), 2, "%}") != 0) continue;
      emit_data(before_tag(std::string_view(src_).substr(pos_, tag - pos_), sign, false));
      advance(q - pos_);
      close(end_sign, 2, true);
      return true;
    }
    fail("missing end of raw directive");
    return true;
  }

  void block(size_t tag_size) {
    add(Token::kBlockBegin);
    advance(tag_size);
    inside(true);
  }

  // Tokens up to the closing delimiter of a block or variable tag.
  void inside(bool is_block) {
    std::string closers;
    while (!error_) {
      advance(space_at(pos_));
      if (pos_ >= src_.size()) return;  // the parser reports what is missing
      if (closers.empty() && try_close(is_block)) return;
      token(&closers);
    }
  }

  bool try_close(bool is_block) {
    const std::string_view end = is_block ? "%}" : "}}";
    const char c = peek();
    const bool sign = c == '-' || (c == '+' && is_block);
    if (!(std::string_view(src_).substr(pos_ + (sign ? 1 : 0), 2) == end)) return false;
    add(is_block ? Token::kBlockEnd : Token::kVariableEnd);
    close(sign ? c : '\0', 2, is_block);
    return true;
  }

  void token(std::string* closers) {
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

  bool balance(std::string_view op, std::string* closers) {
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

  void name() {
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

  // Digits with single underscores between them, from `p`; the end, or `p` if there are none.
  size_t digits(size_t p, int base) const {
    const auto ok = [&](size_t i) { return i < src_.size() && digit_value(src_[i]) < base; };
    if (!ok(p)) return p;
    while (ok(p) || (p < src_.size() && src_[p] == '_' && ok(p + 1))) ++p;
    return p;
  }

  void number() {
    const size_t end = digits(pos_, 10);
    size_t real_end = end;
    const bool after_dot = pos_ > 0 && src_[pos_ - 1] == '.';
    if (real_end < src_.size() && src_[real_end] == '.') real_end = digits(real_end + 1, 10);
    if (real_end <= end + 1) real_end = end;
    if (real_end < src_.size() && lower(src_[real_end]) == 'e') {
      const size_t sign =
          real_end + 1 < src_.size() && (src_[real_end + 1] == '+' || src_[real_end + 1] == '-')
              ? 1
              : 0;
      const size_t exponent = digits(real_end + 1 + sign, 10);
      if (exponent > real_end + 1 + sign) real_end = exponent;
    }
    if (real_end > end && !after_dot) return real(real_end);
    integer(end);
  }

  static std::string without_underscores(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c != '_') out += c;
    }
    return out;
  }

  void real(size_t end) {
    const std::string spelling =
        without_underscores(std::string_view(src_).substr(pos_, end - pos_));
    double value = 0;
    const auto parsed = std::from_chars(spelling.data(), spelling.data() + spelling.size(), value);
    if (parsed.ec == std::errc::result_out_of_range)
      return fail(fmt::format("the number {} is out of range", spelling));
    add(Token::kFloat, spelling);
    tokens_.back().real = value;
    advance(end - pos_);
  }

  void integer(size_t end) {
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
        while (end < src_.size() &&
               (src_[end] == '0' ||
                (src_[end] == '_' && end + 1 < src_.size() && src_[end + 1] == '0')))
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

  void string(char quote) {
    size_t end = pos_ + 1;
    while (end < src_.size() && src_[end] != quote) end += src_[end] == '\\' ? 2 : 1;
    if (end >= src_.size()) return fail("a string literal does not end");
    std::string value;
    if (!unescape(std::string_view(src_).substr(pos_ + 1, end - pos_ - 1), &value)) return;
    add(Token::kString, std::move(value));
    advance(end + 1 - pos_);
  }

  bool unescape(std::string_view text, std::string* out) {
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

  bool hex_escape(std::string_view text, size_t* i, size_t n, std::string* out) {
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

  std::string src_;
  std::string name_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<LexedToken> tokens_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<LexedToken>> lex(std::string_view source, std::string_view name) {
  return Lexer(normalize_newlines(source), name).run();
}

}  // namespace minim::jinja
