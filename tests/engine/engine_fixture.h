// Requests run by the engine among others, and the same requests alone.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"

namespace minim {

inline std::unique_ptr<Runtime> load_runtime_of(const std::string& model, int context, int chunk,
                                                int n_blocks, int threads, int extra_rows,
                                                KvOrder order = KvOrder::kBlockOuter) {
  RuntimeOptions options{.model_dir = std::string(MINIM_TEST_DATA) + "/model/" + model,
                         .n_threads = threads,
                         .order = order,
                         .context = context,
                         .chunk = chunk,
                         .extra_rows = extra_rows};
  Result<std::unique_ptr<Runtime>> probe = Runtime::load(options, {});
  EXPECT_TRUE(probe) << probe.error().message;
  if (!probe || n_blocks == 0) return probe ? *std::move(probe) : nullptr;
  options.kv_bytes = (*probe)->layout().block_bytes * static_cast<size_t>(n_blocks);
  probe->reset();
  Result<std::unique_ptr<Runtime>> runtime = Runtime::load(options, {});
  EXPECT_TRUE(runtime) << runtime.error().message;
  return runtime ? *std::move(runtime) : nullptr;
}

// What a reply consists of; equal means equal bits.
struct Reply {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs, prompt_logprobs;
  Finish finish = Finish::kError;
  Usage usage;
  std::string error;
  bool finished = false;
};

inline bool same_bits(const TokenLogprobs& a, const TokenLogprobs& b) {
  if (a.token != b.token || a.top.size() != b.top.size()) return false;
  if (std::memcmp(&a.logprob, &b.logprob, sizeof(float)) != 0) return false;
  for (size_t i = 0; i < a.top.size(); ++i) {
    if (a.top[i].first != b.top[i].first) return false;
    if (std::memcmp(&a.top[i].second, &b.top[i].second, sizeof(float)) != 0) return false;
  }
  return true;
}

inline bool same_bits(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return true;
}

inline void expect_same(const Reply& among_others, const Reply& alone, const std::string& what) {
  EXPECT_EQ(among_others.tokens, alone.tokens) << what;
  EXPECT_TRUE(same_bits(among_others.logprobs, alone.logprobs)) << what << ": logprobs";
  EXPECT_TRUE(same_bits(among_others.prompt_logprobs, alone.prompt_logprobs))
      << what << ": prompt logprobs";
  EXPECT_EQ(among_others.finish, alone.finish) << what << " " << among_others.error;
}

// Reads what a ticket has, without waiting.
inline void collect(Ticket& ticket, std::vector<Reply>& replies) {
  while (auto event = ticket.next(std::chrono::milliseconds(0))) {
    Reply& reply = replies[static_cast<size_t>(event->reply)];
    EXPECT_FALSE(reply.finished) << "an event behind the end";
    switch (event->kind) {
      case TokenEvent::Kind::kStarted:
        reply.prompt_logprobs = std::move(event->prompt_logprobs);
        break;
      case TokenEvent::Kind::kToken:
        reply.tokens.push_back(event->token);
        if (event->logprobs) reply.logprobs.push_back(*std::move(event->logprobs));
        break;
      case TokenEvent::Kind::kFinished:
        reply.finish = event->finish;
        reply.error = event->error;
        reply.finished = true;
        break;
    }
    reply.usage = event->usage;
  }
}

// Runs the engine until the ticket has ended.
inline std::vector<Reply> run_to_end(Engine& engine, Ticket& ticket, int n_replies) {
  std::vector<Reply> replies(static_cast<size_t>(n_replies));
  while (!ticket.done()) {
    engine.step(true);
    collect(ticket, replies);
  }
  return replies;
}

inline std::vector<Reply> run(Engine& engine, const GenerateRequest& request) {
  Result<Ticket> ticket = engine.submit(request);
  EXPECT_TRUE(ticket) << ticket.error().message;
  if (!ticket) return std::vector<Reply>(static_cast<size_t>(request.n));
  return run_to_end(engine, *ticket, request.n);
}

// The plain form: one sequence, token by token, on a runtime of its own.
inline Reply run_alone(Runtime& runtime, const GenerateRequest& request, int reply,
                       const TokenMask& mask) {
  Reply out;
  Session session(runtime);
  SamplingParams sampling = request.sampling;
  sampling.seed += static_cast<uint64_t>(reply);
  Sampler sampler(sampling, runtime.config().vocab, mask);
  sampler.observe_prompt(request.prompt);
  std::unique_ptr<TokenRules> rules;
  if (request.rules) rules = *request.rules(reply);

  std::vector<int32_t> tokens = request.prompt;
  const auto logprobs_of_next = [&](size_t position, int k, std::vector<TokenLogprobs>& list) {
    list.push_back(token_logprobs(session.logits(), mask, tokens[position], k));
  };
  EXPECT_TRUE(session.prefill(std::span<const int32_t>(tokens).first(1), {}));
  if (request.prompt_logprobs >= 0) {
    for (size_t i = 1; i < tokens.size(); ++i) {
      logprobs_of_next(i, request.prompt_logprobs, out.prompt_logprobs);
      EXPECT_TRUE(session.append(tokens[i]));
    }
  } else {
    EXPECT_TRUE(session.prefill(tokens, {}));
  }
  out.finished = true;
  std::vector<int32_t> forced;
  size_t i_forced = 0;
  while (true) {
    if (rules != nullptr && i_forced == forced.size()) {
      forced = rules->forced();
      i_forced = 0;
    }
    int32_t token = -1;
    if (i_forced < forced.size()) {
      token = forced[i_forced++];
      sampler.take(token);
    } else {
      const bool may_stop =
          request.ignore_stop_ids || static_cast<int64_t>(out.tokens.size()) >= request.min_tokens;
      const Result<int32_t> drawn = sampler.sample(
          session.logits(), static_cast<int64_t>(tokens.size()),
          rules != nullptr ? rules->allowed() : std::span<const uint32_t>(),
          may_stop ? std::span<const int32_t>() : std::span<const int32_t>(request.stop_ids));
      EXPECT_TRUE(drawn);
      token = *drawn;
    }
    tokens.push_back(token);
    out.tokens.push_back(token);
    if (request.logprobs >= 0) {
      logprobs_of_next(tokens.size() - 1, request.logprobs, out.logprobs);
    }
    const bool is_stop = std::find(request.stop_ids.begin(), request.stop_ids.end(), token) !=
                         request.stop_ids.end();
    if ((is_stop && !request.ignore_stop_ids) || (rules != nullptr && rules->accept(token))) {
      out.finish = Finish::kStop;
      return out;
    }
    const bool enough =
        request.max_tokens > 0 && static_cast<int64_t>(out.tokens.size()) >= request.max_tokens;
    if (enough || static_cast<int>(tokens.size()) > runtime.context()) {
      out.finish = Finish::kLength;
      return out;
    }
    EXPECT_TRUE(session.append(token));
  }
}

}  // namespace minim
