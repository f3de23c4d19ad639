// The table is read off the regex library: all scalar values of a plane, in order, are cut into
// runs of one class by one pattern, and which alternative matched names the class. White space is
// our own list, as in rewritten patterns (pattern_rewrite.h). A generated table would save these
// milliseconds at load, but would disagree with patterns that the library runs as soon as the
// system has another version of it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "base/check.h"
#include "text/char_classes.h"
#include "text/utf8.h"

namespace minim {
namespace {

// One property at a time is several times as fast as a class of several, and most code points are
// Cn, Co or Lo.
constexpr std::string_view kRuns =
    "(\\p{Cn}++)|(\\p{Co}++)|(\\p{Lo}++)|(\\p{Ll}++)|(\\p{Lu}++)|(\\p{Lt}++)|(\\p{Lm}++)|(\\p{M}++)"
    "|(\\p{N}++)|([^\\p{L}\\p{M}\\p{N}])";
constexpr uint8_t kClassOfGroup[] = {
    CharClasses::kSymbol, CharClasses::kSymbol, CharClasses::kOther, CharClasses::kLower,
    CharClasses::kUpper,  CharClasses::kUpper,  CharClasses::kOther, CharClasses::kMark,
    CharClasses::kNumber, CharClasses::kSymbol};
constexpr char32_t kPlane = 0x10000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Sets the classes of one plane's scalar values, which `text` holds in order.
void classify(const pcre2_code* code, pcre2_match_data* data, char32_t first,
              const std::string& text, std::vector<uint8_t>& classes) {
  char32_t c = first;
  for (size_t at = 0; at < text.size();) {
    const int groups = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                   PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, data, nullptr);
    CHECK(groups >= 2, "every character is in one class");
    const size_t end = pcre2_get_ovector_pointer(data)[1];
    for (size_t n = count_code_points(std::string_view(text).substr(at, end - at)); n > 0; --n) {
      if (is_surrogate(c)) c = 0xE000;
      classes[c++] = kClassOfGroup[groups - 2];
    }
    at = end;
  }
}

}  // namespace

CharClasses CharClasses::from_pcre2() {
  int error = 0;
  PCRE2_SIZE where = 0;
  const std::unique_ptr<pcre2_code, FreeCode> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kRuns.data()), kRuns.size(), PCRE2_UTF | PCRE2_UCP,
                    &error, &where, nullptr));
  CHECK(code, "a constant pattern");
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it slower, not wrong
  const std::unique_ptr<pcre2_match_data, FreeData> data(
      pcre2_match_data_create_from_pattern(code.get(), nullptr));
  CHECK(data, "out of memory");
  std::vector<uint8_t> classes(kPages << 8, kSymbol);
  for (char32_t first = 0; first < kPages << 8; first += kPlane) {
    std::string text;
    for (char32_t c = first; c < first + kPlane; ++c) {
      if (!is_surrogate(c)) append_utf8(text, c);
    }
    classify(code.get(), data.get(), first, text, classes);
  }
  for (char32_t c = 0; c <= 0x3000; ++c) {
    if (is_white_space(c)) classes[c] = kSpace;
  }
  classes['\r'] = classes['\n'] = kNewline;
  CharClasses result;
  result.set(classes);
  return result;
}

void CharClasses::set(const std::vector<uint8_t>& classes) {
  std::map<std::string, uint16_t> known;
  for (size_t page = 0; page < kPages; ++page) {
    const auto begin = classes.begin() + static_cast<std::ptrdiff_t>(page << 8);
    const std::string bytes(begin, begin + 256);
    const auto [place, added] = known.emplace(bytes, static_cast<uint16_t>(known.size()));
    if (added) pages_.insert(pages_.end(), bytes.begin(), bytes.end());
    page_of_[page] = place->second;
  }
}

}  // namespace minim
