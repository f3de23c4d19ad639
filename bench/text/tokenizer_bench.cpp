// Tokenizer speed: encoding per kind of text, a long chat, decoding, hostile inputs, loading.
//
// usage: tokenizer_bench TOKENIZER_JSON [TEXT_FILE...]
//
// Every file is one kind of text; without files, kinds are drawn from short lists of words, always
// the same ones. Drawn text repeats itself more than written text does, so files of the language at
// hand tell more. Figures are processor time of this thread, the best of several runs: other work
// on the machine can only slow a run. Output: CSV.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace minim {
namespace {

constexpr size_t kTextBytes = size_t{1} << 20;
constexpr int kRuns = 5;

struct Text {
  std::string kind;
  std::string text;
};

double now() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double best_seconds(int runs, const std::function<void()>& body) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double start = now();
    body();
    best = std::min(best, now() - start);
  }
  return best;
}

// Words joined as they are, drawn so that the first ones are frequent.
std::string draw(const std::vector<std::string>& words, size_t bytes) {
  std::mt19937 random(5);
  std::string text;
  while (text.size() < bytes) {
    const uint64_t a = random() % words.size();
    const uint64_t b = random() % words.size();
    text += words[a * b / words.size()];
  }
  return text;
}

std::vector<Text> drawn_texts() {
  const std::vector<Text> kinds = {
      {"english", draw({" the",      " of",       " and",   " to",    " in",     " is",
                        " that",     ".",         ",",      " it",    " system", " models",
                        " reading",  "\n\n",      " When",  " don't", " answer", " careful",
                        " question", " together", " state", " HTTP",  " It's"},
                       kTextBytes)},
      {"code", draw({"\n    ",     "(",
                     ")",          ";",
                     " = ",        "return ",
                     "size_t i",   "std::vector<int> ",
                     "for (",      "self.value",
                     "\n\n",       "{\n",
                     "}\n",        "  // why\n",
                     "0x7f",       "\"key\"",
                     "\n        ", "if not done:",
                     "const ",     "kMaxLength"},
                    kTextBytes)},
      {"cjk", draw({"的", "我们", "模型", "，", "。", "これは", "日本語", "テキスト", "です",
                    "한국어", "문장", " ", "汉字", "学习"},
                   kTextBytes)},
      {"cyrillic_arabic", draw({" и", " в", " не", " что", " модель", " Текст", ",", ".", " من",
                                " في", " السلام", " كتاب", " была", " данных"},
                               kTextBytes)},
      {"emoji",
       draw({"😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", " ok", "❤️", "🚀", " yes", "🙏", "!"},
            kTextBytes)},
      {"numbers", draw({"0", "1,", "2026-03-04", " 3.14159", "\n", "123456789", " 0xff", "7", "42%",
                        "192.168.0.1"},
                       kTextBytes)},
      {"whitespace", draw({" ", "  ", "\n", "\n\n\n", "\t", "        ", "\r\n", "x", "\u3000",
                           "                "},
                          kTextBytes)},
      {"markdown",
       draw({"\n## ", "Title", " **bold**", " `code`", "\n- ", "\n\n", " [link](http://x)", " | ",
             "---", " text", "\n```cpp\n", " and", " words", "\n> "},
            kTextBytes)},
  };
  std::string mixed;
  for (size_t at = 0; at < kTextBytes; at += 1000) {
    const std::string& text = kinds[at / 1000 % kinds.size()].text;
    for (size_t i = at; i < at + 1000; ++i) mixed += text[i % text.size()];
  }
  std::vector<Text> all = kinds;
  all.push_back({"mixed", std::move(mixed)});
  return all;
}

// Kinds of text that an attacker would send: 1 MiB of a repeated unit.
std::vector<Text> hostile_texts(const Tokenizer& tokenizer) {
  std::string half_typed = "<";
  for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
    const std::string_view literal = tokenizer.bytes(id);
    if (tokenizer.is_added(id) && literal.size() > half_typed.size()) {
      half_typed = literal.substr(0, literal.size() - 1);
    }
  }
  const std::vector<Text> units = {{"one letter", "a"},
                                   {"spaces", " "},
                                   {"newlines", "\n"},
                                   {"tabs and spaces", "\t "},
                                   {"invalid bytes", "\xFF\xC0"},
                                   {"surrogate bytes", "\xED\xA0\x80"},
                                   {"cut leads", "\xF0\x9F"},
                                   {"alternating case", "aA"},
                                   {"capitals", "QZ"},
                                   {"digits", "7"},
                                   {"punctuation", "!?"},
                                   {"slashes and lines", "/\n"},
                                   {"marks", "\xCC\x81"},
                                   {"ideographs", "\u6F22"},
                                   {"joined emoji", "\U0001F468\u200D"},
                                   {"half-typed token", half_typed},
                                   {"apostrophes", "a's"}};
  std::vector<Text> texts;
  for (const Text& unit : units) {
    std::string text;
    while (text.size() < kTextBytes) text += unit.text;
    texts.push_back({unit.kind, std::move(text)});
  }
  std::mt19937 random(9);
  std::string word(kTextBytes, 'a');
  for (char& c : word) c = static_cast<char>('a' + random() % 26);
  texts.push_back({"one huge word", std::move(word)});
  std::string bytes(kTextBytes, ' ');
  for (char& c : bytes) c = static_cast<char>(random());
  texts.push_back({"random bytes", std::move(bytes)});
  return texts;
}

std::vector<PromptSegment> long_chat(const std::string& text) {
  constexpr size_t kMessages = 600;
  std::vector<PromptSegment> segments;
  const size_t size = text.size() / kMessages;
  for (size_t i = 0; i < kMessages; ++i) {
    segments.push_back({i % 2 ? "[e~[\n]~b]ai\n" : "[e~[\n]~b]user\n", true});
    segments.push_back({text.substr(i * size, size), false});
  }
  return segments;
}

void print(const char* what, const std::string& kind, size_t bytes, size_t tokens, double seconds) {
  std::printf("%s,%s,%zu,%.2f,%.1f,%.4f\n", what, kind.c_str(), bytes,
              static_cast<double>(bytes) / static_cast<double>(std::max<size_t>(tokens, 1)),
              static_cast<double>(bytes) * 1e-6 / seconds, seconds);
  std::fflush(stdout);
}

void run(const Tokenizer& tokenizer, const std::vector<Text>& texts) {
  for (const Text& t : texts) {
    std::vector<TokenId> ids;
    double seconds = best_seconds(kRuns, [&] { ids = tokenizer.encode(t.text, true); });
    print("encode", t.kind, t.text.size(), ids.size(), seconds);
    size_t pieces = 0;
    seconds = best_seconds(kRuns, [&] { pieces = tokenizer.split(t.text).size(); });
    print("split", t.kind, t.text.size(), pieces, seconds);
    seconds = best_seconds(kRuns, [&] { decode(tokenizer, ids, false); });
    print("decode", t.kind, t.text.size(), ids.size(), seconds);
    seconds = best_seconds(kRuns, [&] {
      Detokenizer detokenizer(tokenizer, false);
      size_t size = 0;
      for (const TokenId id : ids) size += detokenizer.push(id).size();
      if (size > t.text.size() * 3) std::abort();
    });
    print("stream", t.kind, t.text.size(), ids.size(), seconds);
  }
  const std::vector<PromptSegment> chat = long_chat(texts.back().text);
  size_t tokens = 0;
  const double seconds =
      best_seconds(kRuns, [&] { tokens = encode_prompt(tokenizer, chat).size(); });
  print("encode_prompt", "600 messages", texts.back().text.size(), tokens, seconds);
  for (const Text& t : hostile_texts(tokenizer)) {
    size_t n = 0;
    const double time = best_seconds(2, [&] { n = tokenizer.encode(t.text, true).size(); });
    print("hostile", t.kind, t.text.size(), n, time);
  }
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER_JSON [TEXT_FILE...]\n");
    return 2;
  }
  const minim::Result<std::string> file = minim::read_file(argv[1]);
  minim::Result<minim::Tokenizer> tokenizer = minim::Tokenizer::load(argv[1]);
  if (!file || !tokenizer) {
    std::fprintf(stderr, "%s\n", (file ? tokenizer.error() : file.error()).message.c_str());
    return 1;
  }
  std::vector<minim::Text> texts;
  for (int i = 2; i < argc; ++i) {
    minim::Result<std::string> text = minim::read_file(argv[i]);
    if (!text) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    const std::string path = argv[i];
    texts.push_back({path.substr(path.rfind('/') + 1), *std::move(text)});
  }
  std::printf("what,kind,bytes,bytes_per_token,MB_per_s,seconds\n");
  const double load = minim::best_seconds(2, [&] { tokenizer = minim::Tokenizer::load(argv[1]); });
  minim::print("load", "tokenizer.json", file->size(), 0, load);
  minim::run(*tokenizer, texts.empty() ? minim::drawn_texts() : texts);
  return 0;
}
