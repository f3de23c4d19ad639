// Token ids to text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace minim {

// Ids in one by one, text out as soon as it is certain. Every string that comes out is well-formed
// UTF-8: bytes of an unfinished character are held back, ill-formed bytes become U+FFFD, one for
// each maximal subpart (Unicode chapter 3). One per stream; the tokenizer must outlive it.
class Detokenizer {
 public:
  // skip_special: tokens marked special give nothing and do not end a character that is under way.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that is certain now, possibly none. An id without token gives nothing.
  std::string push(TokenId id) {
    std::string text;
    push_append(id, text);
    return text;
  }
  // The same, appended to `text`.
  void push_append(TokenId id, std::string& text);
  // The end: what is still held can no longer be completed and becomes one U+FFFD. Ready for a new
  // text.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // the first 1..3 bytes of a character, or empty
};

// All of it at once.
std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool skip_special);

// The bytes of the ids as they are, UTF-8 or not: the inverse of Tokenizer::encode.
std::string decode_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace minim
