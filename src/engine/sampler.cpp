// From one row of logits to one token.
//
// What is kept of a row is a list of (value, id) candidates, first logits, later probabilities.
// Every choice between them is by a total order, value descending and then id ascending, so equal
// values never leave a result to chance or to a library's sort. A full sort of 200,000 candidates
// is avoided: top-p sorts a prefix and doubles it until the mass is reached.
//
// The draw is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)
// keyed by the seed and counted by the position: no state to save, so a resumed or re-batched
// request continues with the same numbers. A stateful generator lost for that reason. exp() is our
// own because a C library picks its version by processor, and a seed should give one text
// everywhere.
#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace minim {
namespace {

using Candidate = std::pair<double, int32_t>;

bool ahead(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

// e^x for x <= 0, relative error below 1e-15, the same bits on every machine (only IEEE add and
// multiply). Below -700 the result is 0.
double exp_of_negative(double x) {
  if (!(x >= -700.0)) return 0.0;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  constexpr double kFactorials[] = {479001600, 39916800, 3628800, 362880, 40320, 5040, 720,
                                    120,       24,       6,       2,      1,     1};
  for (const double f : kFactorials) p = p * r + 1.0 / f;
  return p * std::bit_cast<double>(static_cast<uint64_t>(1023 + static_cast<int64_t>(n)) << 52);
}

// Turns values into unnormalised probabilities, exp((value - largest) / temperature).
void to_weights(std::vector<Candidate>& candidates, double temperature) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  for (Candidate& c : candidates) c.first = exp_of_negative((c.first - largest) / temperature);
}

void keep_top_k(std::vector<Candidate>& candidates, int k) {
  if (k <= 0 || static_cast<size_t>(k) >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), ahead);
  candidates.resize(static_cast<size_t>(k));
  std::sort(candidates.begin(), candidates.end(), ahead);
}

// The shortest prefix, in order, whose weights reach `share` of all; at least one candidate.
void keep_top_p(std::vector<Candidate>& candidates, double share) {
  if (share >= 1.0) return;
  double total = 0.0;
  for (const Candidate& c : candidates) total += c.first;
  const double wanted = share * total;
  double mass = 0.0;
  size_t sorted = 0;
  for (size_t batch = 64; sorted < candidates.size(); batch *= 2) {
    const size_t end = std::min(candidates.size(), sorted + batch);
    const auto from = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const auto to = candidates.begin() + static_cast<ptrdiff_t>(end);
    std::nth_element(from, to - 1, candidates.end(), ahead);
    std::sort(from, to, ahead);
    for (; sorted < end; ++sorted) {
      mass += candidates[sorted].first;
      if (mass >= wanted) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

void keep_min_p(std::vector<Candidate>& candidates, double share) {
  if (share <= 0.0) return;
  double largest = 0.0;
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  std::erase_if(candidates, [&](const Candidate& c) { return c.first < share * largest; });
}

int32_t draw(const std::vector<Candidate>& candidates, double uniform) {
  double total = 0.0;
  for (const Candidate& c : candidates) total += c.first;
  const double target = uniform * total;
  double mass = 0.0;
  int32_t last = candidates.front().second;
  for (const Candidate& c : candidates) {
    if (c.first <= 0.0) continue;
    last = c.second;
    mass += c.first;
    if (target < mass) return last;
  }
  return last;  // rounding left the target at the total: the last token of any weight
}

Result<Ok> in_range(const char* name, double value, double low, double high, bool low_is_out) {
  if (std::isfinite(value) && value <= high && (low_is_out ? value > low : value >= low)) {
    return Ok{};
  }
  return Error{Code::kInvalid, fmt::format("{} is {}, allowed is {} {} to {}", name, value,
                                           low_is_out ? "above" : "from", low, high)};
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

Sampler::Sampler(const SamplingParams& params, int vocab, TokenMask allowed)
    : params_(params), allowed_(std::move(allowed)) {
  const size_t n = static_cast<size_t>(vocab);
  CHECK(allowed_.size() == n, "mask of %zu for %zu ids", allowed_.size(), n);
  generated_count_.assign(n, 0);
  seen_.assign(n, 0);
  candidates_.reserve(n);
}

void Sampler::observe_prompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    CHECK(token >= 0 && static_cast<size_t>(token) < seen_.size(), "token %d", token);
    seen_[static_cast<size_t>(token)] = 1;
  }
}

void Sampler::take(int32_t token) {
  CHECK(token >= 0 && static_cast<size_t>(token) < seen_.size(), "token %d", token);
  seen_[static_cast<size_t>(token)] = 1;
  ++generated_count_[static_cast<size_t>(token)];
}

void Sampler::find_candidates(std::span<const float> logits, std::span<const uint32_t> allowed) {
  candidates_.clear();
  const size_t end = allowed.empty() ? logits.size() : std::min(logits.size(), allowed.size() * 32);
  for (size_t id = 0; id < end; ++id) {
    if (!allowed.empty() && (allowed[id / 32] >> (id % 32) & 1) == 0) continue;
    if (!allowed_[id] || !std::isfinite(logits[id])) continue;
    double value = logits[id];
    if (seen_[id]) {
      value = value > 0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
    }
    if (const int32_t count = generated_count_[id]; count > 0) {
      value -= params_.presence_penalty + params_.frequency_penalty * count;
    }
    candidates_.emplace_back(value, static_cast<int32_t>(id));
  }
}

Result<int32_t> Sampler::sample(std::span<const float> logits, int64_t position,
                                std::span<const uint32_t> allowed) {
  CHECK(logits.size() == allowed_.size());
  find_candidates(logits, allowed);
  if (candidates_.empty()) {
    if (!allowed.empty() && std::any_of(logits.begin(), logits.end(),
                                        [](float logit) { return std::isfinite(logit); })) {
      return Error{Code::kInvalid,
                   fmt::format("nothing may come at position {}: no token with a finite logit is "
                               "allowed there",
                               position)};
    }
    return Error{Code::kInvalid,
                 fmt::format("no finite logit at position {}: the weights or the cache hold NaN or "
                             "infinity",
                             position)};
  }
  int32_t token = 0;
  if (params_.temperature == 0.0) {
    token = std::min_element(candidates_.begin(), candidates_.end(), ahead)->second;
  } else {
    keep_top_k(candidates_, params_.top_k);
    to_weights(candidates_, params_.temperature);
    keep_top_p(candidates_, params_.top_p);
    keep_min_p(candidates_, params_.min_p);
    token = draw(candidates_, uniform_draw(params_.seed, position));
  }
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

void log_softmax(std::span<const float> logits, const TokenMask& allowed,
                 std::vector<double>& out) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  CHECK(logits.size() == allowed.size());
  out.resize(logits.size());
  double largest = kNever;
  for (size_t id = 0; id < logits.size(); ++id) {
    out[id] = allowed[id] && std::isfinite(logits[id]) ? logits[id] : kNever;
    largest = std::max(largest, out[id]);
  }
  if (largest == kNever) return;
  double sum = 0.0;
  for (const double value : out) sum += exp_of_negative(value - largest);
  const double log_sum = largest + std::log(sum);
  for (double& value : out) value -= log_sum;
}

std::vector<int32_t> top_ids(std::span<const double> values, int k) {
  std::vector<int32_t> ids(values.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const size_t n = std::min(ids.size(), static_cast<size_t>(std::max(k, 0)));
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), ids.end(),
                    [&](int32_t a, int32_t b) {
                      const double x = values[static_cast<size_t>(a)];
                      const double y = values[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  ids.resize(n);
  return ids;
}

}  // namespace minim
