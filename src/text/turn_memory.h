// Replies that this process generated, by what a client sends back of them, so that the next prompt
// repeats the very tokens: text alone does not say how it was cut into tokens, and a template does
// not always write what the model wrote. Token-exact history is what makes a prefix cache hit.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/output_parser.h"
#include "text/vocabulary.h"

namespace minim {

class TurnMemory {
 public:
  // Keeps the newest replies up to this many tokens in all.
  explicit TurnMemory(size_t max_tokens);

  // `tokens`: everything behind the role line of the turn, the part of the generation prompt that
  // stands there (a thinking marker) included, the token that ends the turn not included. Replies
  // that ended otherwise than by themselves are not remembered.
  void remember(const ParsedOutput& reply, std::vector<TokenId> tokens);
  // The tokens of an assistant message ("content", "reasoning_content" or "reasoning",
  // "tool_calls") that says exactly what a remembered reply said; of several the newest. nullptr:
  // none.
  std::shared_ptr<const std::vector<TokenId>> find(const Json& message) const;

 private:
  struct Entry;
  mutable std::mutex mutex_;
  size_t max_tokens_;
};

}  // namespace minim
