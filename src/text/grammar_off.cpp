// Stands in for grammar_xgrammar.cpp in a build without it: every grammar is refused by name.
#include "text/grammar_engine.h"

namespace minim {

bool GrammarEngine::available() { return false; }

Result<std::unique_ptr<GrammarEngine>> GrammarEngine::create(
    const Tokenizer& /*tokenizer*/, std::span<const TokenId> /*stop_ids*/) {
  return Error{Code::kUnsupported,
               "structured output is not part of this build (no xgrammar); "
               "scripts/fetch_sources.sh and a new build add it"};
}

}  // namespace minim
