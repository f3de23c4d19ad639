// Grammars over the golden tokenizer, for tests. Tests of what is compiled skip themselves in a
// build without the library.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"
#include "text/tokenizer_golden.h"

namespace minim {

#define NEEDS_GRAMMARS()             \
  if (!GrammarCompiler::available()) \
  GTEST_SKIP() << "structured output is not part of this build (no xgrammar)"

class GrammarTest : public ::testing::Test {
 protected:
  void SetUp() override { NEEDS_GRAMMARS(); }

  GrammarCompiler& compiler() {
    if (compiler_ == nullptr) {
      Result<std::unique_ptr<GrammarCompiler>> made =
          GrammarCompiler::create(tokenizer_, std::vector<TokenId>{stop()}, limits_);
      EXPECT_TRUE(made);
      compiler_ = *std::move(made);
    }
    return *compiler_;
  }

  TokenId stop() const { return *tokenizer_.find_added("[e~["); }

  static GrammarSpec spec(GrammarSpec::Kind kind, std::string text) {
    GrammarSpec result;
    result.kind = kind;
    result.text = std::move(text);
    return result;
  }
  static GrammarSpec schema(std::string text) {
    return spec(GrammarSpec::Kind::kJsonSchema, std::move(text));
  }

  GrammarMatcher matcher(const GrammarSpec& wanted) {
    Result<std::shared_ptr<const CompiledGrammar>> grammar = compiler().compile(wanted);
    EXPECT_TRUE(grammar) << grammar.error().message;
    return GrammarMatcher(*grammar);
  }

  bool accepts(const GrammarSpec& wanted, const std::string& text) {
    GrammarMatcher one = matcher(wanted);
    return one.accept_text(text) && one.may_end();
  }

  std::string refusal(const GrammarSpec& wanted) {
    Result<std::shared_ptr<const CompiledGrammar>> grammar = compiler().compile(wanted);
    return grammar ? "" : grammar.error().message;
  }

  std::vector<TokenId> allowed(GrammarMatcher& one) {
    TokenBits bits;
    one.allowed(bits);
    EXPECT_EQ(bits.size(), (static_cast<size_t>(tokenizer_.n_ids()) + 31) / 32);
    std::vector<TokenId> ids;
    for (size_t i = 0; i < 32 * bits.size(); ++i) {
      if ((bits[i / 32] >> (i % 32) & 1) != 0) ids.push_back(static_cast<TokenId>(i));
    }
    return ids;
  }

  GrammarCompiler::Limits limits_;
  Tokenizer tokenizer_ = golden_tokenizer();
  std::unique_ptr<GrammarCompiler> compiler_;
};

}  // namespace minim
