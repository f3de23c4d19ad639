// One sequence that has a runtime to itself, its cache kept from call to call: the plain form that
// many sequences at once (engine/engine.h) must agree with bit for bit, and what measures a model
// without an engine around it.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/runtime.h"

namespace minim {

// One sequence that owns blocks 0, 1, 2, ... of the runtime's pool.
class Session {
 public:
  explicit Session(Runtime& runtime);

  int length() const { return static_cast<int>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }

  // Makes the sequence equal to `tokens` (kInvalid when empty), reusing the cached prefix that
  // agrees, running the rest in chunks; logits of the last token are then in logits(). kExhausted:
  // longer than the context (both counts in the message); kInvalid: an id outside the vocabulary;
  // kCancelled: the sink or the flag said stop (the sequence stays usable, shorter).
  Result<Ok> prefill(std::span<const int32_t> tokens, const ProgressSink& progress,
                     const std::atomic<bool>* stop = nullptr);
  // Appends one token; allocates nothing after the first prefill.
  Result<Ok> append(int32_t token);
  // Appends tokens (at least one), running them in chunks: the bits of appending one by one.
  // kExhausted / kInvalid as above, and then nothing is appended.
  Result<Ok> append(std::span<const int32_t> tokens);
  std::span<const float> logits() const { return logits_; }
  int reused() const { return reused_; }  // tokens of the last prefill that were cached

 private:
  Runtime& runtime_;
  std::vector<int32_t> tokens_, block_table_;
  std::vector<float> logits_;
  int reused_ = 0;
};

}  // namespace minim
