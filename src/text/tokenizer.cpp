// The four stages of encoding: added tokens out, the rest cut into pieces, pieces merged from
// bytes, ids appended. There is no cache of pieces: it would be the only mutable state, shared by
// all connection threads, and merging a word costs about as much as a look-up under a lock.
#include "text/tokenizer.h"

namespace minim {

void Tokenizer::encode_text(std::string_view text, Bpe::Scratch& scratch,
                            std::vector<std::string_view>& pieces,
                            std::vector<TokenId>& out) const {
  pieces.clear();
  pre_tokenizer_.split(text, pieces);
  for (const std::string_view piece : pieces) {
    if (!whole_pieces_.empty()) {
      if (const auto found = whole_pieces_.find(std::string(piece)); found != whole_pieces_.end()) {
        out.push_back(found->second);
        continue;
      }
    }
    bpe_.encode(piece, scratch, out);
  }
}

void Tokenizer::encode_append(std::string_view text, bool parse_special,
                              std::vector<TokenId>& out) const {
  Bpe::Scratch scratch;
  std::vector<std::string_view> pieces;
  if (!parse_special) {
    encode_text(text, scratch, pieces, out);
    return;
  }
  for (const AddedTokens::Stretch& stretch : added_.find(text)) {
    if (stretch.id >= 0) {
      out.push_back(stretch.id);
    } else {
      encode_text(stretch.text, scratch, pieces, out);
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parse_special) const {
  std::vector<TokenId> ids;
  encode_append(text, parse_special, ids);
  return ids;
}

std::vector<std::string_view> Tokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  pre_tokenizer_.split(text, pieces);
  return pieces;
}

}  // namespace minim
