// One reply as it grows: its tokens, how far they are computed, and the blocks that hold them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/block_key.h"
#include "engine/request.h"
#include "engine/sampler.h"

namespace minim {

struct TicketState;

struct Sequence {
  enum class State : uint8_t {
    kWaiting,  // holds no block
    kLoading,  // some of its blocks are on their way from a lower level
    kRunning,
  };
  using Clock = std::chrono::steady_clock;
  static constexpr int kMaxDecodeRows = 32;

  Sequence(std::shared_ptr<const GenerateRequest> request_, int reply_, Sampler sampler_)
      : request(std::move(request_)), reply(reply_), sampler(std::move(sampler_)) {}

  uint64_t id = 0;  // order of arrival
  State state = State::kWaiting;
  std::shared_ptr<const GenerateRequest> request;
  int reply = 0;
  std::shared_ptr<TicketState> ticket;
  Sampler sampler;
  std::unique_ptr<TokenRules> rules;  // null: none

  std::vector<int32_t> tokens;  // the prompt, then what was generated
  int n_prompt = 0;
  int n_computed = 0;  // leading tokens whose cache is written
  int n_told = 0;      // generated tokens that the ticket has seen

  // Blocks of positions 0, 128, ...; a block more than computed only inside a step.
  std::vector<int32_t> blocks;
  int n_sealed = 0;            // leading blocks whose content is complete and known by a key
  BlockKey root{};             // of the chain
  std::vector<BlockKey> keys;  // of full blocks of `tokens`, as far as they were needed

  int n_prompt_rows = 0;         // computed before the start, for this reply
  bool started = false;          // the ticket knows that the prompt is computed
  std::optional<Finish> ending;  // nothing more is generated
  std::string error;             // of Finish::kError
  Usage usage;
  Clock::time_point submitted, admitted, first_token;
  std::vector<TokenLogprobs> prompt_logprobs;  // of tokens 1, 2, ... as they come
  std::vector<TokenLogprobs> logprobs;         // of generated tokens from n_told on, as they come

  // Of other keys than before; holds no block.
  void set_root(const BlockKey& other) {
    if (root == other) return;
    root = other;
    keys.clear();
  }
  int n_tokens() const { return static_cast<int>(tokens.size()); }
  // Tokens that will be computed. The last one of a reply is not: nothing comes behind it, and it
  // may be one more than the context holds.
  int n_due() const { return n_tokens() - (ending ? 1 : 0); }
  int n_uncomputed() const { return n_due() - n_computed; }
  int n_generated() const { return n_tokens() - n_prompt; }
  // A token or a few, forced ones, are left to compute. A reply that has lost its blocks is no
  // longer decoding: it runs like a prompt until it has caught up.
  bool is_decoding() const { return started && n_uncomputed() <= kMaxDecodeRows; }
  bool wants_logprobs() const { return request->logprobs >= 0; }
  bool wants_prompt_logprobs() const { return request->prompt_logprobs >= 0 && !started; }
  // The first token whose row must have logits when it is computed; the last due one at most.
  int first_logits() const {
    if (wants_prompt_logprobs()) return static_cast<int>(prompt_logprobs.size());
    return wants_logprobs() ? n_prompt - 1 + n_told + static_cast<int>(logprobs.size())
                            : n_due() - 1;
  }
};

// Who goes first: higher priority, then earlier arrival.
inline bool ranks_before(const Sequence& a, const Sequence& b) {
  return a.request->priority != b.request->priority ? a.request->priority > b.request->priority
                                                    : a.id < b.id;
}

}  // namespace minim
