// What one request asks of the engine, and what the engine tells back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"

namespace minim {

// Rules of one reply that are made of text (a grammar, tools, stop strings), of which the engine
// sees only token ids. A function of the tokens accepted so far, never of time.
class TokenRules {
 public:
  virtual ~TokenRules() = default;
  // The ids that may come next: bit id % 32 of word id / 32; empty: all. Valid until the next
  // accept(). Runs on another thread while the forward pass runs, never beside another call.
  virtual std::span<const uint32_t> allowed() = 0;
  // Tokens that must come next without a choice; empty where there is one. Whoever asks once asks
  // after every accept() until nothing comes, and takes them.
  virtual std::vector<int32_t> forced() = 0;
  // The token that was taken; true: the reply ends with it.
  virtual bool accept(int32_t token) = 0;
};

struct GenerateRequest {
  std::vector<int32_t> prompt;  // not empty
  SamplingParams sampling;
  std::vector<int32_t> stop_ids;  // end a reply; the id is its last token
  bool ignore_stop_ids = false;   // go on to the limit
  int64_t min_tokens = 0;         // no stop id may come before
  int64_t max_tokens = 0;         // 0: as many as the context holds
  int n = 1;                      // replies; reply i draws with seed + i
  int logprobs = -1;  // of each generated token and the k most probable; -1: none, at most 20
  int prompt_logprobs = -1;  // the same of each prompt token; such a prompt is not read from cache
  // Makes the rules of reply i, on the caller's thread inside submit(); empty: none.
  std::function<Result<std::unique_ptr<TokenRules>>(int reply)> rules;

  std::string client;  // whose turn it is is decided between clients, then between requests
  int priority = 0;    // higher goes first, and may take the blocks of a lower one
  std::string salt;    // BlockKeyScope::salt
  std::optional<std::chrono::steady_clock::time_point> deadline;  // then kDeadline
};

enum class Finish : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };
const char* finish_name(Finish finish);  // "stop", "length", "cancelled", "deadline", "error"

// Why not all of the prompt's full blocks came from the cache.
enum class CacheMiss : uint8_t {
  kNone,      // all came
  kShort,     // the prompt has no full block in front of its last token
  kNew,       // the first missing block was never seen here
  kEvicted,   // it was here and had to go
  kDamaged,   // the disk's copy was no good
  kNotAsked,  // prompt log-probabilities want every row
};
const char* cache_miss_name(CacheMiss miss);

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, not computed for this request
  CacheMiss miss = CacheMiss::kNone;
  int generated_tokens = 0;
  int forced_tokens = 0;  // of those: came without a choice
  int preemptions = 0;
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

struct TokenEvent {
  enum class Kind : uint8_t {
    kStarted,   // the prompt is computed: usage (prompt's part), prompt_logprobs
    kToken,     // token, logprobs if asked for
    kFinished,  // finish, usage, error when finish is kError; the last event of this reply
  };
  Kind kind = Kind::kToken;
  int reply = 0;  // 0 .. n-1
  int32_t token = -1;
  std::optional<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;  // [prompt_tokens - 1], of tokens 1, 2, ...
  Finish finish = Finish::kStop;
  Usage usage;
  std::string error;
};

}  // namespace minim
