// Arbitrary text as a schema, a regular expression or a grammar, by its first byte. What is taken
// is compiled, and a few tokens are drawn from its masks: each must be accepted. (The library
// itself is linked as it is, without instrumentation.)
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"

namespace {

constexpr char kTokenizer[] = R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true,
  "lstrip": false, "rstrip": false, "normalized": false, "single_word": false}],
  "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
  "trim_offsets": true, "use_regex": true}, "model": {"type": "BPE", "merges": [], "vocab":
  {"\"": 0, "{": 1, "}": 2, "a": 3, "1": 4, ":": 5, "Ġ": 6, "[": 7, "]": 8}}})";

void require(bool holds) {
  if (!holds) std::abort();
}

struct Grammars {
  Grammars() {
    minim::Result<minim::Tokenizer> parsed = minim::Tokenizer::parse(kTokenizer, "fuzz");
    require(static_cast<bool>(parsed));
    tokenizer = std::make_unique<minim::Tokenizer>(*std::move(parsed));
    minim::GrammarCompiler::Limits limits;
    limits.max_bytes = 4096;
    limits.max_positions = 5000;
    limits.cache_bytes = 1;
    auto made = minim::GrammarCompiler::create(*tokenizer, std::vector<minim::TokenId>{9}, limits);
    if (made) compiler = *std::move(made);
  }
  std::unique_ptr<minim::Tokenizer> tokenizer;
  std::unique_ptr<minim::GrammarCompiler> compiler;
};

void walk(const std::shared_ptr<const minim::CompiledGrammar>& grammar) {
  minim::GrammarMatcher matcher(grammar);
  minim::TokenBits bits;
  for (int step = 0; step < 12 && !matcher.ended(); ++step) {
    matcher.allowed(bits);
    matcher.forced();
    minim::TokenId next = -1;
    for (minim::TokenId id = 0; id < 10; ++id) {
      const minim::TokenId one = (id + step) % 10;
      if ((bits[0] >> one & 1) != 0) next = one;
    }
    if (next < 0) return;  // the vocabulary has no token for what must come
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
