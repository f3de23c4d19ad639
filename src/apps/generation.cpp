// The engine is stepped on this thread, so that between two steps there is time to look for an
// interrupt, to draw the progress and to show what came.
#include "apps/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace minim {
namespace {

double rate(int n, double seconds) { return n > 0 && seconds > 0 ? n / seconds : 0; }

// What the events of one reply add up to.
class Collector {
 public:
  Collector(const GenerateRequest& request, const std::function<bool(int32_t)>& on_token)
      : stop_ids_(request.ignore_stop_ids ? std::vector<int32_t>() : request.stop_ids),
        on_token_(on_token) {
    out.prompt_tokens = static_cast<int>(request.prompt.size());
  }

  // False: the owner wants no more.
  bool take(const TokenEvent& event) {
    switch (event.kind) {
      case TokenEvent::Kind::kStarted:
        started = true;
        out.cached_tokens = event.usage.cached_tokens;
        out.prefill_seconds = event.usage.prefill_seconds;
        return true;
      case TokenEvent::Kind::kToken:
        out.tokens.push_back(event.token);
        return is_stop(event.token) || on_token_(event.token);
      case TokenEvent::Kind::kFinished:
        finished = true;
        error = event.error;
        out.finish = event.finish;
        out.forced_tokens = event.usage.forced_tokens;
        out.decode_seconds = event.usage.decode_seconds;
        out.decode_tokens = std::max(0, static_cast<int>(out.tokens.size()) - 1);
        return true;
    }
    return true;
  }

  Generation out;
  bool started = false, finished = false;
  std::string error;

 private:
  bool is_stop(int32_t token) const {
    return std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
  }

  std::vector<int32_t> stop_ids_;
  const std::function<bool(int32_t)>& on_token_;
};

}  // namespace

double Generation::prefill_rate() const {
  return rate(prompt_tokens - cached_tokens, prefill_seconds);
}
double Generation::decode_rate() const { return rate(decode_tokens, decode_seconds); }

Result<Generation> generate(Engine& engine, GenerateRequest request, ProgressLine& progress,
                            const InterruptWatch& watch,
                            const std::function<bool(int32_t)>& on_token) {
  Collector reply(request, on_token);
  const ProgressSink sink = progress.sink();
  const size_t n_prompt = request.prompt.size();
  const uint64_t rows_before = engine.stats().prefill_rows;
  Result<Ticket> ticket = engine.submit(std::move(request));
  if (!ticket) return ticket.error();
  size_t computed = 0;
  while (!reply.finished) {
    if (watch.interrupted()) ticket->cancel();
    if (!reply.started) {
      computed = static_cast<size_t>(engine.stats().prefill_rows - rows_before);
      sink.report("prefill", std::min(computed, n_prompt), n_prompt);
    }
    engine.step(true);
    while (std::optional<TokenEvent> event = ticket->next(std::chrono::milliseconds(0))) {
      if (event->kind == TokenEvent::Kind::kStarted) progress.clear();
      if (!reply.take(*event)) ticket->cancel();
    }
  }
  progress.clear();
  if (reply.out.finish == Finish::kError) return Error{Code::kInvalid, reply.error};
  if (!reply.started) {
    return Error{Code::kCancelled,
                 fmt::format("stopped after {} of {} prompt tokens", computed, n_prompt)};
  }
  return std::move(reply.out);
}

}  // namespace minim
