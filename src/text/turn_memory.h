// Replies that this process generated, by what a client sends back of them, so that the next prompt
// repeats the very tokens: text alone does not say how it was cut into tokens, and a template does
// not always write what the model wrote. Token-exact history is what makes a prefix cache hit.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/output_parser.h"
#include "text/vocabulary.h"

namespace minim {

// Safe to use from several threads at once.
class TurnMemory {
 public:
  // Keeps the replies that were remembered or found last, up to this many tokens in all.
  explicit TurnMemory(size_t max_tokens) : max_tokens_(max_tokens) {}

  // `tokens`: everything behind the role line of the turn, the part of the generation prompt that
  // stands there (a thinking marker) included, the token that ends the turn not included. Replies
  // that ended otherwise than by themselves are not remembered: those whose finish is neither
  // "stop" nor "tool_calls" or that hold an incomplete call. (A reply cut at a stop string is the
  // caller's to leave out.)
  void remember(const ParsedOutput& reply, std::vector<TokenId> tokens);

  // The tokens of an assistant message that says exactly what a remembered reply said; of several
  // the newest. nullptr: none. What counts:
  // - "content": a string, or a list of strings and {"type": "text"} items, which are joined; null,
  //   absent and "" are equal.
  // - "reasoning_content" or "reasoning", a string; if both say something, the same.
  // - "tool_calls", in order: the names, and the arguments as JSON values (an object, or a string
  //   that holds JSON; null, absent and "" are {}). The order of keys and the spelling of numbers
  //   do not count, ids do not either.
  // A message that says more than that ("function_call", other types of content) is never found.
  std::shared_ptr<const std::vector<TokenId>> find(const Json& message) const;

  size_t tokens() const;  // held now

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const std::vector<TokenId>> tokens;
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry);

  mutable std::mutex mutex_;
  size_t max_tokens_;
  size_t n_tokens_ = 0;
  mutable Entries entries_;  // the one used last comes first
  std::unordered_map<std::string, Entries::iterator> index_;
};

// The tokens of a turn as remember() wants them: the thinking marker with which the prompt ends, if
// it ends with one, and what was generated behind it, without the token that ended the turn.
std::vector<TokenId> turn_tokens(const MarkerIds& markers, std::span<const TokenId> prompt,
                                 std::span<const TokenId> generated);

}  // namespace minim
