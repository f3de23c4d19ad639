#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer_golden.h"
#include "text/utf8.h"

namespace minim {
namespace {

using Ids = std::vector<TokenId>;

TEST(Detokenizer, GivesTheDeltasOfAllVectors) {
  const Tokenizer tokenizer = golden_tokenizer();
  for (const Json& vector : golden_vectors("detokenize.jsonl", 515)) {
    const Ids ids = vector["ids"].get<Ids>();
    const bool skip_special = vector["skip_special"].get<bool>();
    Detokenizer detokenizer(tokenizer, skip_special);
    std::vector<std::string> deltas;
    std::string joined;
    for (const TokenId id : ids) {
      deltas.push_back(detokenizer.push(id));
      joined += deltas.back();
    }
    const std::string rest = detokenizer.flush();
    EXPECT_EQ(deltas, vector["deltas"].get<std::vector<std::string>>()) << vector["id"];
    EXPECT_EQ(rest, vector["flush"].get<std::string>()) << vector["id"];
    EXPECT_EQ(decode(tokenizer, ids, skip_special), joined + rest) << vector["id"];
  }
}

TEST(Detokenizer, EveryDeltaOfRandomBytesIsWellFormed) {
  const Tokenizer tokenizer = golden_tokenizer();
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Detokenizer detokenizer(tokenizer, false);
    std::string joined;
    for (int i = 0; i < 40; ++i) {
      const TokenId id = static_cast<TokenId>(random() % (random() % 2 ? 256 : 1341));
      const std::string delta = detokenizer.push(id);
      ASSERT_EQ(valid_utf8_length(delta), delta.size());
      joined += delta;
    }
    joined += detokenizer.flush();
    EXPECT_EQ(valid_utf8_length(joined), joined.size());
  }
}

TEST(Detokenizer, IdsWithoutTokenGiveNothing) {
  const Tokenizer tokenizer = golden_tokenizer();
  Detokenizer detokenizer(tokenizer, false);
  for (const TokenId id : {-1, INT32_MIN, 1341, 1343, INT32_MAX})
    EXPECT_EQ(detokenizer.push(id), "");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, SkippedTokensDoNotBreakACharacter) {
  const Tokenizer tokenizer = golden_tokenizer();
  Ids ids = tokenizer.encode("\xE6", false);
  const Ids tail = tokenizer.encode("\xBC\xA2", false);
  ids.push_back(tokenizer.find_added("[e~[").value());
  ids.insert(ids.end(), tail.begin(), tail.end());
  EXPECT_EQ(decode(tokenizer, ids, true), "\xE6\xBC\xA2");
  EXPECT_EQ(decode(tokenizer, ids, false), "\uFFFD[e~[\uFFFD\uFFFD");
}

TEST(Detokenizer, IsReadyForANewTextAfterFlush) {
  const Tokenizer tokenizer = golden_tokenizer();
  Detokenizer detokenizer(tokenizer, false);
  for (const TokenId id : tokenizer.encode("\xF0\x9F", false)) detokenizer.push(id);
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
  EXPECT_EQ(detokenizer.push(tokenizer.encode("a", false)[0]), "a");
}

TEST(Detokenizer, StreamingGivesTheSameTextAsDecodingAtOnce) {
  const Tokenizer tokenizer = golden_tokenizer();
  // Cut behind each byte of ill-formed and well-formed sequences: the joined text may not depend on
  // it.
  for (const std::string bytes :
       {"\xED\xA0", "\xED\xA0z", "\xED\xBF\xBF", "\xED\x9F\xBF", "\xE2\x82", "\xF0\x9F\x98",
        "\xF0\x9F\x98\x80", "\xF4\x90\x80\x80", "\xC0\xAF"}) {
    std::string at_once;
    for (std::string_view rest = bytes; !rest.empty();) {
      const Utf8Element element = utf8_first(rest);
      at_once +=
          element.kind == Utf8Kind::kCharacter ? rest.substr(0, element.length) : kReplacement;
      rest.remove_prefix(element.length);
    }
    EXPECT_EQ(decode(tokenizer, tokenizer.encode(bytes, false), false), at_once);
  }
}

TEST(Utf8, ClassifiesEveryTwoBytePrefixLikeTheTableOfWellFormedSequences) {
  for (int first = 0x80; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
      const bool continues = (second & 0xC0) == 0x80;
      bool may_follow = first >= 0xC2 && first <= 0xF4 && continues;
      if (first == 0xE0 && second < 0xA0) may_follow = false;  // overlong
      if (first == 0xED && second > 0x9F) may_follow = false;  // surrogate
      if (first == 0xF0 && second < 0x90) may_follow = false;  // overlong
      if (first == 0xF4 && second > 0x8F) may_follow = false;  // above U+10FFFF
      const Utf8Element element = utf8_first(bytes);
      EXPECT_EQ(element.length, may_follow ? 2 : 1) << first << " " << second;
      EXPECT_EQ(element.kind, !may_follow    ? Utf8Kind::kIllFormed
                              : first < 0xE0 ? Utf8Kind::kCharacter
                                             : Utf8Kind::kIncomplete);
    }
  }
}

TEST(Utf8, EveryScalarValueSurvivesThereAndBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(valid_utf8_length(text), text.size());
    ASSERT_EQ(utf8_first(text).length, text.size());
    ASSERT_EQ(utf8_code_point(text), c);
  }
}

}  // namespace
}  // namespace minim
