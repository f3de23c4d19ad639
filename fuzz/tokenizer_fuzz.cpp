// Arbitrary bytes as tokenizer.json; if they load, text goes through and must come back. The text
// is what follows the first NUL. Each input is also cut by the splitter by hand and by PCRE2, which
// must agree.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/split_o200k.h"
#include "text/split_pcre2.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

constexpr std::string_view kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

void check_splitters(std::string_view text) {
  static const auto by_hand = minim::O200kSplitter::for_pattern(kPattern);
  static const auto pcre2 = minim::SplitPattern::compile(kPattern);
  if (!by_hand || !pcre2) std::abort();
  text = text.substr(0, minim::valid_utf8_length(text));
  std::vector<minim::Segment> segments;
  pcre2->segment(text, false, segments);
  size_t at = 0;
  for (const minim::Segment& segment : segments) {
    if (!segment.matched || segment.begin != at) std::abort();
    at = by_hand->piece_end(text, at);
    if (at != segment.end) std::abort();
  }
  if (at != text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_splitters(input);
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
