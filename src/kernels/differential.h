// Comparing two tiers on drawn inputs: what the self-test and the fuzzer share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace minim {

// A stream of choices: first the given bytes, then SplitMix64 from a seed (and a digest of the
// bytes).
class Draw {
 public:
  explicit Draw(uint64_t seed, std::span<const uint8_t> bytes = {});

  uint32_t bits();  // 32 random bits
  size_t between(size_t low, size_t high) { return low + bits() % (high - low + 1); }
  // A float as activations hold it (bf16): mostly ordinary, some zeros of both signs, ties,
  // denormals and extremes; with `any` also infinities and NaN.
  float value(bool any);
  // The same with all 24 bits.
  float wide_value(bool any);
  std::vector<float> values(size_t n, bool any, bool wide = false);
  std::vector<uint8_t> bytes(size_t n);

 private:
  uint64_t next();
  uint64_t state_;
  std::span<const uint8_t> bytes_;
};

// Same bits everywhere; a NaN equals any NaN (kernels.h).
bool same_floats(std::span<const float> a, std::span<const float> b);

// One entry of the table, run on both tiers with one drawn input. FTZ and DAZ must be set.
struct DifferentialCase {
  std::string_view entry;
  bool (*same)(const Kernels& tier, const Kernels& reference, Draw& draw);
};
std::span<const DifferentialCase> differential_cases();

}  // namespace minim
