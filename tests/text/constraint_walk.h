// Random replies under a mask, and what the parser makes of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/grammar.h"
#include "text/output_constraint.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace minim::testing {

inline const Tokenizer& demo_tokenizer() {
  static const Tokenizer* const tokenizer = [] {
    Result<Tokenizer> loaded = Tokenizer::load(std::string(MINIM_DEMO_MODEL) + "/tokenizer.json");
    EXPECT_TRUE(loaded) << loaded.error().message;
    return new Tokenizer(*std::move(loaded));
  }();
  return *tokenizer;
}

inline TokenId added(const char* literal) { return *demo_tokenizer().find_added(literal); }

// Ids of a text in which 01 stands for the namespace marker, 02 and 03 open and close thinking;
// <tool_call> is its token.
inline std::vector<TokenId> add_markup(std::string text) {
  for (const auto& [from, to] : {std::pair<char, const char*>{'\x01', "]<]minimax[>["},
                                 {'\x02', "<mm:think>"},
                                 {'\x03', "</mm:think>"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, 1, to);
  }
  return demo_tokenizer().encode(text, true);
}

inline std::string shown(const std::vector<TokenId>& tokens) {
  return "\n" + decode(demo_tokenizer(), tokens, false);
}

inline ParsedOutput parse(const std::vector<TokenId>& tokens, std::shared_ptr<const ToolSet> tools,
                          ThinkingMode mode, const char* finish) {
  TokenOutputParser parser(demo_tokenizer(), std::move(tools), mode);
  std::vector<OutputEvent> events;
  for (const TokenId token : tokens) parser.push(token, events);
  parser.finish(finish, events);
  ParsedOutput output;
  for (const OutputEvent& event : events) output.add(event);
  return output;
}

class Walk {
 public:
  // After `patience` tokens the walk looks for its end.
  Walk(unsigned seed, size_t patience) : random_(seed), patience_(patience) {
    preferred_ = {added("[e~["), added("]<]minimax[>["), added("</tool_call>"),
                  added("</mm:think>")};
    for (const char* text : {"\"", "}", "]", "</", "/", ">"}) {
      const std::vector<TokenId> ids = demo_tokenizer().encode(text, false);
      if (ids.size() == 1) preferred_.push_back(ids[0]);
    }
  }

  std::vector<TokenId> run(GrammarMatcher& matcher) {
    std::vector<TokenId> tokens;
    TokenBits bits;
    while (!matcher.ended()) {
      matcher.allowed(bits);
      const TokenId token = choose(&bits, tokens.size());
      stuck_ = stuck_ || token < 0 || tokens.size() > 6000 || !matcher.accept(token);
      if (stuck_) return tokens;
      tokens.push_back(token);
    }
    return tokens;
  }

  // As the generation loop does it: forced tokens are taken, until a stop id comes.
  std::vector<TokenId> run(OutputConstraint& constraint) {
    std::vector<TokenId> tokens;
    while (true) {
      for (auto forced = constraint.forced(); !forced.empty(); forced = constraint.forced()) {
        for (const TokenId token : forced) {
          n_forced_ += 1;
          if (take(constraint, token, tokens)) return tokens;
        }
      }
      const TokenId token = choose(constraint.allowed(), tokens.size());
      stuck_ = token < 0 || tokens.size() > 6000;
      if (stuck_ || take(constraint, token, tokens)) return tokens;
    }
  }

  bool stuck() const { return stuck_; }
  size_t n_forced() const { return n_forced_; }

 private:
  static bool take(OutputConstraint& constraint, TokenId token, std::vector<TokenId>& tokens) {
    tokens.push_back(token);
    if (token == added("[e~[")) return true;
    constraint.accept(token);
    return false;
  }

  static bool in(const TokenBits* bits, TokenId id) {
    return bits == nullptr || ((*bits)[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  }

  TokenId choose(const TokenBits* bits, size_t n) {
    const bool ending = n > patience_;
    if (random_() % 100 < (ending ? 90 : 25)) {
      const size_t first = ending ? 0 : random_() % preferred_.size();
      for (size_t i = 0; i < (ending ? preferred_.size() : 1); ++i) {
        if (in(bits, preferred_[first + i])) return preferred_[first + i];
      }
    }
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < demo_tokenizer().n_ids(); ++id) {
      if (in(bits, id) && demo_tokenizer().has_token(id)) ids.push_back(id);
    }
    return ids.empty() ? -1 : ids[random_() % ids.size()];
  }

  std::minstd_rand random_;
  size_t patience_;
  std::vector<TokenId> preferred_;
  bool stuck_ = false;
  size_t n_forced_ = 0;
};

}  // namespace minim::testing
