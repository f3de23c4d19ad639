// Log-probabilities of given tokens, a few rows of logits at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/runtime.h"
#include "engine/sampler.h"
#include "model/forward.h"

namespace minim {

struct ScoredPosition {
  int index = 0;
  int32_t token = 0;
  // Of the whole vocabulary, after the tokens before this one; empty at index 0.
  std::span<const double> log_probabilities;
  const Trace* trace = nullptr;  // null unless asked for
  int trace_row = 0;
};

class Scorer {
 public:
  Scorer(Runtime& runtime, TokenMask mask, bool trace);

  // Calls `on_position` for every token in order. `tokens` is not empty, in range and fits the
  // context. Returns the distribution after the last token (valid until the next call).
  // kCancelled: `go_on` said false, it is asked before every step.
  Result<std::span<const double>> score(
      std::span<const int32_t> tokens, const std::function<bool(size_t done)>& go_on,
      const std::function<void(const ScoredPosition&)>& on_position);

 private:
  Runtime& runtime_;
  TokenMask mask_;
  bool tracing_;
  int rows_;  // of a step
  std::vector<int32_t> block_table_, logits_rows_;
  std::vector<float> logits_;
  std::vector<double> log_probabilities_;  // after the last row that was looked at
  Trace trace_;
};

}  // namespace minim
