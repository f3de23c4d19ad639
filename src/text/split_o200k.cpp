// What a backtracking matcher does with the pattern, without backtracking. With U = [Lu Lt Lm Lo M]
// and D = [Ll Lm Lo M] the two letter alternatives are p?U*D+c? and p?U+D*c?, p being one character
// that is no CR, LF, letter or number, c a contraction. From a start s the run of U ends at u:
//  - a lower-case letter at u: the first alternative matches up to the end of the run of D;
//  - else U* gives back characters until one is left for D+: the match ends behind the last
//    character of the run that is in both sets;
//  - else the first alternative fails, and the second takes the run if it is not empty.
// The first alternative is tried with p, then without it, then the second: so a mark that could be
// p, before capitals only, is a piece of its own. The other alternatives are numbers by threes,
// symbols with an optional space before and line ends behind, and white space: up to its last line
// end, else all but its last character if something follows.
//
// The oracle is the regex library on the same pattern (tests/text/split_o200k_test.cpp and the
// fuzz target); the classes come from it as well.
#include "text/split_o200k.h"

namespace minim {
namespace {

#define MINIM_LETTERS                                                                          \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"  \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"                                                              \
  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
constexpr std::string_view kWithSlash = MINIM_LETTERS "[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kWithoutSlash = MINIM_LETTERS "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
#undef MINIM_LETTERS

using Class = CharClasses::Bits;
constexpr uint8_t kBoth = Class::kOther | Class::kMark;  // in U and in D
constexpr uint8_t kU = Class::kUpper | kBoth;
constexpr uint8_t kD = Class::kLower | kBoth;
constexpr uint8_t kSymbols = Class::kSymbol | Class::kMark;
constexpr uint8_t kPrefix = kSymbols | Class::kSpace;

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// Behind the contraction at `at`, or `at`. U+017F is a form of s when case does not count.
size_t skip_contraction(std::string_view text, size_t at) {
  if (at + 1 >= text.size() || text[at] != '\'') return at;
  const auto lower = [&](size_t i) { return i < text.size() ? byte_at(text, i) | 0x20 : 0; };
  const int first = lower(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  const int second = lower(at + 2);
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  if (text.substr(at + 1).starts_with("\u017F")) return at + 3;
  return at;
}

}  // namespace

std::optional<O200kSplitter> O200kSplitter::for_pattern(std::string_view pattern) {
  if (pattern == kWithSlash) return O200kSplitter(true);
  if (pattern == kWithoutSlash) return O200kSplitter(false);
  return std::nullopt;
}

O200kSplitter::O200kSplitter(bool slash_in_tail)
    : classes_(CharClasses::from_pcre2()), slash_in_tail_(slash_in_tail) {
  for (uint8_t c = 0; c < 128; ++c) ascii_[c] = classes_.of(c);
}

inline uint8_t O200kSplitter::take(std::string_view text, size_t& at) const {
  const uint8_t lead = byte_at(text, at);
  if (lead < 0x80) {
    ++at;
    return ascii_[lead];
  }
  const auto tail = [&](size_t i) { return char32_t{byte_at(text, at + i)} & 0x3F; };
  char32_t c = 0;
  if (lead < 0xE0) {
    c = (lead & 0x1Fu) << 6 | tail(1);
    at += 2;
  } else if (lead < 0xF0) {
    c = (lead & 0x0Fu) << 12 | tail(1) << 6 | tail(2);
    at += 3;
  } else {
    c = (lead & 0x07u) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
    at += 4;
  }
  return classes_.of(c);
}

inline size_t O200kSplitter::skip(std::string_view text, size_t at, uint8_t classes) const {
  while (at < text.size()) {
    size_t next = at;
    if ((take(text, next) & classes) == 0) break;
    at = next;
  }
  return at;
}

struct O200kSplitter::Letters {
  size_t u;    // behind the run of U
  size_t end;  // of the first alternative's match, 0 if it fails (a match is never empty)
};

inline O200kSplitter::Letters O200kSplitter::letters(std::string_view text, size_t at) const {
  size_t after_both = 0;
  while (at < text.size()) {
    size_t next = at;
    const uint8_t c = take(text, next);
    if (c & Class::kLower) return {at, skip(text, next, kD)};
    if ((c & kU) == 0) break;
    at = next;
    if (c & kBoth) after_both = at;
  }
  return {at, after_both};
}

size_t O200kSplitter::symbols_end(std::string_view text, size_t at) const {
  const size_t begin = at + (text[at] == ' ');
  size_t end = skip(text, begin, kSymbols);
  if (end == begin) return at;
  while (end < text.size() &&
         (text[end] == '\n' || text[end] == '\r' || (slash_in_tail_ && text[end] == '/'))) {
    ++end;
  }
  return end;
}

size_t O200kSplitter::space_end(std::string_view text, size_t at) const {
  size_t end = at, last = at, after_newline = 0;
  while (end < text.size()) {
    size_t next = end;
    const uint8_t c = take(text, next);
    if ((c & (Class::kSpace | Class::kNewline)) == 0) break;
    if (c & Class::kNewline) after_newline = next;
    last = end;
    end = next;
  }
  if (after_newline > 0) return after_newline;
  if (end == text.size()) return end;
  return last > at ? last : end;
}

size_t O200kSplitter::piece_end(std::string_view text, size_t at) const {
  size_t behind = at;
  const uint8_t first = take(text, behind);
  if (first & Class::kNumber) {
    for (int i = 1; i < 3 && behind < text.size(); ++i) {
      size_t next = behind;
      if ((take(text, next) & Class::kNumber) == 0) break;
      behind = next;
    }
    return behind;
  }
  const size_t start = first & kPrefix ? behind : at;
  const Letters found = letters(text, start);
  if (found.end > 0) return skip_contraction(text, found.end);
  if (first & Class::kMark) return skip_contraction(text, behind);
  if (found.u > start) return skip_contraction(text, found.u);
  if (const size_t end = symbols_end(text, at); end > at) return end;
  return space_end(text, at);
}

}  // namespace minim
