// Generated ids to the two texts of an answer: its thinking and what is meant for the reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace minim {

class AnswerStream {
 public:
  // `prompt` decides where the answer begins: behind <mm:think> it begins with thinking. The
  // tokenizer must outlive the stream.
  AnswerStream(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt);

  struct Piece {
    bool reasoning = false;
    std::string text;
  };
  // Text that is certain now; at most one piece, and none on a switch. Markers are known by their
  // ids: the same characters written as ordinary tokens are text. <mm:think> and </mm:think>
  // switch and are never text; the tokens that frame a turn (bos, role, eos, pad, unk) are never
  // text either; every other added token is, the tool markup too.
  std::optional<Piece> push(TokenId token);
  std::optional<Piece> finish();

  const std::string& text() const { return text_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  std::optional<Piece> take(std::string text);

  Detokenizer detokenizer_;
  std::optional<TokenId> think_, end_think_;
  std::vector<TokenId> silent_;
  bool reasoning_state_ = false;
  std::string text_, reasoning_;
};

}  // namespace minim
