// The splitter by hand against PCRE2 on the same pattern.
#include "text/split_o200k.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/split_pcre2.h"
#include "text/tokenizer_golden.h"
#include "text/utf8.h"

namespace minim {
namespace {

using Strings = std::vector<std::string>;

std::string pattern_of(const std::string& file) {
  const Result<Json> json = read_json_file(tokenizer_golden(file));
  EXPECT_TRUE(json) << json.error().message;
  return (*json)["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].get<std::string>();
}

// Both ways to cut by one pattern.
class Both {
 public:
  explicit Both(const std::string& file)
      : by_hand_(O200kSplitter::for_pattern(pattern_of(file)).value()),
        pcre2_(*SplitPattern::compile(pattern_of(file))) {}

  Strings by_hand(std::string_view text) const {
    Strings pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t end = by_hand_.piece_end(text, at);
      EXPECT_GT(end, at);
      pieces.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return pieces;
  }
  Strings by_pcre2(std::string_view text) const {
    std::vector<Segment> segments;
    pcre2_.segment(text, false, segments);
    Strings pieces;
    for (const Segment& s : segments) {
      EXPECT_TRUE(s.matched);
      pieces.emplace_back(text.substr(s.begin, s.end - s.begin));
    }
    return pieces;
  }

 private:
  O200kSplitter by_hand_;
  SplitPattern pcre2_;
};

TEST(O200kSplitter, CutsAroundEveryCharacterAsPcre2Does) {
  const Both both("tokenizer_slash.json");
  for (char32_t first = 0; first < 0x110000; first += 0x400) {
    std::string text;
    for (char32_t c = first; c < first + 0x400; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      for (const char* before : {"x", "A", "Ab'", " ", "\n"}) {
        text += before;
        append_utf8(text, c);
      }
      text += "B7";
    }
    ASSERT_EQ(both.by_hand(text), both.by_pcre2(text)) << "from U+" << std::hex << uint32_t{first};
  }
}

TEST(O200kSplitter, CutsRandomTextAsPcre2Does) {
  const Strings units = {"a",
                         "z",
                         "s",
                         "S",
                         "A",
                         "\u01C5",
                         "\u02B0",
                         "\u6F22",
                         "\u0301",
                         "\u0903",
                         "1",
                         "23",
                         "\u0663",
                         "\u2160",
                         "'",
                         "'s",
                         "'LL",
                         "'re",
                         "'\u017F",
                         "'vE",
                         " ",
                         "  ",
                         "\t",
                         "\u00A0",
                         "\u3000",
                         "\u180E",
                         "\u200D",
                         "\n",
                         "\r",
                         "\r\n",
                         "/",
                         "//",
                         "!",
                         "_",
                         "\u20AC",
                         "\U0001F600",
                         "\U0001F468\u200D",
                         "\u0130",
                         "\u00DF",
                         "\u0000",
                         "\u0378",
                         "\U000E0041",
                         "\u0085"};
  std::mt19937 random(17);
  for (const char* file : {"tokenizer_slash.json", "tokenizer_noslash.json"}) {
    const Both both(file);
    for (int round = 0; round < 60000; ++round) {
      // Few kinds a text, so that runs become long.
      const size_t n_kinds = 1 + random() % 5;
      const size_t first = random();
      std::string text;
      for (size_t i = random() % 24; i > 0; --i) {
        text += units[(first + (random() % n_kinds) * 7919) % units.size()];
      }
      ASSERT_EQ(both.by_hand(text), both.by_pcre2(text)) << file << ": '" << text << "'";
    }
  }
}

TEST(O200kSplitter, KnowsNoOtherPattern) {
  const std::string pattern = pattern_of("tokenizer.json");
  EXPECT_TRUE(O200kSplitter::for_pattern(pattern));
  EXPECT_FALSE(O200kSplitter::for_pattern(pattern + "|"));
  EXPECT_FALSE(O200kSplitter::for_pattern(pattern.substr(1)));
  EXPECT_FALSE(O200kSplitter::for_pattern(""));
}

}  // namespace
}  // namespace minim
