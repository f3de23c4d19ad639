// Many sequences at once on one runtime: tokens in, tokens out.
//
// A step: take what came in, plan (engine/scheduler.h), run the model once, draw one token a row
// that has logits, seal full blocks, tell the tickets. A request's tokens and log-probabilities are
// those that it would have alone, whatever runs beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/kv_tiers.h"
#include "engine/request.h"
#include "engine/runtime.h"
#include "engine/ticket.h"

namespace minim {

struct EngineOptions {
  int max_sequences = 16;  // that run at once; a step's rows with logits
  int max_queue = 256;     // requests that wait; one more is refused
  double decode_slack =
      0.15;                   // how much longer prefills of others may make decoding; < 0: no limit
  TokenMask token_mask = {};  // ids that may ever come; empty: all
  KvTierOptions tiers = {};
};

struct EngineStats {
  int running = 0, waiting = 0;
  int n_blocks = 0, free_blocks = 0;
  uint64_t steps = 0, prefill_rows = 0, decode_rows = 0, cached_tokens = 0;
  uint64_t preemptions = 0, finished = 0, cancelled = 0;
  double forward_seconds = 0;   // of all steps
  double schedule_seconds = 0;  // planning, sealing, telling
  double sample_seconds = 0;
  // Of the last step:
  int step_prefill_rows = 0, step_decode_rows = 0;
  double step_seconds = 0;
  uint64_t step_bytes = 0;  // weights and cache read
  KvTiers::Stats tiers;
};

class EngineLoop;

class Engine {
 public:
  // The runtime must outlive the engine, and be used by nobody else. Errors are those of
  // KvTiers::open, and kUnsupported for tiers on a device that keeps no bytes.
  static Result<std::unique_ptr<Engine>> make(Runtime& runtime, EngineOptions options);
  // Cancels what runs.
  ~Engine();

  // Any thread. kInvalid: empty prompt, ids outside the vocabulary, parameters out of range;
  // kExhausted: a prompt longer than the context, both counts in the message (a reply that reaches
  // the context's end finishes with kLength);
  // kBusy: the queue is full, with an estimate of the wait; errors of request.rules.
  Result<Ticket> submit(GenerateRequest request);

  // Runs steps on a thread of the engine until the engine goes; it sleeps when there is nothing to
  // do.
  Result<Ok> start();
  // One step on the calling thread, for those that did not start(). False: there was nothing to
  // run. `wait`: blocks that are on their way from disk are waited for.
  bool step(bool wait = false);

  EngineStats stats() const;              // any thread; as of the last step
  double estimated_wait_seconds() const;  // of a request submitted now
  // The weights changed: nothing cached is used again, in any level; what runs computes its tokens
  // anew. Any thread; takes effect with the next step.
  void forget_cache();
  // CHECKs the invariants of pool and sequences (for tests; debug builds do it after every step).
  void check_invariants() const;

 private:
  explicit Engine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace minim
