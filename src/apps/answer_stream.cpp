#include "apps/answer_stream.h"

#include <algorithm>

namespace minim {

AnswerStream::AnswerStream(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt)
    : detokenizer_(tokenizer, false),
      think_(tokenizer.find_added("<mm:think>")),
      end_think_(tokenizer.find_added("</mm:think>")) {
  for (const char* literal : {"]~!b[", "]~b]", "[e~[", "]!p~[", "]!d~["}) {
    if (const auto id = tokenizer.find_added(literal)) silent_.push_back(*id);
  }
  reasoning_state_ = think_ && !prompt.empty() && prompt.back() == *think_;
}

std::optional<AnswerStream::Piece> AnswerStream::take(std::string text) {
  if (text.empty()) return std::nullopt;
  (reasoning_state_ ? reasoning_ : text_) += text;
  return Piece{reasoning_state_, std::move(text)};
}

std::optional<AnswerStream::Piece> AnswerStream::push(TokenId token) {
  if (token == think_ || token == end_think_) {
    std::optional<Piece> rest = take(detokenizer_.flush());
    reasoning_state_ = token == think_;
    return rest;
  }
  if (std::find(silent_.begin(), silent_.end(), token) != silent_.end()) return std::nullopt;
  return take(detokenizer_.push(token));
}

std::optional<AnswerStream::Piece> AnswerStream::finish() { return take(detokenizer_.flush()); }

}  // namespace minim
