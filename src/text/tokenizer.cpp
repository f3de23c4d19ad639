// The four stages of encoding: added tokens out, the rest cut into pieces, pieces merged from
// bytes, ids appended. A piece is merged only if it is not a token as a whole (most are, in a large
// vocabulary) and has not been merged before in this text.
//
// The memory of merged pieces is a small direct-mapped table that points into the text and into the
// ids already appended, so it lives no longer than one call. A cache of the tokenizer's own would
// be its only mutable state, shared by all connection threads.
#include "text/tokenizer.h"

#include <algorithm>
#include <bit>

namespace minim {
namespace {

// Slots for one call: in proportion to the text, so that a short one pays little, and few enough to
// stay in the second-level cache.
size_t n_seen(size_t text_size) {
  return std::bit_ceil(std::clamp<size_t>(text_size / 64, 1, 4096));
}

}  // namespace

void Tokenizer::encode_piece(std::string_view piece, Scratch& scratch,
                             std::vector<TokenId>& out) const {
  const uint64_t hash = hash_of_piece(piece);
  if (const TokenId whole = whole_pieces_.find(piece, hash); whole >= 0) {
    out.push_back(whole);
    return;
  }
  Scratch::Seen& seen = scratch.seen[(hash >> 20) & (scratch.seen.size() - 1)];
  const size_t begin = out.size();
  if (seen.piece == piece) {
    out.resize(begin + seen.n);
    std::copy_n(out.data() + seen.begin, seen.n, out.data() + begin);
    return;
  }
  bpe_.encode(piece, scratch.bpe, out);
  seen = {piece, begin, static_cast<uint32_t>(out.size() - begin)};
}

void Tokenizer::encode_text(std::string_view text, Scratch& scratch,
                            std::vector<TokenId>& out) const {
  pre_tokenizer_.for_each_piece(text, scratch.split,
                                [&](std::string_view piece) { encode_piece(piece, scratch, out); });
}

void Tokenizer::encode_append(std::string_view text, bool parse_special, Scratch& scratch,
                              std::vector<TokenId>& out) const {
  scratch.seen.assign(n_seen(text.size()), Scratch::Seen{});
  if (!parse_special) {
    encode_text(text, scratch, out);
    return;
  }
  for (const AddedTokens::Stretch& stretch : added_.find(text)) {
    if (stretch.id >= 0) {
      out.push_back(stretch.id);
    } else {
      encode_text(stretch.text, scratch, out);
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parse_special) const {
  std::vector<TokenId> ids;
  encode_append(text, parse_special, ids);
  return ids;
}

std::vector<std::string_view> Tokenizer::split(std::string_view text) const {
  PreTokenizer::Scratch scratch;
  std::vector<std::string_view> pieces;
  pre_tokenizer_.for_each_piece(text, scratch,
                                [&](std::string_view piece) { pieces.push_back(piece); });
  return pieces;
}

}  // namespace minim
