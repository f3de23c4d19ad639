// The sampler as it is defined: a list of all candidates, sorted and summed in order. Slow and
// plain; engine/sampler.h must give the same tokens.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "engine/sampler.h"

namespace minim::oracle {

inline bool before(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

// e^x for x <= 0, relative error below 1e-15, the same bits on every machine (only IEEE add and
// multiply). Below -700 the result is 0.
inline double exp_of_negative(double x) {
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
inline void to_weights(std::vector<Candidate>& candidates, double temperature) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  for (Candidate& c : candidates) c.first = exp_of_negative((c.first - largest) / temperature);
}

inline void keep_top_k(std::vector<Candidate>& candidates, int k) {
  if (k <= 0 || static_cast<size_t>(k) >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), before);
  candidates.resize(static_cast<size_t>(k));
  std::sort(candidates.begin(), candidates.end(), before);
}

// The shortest prefix, in order, whose weights reach `share` of all; at least one candidate.
inline void keep_top_p(std::vector<Candidate>& candidates, double share) {
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
    std::nth_element(from, to - 1, candidates.end(), before);
    std::sort(from, to, before);
    for (; sorted < end; ++sorted) {
      mass += candidates[sorted].first;
      if (mass >= wanted) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

inline void keep_min_p(std::vector<Candidate>& candidates, double share) {
  if (share <= 0.0) return;
  double largest = 0.0;
  for (const Candidate& c : candidates) largest = std::max(largest, c.first);
  std::erase_if(candidates, [&](const Candidate& c) { return c.first < share * largest; });
}

inline int32_t draw(const std::vector<Candidate>& candidates, double uniform) {
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

struct OracleSampler {
  OracleSampler(const SamplingParams& p, TokenMask m)
      : params(p), mask(std::move(m)), count(mask.size(), 0), seen(mask.size(), 0) {
    bias.assign(mask.size(), 0.0);
    for (const auto& [id, value] : p.logit_bias) {
      if (value <= -100) mask[static_cast<size_t>(id)] = 0;
      bias[static_cast<size_t>(id)] = static_cast<double>(value);
    }
    if (p.allowed_tokens.empty()) return;
    TokenMask only(mask.size(), 0);
    for (const int32_t id : p.allowed_tokens) only[static_cast<size_t>(id)] = 1;
    for (size_t id = 0; id < mask.size(); ++id) mask[id] &= only[id];
  }

  void observe(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) seen[static_cast<size_t>(token)] = 1, text.push_back(token);
  }

  void take(int32_t token) {
    seen[static_cast<size_t>(token)] = 1, ++count[static_cast<size_t>(token)];
    text.push_back(token);
  }

  bool completes_bad_word(int32_t token) const {
    for (const std::vector<int32_t>& word : params.bad_words) {
      if (word.back() != token || word.size() > text.size() + 1) continue;
      if (std::equal(word.begin(), word.end() - 1,
                     text.end() - static_cast<ptrdiff_t>(word.size() - 1))) {
        return true;
      }
    }
    return false;
  }

  std::vector<Candidate> find(std::span<const float> logits, std::span<const uint32_t> allowed,
                              std::span<const int32_t> left_out) const {
    std::vector<Candidate> candidates;
    const size_t end =
        allowed.empty() ? logits.size() : std::min(logits.size(), allowed.size() * 32);
    for (size_t id = 0; id < end; ++id) {
      if (!allowed.empty() && (allowed[id / 32] >> (id % 32) & 1) == 0) continue;
      if (!mask[id] || !std::isfinite(logits[id])) continue;
      double value = static_cast<double>(logits[id]) + bias[id];
      if (seen[id]) {
        value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
      }
      if (const int32_t times = count[id]; times > 0) {
        value -= params.presence_penalty + params.frequency_penalty * times;
      }
      candidates.emplace_back(value, static_cast<int32_t>(id));
    }
    std::erase_if(candidates, [&](const Candidate& c) {
      return completes_bad_word(c.second) ||
             std::find(left_out.begin(), left_out.end(), c.second) != left_out.end();
    });
    return candidates;
  }

  // -1: nothing may come.
  int32_t sample(std::span<const float> logits, int64_t position,
                 std::span<const uint32_t> allowed = {}, std::span<const int32_t> left_out = {}) {
    std::vector<Candidate> candidates = find(logits, allowed, left_out);
    if (candidates.empty()) return -1;
    int32_t token = 0;
    if (params.temperature == 0.0) {
      token = std::min_element(candidates.begin(), candidates.end(), before)->second;
    } else {
      keep_top_k(candidates, params.top_k);
      to_weights(candidates, params.temperature);
      keep_top_p(candidates, params.top_p);
      keep_min_p(candidates, params.min_p);
      token = draw(candidates, uniform_draw(params.seed, position));
    }
    take(token);
    return token;
  }

  SamplingParams params;
  TokenMask mask;
  std::vector<int32_t> count;
  std::vector<uint8_t> seen;
  std::vector<double> bias;
  std::vector<int32_t> text;
};

}  // namespace minim::oracle
