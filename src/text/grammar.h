// Structured output: what a grammar allows next, as a set of token ids.
//
// Grammars are compiled once, kept by hash and shared; a matcher is the state of one reply. Built
// on xgrammar where it is there (grammar_xgrammar.cpp); a build without it refuses every grammar by
// name (grammar_off.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace minim {

// One bit an id, id i in bit i % 32 of word i / 32; 1 = allowed. ceil(n_ids / 32) words.
using TokenBits = std::vector<uint32_t>;

struct GrammarSpec {
  enum class Kind : uint8_t {
    kJsonSchema,  // text: the schema
    kJsonObject,  // any JSON object
    kRegex,       // text: the whole reply matches it
    kChoice,      // choices: the reply is one of them
    kEbnf,        // text: a grammar with the rule "root"
    kTokenEbnf,   // the same, written by minim: may name token ids (tool_grammar.h)
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
};

class CompiledGrammar;  // immutable

class GrammarCompiler {
 public:
  // Limits on what a caller may ask for; beyond them compile() refuses and says which.
  struct Limits {
    size_t max_bytes = size_t{1} << 20;      // of a schema, regex, list or grammar
    int max_depth = 128;                     // nesting of a schema
    size_t cache_bytes = size_t{256} << 20;  // compiled grammars kept
    size_t max_positions = 200'000;          // of a grammar once its repetitions are written out:
                                             // the time of a compilation follows this count
    size_t max_rules = 10'000;               // and, squared, that of its rules
  };

  // Whether this build can compile grammars.
  static bool available();

  // The tokenizer must outlive the compiler. stop_ids end a reply: allowed where the grammar may
  // end, and only there. kUnsupported in a build without grammars.
  static Result<std::unique_ptr<GrammarCompiler>> create(const Tokenizer& tokenizer,
                                                         std::span<const TokenId> stop_ids,
                                                         const Limits& limits);
  virtual ~GrammarCompiler() = default;

  // kInvalid / kUnsupported with one line that names the keyword and its place (JSON pointer) or
  // the position in the text. The same spec gives the same grammar, from the cache if it is there.
  // Safe from several threads at once.
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) = 0;
};

class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);
  ~GrammarMatcher();
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;

  // Sets `bits` (taken to its size) to the ids that may come next.
  void allowed(TokenBits& bits);
  // Advances; false, and nothing changes, when the token is not allowed.
  bool accept(TokenId token);
  // Advances over text, as if it had come in some tokens; false, and nothing changes, if it cannot.
  bool accept_text(std::string_view text);
  // The tokens that must come next, in the tokenizer's own spelling of the one text that the
  // grammar leaves; empty where there is a choice. Deterministic: a function of what was accepted.
  std::vector<TokenId> forced();
  // The reply may end here / has ended with a stop id.
  bool may_end() const;
  bool ended() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minim
