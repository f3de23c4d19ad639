#include "apps/generation.h"

#include <algorithm>
#include <chrono>

namespace minim {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate(int n, double seconds) { return n > 0 && seconds > 0 ? n / seconds : 0; }

}  // namespace

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
  }
  return "";
}

double Generation::prefill_rate() const {
  return rate(prompt_tokens - cached_tokens, prefill_seconds);
}
double Generation::decode_rate() const { return rate(decode_steps, decode_seconds); }

Result<Generation> generate(Sequence& sequence, const Runtime& runtime, const TokenMask& mask,
                            const GenerationRequest& request, ProgressLine& progress,
                            const InterruptWatch& watch,
                            const std::function<bool(int32_t)>& on_token) {
  Generation out;
  out.prompt_tokens = static_cast<int>(request.prompt.size());
  const Clock::time_point start = Clock::now();
  Result<Ok> prefilled = sequence.prefill(request.prompt, progress.sink(), &watch.flag());
  progress.clear();
  if (!prefilled) return prefilled.error();
  out.cached_tokens = sequence.reused();
  out.prefill_seconds = seconds_since(start);

  Sampler sampler(request.sampling, runtime.config().vocab, mask);
  sampler.observe_prompt(request.prompt);
  const Clock::time_point decode_start = Clock::now();
  int64_t position = out.prompt_tokens;
  while (true) {
    Result<int32_t> token = sampler.sample(sequence.logits(), position++);
    if (!token) return token.error();
    out.tokens.push_back(*token);
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), *token) !=
        request.stop_ids.end()) {
      break;
    }
    if (!on_token(*token) || watch.interrupted()) {
      out.finish = Finish::kCancelled;
      break;
    }
    const bool enough =
        request.max_tokens > 0 && static_cast<int64_t>(out.tokens.size()) >= request.max_tokens;
    if (enough || sequence.length() >= runtime.context()) {
      out.finish = Finish::kLength;
      break;
    }
    Result<Ok> appended = sequence.append(*token);
    if (!appended) return appended.error();
    ++out.decode_steps;
  }
  out.decode_seconds = seconds_since(decode_start);
  return out;
}

}  // namespace minim
