// Tokens are taken (counted, told to the rules) when they are known and computed later, so a token
// that the rules force costs no draw. The ticket sees a token at once, or together with its
// log-probabilities when those were asked for.
#include "engine/reply.h"

#include <algorithm>
#include <utility>

#include "device/kv_layout.h"
#include "engine/ticket_state.h"

namespace minim {
namespace {

double seconds(Sequence::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

bool is_stop(const Sequence& sequence, int32_t token) {
  const GenerateRequest& request = *sequence.request;
  return !request.ignore_stop_ids && std::find(request.stop_ids.begin(), request.stop_ids.end(),
                                               token) != request.stop_ids.end();
}

void take(Sequence& sequence, int32_t token, int context) {
  const int64_t limit = sequence.request->max_tokens;
  sequence.tokens.push_back(token);
  // A stop id is no part of the text, so the rules do not see it.
  if (is_stop(sequence, token) || (sequence.rules != nullptr && sequence.rules->accept(token))) {
    sequence.ending = Finish::kStop;
  } else if ((limit > 0 && sequence.n_generated() >= limit) || sequence.n_tokens() > context) {
    sequence.ending = Finish::kLength;
  }
}

void take_forced(Sequence& sequence, int context) {
  while (sequence.rules != nullptr && !sequence.ending) {
    const std::vector<int32_t> forced = sequence.rules->forced();
    if (forced.empty()) return;
    for (const int32_t token : forced) {
      if (sequence.ending) return;
      sequence.sampler.take(token);
      ++sequence.usage.forced_tokens;
      take(sequence, token, context);
    }
  }
}

TokenEvent event_of(const Sequence& sequence, TokenEvent::Kind kind) {
  TokenEvent event;
  event.kind = kind;
  event.reply = sequence.reply;
  return event;
}

void tell_start(Sequence& sequence) {
  sequence.started = true;
  sequence.first_token = Sequence::Clock::now();
  Usage& usage = sequence.usage;
  usage.prompt_tokens = sequence.n_prompt;
  usage.cached_tokens = std::max(0, sequence.n_prompt - sequence.n_prompt_rows);
  const int shareable = (sequence.n_prompt - 1) / kBlockTokens;
  if (usage.miss != CacheMiss::kNotAsked) {
    if (usage.cached_tokens >= shareable * kBlockTokens) usage.miss = CacheMiss::kNone;
    if (shareable == 0 && usage.cached_tokens == 0) usage.miss = CacheMiss::kShort;
  }
  usage.queue_seconds = seconds(sequence.admitted - sequence.submitted);
  usage.prefill_seconds = seconds(sequence.first_token - sequence.admitted);
  TokenEvent event = event_of(sequence, TokenEvent::Kind::kStarted);
  event.usage = usage;
  event.prompt_logprobs = std::move(sequence.prompt_logprobs);
  sequence.prompt_logprobs.clear();
  sequence.ticket->push(std::move(event));
}

void tell_tokens(Sequence& sequence) {
  const bool with_logprobs = sequence.wants_logprobs();
  const int n = with_logprobs ? static_cast<int>(sequence.logprobs.size())
                              : sequence.n_generated() - sequence.n_told;
  for (int i = 0; i < n; ++i) {
    TokenEvent event = event_of(sequence, TokenEvent::Kind::kToken);
    event.token =
        sequence
            .tokens[static_cast<size_t>(sequence.n_prompt) + static_cast<size_t>(sequence.n_told)];
    if (with_logprobs) event.logprobs = std::move(sequence.logprobs[static_cast<size_t>(i)]);
    ++sequence.n_told;
    sequence.ticket->push(std::move(event));
  }
  sequence.logprobs.clear();
}

}  // namespace

void begin_reply(Sequence& sequence, int context) { take_forced(sequence, context); }

void draw_token(Sequence& sequence, std::span<const float> logits,
                std::span<const uint32_t> allowed, const TokenMask& mask, int context) {
  const GenerateRequest& request = *sequence.request;
  const bool may_stop = request.ignore_stop_ids || sequence.n_generated() >= request.min_tokens;
  const Result<int32_t> token = sequence.sampler.sample(
      logits, sequence.n_tokens(), allowed,
      may_stop ? std::span<const int32_t>() : std::span<const int32_t>(request.stop_ids));
  if (!token) {
    sequence.ending = Finish::kError;
    sequence.error = token.error().message;
    return;
  }
  if (sequence.wants_logprobs()) {
    sequence.logprobs.push_back(token_logprobs(logits, mask, *token, request.logprobs));
  }
  take(sequence, *token, context);
  take_forced(sequence, context);
}

void keep_logprobs(Sequence& sequence, int position, std::span<const float> logits,
                   const TokenMask& mask) {
  const int next = position + 1;
  if (next >= sequence.n_tokens()) return;
  const int32_t token = sequence.tokens[static_cast<size_t>(next)];
  if (next < sequence.n_prompt) {
    if (!sequence.wants_prompt_logprobs()) return;
    sequence.prompt_logprobs.push_back(
        token_logprobs(logits, mask, token, sequence.request->prompt_logprobs));
  } else if (sequence.wants_logprobs()) {
    sequence.logprobs.push_back(token_logprobs(logits, mask, token, sequence.request->logprobs));
  }
}

bool tell(Sequence& sequence) {
  if (!sequence.started) {
    if (sequence.n_computed < sequence.n_prompt) return false;
    tell_start(sequence);
  }
  tell_tokens(sequence);
  if (!sequence.ending) return false;
  if (*sequence.ending != Finish::kError && sequence.n_told < sequence.n_generated()) return false;
  end_reply(sequence, *sequence.ending);
  return true;
}

void end_reply(Sequence& sequence, Finish finish) {
  TokenEvent event = event_of(sequence, TokenEvent::Kind::kFinished);
  event.finish = finish;
  event.error = sequence.error;
  sequence.usage.prompt_tokens = sequence.n_prompt;
  sequence.usage.generated_tokens = sequence.n_told;
  if (sequence.started) {
    sequence.usage.decode_seconds = seconds(Sequence::Clock::now() - sequence.first_token);
  }
  event.usage = sequence.usage;
  sequence.ticket->push(std::move(event));
}

}  // namespace minim
