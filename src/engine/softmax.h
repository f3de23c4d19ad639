// e^x and log as softmax needs them: the same bits on every machine.
//
// A C library picks its version of exp() by processor; these use IEEE operations alone, so a seed
// gives one text everywhere. Private to the engine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace minim {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();  // logit of what is out
inline constexpr size_t kSoftmaxBlock = 128;  // ids that are looked at together

using DoublePair = double __attribute__((vector_size(16)));

// e^x for x <= 0 in both lanes, relative error below 1e-15. Below -700, and for NaN, 0.
inline DoublePair exp_of_negative(DoublePair x) {
  using Bits = int64_t __attribute__((vector_size(16)));
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const DoublePair shifted = x * 0x1.71547652b82fep0 + kRound;
  const DoublePair n = shifted - kRound;
  const DoublePair r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  constexpr double kFactorials[] = {479001600, 39916800, 3628800, 362880, 40320, 5040, 720,
                                    120,       24,       6,       2,      1,     1};
  DoublePair p = {1.0 / 6227020800.0, 1.0 / 6227020800.0};
  for (const double f : kFactorials) p = p * r + 1.0 / f;
  // 2^n: only the low 12 bits of the sum survive the shift, and 1023 + n is positive.
  const Bits power = (std::bit_cast<Bits>(shifted) + 1023) << 52;
  const Bits in_range = x >= -700.0;
  return std::bit_cast<DoublePair>(std::bit_cast<Bits>(p * std::bit_cast<DoublePair>(power)) &
                                   in_range);
}

inline double exp_of_negative(double x) { return exp_of_negative(DoublePair{x, x})[0]; }

// `n` logits (a multiple of 4) as doubles, -inf for those that are not finite.
inline void finite_or_never(const float* logits, size_t n, double* out) {
  using FloatQuad = float __attribute__((vector_size(16)));
  using FloatPair = float __attribute__((vector_size(8)));
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < n; i += 4) {
    FloatQuad x;
    std::memcpy(&x, logits + i, sizeof x);
    x = x <= kLargest ? x : FloatQuad{kOut, kOut, kOut, kOut};  // NaN compares false
    const DoublePair low = __builtin_convertvector((FloatPair{x[0], x[1]}), DoublePair);
    const DoublePair high = __builtin_convertvector((FloatPair{x[2], x[3]}), DoublePair);
    std::memcpy(out + i, &low, sizeof low);
    std::memcpy(out + i + 2, &high, sizeof high);
  }
}

// Of kSoftmaxBlock values without NaN.
inline double largest_of(const double* values) {
  DoublePair lanes[2] = {{kNever, kNever}, {kNever, kNever}};
  for (size_t i = 0; i < kSoftmaxBlock; i += 4) {
    for (size_t lane = 0; lane < 2; ++lane) {
      DoublePair x;
      std::memcpy(&x, values + i + 2 * lane, sizeof x);
      lanes[lane] = x > lanes[lane] ? x : lanes[lane];
    }
  }
  return std::max(std::max(lanes[0][0], lanes[0][1]), std::max(lanes[1][0], lanes[1][1]));
}

// values[i] = e^((values[i] - largest) / temperature), for kSoftmaxBlock values up to `largest`.
inline void to_weights(double* values, double largest, double temperature) {
  for (size_t i = 0; i < kSoftmaxBlock; i += 2) {
    DoublePair x;
    std::memcpy(&x, values + i, sizeof x);
    x -= largest;
    if (temperature != 1.0) x /= temperature;
    x = exp_of_negative(x);
    std::memcpy(values + i, &x, sizeof x);
  }
}

// A weight that no sum of at least `total` notices: less than half a unit in its last place, with
// room for the last bits of an exp().
inline bool is_negligible(double weight, double total) { return weight < total * 0x1p-56; }

// `total` and the weights of a block at temperature 1, added in order of the ids. The block's
// values are lost.
double add_weights(double* values, double largest, double total);

// The natural logarithm for x >= 1, error below 1e-15.
double log_of(double x);

}  // namespace minim
