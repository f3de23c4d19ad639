// Block scales that no model can mean: found while their bytes pass through the cache anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace minim {

struct BadScales {
  size_t count = 0;
  size_t first = 0;  // index of the first, when count > 0
};

// E4M3 scales: NaN (0x7f, 0xff) or a sign bit, that is every byte above 0x7e.
BadScales find_bad_e4m3_scales(std::span<const uint8_t> scales);
// E8M0 scales: NaN (0xff).
BadScales find_bad_e8m0_scales(std::span<const uint8_t> scales);

}  // namespace minim
