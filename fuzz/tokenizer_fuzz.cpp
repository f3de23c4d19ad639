// Arbitrary bytes as tokenizer.json; if they load, text goes through and must come back. Also
// arbitrary text through the demo-shaped vocabulary is covered by what follows the first NUL.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view json = input.substr(0, cut);
  const std::string_view text = cut == std::string_view::npos ? input : input.substr(cut + 1);
  const minim::Result<minim::Tokenizer> tokenizer = minim::Tokenizer::parse(json, "fuzz");
  if (!tokenizer) {
    if (tokenizer.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const bool parse_special : {false, true}) {
    for (const minim::TokenId id : tokenizer->encode(text, parse_special)) {
      if (!tokenizer->has_token(id)) std::abort();
    }
  }
  const std::string shown = minim::decode(*tokenizer, tokenizer->encode(text, false), false);
  if (minim::valid_utf8_length(shown) != shown.size()) std::abort();
  return 0;
}
