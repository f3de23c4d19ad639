// What a matcher adds to the library's: forced tokens in the tokenizer's own spelling.
//
// forced() takes the text that the grammar leaves no choice about, encodes it as the tokenizer
// would, and keeps the tokens that cannot change with what follows: all pieces of the split but the
// last one, which later characters may join. If the reply is over after the text, nothing follows
// and the last piece stays too. All of it is a function of the grammar, the tokenizer and the
// tokens accepted so far: no clock, no thread and no cache decides anything, so a reply has the
// same tokens however fast its masks came.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "text/grammar.h"
#include "text/grammar_engine.h"

namespace minim {
namespace {

// Tokens to run ahead of the sampler at once. The next call goes on from there.
constexpr size_t kForcedBytes = 4096;

bool only_stops(MatcherEngine& matcher) {
  TokenBits bits;
  matcher.allowed(bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    for (uint32_t word = bits[i]; word != 0; word &= word - 1) {
      const std::unique_ptr<MatcherEngine> after = matcher.copy();
      const TokenId id = static_cast<TokenId>(i * 32) + std::countr_zero(word);
      if (!after->accept(id) || !after->ended()) return false;
    }
  }
  return true;
}

}  // namespace

struct GrammarMatcher::State {
  std::shared_ptr<const CompiledGrammar> grammar;
  std::unique_ptr<MatcherEngine> engine;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : state_(std::make_unique<State>()) {
  state_->engine = grammar->start();
  state_->grammar = std::move(grammar);
}
GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

void GrammarMatcher::allowed(TokenBits& bits) { state_->engine->allowed(bits); }
bool GrammarMatcher::accept(TokenId token) { return state_->engine->accept(token); }
bool GrammarMatcher::accept_text(std::string_view text) {
  return state_->engine->accept_text(text);
}
bool GrammarMatcher::may_end() const { return state_->engine->may_end(); }
bool GrammarMatcher::ended() const { return state_->engine->ended(); }

std::vector<TokenId> GrammarMatcher::forced() {
  std::string text = state_->engine->forced_text();
  if (text.empty()) return {};
  const Tokenizer& tokenizer = state_->grammar->tokenizer();
  bool last = text.size() <= kForcedBytes;
  text.resize(std::min(text.size(), kForcedBytes));
  std::unique_ptr<MatcherEngine> ahead = state_->engine->copy();
  last = last && ahead->accept_text(text) && ahead->may_end() && only_stops(*ahead);
  if (!last) {
    const std::vector<std::string_view> pieces = tokenizer.split(text);
    if (pieces.empty()) return {};
    text.resize(static_cast<size_t>(pieces.back().data() - text.data()));
  }
  std::vector<TokenId> tokens = tokenizer.encode(text, false);
  ahead = state_->engine->copy();
  std::string_view rest = text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view bytes = tokenizer.bytes(tokens[i]);
    if (rest.starts_with(bytes) && ahead->accept(tokens[i])) {
      rest.remove_prefix(bytes.size());
      continue;
    }
    tokens.resize(i);
  }
  return tokens;
}

}  // namespace minim
