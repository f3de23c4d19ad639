// Character classes by binary search over range tables, case mappings by runs of equal distance.
// The regex library also knows Unicode, but not Python's notions (printable, cased, full mappings),
// and templates must give Python's bytes.
#include "text/python_chars.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "text/utf8.h"

namespace minim {
namespace {

struct Range {
  char32_t begin, end;
};
struct CaseRun {
  char32_t first, last;
  int stride;
  int delta;
};
struct CaseText {
  char32_t c;
  const char* text;
};

#include "text/python_chars_data.inc"

bool contains(std::span<const Range> ranges, char32_t c) {
  const auto at = std::upper_bound(ranges.begin(), ranges.end(), c,
                                   [](char32_t x, const Range& r) { return x < r.end; });
  return at != ranges.end() && c >= at->begin;
}

void append_mapped(char32_t c, std::span<const CaseRun> runs, std::span<const CaseText> texts,
                   std::string* out) {
  const auto text = std::lower_bound(texts.begin(), texts.end(), c,
                                     [](const CaseText& t, char32_t x) { return t.c < x; });
  if (text != texts.end() && text->c == c) {
    *out += text->text;
    return;
  }
  // Runs of stride 2 may interleave, so the one that covers c is not always the first that ends
  // behind it.
  auto run = std::lower_bound(runs.begin(), runs.end(), c,
                              [](const CaseRun& r, char32_t x) { return r.last < x; });
  for (; run != runs.end() && run->first <= c; ++run) {
    if (c <= run->last && (c - run->first) % static_cast<char32_t>(run->stride) == 0) {
      c = static_cast<char32_t>(static_cast<int>(c) + run->delta);
      break;
    }
  }
  append_utf8(*out, c);
}

}  // namespace

bool python_is_space(char32_t c) { return contains(kSpace, c); }
bool python_is_printable(char32_t c) { return !contains(kNotPrintable, c); }
bool python_is_alpha(char32_t c) { return contains(kAlpha, c); }
bool python_is_decimal(char32_t c) { return contains(kDecimal, c); }
bool python_is_digit(char32_t c) { return contains(kDigit, c); }
bool python_is_numeric(char32_t c) { return contains(kNumeric, c); }
bool python_is_upper(char32_t c) { return contains(kUpper, c); }
bool python_is_lower(char32_t c) { return contains(kLower, c); }
bool python_is_title(char32_t c) { return contains(kTitle, c); }
bool python_is_cased(char32_t c) { return contains(kCased, c); }
bool python_is_case_ignorable(char32_t c) { return contains(kCaseIgnorable, c); }
bool python_is_word(char32_t c) {
  return c == '_' || python_is_alpha(c) || python_is_numeric(c) || python_is_digit(c) ||
         python_is_decimal(c);
}

void append_upper(char32_t c, std::string* out) { append_mapped(c, kUpperRuns, kUpperTexts, out); }
void append_lower(char32_t c, std::string* out) { append_mapped(c, kLowerRuns, kLowerTexts, out); }
void append_title(char32_t c, std::string* out) { append_mapped(c, kTitleRuns, kTitleTexts, out); }

}  // namespace minim
