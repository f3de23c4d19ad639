#include "text/prompt.h"

#include <gtest/gtest.h>

#include <fstream>

namespace minim {
namespace {

const std::string kData = std::string(MINIM_TEST_DATA) + "/text/";

const Tokenizer& tokenizer() {
  static const Result<Tokenizer> loaded = Tokenizer::load(kData + "tokenizer/tokenizer.json");
  EXPECT_TRUE(loaded) << loaded.error().message;
  return *loaded;
}

std::vector<TokenId> encode(std::vector<PromptSegment> segments) {
  return encode_prompt(tokenizer(), segments);
}

TEST(Prompt, RenderedConversationsGiveTheReferencesIds) {
  const Result<ChatTemplate> chat = ChatTemplate::load(kData + "template/chat_template.jinja");
  ASSERT_TRUE(chat) << chat.error().message;
  std::ifstream in(kData + "template/prompt_ids.jsonl");
  size_t count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    const Result<Json> v = parse_json(line, "prompt_ids.jsonl");
    ASSERT_TRUE(v) << v.error().message;
    const std::string id = (*v)["id"];
    const auto segments = chat->render((*v)["vars"], {});
    ASSERT_TRUE(segments) << id << ": " << segments.error().message;
    const std::vector<TokenId> ids = encode_prompt(tokenizer(), *segments);
    EXPECT_EQ(ids, (*v)["ids"].get<std::vector<TokenId>>()) << id;
    std::string decoded;
    for (const TokenId token : ids) decoded += tokenizer().bytes(token);
    EXPECT_EQ(decoded, ChatTemplate::join(*segments)) << id;
  }
  EXPECT_EQ(count, 120u);
}

TEST(Prompt, AddedTokensCountOnlyWhereTheTemplateWroteThem) {
  const TokenId role = *tokenizer().find_added("]~b]");
  EXPECT_EQ(encode({{"]~b]", true}}), std::vector<TokenId>{role});
  EXPECT_EQ(encode({{"]~b]", false}}), tokenizer().encode("]~b]", false));
}

TEST(Prompt, LiteralAcrossABorderIsText) {
  EXPECT_EQ(encode({{"]~", true}, {"b]", false}}), tokenizer().encode("]~b]", false));
  EXPECT_EQ(encode({{"]~", false}, {"b]", true}}), tokenizer().encode("]~b]", false));
}

TEST(Prompt, TextBetweenAddedTokensIsOneRun) {
  const TokenId role = *tokenizer().find_added("]~b]");
  std::vector<TokenId> want = tokenizer().encode("hello world", false);
  want.insert(want.begin(), role);
  want.push_back(role);
  EXPECT_EQ(encode({{"]~b]hel", true}, {"lo wor", false}, {"ld]~b]", true}}), want);
}

TEST(Prompt, NothingGivesNoIds) { EXPECT_TRUE(encode({}).empty()); }

}  // namespace
}  // namespace minim
