// The seam between our grammars and the library that matches them. grammar_xgrammar.cpp is one side
// of it; grammar_off.cpp stands there in a build without the library.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace minim {

// The state of one reply.
class MatcherEngine {
 public:
  virtual ~MatcherEngine() = default;
  virtual std::unique_ptr<MatcherEngine> copy() const = 0;

  // As those of GrammarMatcher.
  virtual void allowed(TokenBits& bits) = 0;
  virtual bool accept(TokenId token) = 0;
  virtual bool accept_text(std::string_view text) = 0;
  virtual bool may_end() const = 0;
  virtual bool ended() const = 0;
  // The bytes that must come next, up to where there is a choice (to end is one).
  virtual std::string forced_text() = 0;
};

// Immutable; any number of threads may start matchers at once.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual std::unique_ptr<MatcherEngine> start() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  virtual size_t bytes() const = 0;  // of memory, about; grows while it is used
};

class GrammarEngine {
 public:
  static bool available();
  // The tokenizer must outlive all that comes out of the engine. kUnsupported without the library.
  static Result<std::unique_ptr<GrammarEngine>> create(const Tokenizer& tokenizer,
                                                       std::span<const TokenId> stop_ids);
  virtual ~GrammarEngine() = default;

  // A grammar in xgrammar's EBNF, rule "root"; bounded by the caller (grammar_rules.h). kInvalid
  // with the line and the column where it is none. Thread-safe.
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& ebnf) = 0;
};

}  // namespace minim
