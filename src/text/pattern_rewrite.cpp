// One pass over the pattern that knows only three things: escapes, whether it is inside a character
// class, and the few constructs on which the two dialects disagree silently. Everything else is
// copied; whether it is a pattern at all is for the compiler to say. Fixing PCRE2's table instead
// (a locale table, pcre2_maketables) does not help: in UCP mode it is not asked for characters
// above 127.
#include "text/pattern_rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace minim {
namespace {

constexpr std::string_view kSpaces =
    "\\t\\n\\x0b\\f\\r "
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kNonSpaces =
    "\\x{00}-\\x{08}\\x{0e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"
    "1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"
    "10ffff}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size() && refused_.empty()) {
      if (pattern_[at_] == '\\') {
        escape();
      } else if (in_class_) {
        class_character();
      } else {
        plain_character();
      }
    }
    if (!refused_.empty()) {
      return Error{Code::kUnsupported,
                   fmt::format("split pattern uses {}, which has no equal in PCRE2", refused_)};
    }
    return std::move(out_);
  }

 private:
  bool starts_with(std::string_view what) const { return pattern_.substr(at_).starts_with(what); }
  void copy(size_t n) {
    n = std::min(n, pattern_.size() - at_);
    out_ += pattern_.substr(at_, n);
    at_ += n;
  }

  void escape() {
    const char kind = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (kind == 'h' || kind == 'H' || kind == 'Q') {
      refused_ = fmt::format("\\{}", kind);
    } else if (kind == 's' || kind == 'S') {
      const std::string_view list = kind == 's' ? kSpaces : kNonSpaces;
      out_ += in_class_ ? std::string(list) : fmt::format("[{}]", list);
      at_ += 2;
    } else {
      copy(2);
    }
  }

  void class_character() {
    if (starts_with("[:")) {
      const size_t end = pattern_.find(":]", at_);
      copy(end == std::string_view::npos ? 2 : end + 2 - at_);
    } else if (starts_with("[")) {
      refused_ = "a class inside a class";
    } else if (starts_with("&&")) {
      refused_ = "&& inside a class";
    } else {
      if (pattern_[at_] == ']') in_class_ = false;
      copy(1);
    }
  }

  void plain_character() {
    if (starts_with("(*")) {
      refused_ = "(*";
    } else if (starts_with("{") && possessive_interval()) {
      refused_ = "{n,m}+";
    } else if (starts_with("[")) {
      in_class_ = true;
      copy(starts_with("[^") ? 2 : 1);
      if (starts_with("]")) copy(1);  // a ] in front is a character
    } else {
      copy(1);
    }
  }

  bool possessive_interval() const {
    size_t i = at_ + 1;
    while (i < pattern_.size() && (is_digit(pattern_[i]) || pattern_[i] == ',')) ++i;
    return i > at_ + 1 && pattern_.substr(i).starts_with("}+");
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  std::string refused_;
};

}  // namespace

Result<std::string> rewrite_for_pcre2(std::string_view pattern) { return Rewriter(pattern).run(); }

std::string pattern_of_literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    const bool is_letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    if (byte < 0x80 && !is_letter && !is_digit(c)) {
      pattern += fmt::format("\\x{{{:x}}}", byte);
    } else {
      pattern += c;
    }
  }
  return pattern;
}

}  // namespace minim
