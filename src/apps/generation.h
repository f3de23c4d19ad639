// One answer: prompt in, tokens out, one at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/console.h"
#include "base/result.h"
#include "engine/runtime.h"
#include "engine/sampler.h"

namespace minim {

struct GenerationRequest {
  std::span<const int32_t> prompt;  // not empty
  SamplingParams sampling;
  std::span<const int32_t> stop_ids;
  int64_t max_tokens = 0;  // 0: as many as the context holds
};

enum class Finish { kStop, kLength, kCancelled };
const char* finish_name(Finish finish);  // "stop", "length", "cancelled"

struct Generation {
  std::vector<int32_t> tokens;  // the stop id included
  Finish finish = Finish::kStop;
  int prompt_tokens = 0, cached_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  int decode_steps = 0;  // tokens that took a step of their own: all but the first

  // Tokens that were computed a second; 0 when none were.
  double prefill_rate() const;
  double decode_rate() const;
};

// Runs until a stop id, the limit, the end of the context or an interrupt. `on_token` sees every
// token but the stop id; false stops (then kCancelled). An interrupt during the prompt is the
// error kCancelled.
Result<Generation> generate(Sequence& sequence, const Runtime& runtime, const TokenMask& mask,
                            const GenerationRequest& request, ProgressLine& progress,
                            const InterruptWatch& watch,
                            const std::function<bool(int32_t)>& on_token);

}  // namespace minim
