// A golden NVFP4 cache page (region order: all codes, then all scales, V scales swizzled) as the
// tiles of this cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace minim::testing {

// [heads, 128 tokens, 8] linear -> the same shape with each tile of 4 tokens x 8 scales permuted:
// scale s of token t goes to row t / 4 * 4 + s / 2, column s % 2 * 4 + t % 4.
inline std::vector<uint8_t> swizzle_v_scales(const std::vector<uint8_t>& linear) {
  std::vector<uint8_t> out(linear.size());
  for (size_t i = 0; i < linear.size(); ++i) {
    const size_t s = i % 8, t = i / 8 % 128, head = i / 1024;
    out[head * 1024 + (t / 4 * 4 + s / 2) * 8 + s % 2 * 4 + t % 4] = linear[i];
  }
  return out;
}

}  // namespace minim::testing
