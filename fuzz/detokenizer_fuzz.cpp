// Arbitrary ids over a vocabulary of all bytes, some pieces of characters and added tokens: every
// delta must be well-formed UTF-8, and all of them together what replacing the ill-formed parts of
// the joined bytes gives. The first byte says whether special tokens are skipped.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "byte_vocabulary.h"
#include "repaired.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const minim::Tokenizer tokenizer =
      byte_vocabulary({"[e~[", "<mm:think>", "時", "]<]minimax[>["});
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
