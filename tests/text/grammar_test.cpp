#include <algorithm>
#include <ctime>
#include <random>
#include <thread>

#include "text/grammar_fixture.h"

namespace minim {
namespace {

using Kind = GrammarSpec::Kind;

TEST_F(GrammarTest, AddedTokensNeverStandInText) {
  GrammarMatcher anything = matcher(spec(Kind::kEbnf, "root ::= [^]*"));
  for (const TokenId id : allowed(anything)) {
    EXPECT_TRUE(!tokenizer_.is_added(id) || id == stop()) << id;
    EXPECT_TRUE(tokenizer_.has_token(id)) << id;
  }
  const TokenId tool = *tokenizer_.find_added("<tool_call>");
  EXPECT_FALSE(anything.accept(tool));
  // The characters of its literal are text like other text.
  EXPECT_TRUE(anything.accept_text("<tool_call>"));
}

TEST_F(GrammarTest, TokenElementsTakeExactlyTheirToken) {
  const TokenId tool = *tokenizer_.find_added("<tool_call>");
  GrammarMatcher one =
      matcher(spec(Kind::kTokenEbnf, "root ::= Token(" + std::to_string(tool) + ") \"a\""));
  EXPECT_EQ(allowed(one), std::vector<TokenId>{tool});
  EXPECT_FALSE(one.accept_text("<tool_call>"));
  EXPECT_FALSE(one.may_end());
  ASSERT_TRUE(one.accept(tool));
  EXPECT_TRUE(one.accept_text("a"));
  EXPECT_TRUE(one.may_end());
}

TEST_F(GrammarTest, ExcludeTokenLeavesOutItsTokensAndThoseThatAreNone) {
  const TokenId tool = *tokenizer_.find_added("<tool_call>");
  GrammarMatcher one =
      matcher(spec(Kind::kTokenEbnf, "root ::= ExcludeToken(" + std::to_string(tool) + ")"));
  const std::vector<TokenId> ids = allowed(one);
  EXPECT_FALSE(std::count(ids.begin(), ids.end(), tool));
  EXPECT_TRUE(std::count(ids.begin(), ids.end(), *tokenizer_.find_added("</tool_call>")));
  for (const TokenId id : ids) EXPECT_TRUE(tokenizer_.has_token(id)) << id;
}

TEST_F(GrammarTest, StopIdsEndOnlyWhereTheGrammarMay) {
  GrammarMatcher one = matcher(spec(Kind::kEbnf, "root ::= \"ab\""));
  EXPECT_FALSE(one.accept(stop()));
  ASSERT_TRUE(one.accept_text("ab"));
  EXPECT_EQ(allowed(one), std::vector<TokenId>{stop()});
  EXPECT_FALSE(one.ended());
  ASSERT_TRUE(one.accept(stop()));
  EXPECT_TRUE(one.ended());
  EXPECT_TRUE(allowed(one).empty());
  EXPECT_FALSE(one.accept(stop()));
  EXPECT_TRUE(one.forced().empty());
}

TEST_F(GrammarTest, ARefusedTokenOrTextChangesNothing) {
  GrammarMatcher one = matcher(spec(Kind::kRegex, "[a-c]{3}"));
  ASSERT_TRUE(one.accept_text("a"));
  const std::vector<TokenId> before = allowed(one);
  EXPECT_FALSE(one.accept_text("bX"));
  EXPECT_FALSE(one.accept(-1));
  EXPECT_FALSE(one.accept(tokenizer_.n_ids()));
  EXPECT_FALSE(one.accept(tokenizer_.encode("X", false)[0]));
  EXPECT_EQ(allowed(one), before);
  EXPECT_TRUE(one.accept_text("bc"));
}

TEST_F(GrammarTest, ForcedTokensAreTheTokenizersOwnAndStopBeforeAChoice) {
  GrammarMatcher one = matcher(schema(
      R"({"type":"object","properties":{"temperature":{"type":"integer"}},"required":["temperature"]})"));
  const std::vector<TokenId> forced = one.forced();
  ASSERT_FALSE(forced.empty());
  std::string text;
  for (const TokenId id : forced) text += tokenizer_.bytes(id);
  EXPECT_TRUE(std::string("{\"temperature\": ").starts_with(text)) << text;
  EXPECT_GE(text.size(), std::string("{\"temperature").size());
  const std::vector<TokenId> whole = tokenizer_.encode("{\"temperature\": 7}", false);
  ASSERT_LE(forced.size(), whole.size());
  EXPECT_TRUE(std::equal(forced.begin(), forced.end(), whole.begin()));
  EXPECT_EQ(one.forced(), forced);
  for (const TokenId id : forced) ASSERT_TRUE(one.accept(id));
}

TEST_F(GrammarTest, WhereTheReplyIsOverAllOfItIsForced) {
  GrammarSpec choice;
  choice.kind = Kind::kChoice;
  choice.choices = {"only this"};
  GrammarMatcher one = matcher(choice);
  EXPECT_EQ(one.forced(), tokenizer_.encode("only this", false));
  for (const TokenId id : one.forced()) ASSERT_TRUE(one.accept(id));
  EXPECT_TRUE(one.may_end());
  EXPECT_TRUE(one.forced().empty());
}

TEST_F(GrammarTest, ChoicesRegexAndEbnfAllowWhatTheySay) {
  GrammarSpec choice;
  choice.kind = Kind::kChoice;
  choice.choices = {"yes", "no", "\"quoted\"\n", "漢"};
  for (const std::string& text : choice.choices) EXPECT_TRUE(accepts(choice, text)) << text;
  EXPECT_FALSE(accepts(choice, "ye"));
  EXPECT_FALSE(accepts(choice, "yesno"));
  choice.choices.clear();
  EXPECT_NE(refusal(choice).find("empty list"), std::string::npos);

  const GrammarSpec regex = spec(Kind::kRegex, R"(^(a|[0-9]{2,3})x+\.(?:\u00e9|\s)?$)");
  for (const char* text : {"ax.", "12xxx.é", "123x. "}) EXPECT_TRUE(accepts(regex, text)) << text;
  for (const char* text : {"", "1x.", "axx", "ax.éé"}) EXPECT_FALSE(accepts(regex, text)) << text;

  const GrammarSpec ebnf = spec(Kind::kEbnf, R"EBNF(
root ::= term ("+" term)*   # sums
term ::= [0-9]+ | "(" root ")" | "x" {2}
)EBNF");
  for (const char* text : {"1", "1+(2+3)", "xx"}) EXPECT_TRUE(accepts(ebnf, text)) << text;
  for (const char* text : {"1+", "(1", "x"}) EXPECT_FALSE(accepts(ebnf, text)) << text;
}

TEST_F(GrammarTest, MistakesAreToldWithTheirPlace) {
  const struct {
    Kind kind;
    const char* text;
    const char* wanted;
  } cases[] = {
      {Kind::kRegex, "a(b", "missing ')' at byte 3"},
      {Kind::kRegex, "(?=a)b", "look-around at byte 0 is not supported"},
      {Kind::kRegex, "(a)\\1", "back-reference"},
      {Kind::kRegex, "a{2,1}", "n above m"},
      {Kind::kRegex, "a^b", "^ inside a pattern"},
      {Kind::kRegex, "[b-a]", "upside down"},
      {Kind::kRegex, "\\pL", "Unicode property"},
      {Kind::kEbnf, "rot ::= \"a\"", "no rule \"root\""},
      {Kind::kEbnf, "root ::= a\nb ::= \"x\"",
       "no rule \"a\" in the grammar; it is used at line 1"},
      {Kind::kEbnf, "root ::= \"a\n\"", "missing '\"' at line 1, column 12"},
      {Kind::kEbnf, "root ::= Token(1)", "Token(…) is not supported; found at line 1, column 10"},
      {Kind::kEbnf, "root ::= TagDispatch((\"a\", root))", "TagDispatch"},
      {Kind::kEbnf, "root[lazy] ::= \"a\"", "no \"::=\""},
      {Kind::kEbnf, "root ::= \"a\" root", "can never end"},
      {Kind::kEbnf, "root ::= a{1000000000}\na ::= \"b\"", "a number above 1000000"},
      {Kind::kTokenEbnf, "root ::= Token(99999999)", "a number above"},
      {Kind::kJsonSchema, "{", "not JSON"},
      {Kind::kJsonSchema, "\xff", "not UTF-8"},
  };
  for (const auto& one : cases) {
    const std::string message = refusal(spec(one.kind, one.text));
    EXPECT_NE(message.find(one.wanted), std::string::npos) << one.text << "\n  " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST_F(GrammarTest, WhatWouldExplodeIsDoneOrRefusedAtOnce) {
  const std::string huge(2 << 20, 'x');
  std::string nested = "a", doubled = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) {
    nested = "(" + nested + "){1000}";
    doubled += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" +
               std::to_string(i + 1) + "\n";
  }
  doubled += "r40 ::= \"a\"\n";
  std::string chain = "root ::= c0\n";
  for (int i = 0; i < 20000; ++i) {
    chain += "c" + std::to_string(i) + " ::= c" + std::to_string(i + 1) + "\n";
  }
  chain += "c20000 ::= \"a\"\n";
  const GrammarSpec cases[] = {
      schema(R"({"type":"array","minItems":1000000000})"),
      schema(R"({"type":"array","minItems":999999,"items":{"type":"array","minItems":999999}})"),
      schema(R"({"type":"string","maxLength":1000000000})"),
      schema(R"({"type":"string","pattern":"^((a{1,1000}){1,1000}){1,1000}$"})"),
      spec(Kind::kRegex, nested),
      spec(Kind::kRegex, std::string(100000, '(')),
      spec(Kind::kEbnf, doubled),
      spec(Kind::kEbnf, chain),
      spec(Kind::kEbnf, "root ::= " + std::string(60000, '(')),
      spec(Kind::kJsonSchema, std::string(100000, '[')),
      spec(Kind::kRegex, huge),
  };
  for (const GrammarSpec& one : cases) {
    const std::clock_t begin = std::clock();
    Result<std::shared_ptr<const CompiledGrammar>> grammar = compiler().compile(one);
    if (grammar) {
      GrammarMatcher first(*grammar);
      TokenBits bits;
      first.allowed(bits);
      first.forced();
    }
    // Processor time: the machine may be busy.
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC) << one.text.substr(0, 60);
  }
}

TEST_F(GrammarTest, EqualSpecsAreOneGrammarAlsoAcrossThreads) {
  const GrammarSpec wanted = schema(R"({"type":"array","items":{"type":"integer"}})");
  std::vector<std::shared_ptr<const CompiledGrammar>> made(8);
  GrammarCompiler& shared = compiler();
  std::vector<std::thread> threads;
  for (auto& slot : made) {
    threads.emplace_back([&shared, &slot, &wanted] {
      slot = *shared.compile(wanted);
      GrammarMatcher one(slot);
      TokenBits bits;
      for (const char* text : {"[1", ", 2", "]"}) {
        one.allowed(bits);
        EXPECT_TRUE(one.accept_text(text));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : made) EXPECT_EQ(one, made[0]);
  EXPECT_NE(*shared.compile(schema(R"({"type":"array"})")), made[0]);
}

TEST_F(GrammarTest, ASmallCacheForgetsWhatWasUsedLongest) {
  limits_.cache_bytes = 1;
  const GrammarSpec first = spec(Kind::kRegex, "a"), second = spec(Kind::kRegex, "b");
  const auto one = *compiler().compile(first);
  EXPECT_EQ(*compiler().compile(first), one);
  ASSERT_TRUE(compiler().compile(second));
  EXPECT_NE(*compiler().compile(first), one);
}

TEST_F(GrammarTest, MasksAgreeWithWhatTokensAreTaken) {
  std::mt19937 random(7);
  GrammarMatcher one = matcher(schema(
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":["number","null"]}},
          "b":{"type":"string","maxLength":6}},"required":["a"],"additionalProperties":{"type":"boolean"}})"));
  for (int step = 0; step < 60 && !one.ended(); ++step) {
    const std::vector<TokenId> ids = allowed(one);
    ASSERT_FALSE(ids.empty());
    for (TokenId id = 0; id < tokenizer_.n_ids(); id += 7) {
      if (std::binary_search(ids.begin(), ids.end(), id)) continue;
      ASSERT_FALSE(one.accept(id)) << "step " << step << ", token " << id;
    }
    ASSERT_TRUE(one.accept(ids[random() % ids.size()]));
  }
}

}  // namespace
}  // namespace minim
