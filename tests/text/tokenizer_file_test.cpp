// What a tokenizer.json may say: flags that are honoured, and files that are refused with one clear
// line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_golden.h"

namespace minim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<TokenId>;
using Strings = std::vector<std::string>;

Json golden_file() {
  Result<Json> file = read_json_file(tokenizer_golden("tokenizer.json"));
  if (!file) ADD_FAILURE() << file.error().message;
  return *std::move(file);
}

// The golden file after `change`, loaded.
Result<Tokenizer> changed(const std::function<void(Json&)>& change) {
  Json file = golden_file();
  change(file);
  return Tokenizer::parse(dump_json(file), "t.json");
}

void expect_refused(const std::function<void(Json&)>& change, const std::string& part) {
  const Result<Tokenizer> tokenizer = changed(change);
  ASSERT_FALSE(tokenizer) << part;
  EXPECT_THAT(tokenizer.error().message, HasSubstr(part));
  EXPECT_THAT(tokenizer.error().message, ::testing::StartsWith("t.json: "));
  EXPECT_THAT(tokenizer.error().message, Not(HasSubstr("\n")));
  EXPECT_LT(tokenizer.error().message.size(), 400u);
}

Tokenizer with_pre_tokenizer(const std::string& spec) {
  Result<Tokenizer> tokenizer = changed([&](Json& f) { f["pre_tokenizer"] = Json::parse(spec); });
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return *std::move(tokenizer);
}

Strings split_by(const std::string& split, std::string_view text) {
  const Tokenizer tokenizer =
      with_pre_tokenizer(R"({"type":"Sequence","pretokenizers":[)" + split +
                         R"(,{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
  const std::vector<std::string_view> pieces = tokenizer.split(text);
  return Strings(pieces.begin(), pieces.end());
}

std::string split_spec(const std::string& pattern, const std::string& behavior, bool invert) {
  return R"({"type":"Split","pattern":)" + pattern + R"(,"behavior":")" + behavior +
         R"(","invert":)" + (invert ? "true" : "false") + "}";
}

void set_added_flag(Json& file, const std::string& content, const std::string& flag) {
  for (Json& token : file["added_tokens"]) {
    if (token["content"] == content) token[flag] = true;
  }
}

TEST(TokenizerFile, MergesMayBeStringsOrPairs) {
  const Tokenizer pairs = golden_tokenizer();
  const Result<Tokenizer> strings = changed([](Json& f) {
    for (Json& merge : f["model"]["merges"]) {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    }
  });
  ASSERT_TRUE(strings) << strings.error().message;
  for (const Json& vector : golden_vectors("encode.jsonl", 3828)) {
    EXPECT_EQ(strings->encode(vector["text"].get<std::string>(), true), vector["ids"].get<Ids>());
  }
}

TEST(TokenizerFile, SplitHonoursEveryBehaviour) {
  const std::string dash = R"({"String":"-"})";
  const std::string text = "the-final--countdown-";
  EXPECT_EQ(split_by(split_spec(dash, "Removed", false), text),
            (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split_by(split_spec(dash, "Removed", true), text), (Strings{"-", "-", "-", "-"}));
  EXPECT_EQ(split_by(split_spec(dash, "Isolated", false), text),
            (Strings{"the", "-", "final", "-", "-", "countdown", "-"}));
  EXPECT_EQ(split_by(split_spec(dash, "Contiguous", false), text),
            (Strings{"the", "-", "final", "--", "countdown", "-"}));
  EXPECT_EQ(split_by(split_spec(dash, "MergedWithPrevious", false), text),
            (Strings{"the-", "final-", "-", "countdown-"}));
  EXPECT_EQ(split_by(split_spec(dash, "MergedWithNext", false), text),
            (Strings{"the", "-final", "-", "-countdown", "-"}));
}

TEST(TokenizerFile, StringPatternsAreLiteral) {
  EXPECT_EQ(split_by(split_spec(R"({"String":".*"})", "Isolated", false), "a.*b.c"),
            (Strings{"a", ".*", "b.c"}));
  EXPECT_EQ(split_by(split_spec(R"({"String":"漢"})", "Isolated", false), "a漢b"),
            (Strings{"a", "漢", "b"}));
}

TEST(TokenizerFile, SplitsOfASequenceCutEachOthersPieces) {
  const std::string two = split_spec(R"({"Regex":"\\p{N}{1,3}"})", "Isolated", false) + "," +
                          split_spec(R"({"Regex":"[一-龥]+"})", "Isolated", false);
  EXPECT_EQ(split_by(two, "ab12345漢字x"), (Strings{"ab", "123", "45", "漢字", "x"}));
}

TEST(TokenizerFile, EmptyMatchesOnlyCut) {
  EXPECT_EQ(split_by(split_spec(R"j({"Regex":"(?=[A-Z])"})j", "Isolated", false), "oneTwoThree"),
            (Strings{"one", "Two", "Three"}));
  EXPECT_EQ(split_by(split_spec(R"({"Regex":"x*"})", "Isolated", false), "axxé"),
            (Strings{"a", "xx", "é"}));
}

TEST(TokenizerFile, BareByteLevelSplitsByTheGpt2Pattern) {
  const Tokenizer tokenizer =
      with_pre_tokenizer(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})");
  const std::vector<std::string_view> pieces = tokenizer.split("I'm 12  years\n\n old, it's");
  EXPECT_EQ(Strings(pieces.begin(), pieces.end()),
            (Strings{"I", "'m", " 12", " ", " years", "\n\n", " old", ",", " it", "'s"}));
}

TEST(TokenizerFile, MongolianVowelSeparatorIsNoSpace) {
  EXPECT_EQ(split_by(split_spec(R"({"Regex":"\\s"})", "Isolated", false), "a\u180Eb\u2003c"),
            (Strings{"a\u180Eb", "\u2003", "c"}));
  EXPECT_EQ(split_by(split_spec(R"({"Regex":"[^\\S]"})", "Isolated", false), "a\u180Eb\u2003c"),
            (Strings{"a\u180Eb", "\u2003", "c"}));
  EXPECT_EQ(split_by(split_spec(R"({"Regex":"[\\s1]+"})", "Removed", false), "a \u30001b"),
            (Strings{"a", "b"}));
}

TEST(TokenizerFile, RunawayPatternsLoseNoText) {
  const std::string text = std::string(60, 'a') + "!" + std::string(60, 'a');
  for (const bool invert : {false, true}) {
    const Strings pieces =
        split_by(split_spec(R"j({"Regex":"(a|aa)+$"})j", "Removed", invert), text);
    std::string joined;
    for (const std::string& piece : pieces) joined += piece;
    EXPECT_EQ(joined, text);
  }
}

TEST(TokenizerFile, IgnoreMergesTakesWholePiecesFromTheVocabulary) {
  const auto add_token = [](Json& f) {
    f["model"]["vocab"]["Ġzqx"] = 1400;
    f["added_tokens"] = Json::array();
  };
  const Result<Tokenizer> merging = changed(add_token);
  const Result<Tokenizer> whole = changed([&](Json& f) {
    add_token(f);
    f["model"]["ignore_merges"] = true;
  });
  ASSERT_TRUE(merging && whole);
  EXPECT_EQ(whole->encode(" zqx", false), Ids{1400});
  EXPECT_GT(merging->encode(" zqx", false).size(), 1u);
  EXPECT_EQ(whole->encode(" zqxy", false), merging->encode(" zqxy", false));
  EXPECT_EQ(whole->n_ids(), 1401);
  EXPECT_FALSE(whole->has_token(1350));
}

TEST(TokenizerFile, AddedTokensTakeSpaceAsTheirFlagsSay) {
  const Result<Tokenizer> tokenizer = changed([](Json& f) {
    set_added_flag(f, "<filename>", "lstrip");
    set_added_flag(f, "<reponame>", "rstrip");
  });
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto special = [&](const std::string& text) {
    return decode_bytes(*tokenizer, tokenizer->encode(text, true));
  };
  EXPECT_EQ(special("a \u3000<filename> b"), "a<filename> b");
  EXPECT_EQ(special("a <reponame> \n b"), "a <reponame>b");
  EXPECT_EQ(special(" <reponame> <filename> "), " <reponame><filename> ");
  EXPECT_EQ(special("\xFF <filename>\x80"), "\xFF<filename>\x80");
  EXPECT_EQ(decode_bytes(*tokenizer, tokenizer->encode("a <filename> b", false)), "a <filename> b");
}

TEST(TokenizerFile, TheLongestAddedTokenWinsAndNormalizedOnesComeLast) {
  const auto token = [](TokenId id, const std::string& content, bool normalized) {
    return Json{{"id", id}, {"content", content}, {"special", true}, {"normalized", normalized}};
  };
  const Result<Tokenizer> tokenizer = changed([&](Json& f) {
    f["added_tokens"] = Json::array({token(1500, "<x", false), token(1501, "<x><y", false),
                                     token(1502, "<x><y>", true), token(1503, "y>", true)});
  });
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TokenId greater = tokenizer->encode(">", false)[0];
  EXPECT_EQ(tokenizer->encode("<x><y>", true), (Ids{1501, greater}));
  EXPECT_EQ(tokenizer->encode("<x>y>", true), (Ids{1500, greater, 1503}));
  EXPECT_EQ(tokenizer->find_added("<x><y>"), 1502);
}

TEST(TokenizerFile, RefusesWhatItCannotReproduce) {
  expect_refused([](Json& f) { f.erase("model"); }, "no \"model\"");
  expect_refused([](Json& f) { f = Json::array(); }, "wanted a JSON object");
  expect_refused([](Json& f) { f["model"]["type"] = "Unigram"; }, "model type \"Unigram\"");
  expect_refused([](Json& f) { f["model"]["type"] = 3; }, "model type number");
  expect_refused([](Json& f) { f["normalizer"] = {{"type", "NFC"}}; }, "normalizer \"NFC\"");
  expect_refused([](Json& f) { f["decoder"] = {{"type", "Metaspace"}}; }, "decoder \"Metaspace\"");
  expect_refused([](Json& f) { f["model"]["dropout"] = 0.1; }, "dropout");
  expect_refused([](Json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback");
  expect_refused([](Json& f) { f["model"]["continuing_subword_prefix"] = "##"; },
                 "continuing_subword_prefix");
  expect_refused([](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  expect_refused([](Json& f) { set_added_flag(f, "<filename>", "single_word"); }, "single_word");
}

TEST(TokenizerFile, RefusesBadVocabulariesAndMerges) {
  const auto vocab = [](Json& f) -> Json& { return f["model"]["vocab"]; };
  const auto merges = [](Json& f) -> Json& { return f["model"]["merges"]; };
  expect_refused([&](Json& f) { f["model"].erase("vocab"); }, "no object \"vocab\"");
  expect_refused([&](Json& f) { vocab(f) = "x"; }, "no object \"vocab\"");
  expect_refused([&](Json& f) { vocab(f)["zz"] = -1; }, "\"zz\" has id -1");
  expect_refused([&](Json& f) { vocab(f)["zz"] = 16777216; }, "\"zz\" has id 16777216");
  expect_refused([&](Json& f) { vocab(f)["zz"] = 1e300; }, "has id 1e+300");
  expect_refused([&](Json& f) { vocab(f)["zz"] = "5"; }, "has id string");
  expect_refused([&](Json& f) { vocab(f)["zz"] = 17; }, "share the id 17");
  expect_refused([&](Json& f) { vocab(f).erase("Ġ"); }, "byte 0x20");
  expect_refused([&](Json& f) { f["model"].erase("merges"); }, "no list \"merges\"");
  expect_refused([&](Json& f) { merges(f).push_back({"q", "qqqq"}); }, "which vocab does not have");
  expect_refused([&](Json& f) { merges(f).push_back({"~", "~"}); }, "which vocab does not have");
  expect_refused([&](Json& f) { merges(f).push_back("a b c"); }, "merge 1024 is neither");
  expect_refused([&](Json& f) { merges(f).push_back("ab"); }, "merge 1024 is neither");
  expect_refused([&](Json& f) { merges(f).push_back({"a"}); }, "merge 1024 is neither");
  expect_refused([&](Json& f) { merges(f).push_back(7); }, "merge 1024 is neither");
}

TEST(TokenizerFile, RefusesBadAddedTokens) {
  const auto first = [](Json& f) -> Json& { return f["added_tokens"][0]; };
  expect_refused([&](Json& f) { f["added_tokens"] = "x"; }, "wanted a list");
  expect_refused([&](Json& f) { first(f)["id"] = 5; }, "share the id 5");
  expect_refused([&](Json& f) { first(f)["id"] = 1281; }, "share the id 1281");
  expect_refused([&](Json& f) { first(f)["id"] = 99999999; }, "has id 99999999");
  expect_refused([&](Json& f) { first(f).erase("id"); }, "has no \"id\"");
  expect_refused([&](Json& f) { first(f)["content"] = ""; }, "has 0 bytes");
  expect_refused([&](Json& f) { first(f)["content"] = std::string(1000, 'x'); }, "has 1000 bytes");
  expect_refused([&](Json& f) { first(f)["content"] = "<filename>"; }, "comes twice");
  expect_refused([&](Json& f) { first(f)["content"] = "a"; }, "but vocab gives it");
  expect_refused([&](Json& f) { first(f)["special"] = 1; }, "wanted true or false");
}

TEST(TokenizerFile, RefusesBadPreTokenizers) {
  const auto part = [](Json& f) -> Json& { return f["pre_tokenizer"]["pretokenizers"][0]; };
  const auto pattern = [&](const std::string& regex) {
    return [=](Json& f) { part(f)["pattern"] = {{"Regex", regex}}; };
  };
  expect_refused([](Json& f) { f["pre_tokenizer"] = nullptr; }, "no pre_tokenizer");
  expect_refused([](Json& f) { f["pre_tokenizer"] = {{"type", "Metaspace"}}; }, "\"Metaspace\"");
  expect_refused([](Json& f) { f["pre_tokenizer"] = {{"type", "Sequence"}}; }, "\"pretokenizers\"");
  expect_refused(
      [](Json& f) {
        f["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
      },
      "add_prefix_space");
  expect_refused([](Json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); }, "no ByteLevel");
  expect_refused([&](Json& f) { f["pre_tokenizer"]["pretokenizers"].push_back(part(f)); },
                 "behind ByteLevel");
  expect_refused([&](Json& f) { part(f)["behavior"] = "Shredded"; }, "\"Shredded\"");
  expect_refused([&](Json& f) { part(f).erase("behavior"); }, "\"behavior\" is missing");
  expect_refused([&](Json& f) { part(f).erase("pattern"); }, "no pattern");
  expect_refused([&](Json& f) { part(f)["invert"] = "yes"; }, "\"invert\" is string");
  expect_refused(pattern("(a"), "does not compile");
  expect_refused(pattern(""), "is empty");
  expect_refused(pattern(std::string(20000, 'a')), "has 20000 bytes");
  expect_refused(pattern("(?:a{60000}){60000}"), "does not compile");
  expect_refused(pattern("\\p{Nonsense}"), "does not compile");
  expect_refused(pattern("[a[b]]"), "a class inside a class");
  expect_refused(pattern("[a-z&&[aeiou]]"), "inside a class");
  expect_refused(pattern("\\h+"), "\\h");
  expect_refused(pattern("a{1,3}+"), "{n,m}+");
  expect_refused(pattern("(*UCP)a"), "(*");
}

TEST(TokenizerFile, RefusesWhatIsNotJson) {
  Result<std::string> text = read_file(tokenizer_golden("tokenizer.json"));
  ASSERT_TRUE(text);
  for (size_t cut = 0; cut < text->size(); cut += cut < 200 ? 1 : 997) {
    const Result<Tokenizer> tokenizer = Tokenizer::parse(text->substr(0, cut), "t.json");
    ASSERT_FALSE(tokenizer) << cut;
    EXPECT_THAT(tokenizer.error().message, HasSubstr("t.json: not JSON at byte"));
    EXPECT_LT(tokenizer.error().message.size(), 400u);
  }
  EXPECT_FALSE(Tokenizer::parse("\"\xFF\"", "t.json"));
  EXPECT_FALSE(Tokenizer::parse("version https://git-lfs.github.com/spec/v1\n", "t.json"));
  EXPECT_FALSE(Tokenizer::parse(std::string(1000000, '['), "t.json"));
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_FALSE(Tokenizer::parse(deep, "t.json"));
  EXPECT_FALSE(Tokenizer::parse("{\"model\":" + deep + "}", "t.json"));
}

TEST(TokenizerFile, MissingFileIsNamed) {
  const Result<Tokenizer> tokenizer = Tokenizer::load("/nowhere/tokenizer.json");
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, Code::kNotFound);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nowhere/tokenizer.json"));
}

}  // namespace
}  // namespace minim
