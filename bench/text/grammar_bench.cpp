// What a mask costs per step: random walks under JSON schemas over a vocabulary of 200,000 tokens.
//
// The vocabulary is synthetic, with the make-up of a large byte-level BPE: all bytes, punctuation
// and JSON fragments, runs of white space, numbers, words in many lengths and three spellings, and
// words of two- and three-byte scripts. Each schema is walked several times; the first walk makes
// the masks of the states it reaches, the later ones find them. Times are this thread's processor
// time. The bar is a median of 1 ms. Output: one line a schema, then all of them together.
//
// usage: grammar_bench [vocabulary size]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/byte_map.h"
#include "text/grammar.h"
#include "text/utf8.h"

namespace minim {
namespace {

double now() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

class Vocabulary200k {
 public:
  explicit Vocabulary200k(size_t n) {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    for (int n_digits = 2; n_digits <= 3; ++n_digits) {
      for (int i = 0; i < (n_digits == 2 ? 100 : 1000); ++i) {
        char digits[8];
        std::snprintf(digits, sizeof digits, "%0*d", n_digits, i);
        add(digits);
      }
    }
    for (int i = 2; i < 80; ++i) {
      add(std::string(static_cast<size_t>(i), ' '));
      add("\n" + std::string(static_cast<size_t>(i), ' '));
    }
    const std::string marks = "\"'{}[]():;,.<>/\\|=+-*&^%$#@!?`~_";
    while (tokens_.size() < n / 40) add(some(marks, 2, 5));
    while (tokens_.size() < n * 7 / 10) add_word(word());
    while (tokens_.size() < n - 1) add(script(tokens_.size() % 3));
  }

  // As a tokenizer.json without merges, whole pieces being tokens.
  Tokenizer tokenizer() const {
    Json vocabulary = Json::object();
    std::string json = R"({"added_tokens":[{"id":)" + std::to_string(tokens_.size()) +
                       R"(,"content":"<stop>","special":true,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"single_word":false}],"normalizer":null,)"
                       R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
                       R"("trim_offsets":true,"use_regex":true},"model":{"type":"BPE",)"
                       R"("ignore_merges":true,"merges":[],"vocab":{)";
    for (size_t i = 0; i < tokens_.size(); ++i) {
      std::string spelled;
      for (const char c : tokens_[i]) {
        append_utf8(spelled, byte_to_character(static_cast<uint8_t>(c)));
      }
      json += (i == 0 ? "" : ",") + dump_json(Json(spelled)) + ":" + std::to_string(i);
    }
    Result<Tokenizer> tokenizer = Tokenizer::parse(json + "}}}", "vocabulary");
    CHECK(tokenizer, "%s", tokenizer.error().message.c_str());
    return *std::move(tokenizer);
  }

 private:
  void add(const std::string& token) {
    if (seen_.insert(token).second) tokens_.push_back(token);
  }
  std::string some(const std::string& from, size_t least, size_t most) {
    std::string out;
    for (size_t n = least + random_() % (most - least + 1); n > 0; --n) {
      out += from[random_() % from.size()];
    }
    return out;
  }
  std::string word() {
    static const std::string kVowels = "aeiouaeioy", kConsonants = "bcdfghjklmnpqrstvwxzstnrl";
    std::string out;
    for (size_t n = 1 + random_() % 4; n > 0; --n) {
      out += some(kConsonants, 0, 2) + some(kVowels, 1, 1);
    }
    return out + some(kConsonants, 0, 1);
  }
  void add_word(std::string one) {
    add(random_() % 3 == 0 ? one : " " + one);
    if (random_() % 2 == 0) {
      one[0] = static_cast<char>(one[0] & ~0x20);
      add(random_() % 2 == 0 ? one : " " + one);
    }
    if (random_() % 12 == 0) add(one + some("\"',.:;)_-(", 1, 1));
  }
  std::string script(size_t which) {
    std::string out = random_() % 3 == 0 ? " " : "";
    for (size_t n = 1 + random_() % 5; n > 0; --n) {
      const auto r = static_cast<char32_t>(random_());
      append_utf8(out, which == 0   ? 0x430 + r % 32
                       : which == 1 ? 0x4E00 + r % 5000
                                    : 0xAC00 + r % 3000);
    }
    return out;
  }

  std::vector<std::string> tokens_;
  std::set<std::string> seen_;
  std::mt19937 random_{1};
};

constexpr const char* kSchemas[] = {
    R"({"type":"object"})",
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
       "maximum":150},"mail":{"type":"string","format":"email"},"tags":{"type":"array","items":
       {"type":"string"}}},"required":["name","age","tags"],"additionalProperties":false})",
    R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"string","pattern":
       "^[a-f0-9]{8}$"},"kind":{"enum":["alpha","beta","gamma"]},"score":{"type":"number"}},
       "required":["id","kind","score"],"additionalProperties":false}})",
    R"({"type":"object","properties":{"path":{"type":"string","minLength":1},"edits":{"type":"array",
       "minItems":1,"items":{"type":"object","properties":{"old":{"type":"string"},"new":
       {"type":"string"},"all":{"type":"boolean"}},"required":["old","new"]}}},
       "required":["path","edits"]})",
    R"({"type":"object","properties":{"title":{"type":"string","maxLength":100}},"required":["title"]})",
    R"({"type":"object","properties":{"body":{"type":"string","maxLength":2000}},"required":["body"]})",
    R"({"type":"string","pattern":"^[A-Z][a-z ]{10,400}[.]$"})",
    R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"c":{"type":"array",
       "items":{"$ref":"#/$defs/n"}}},"required":["v","c"]}},"$ref":"#/$defs/n"})",
};

struct Times {
  std::vector<double> all;
  double at(double part) {
    std::sort(all.begin(), all.end());
    return all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))];
  }
  void print(const char* what) {
    std::printf("%-28s steps %6zu  median %8.4f ms  p99 %8.4f ms  worst %8.4f ms\n", what,
                all.size(), at(0.5), at(0.99), at(1));
  }
};

// A likely token: drawn from those allowed, ordinary words and closing marks alike.
TokenId draw(const TokenBits& bits, std::mt19937& random) {
  const size_t n = 32 * bits.size();
  const size_t start = random() % 3 == 0 ? random() % 256 : random() % n;
  for (size_t i = 0; i < n; ++i) {
    const size_t id = (start + i) % n;
    if ((bits[id / 32] >> (id % 32) & 1) != 0) return static_cast<TokenId>(id);
  }
  return -1;
}

int run(size_t n) {
  const Tokenizer tokenizer = Vocabulary200k(n).tokenizer();
  const TokenId stop = *tokenizer.find_added("<stop>");
  double begin = now();
  auto compiler = GrammarCompiler::create(tokenizer, std::vector<TokenId>{stop}, {});
  CHECK(compiler, "%s", compiler.error().message.c_str());
  std::printf("%d ids; tokenizer prepared in %.1f ms\n", tokenizer.n_ids(), now() - begin);
  std::mt19937 random(5);
  Times first, later;
  for (const char* text : kSchemas) {
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kJsonSchema;
    spec.text = text;
    begin = now();
    auto grammar = (*compiler)->compile(spec);
    CHECK(grammar, "%s", grammar.error().message.c_str());
    std::printf("\n%.50s...\n  compiled in %.2f ms\n", text, now() - begin);
    Times first_here, later_here, accepts, forced;
    for (int walk = 0; walk < 6; ++walk) {
      GrammarMatcher matcher(*grammar);
      TokenBits bits;
      for (int step = 0; step < 250 && !matcher.ended(); ++step) {
        begin = now();
        matcher.allowed(bits);
        (walk == 0 ? first_here : later_here).all.push_back(now() - begin);
        begin = now();
        matcher.forced();
        forced.all.push_back(now() - begin);
        const TokenId id = draw(bits, random);
        begin = now();
        CHECK(id >= 0 && matcher.accept(id));
        accepts.all.push_back(now() - begin);
      }
    }
    first_here.print("  masks, first walk");
    later_here.print("  masks, later walks");
    forced.print("  forced");
    accepts.print("  accept");
    first.all.insert(first.all.end(), first_here.all.begin(), first_here.all.end());
    later.all.insert(later.all.end(), later_here.all.begin(), later_here.all.end());
  }
  std::printf("\n");
  first.print("all masks, first walks");
  later.print("all masks, later walks");
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  return minim::run(argc > 1 ? static_cast<size_t>(std::atol(argv[1])) : 200'000);
}
