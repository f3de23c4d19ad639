// Arbitrary text as a schema, a regular expression or a grammar, by its first byte. What is taken
// is compiled, and a few tokens are drawn from its masks: each must be accepted. (The library
// itself is linked as it is, without instrumentation.)
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "byte_vocabulary.h"
#include "text/grammar.h"

namespace {

constexpr minim::TokenId kStop = 256;  // the added token behind the bytes

void require(bool holds) {
  if (!holds) std::abort();
}

struct Grammars {
  Grammars() {
    minim::GrammarCompiler::Limits limits;
    limits.max_bytes = 4096;
    limits.max_positions = 5000;
    limits.cache_bytes = 1;
    auto made = minim::GrammarCompiler::create(tokenizer, std::vector{kStop}, limits);
    if (made) compiler = *std::move(made);
  }
  const minim::Tokenizer tokenizer = byte_vocabulary({"<s>"});
  std::unique_ptr<minim::GrammarCompiler> compiler;
};

void walk(const std::shared_ptr<const minim::CompiledGrammar>& grammar) {
  minim::GrammarMatcher matcher(grammar);
  minim::TokenBits bits;
  for (int step = 0; step < 12 && !matcher.ended(); ++step) {
    matcher.allowed(bits);
    matcher.forced();
    minim::TokenId next = -1;
    for (minim::TokenId id = 0; id <= kStop; ++id) {
      const minim::TokenId one = (id + 37 * step) % (kStop + 1);
      if ((bits[static_cast<size_t>(one) / 32] >> one % 32 & 1) != 0) next = one;
    }
    require(next >= 0);  // with all bytes at hand a reply can always go on
    require(matcher.accept(next));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Grammars grammars;
  if (size == 0 || grammars.compiler == nullptr) return 0;
  minim::GrammarSpec spec;
  spec.kind = data[0] == 'r'   ? minim::GrammarSpec::Kind::kRegex
              : data[0] == 'e' ? minim::GrammarSpec::Kind::kEbnf
              : data[0] == 't' ? minim::GrammarSpec::Kind::kTokenEbnf
                               : minim::GrammarSpec::Kind::kJsonSchema;
  spec.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto grammar = grammars.compiler->compile(spec);
  if (grammar) {
    walk(*grammar);
  } else {
    require(grammar.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
