// Arbitrary ids over a vocabulary of all bytes, some pieces of characters and added tokens: every
// delta must be well-formed UTF-8, and all of them together what replacing the ill-formed parts of
// the joined bytes gives. The first byte says whether special tokens are skipped.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/byte_map.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

minim::Tokenizer vocabulary() {
  minim::Json vocab = minim::Json::object(), added = minim::Json::array();
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    minim::append_utf8(name, minim::byte_to_character(static_cast<uint8_t>(byte)));
    vocab[name] = id++;
  }
  for (const char* literal : {"[e~[", "<mm:think>", "時", "]<]minimax[>["}) {
    added.push_back({{"id", id++},
                     {"content", literal},
                     {"special", id % 2 == 0},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  const minim::Json file{
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", minim::Json::array()}}}};
  minim::Result<minim::Tokenizer> tokenizer =
      minim::Tokenizer::parse(minim::dump_json(file), "fuzz");
  require(static_cast<bool>(tokenizer));
  return *std::move(tokenizer);
}

std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t valid = minim::valid_utf8_length(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += minim::kReplacement;
    bytes.remove_prefix(minim::utf8_first(bytes).length);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const minim::Tokenizer tokenizer = vocabulary();
  if (size == 0) return 0;
  const bool skip_special = (data[0] & 1) != 0;
  minim::Detokenizer detokenizer(tokenizer, skip_special);
  std::string bytes, text;
  std::vector<minim::TokenId> ids;
  for (size_t i = 1; i < size; ++i) {
    // 0xFF begins an id above 255, one without token included; every other byte is its own.
    minim::TokenId id = data[i];
    if (id == 0xFF && i + 1 < size) id = 255 + data[++i] % 8;
    ids.push_back(id);
    const std::string delta = detokenizer.push(id);
    require(minim::valid_utf8(delta));
    text += delta;
    if (!skip_special || !tokenizer.is_special(id)) bytes += tokenizer.bytes(id);
  }
  const std::string rest = detokenizer.flush();
  require(minim::valid_utf8(rest));
  text += rest;
  require(text == repaired(bytes));
  require(text == minim::decode(tokenizer, ids, skip_special));
  require(detokenizer.flush().empty());
  return 0;
}
