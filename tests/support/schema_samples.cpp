// Texts that a model without any sense could write under each schema of a file: every token is
// drawn from the mask. For a validator that knows nothing of ours
// (tests/scripts/schema_samples_test.py).
//
// Usage: schema_samples TOKENIZER SCHEMAS N       writes {"id", "text"} a line
// A walk that grows long is led home: from then on the token that closes most, in trial, is taken.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/check.h"
#include "text/grammar.h"

namespace minim {
namespace {

constexpr size_t kLong = 160, kTooLong = 4000;

// Tokens that end things; a uniform draw among 1,000 tokens would hardly ever choose one.
bool closes(std::string_view bytes) {
  return !bytes.empty() && bytes.find_first_not_of("\"]}0") == std::string_view::npos;
}

std::vector<TokenId> ids_of(const TokenBits& bits) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < 32 * bits.size(); ++i) {
    if ((bits[i / 32] >> (i % 32) & 1) != 0) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

TokenId draw(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, TokenId stop, bool home,
             std::mt19937& random) {
  std::vector<TokenId> closing;
  for (const TokenId id : ids) {
    if (id == stop || closes(tokenizer.bytes(id))) closing.push_back(id);
  }
  if (!closing.empty() && (home || random() % 4 == 0)) return closing[random() % closing.size()];
  return ids[random() % ids.size()];
}

// Nothing when the walk did not end.
std::string walk(const Tokenizer& tokenizer, const std::shared_ptr<const CompiledGrammar>& grammar,
                 TokenId stop, std::mt19937& random) {
  GrammarMatcher matcher(grammar);
  std::string text;
  TokenBits bits;
  for (size_t step = 0; step < kTooLong; ++step) {
    matcher.allowed(bits);
    const std::vector<TokenId> ids = ids_of(bits);
    CHECK(!ids.empty(), "nothing may follow %s", text.c_str());
    const TokenId id = draw(tokenizer, ids, stop, step > kLong, random);
    CHECK(matcher.accept(id));
    if (matcher.ended()) return text;
    text += tokenizer.bytes(id);
  }
  return "";
}

int run(const char* tokenizer_path, const std::string& schemas, int n) {
  const Result<Tokenizer> tokenizer = Tokenizer::load(tokenizer_path);
  const Result<std::string> file = read_file(schemas);
  CHECK(tokenizer && file);
  const TokenId stop = *tokenizer->find_added("[e~[");
  auto compiler = GrammarCompiler::create(*tokenizer, std::vector<TokenId>{stop}, {});
  if (!compiler) return 77;
  std::mt19937 random(20240501);
  for (size_t begin = 0; begin < file->size();) {
    const size_t end = std::min(file->find('\n', begin), file->size());
    const Result<Json> line =
        parse_json(std::string_view(*file).substr(begin, end - begin), schemas);
    CHECK(line);
    begin = end + 1;
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kJsonSchema;
    spec.text = dump_json((*line)["schema"]);
    auto grammar = (*compiler)->compile(spec);
    CHECK(grammar, "%s", grammar.error().message.c_str());
    for (int i = 0; i < n; ++i) {
      const std::string text = walk(*tokenizer, *grammar, stop, random);
      std::printf("%s\n", dump_json(Json{{"id", (*line)["id"]}, {"text", text}}).c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  CHECK(argc == 4);
  return minim::run(argv[1], argv[2], std::atoi(argv[3]));
}
