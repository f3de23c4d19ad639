// Tokens are bytes, not characters: a character may arrive in four tokens, and a model may emit
// bytes that are none. What is held is always the start of one character (or of an encoded
// surrogate), since anything longer or impossible has been decided already.
#include "text/detokenizer.h"

#include "text/utf8.h"

namespace minim {
namespace {

// Two bytes that announce a surrogate: ill-formed already, but the reference's decoder waits for
// the third, so that the whole encoded surrogate appears in one delta.
bool announces_surrogate(std::string_view bytes) {
  return bytes.size() == 2 && bytes[0] == '\xED' && static_cast<uint8_t>(bytes[1]) >= 0xA0 &&
         static_cast<uint8_t>(bytes[1]) <= 0xBF;
}

}  // namespace

void Detokenizer::push_append(TokenId id, std::string& text) {
  if (skip_special_ && tokenizer_->is_special(id)) return;
  std::string_view rest = tokenizer_->bytes(id);
  if (held_.empty()) {  // nearly always: what is whole need not go through held_
    const size_t valid = valid_utf8_length(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) return;
  }
  held_ += rest;
  rest = held_;
  while (!rest.empty()) {
    const size_t valid = valid_utf8_length(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty() || announces_surrogate(rest)) break;
    const Utf8Element element = utf8_first(rest);
    if (element.kind == Utf8Kind::kIncomplete) break;
    text += kReplacement;
    rest.remove_prefix(element.length);
  }
  held_.erase(0, held_.size() - rest.size());
}

std::string Detokenizer::flush() {
  std::string text;
  for (std::string_view rest = held_; !rest.empty(); rest.remove_prefix(utf8_first(rest).length)) {
    text += kReplacement;
  }
  held_.clear();
  return text;
}

std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) detokenizer.push_append(id, text);
  return text + detokenizer.flush();
}

std::string decode_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.bytes(id);
  return bytes;
}

}  // namespace minim
