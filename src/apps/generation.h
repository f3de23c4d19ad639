// One answer: prompt in, tokens out, one at a time.
#pragma once

#include <functional>
#include <vector>

#include "apps/console.h"
#include "base/result.h"
#include "engine/engine.h"

namespace minim {

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

// Runs a request of one reply on an engine that nobody start()ed, until it ends or an interrupt.
// `on_token` sees every token but the stop id; false stops (then kCancelled). An interrupt during
// the prompt is the error kCancelled; the others are those of Engine::submit and of the reply.
Result<Generation> generate(Engine& engine, GenerateRequest request, ProgressLine& progress,
                            const InterruptWatch& watch,
                            const std::function<bool(int32_t)>& on_token);

}  // namespace minim
