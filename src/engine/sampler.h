// Logits to a token: the rules of one request, applied to one row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/logit_row.h"

namespace minim {

// Which ids may ever be sampled: one byte an id, 0 = never (rows of the vocabulary without a
// token).
using TokenMask = std::vector<uint8_t>;

// Defaults mean "off". Order of application: mask (of the model, allowed_tokens, bad_words, what
// sample() is told), bias, penalties, temperature, top-k, top-p, min-p, draw.
struct SamplingParams {
  double temperature =
      1.0;        // 0: greedy (lowest id on equal logits), then nothing after the penalties matters
  int top_k = 0;  // 0: all
  double top_p = 1.0;  // smallest set of most probable tokens whose mass reaches top_p
  double min_p = 0.0;  // drop tokens below min_p times the largest probability
  double repetition_penalty =
      1.0;  // > 0; divides positive and multiplies negative logits of seen tokens (prompt included)
  double presence_penalty = 0.0;   // subtracted once from tokens generated so far
  double frequency_penalty = 0.0;  // subtracted per occurrence among generated tokens
  uint64_t seed = 0;
  // Added to the logit of an id before the penalties; -100 or less: the id never comes.
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  // Token sequences that may not come: the last token of one is left out where it would complete
  // it (a sequence of one token never comes). Behind the prompt's tokens too.
  std::vector<std::vector<int32_t>> bad_words = {};
  std::vector<int32_t> allowed_tokens = {};  // nothing else comes; empty: all
};

// Checks ranges; the message names the parameter, what was found and what is allowed.
Result<Ok> check_sampling(const SamplingParams& params);
// Also the ids, against a vocabulary of `vocab` ids.
Result<Ok> check_sampling(const SamplingParams& params, int vocab);

// What one reply has drawn so far and the rules it draws by. A copy is a sampler of its own in the
// same state; with a vocabulary of 200,000 ids it takes about 80 KB, and 16 bytes an id where all
// of them may have to be put in order (top_p without top_k), touched only when they are.
class Sampler {
 public:
  // vocab: length of a row. allowed: empty means all; not kept. params must pass check_sampling
  // with this vocabulary.
  Sampler(const SamplingParams& params, int vocab, const TokenMask& allowed);

  // The sampler of reply `reply` to the same prompt: this state, the seed plus `reply`.
  Sampler fork(int reply) const;

  // Tells the sampler of tokens that count for penalties and begin bad words. Before any other.
  void observe_prompt(std::span<const int32_t> tokens);

  // Draws the token at absolute position `position` (the draw depends on seed and position alone,
  // so a seed gives the same text at any load and after any resume). A NaN or infinite logit is
  // left out; a row with nothing left is kInvalid. Also counts the token for the penalties.
  //
  // `allowed`: what this one token may be, beside the mask; bit id % 32 of word id / 32, ids behind
  // its end may not come. It shapes the draw only: logits stay as they are, for whoever reports
  // them. Empty: no such limit. `left_out`: what it may not be (stop ids before min_tokens).
  //
  // Allocates nothing, except that with penalties the list of the tokens seen doubles now and then;
  // reserve() takes that memory beforehand.
  Result<int32_t> sample(std::span<const float> logits, int64_t position,
                         std::span<const uint32_t> allowed = {},
                         std::span<const int32_t> left_out = {});

  // Counts a token that was not drawn (there was no choice) for the penalties.
  void take(int32_t token);

  // Room for `n_tokens` more tokens.
  void reserve(size_t n_tokens);

 private:
  struct Rules;
  // A token whose logit is not taken as it is.
  struct Adjustment {
    int32_t id = 0;
    int32_t count = 0;  // among the generated tokens
    float bias = 0.0f;
    bool seen = false;  // in the prompt or since
  };

  Adjustment& adjustment_of(int32_t token);
  void remember(int32_t token);
  void open_ids(std::span<const uint32_t> allowed, std::span<const int32_t> left_out);
  void close_bad_words(std::span<uint32_t> open) const;
  void adjust(std::span<const float> logits);
  int32_t choose(int64_t position);

  std::shared_ptr<const Rules> rules_;
  uint64_t seed_;
  std::vector<Adjustment> adjustments_;  // ids ascending
  std::vector<int32_t> last_tokens_;     // a ring, as long as bad words look back
  size_t n_tokens_ = 0;                  // that the ring was told
  std::vector<Candidate> adjusted_;
  LogitRow row_;
};

// A token's log-probability in the unprocessed distribution (ids outside the mask left out), and
// the most probable ones, value descending, then id ascending. -inf where an id cannot come.
struct TokenLogprobs {
  int32_t token = -1;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top = {};
};
// allowed: empty means all. top_k: at most 20; `top` is shorter where fewer ids can come.
TokenLogprobs token_logprobs(std::span<const float> logits, const TokenMask& allowed, int32_t token,
                             int top_k);

// Uniform in [0, 1) from (seed, position): a counter-based generator, no state.
double uniform_draw(uint64_t seed, int64_t position);

// log softmax of a row in double; masked or not finite entries are -inf. For logprobs and scores:
// the unprocessed distribution.
void log_softmax(std::span<const float> logits, const TokenMask& allowed, std::vector<double>& out);

// The k ids of highest value, value descending, then id ascending.
std::vector<int32_t> top_ids(std::span<const double> values, int k);

}  // namespace minim
