// From one row of logits to one token: the rules of one reply and what it has said so far.
//
// Which ids may come is a bit each: the rules that never change are joined once and shared by all
// copies, a row adds its own. Ids with a bias or a penalty, few beside the vocabulary, stand in a
// sorted list and are taken out of the row, so that the rest is searched as it is
// (engine/logit_row.h). Counts in arrays of the vocabulary's length lost: 4 MB a reply.
//
// The draw is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)
// keyed by the seed and counted by the position: no state to save, so a resumed or re-batched
// request continues with the same numbers. A stateful generator lost for that reason.
#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/softmax.h"

namespace minim {

struct Sampler::Rules {
  SamplingParams params;
  size_t vocab = 0;
  std::vector<uint32_t> open;  // ids that may ever come
  bool counts = false;         // there are penalties
};

namespace {

constexpr double kNeverBias = -100.0;

bool is_set(std::span<const uint32_t> bits, size_t id) {
  return (bits[id / 32] >> (id % 32) & 1) != 0;
}
void clear(std::span<uint32_t> bits, size_t id) { bits[id / 32] &= ~(uint32_t{1} << (id % 32)); }

// What the rules let come in any row.
std::vector<uint32_t> open_ids_of(const SamplingParams& params, size_t vocab,
                                  const TokenMask& allowed) {
  std::vector<uint32_t> open((vocab + 31) / 32, 0);
  const auto let = [&](size_t id) {
    if (allowed.empty() || allowed[id] != 0) open[id / 32] |= uint32_t{1} << (id % 32);
  };
  for (const int32_t id : params.allowed_tokens) let(static_cast<size_t>(id));
  if (params.allowed_tokens.empty()) {
    for (size_t id = 0; id < vocab; ++id) let(id);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (bias <= kNeverBias) clear(open, static_cast<size_t>(id));
  }
  for (const std::vector<int32_t>& word : params.bad_words) {
    if (word.size() == 1) clear(open, static_cast<size_t>(word[0]));
  }
  return open;
}

// How many candidates a row's list may hold.
size_t list_length(const SamplingParams& params, size_t vocab) {
  if (params.temperature == 0.0) return 0;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab) {
    return LogitRow::candidates_of_best(vocab, static_cast<size_t>(params.top_k));
  }
  return params.top_p < 1.0 ? vocab : 0;
}

double sum_of(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (const Candidate& c : candidates) total += c.first;
  return total;
}

// Turns logits into weights, e^((logit - largest) / temperature).
void weigh(std::vector<Candidate>& candidates, double temperature) {
  double largest = kNever;
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  for (Candidate& c : candidates) c.first = exp_of_negative((c.first - largest) / temperature);
}

void keep_min_p(std::vector<Candidate>& candidates, double share) {
  if (share <= 0.0) return;
  double largest = 0.0;
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  std::erase_if(candidates, [&](const Candidate& c) { return c.first < share * largest; });
}

int32_t draw(const std::vector<Candidate>& candidates, double uniform) {
  const double target = uniform * sum_of(candidates);
  double mass = 0.0;
  for (const Candidate& c : candidates) {
    mass += c.first;
    if (target < mass) return c.second;
  }
  // The sum is at least 1 (the best one's weight) and uniform below 1.
  CHECK(false, "target %g, mass %g", target, mass);
}

Result<Ok> in_range(const char* name, double value, double low, double high, bool low_is_out) {
  if (std::isfinite(value) && value <= high && (low_is_out ? value > low : value >= low)) {
    return Ok{};
  }
  return Error{Code::kInvalid, fmt::format("{} is {}, allowed is {} {} to {}", name, value,
                                           low_is_out ? "above" : "from", low, high)};
}

Result<Ok> check_id(const char* name, int32_t id, int vocab) {
  if (id >= 0 && id < vocab) return Ok{};
  return Error{Code::kInvalid,
               fmt::format("{} holds token {}, the vocabulary ends at {}", name, id, vocab - 1)};
}

Result<Ok> check_bias(std::vector<std::pair<int32_t, float>> biases, int vocab) {
  std::sort(biases.begin(), biases.end());
  for (size_t i = 0; i < biases.size(); ++i) {
    const auto [id, bias] = biases[i];
    Result<Ok> checked = check_id("logit_bias", id, vocab);
    if (!checked) return checked;
    if (!std::isfinite(bias) || bias > -kNeverBias) {
      return Error{Code::kInvalid, fmt::format("logit_bias of token {} is {}, allowed is up to {}",
                                               id, bias, -kNeverBias)};
    }
    if (i > 0 && id == biases[i - 1].first) {
      return Error{Code::kInvalid, fmt::format("logit_bias names token {} twice", id)};
    }
  }
  return Ok{};
}

}  // namespace

Result<Ok> check_sampling(const SamplingParams& params) {
  struct Range {
    const char* name;
    double value, low, high;
    bool low_is_out;
  };
  const std::array<Range, 7> ranges = {{
      {"temperature", params.temperature, 0.0, 100.0, false},
      {"top_k", static_cast<double>(params.top_k), 0.0, 2147483647.0, false},
      {"top_p", params.top_p, 0.0, 1.0, true},
      {"min_p", params.min_p, 0.0, 1.0, false},
      {"repetition_penalty", params.repetition_penalty, 0.0, 1000.0, true},
      {"presence_penalty", params.presence_penalty, -100.0, 100.0, false},
      {"frequency_penalty", params.frequency_penalty, -100.0, 100.0, false},
  }};
  for (const Range& r : ranges) {
    Result<Ok> checked = in_range(r.name, r.value, r.low, r.high, r.low_is_out);
    if (!checked) return checked;
  }
  return Ok{};
}

Result<Ok> check_sampling(const SamplingParams& params, int vocab) {
  Result<Ok> checked = check_sampling(params);
  if (checked) checked = check_bias(params.logit_bias, vocab);
  for (size_t i = 0; checked && i < params.bad_words.size(); ++i) {
    if (params.bad_words[i].empty()) {
      return Error{Code::kInvalid, "bad_words holds a word without tokens; leave it out"};
    }
    for (size_t j = 0; checked && j < params.bad_words[i].size(); ++j) {
      checked = check_id("bad_words", params.bad_words[i][j], vocab);
    }
  }
  for (size_t i = 0; checked && i < params.allowed_tokens.size(); ++i) {
    checked = check_id("allowed_tokens", params.allowed_tokens[i], vocab);
  }
  return checked;
}

Sampler::Sampler(const SamplingParams& params, int vocab, const TokenMask& allowed)
    : seed_(params.seed),
      row_(static_cast<size_t>(vocab), list_length(params, static_cast<size_t>(vocab))) {
  const Result<Ok> checked = check_sampling(params, vocab);
  CHECK(checked, "%s", checked.error().message.c_str());
  const size_t n = static_cast<size_t>(vocab);
  CHECK(allowed.empty() || allowed.size() == n, "mask of %zu for %zu ids", allowed.size(), n);
  Rules rules{params, n, open_ids_of(params, n, allowed), false};
  rules.counts = params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
                 params.frequency_penalty != 0.0;
  rules_ = std::make_shared<const Rules>(std::move(rules));
  size_t look_back = 0;
  for (const std::vector<int32_t>& word : params.bad_words) {
    look_back = std::max(look_back, word.size() - 1);
  }
  last_tokens_.assign(look_back, -1);
  reserve(params.logit_bias.size() + (rules_->counts ? 256 : 0));
  for (const auto& [id, bias] : params.logit_bias) {
    if (bias > kNeverBias) adjustment_of(id).bias = bias;
  }
}

Sampler Sampler::fork(int reply) const {
  Sampler out(*this);
  out.reserve(rules_->counts ? 256 : 0);
  out.seed_ += static_cast<uint64_t>(reply);
  return out;
}

void Sampler::reserve(size_t n_tokens) {
  adjustments_.reserve(adjustments_.size() + n_tokens);
  adjusted_.reserve(adjustments_.capacity());
}

Sampler::Adjustment& Sampler::adjustment_of(int32_t token) {
  const auto at = std::lower_bound(adjustments_.begin(), adjustments_.end(), token,
                                   [](const Adjustment& a, int32_t id) { return a.id < id; });
  if (at != adjustments_.end() && at->id == token) return *at;
  const auto added = adjustments_.insert(at, Adjustment{token, 0, 0.0f, false});
  adjusted_.reserve(adjustments_.capacity());
  return *added;
}

void Sampler::remember(int32_t token) {
  CHECK(token >= 0 && static_cast<size_t>(token) < rules_->vocab, "token %d", token);
  if (!last_tokens_.empty()) last_tokens_[n_tokens_ % last_tokens_.size()] = token;
  ++n_tokens_;
}

void Sampler::observe_prompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) remember(token);
  if (rules_->params.repetition_penalty == 1.0) return;
  // Put in by order, each insertion goes to the end: a long prompt takes no quadratic time.
  std::vector<int32_t> ids(tokens.begin(), tokens.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  reserve(ids.size() + 256);
  for (const int32_t id : ids) adjustment_of(id).seen = true;
}

void Sampler::take(int32_t token) {
  remember(token);
  if (!rules_->counts) return;
  Adjustment& adjustment = adjustment_of(token);
  adjustment.seen = true;
  ++adjustment.count;
}

// Which ids may come in this row.
void Sampler::open_ids(std::span<const uint32_t> allowed, std::span<const int32_t> left_out) {
  const std::span<uint32_t> open = row_.open();
  const std::vector<uint32_t>& ever = rules_->open;
  std::copy(ever.begin(), ever.end(), open.begin());
  if (!allowed.empty()) {
    const size_t n = std::min(allowed.size(), ever.size());
    for (size_t i = 0; i < n; ++i) open[i] &= allowed[i];
    std::fill(open.begin() + static_cast<ptrdiff_t>(n), open.end(), 0);
  }
  for (const int32_t id : left_out) {
    if (id >= 0 && static_cast<size_t>(id) < rules_->vocab) clear(open, static_cast<size_t>(id));
  }
  close_bad_words(open);
}

// Takes out the last token of each bad word that it would complete.
void Sampler::close_bad_words(std::span<uint32_t> open) const {
  for (const std::vector<int32_t>& word : rules_->params.bad_words) {
    const size_t n = word.size() - 1;
    if (n == 0 || n > n_tokens_) continue;
    size_t same = 0;
    while (same < n &&
           word[n - 1 - same] == last_tokens_[(n_tokens_ - 1 - same) % last_tokens_.size()]) {
      ++same;
    }
    if (same == n) clear(open, static_cast<size_t>(word[n]));
  }
}

// The logits of ids with a bias or a penalty.
void Sampler::adjust(std::span<const float> logits) {
  const SamplingParams& params = rules_->params;
  const std::span<uint32_t> open = row_.open();
  adjusted_.clear();
  for (const Adjustment& a : adjustments_) {
    const size_t id = static_cast<size_t>(a.id);
    if (!is_set(open, id) || !std::isfinite(logits[id])) continue;
    double value = static_cast<double>(logits[id]) + static_cast<double>(a.bias);
    if (a.seen) {
      value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
    }
    if (a.count > 0) value -= params.presence_penalty + params.frequency_penalty * a.count;
    adjusted_.emplace_back(value, a.id);
    clear(open, id);
  }
}

int32_t Sampler::choose(int64_t position) {
  const SamplingParams& params = rules_->params;
  if (params.temperature == 0.0) return row_.best();
  const double uniform = uniform_draw(seed_, position);
  const bool few = params.top_k > 0 && static_cast<size_t>(params.top_k) < rules_->vocab;
  if (!few && params.top_p >= 1.0) {
    // The largest weight is 1, so min_p is a weight.
    row_.sum_weights(params.temperature, params.min_p);
    return row_.draw(uniform);
  }
  std::vector<Candidate>* candidates = nullptr;
  if (few) {
    candidates = &row_.best_candidates(static_cast<size_t>(params.top_k));
    weigh(*candidates, params.temperature);
    if (params.top_p < 1.0) keep_mass(*candidates, params.top_p * sum_of(*candidates));
  } else {
    row_.sum_weights(params.temperature, 0.0);
    candidates = &row_.heaviest_candidates(params.top_p);
  }
  keep_min_p(*candidates, params.min_p);
  return draw(*candidates, uniform);
}

Result<int32_t> Sampler::sample(std::span<const float> logits, int64_t position,
                                std::span<const uint32_t> allowed,
                                std::span<const int32_t> left_out) {
  CHECK(logits.size() == rules_->vocab);
  open_ids(allowed, left_out);
  adjust(logits);
  row_.start(logits, adjusted_);
  if (row_.empty()) {
    const bool finite =
        std::any_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
    return Error{Code::kInvalid,
                 finite ? fmt::format("nothing may come at position {}: no token with a finite "
                                      "logit is allowed there",
                                      position)
                        : fmt::format("no finite logit at position {}: the weights or the cache "
                                      "hold NaN or infinity",
                                      position)};
  }
  const int32_t token = choose(position);
  take(token);
  return token;
}

double uniform_draw(uint64_t seed, int64_t position) {
  const uint64_t counter = static_cast<uint64_t>(position);
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    std::copy(std::begin(next), std::end(next), std::begin(c));
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  const uint64_t bits = (static_cast<uint64_t>(c[0]) << 32 | c[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace minim
