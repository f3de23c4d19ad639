// The loop from logits to tokens. A token that is drawn and those that the constraint forces behind
// it run as one step; while the device computes it, the mask of the next draw is made on another
// thread.
#include "apps/generation.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "apps/mask_worker.h"

namespace minim {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate(int n, double seconds) { return n > 0 && seconds > 0 ? n / seconds : 0; }

}  // namespace

double Generation::prefill_rate() const {
  return rate(prompt_tokens - cached_tokens, prefill_seconds);
}
double Generation::decode_rate() const { return rate(decode_tokens, decode_seconds); }

namespace {

// A reply as it grows. Tokens are taken (seen, counted, told to the constraint) before they are
// computed; what is taken and not computed is pending_.
class Reply {
 public:
  Reply(Session& sequence, const Runtime& runtime, const GenerationRequest& request,
        const InterruptWatch& watch, const std::function<bool(int32_t)>& on_token, Sampler& sampler,
        Generation& out)
      : sequence_(sequence),
        runtime_(runtime),
        request_(request),
        watch_(watch),
        on_token_(on_token),
        sampler_(sampler),
        out_(out),
        position_(out.prompt_tokens) {}

  Result<Ok> run() {
    if (request_.constraint != nullptr) {
      Result<std::unique_ptr<MaskWorker>> worker = MaskWorker::create(*request_.constraint);
      if (!worker) return worker.error();
      worker_ = *std::move(worker);
    }
    while (true) {
      if (take_forced()) return Ok{};
      Result<const TokenBits*> allowed = compute();
      if (!allowed) return allowed.error();
      Result<int32_t> token =
          sampler_.sample(sequence_.logits(), position_,
                          *allowed == nullptr ? std::span<const uint32_t>() : **allowed);
      if (!token) return token.error();
      if (take(*token)) return Ok{};
    }
  }

 private:
  // Whether the reply is over.
  bool take(int32_t token) {
    ++position_;
    out_.tokens.push_back(token);
    if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), token) !=
        request_.stop_ids.end()) {
      return true;
    }
    if (!on_token_(token) || watch_.interrupted()) {
      out_.finish = Finish::kCancelled;
      return true;
    }
    const bool enough =
        request_.max_tokens > 0 && static_cast<int64_t>(out_.tokens.size()) >= request_.max_tokens;
    if (enough || sequence_.length() + static_cast<int>(pending_.size()) >= runtime_.context()) {
      out_.finish = Finish::kLength;
      return true;
    }
    pending_.push_back(token);
    if (request_.constraint != nullptr) request_.constraint->accept(token);
    return false;
  }

  bool take_forced() {
    if (request_.constraint == nullptr) return false;
    while (true) {
      const std::vector<int32_t> forced = request_.constraint->forced();
      if (forced.empty()) return false;
      for (const int32_t token : forced) {
        sampler_.take(token);
        ++out_.forced_tokens;
        if (take(token)) return true;
      }
    }
  }

  // Runs the pending tokens, and what may come behind them on the other thread.
  Result<const TokenBits*> compute() {
    if (worker_ != nullptr) worker_->start();
    Result<Ok> appended = Ok{};
    if (!pending_.empty()) {
      appended = sequence_.append(pending_);
      out_.decode_tokens += static_cast<int>(pending_.size());
      pending_.clear();
    }
    const TokenBits* allowed = worker_ != nullptr ? worker_->finish() : nullptr;
    if (!appended) return appended.error();
    return allowed;
  }

  Session& sequence_;
  const Runtime& runtime_;
  const GenerationRequest& request_;
  const InterruptWatch& watch_;
  const std::function<bool(int32_t)>& on_token_;
  Sampler& sampler_;
  Generation& out_;
  std::unique_ptr<MaskWorker> worker_;
  std::vector<int32_t> pending_;
  int64_t position_;
};

}  // namespace

Result<Generation> generate(Session& sequence, const Runtime& runtime, const TokenMask& mask,
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
  Result<Ok> done = Reply(sequence, runtime, request, watch, on_token, sampler, out).run();
  if (!done) return done.error();
  out.decode_seconds = seconds_since(decode_start);
  return out;
}

}  // namespace minim
