// Both rules are "a byte above a limit", so one loop serves them: the maximum of a chunk, which
// compilers turn into one vector instruction for every 16 bytes, and a second look only at a
// chunk that fails.
#include "model/scale_scan.h"

#include <algorithm>

namespace minim {
namespace {

constexpr size_t kChunk = 4096;

BadScales find_above(std::span<const uint8_t> bytes, uint8_t limit) {
  BadScales bad;
  for (size_t begin = 0; begin < bytes.size(); begin += kChunk) {
    const std::span<const uint8_t> chunk =
        bytes.subspan(begin, std::min(kChunk, bytes.size() - begin));
    uint8_t largest = 0;
    for (const uint8_t byte : chunk) largest = byte > largest ? byte : largest;
    if (largest <= limit) continue;
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] <= limit) continue;
      if (bad.count++ == 0) bad.first = begin + i;
    }
  }
  return bad;
}

}  // namespace

BadScales find_bad_e4m3_scales(std::span<const uint8_t> scales) { return find_above(scales, 0x7e); }
BadScales find_bad_e8m0_scales(std::span<const uint8_t> scales) { return find_above(scales, 0xfe); }

}  // namespace minim
