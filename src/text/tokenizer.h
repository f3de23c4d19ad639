// Text to token ids, as the checkpoint's tokenizer.json defines it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/piece_table.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace minim {

// Byte-level BPE. Immutable after load: any number of threads may use one at once.
class Tokenizer {
 public:
  // Buffers that calls of encode_append may share; one per thread, any Tokenizer. What they hold
  // never changes a result.
  struct Scratch {
    struct Seen {  // a piece that was merged before in this text, and where its ids are
      std::string_view piece;
      size_t begin = 0;
      uint32_t n = 0;
    };
    Bpe::Scratch bpe;
    PreTokenizer::Scratch split;
    std::vector<Seen> seen;
  };

  // Reads a tokenizer.json. What would give other ids than the reference does (a normalizer,
  // another model or pre-tokenizer, dropout, …) is refused by name. Truncation, padding and
  // post-processor are not looked at: encode adds nothing at the ends and cuts nothing off.
  static Result<Tokenizer> load(const std::string& path);
  // The same from memory; messages begin with `name`.
  static Result<Tokenizer> parse(std::string_view json, std::string_view name);

  // The ids of `text`, any bytes. With parse_special added tokens in the text become
  // their ids; without, every character is ordinary text (what users and tools send). Joining
  // bytes() of the ids gives the text back, except for white space that an added token with lstrip
  // or rstrip takes and for what a pattern of behaviour "Removed" drops.
  std::vector<TokenId> encode(std::string_view text, bool parse_special) const;
  // The same, appended: for prompts that are put together from segments.
  void encode_append(std::string_view text, bool parse_special, std::vector<TokenId>& out) const {
    Scratch scratch;
    encode_append(text, parse_special, scratch, out);
  }
  void encode_append(std::string_view text, bool parse_special, Scratch& scratch,
                     std::vector<TokenId>& out) const;
  // The pieces of ordinary text before merging; they point into `text`.
  std::vector<std::string_view> split(std::string_view text) const;

  int32_t n_ids() const {
    return vocabulary_.n_ids();
  }  // highest id + 1; ids below may be without token
  bool has_token(TokenId id) const { return vocabulary_.kind(id) != Vocabulary::kAbsent; }
  bool is_added(TokenId id) const { return vocabulary_.kind(id) >= Vocabulary::kAdded; }
  bool is_special(TokenId id) const { return vocabulary_.kind(id) == Vocabulary::kSpecial; }
  // What the id stands for: the literal of an added token, the bytes of another; empty without
  // token. Valid as long as the tokenizer is.
  std::string_view bytes(TokenId id) const { return vocabulary_.bytes(id); }
  std::optional<TokenId> find_added(std::string_view literal) const {
    return added_.id_of(literal);
  }
  // Cuts `text` into added tokens and what lies between them.
  std::vector<AddedTokens::Stretch> find_added_tokens(std::string_view text) const {
    return added_.find(text);
  }

 private:
  friend class TokenizerReader;
  Tokenizer() = default;
  void encode_text(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  // Tokens that their own bytes merge to; with "ignore_merges" all of them.
  PieceTable whole_pieces_;
};

}  // namespace minim
