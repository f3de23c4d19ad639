// One answer: prompt in, tokens out, one at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/console.h"
#include "base/result.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "text/output_constraint.h"

namespace minim {

struct GenerationRequest {
  std::span<const int32_t> prompt;  // not empty
  SamplingParams sampling;
  std::span<const int32_t> stop_ids;
  int64_t max_tokens = 0;                  // 0: as many as the context holds
  OutputConstraint* constraint = nullptr;  // of this reply alone; null: everything may come
};

struct Generation {
  std::vector<int32_t> tokens;  // the stop id included
  Finish finish = Finish::kStop;
  int prompt_tokens = 0, cached_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  int decode_tokens = 0;  // computed behind the prompt: all but the last one
  int forced_tokens = 0;  // among all: came without a choice, so nothing was drawn for them

  // Tokens that were computed a second; 0 when none were.
  double prefill_rate() const;
  double decode_rate() const;
};

// Runs until a stop id, the limit, the end of the context or an interrupt. `on_token` sees every
// token but the stop id; false stops (then kCancelled). An interrupt during the prompt is the
// error kCancelled. What the constraint forces is appended in one go, which changes no bit: the
// tokens are a function of model, request and seed, never of time.
Result<Generation> generate(Session& sequence, const Runtime& runtime, const TokenMask& mask,
                            const GenerationRequest& request, ProgressLine& progress,
                            const InterruptWatch& watch,
                            const std::function<bool(int32_t)>& on_token);

}  // namespace minim
