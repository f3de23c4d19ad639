// The classes of characters that split patterns speak of, as one table look-up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace minim {

class CharClasses {
 public:
  // Each character has exactly one of these bits.
  enum Bits : uint8_t {
    kUpper = 1,     // Lu, Lt
    kLower = 2,     // Ll
    kOther = 4,     // Lm, Lo
    kMark = 8,      // M
    kNumber = 16,   // N
    kSpace = 32,    // White_Space but CR and LF
    kNewline = 64,  // CR, LF
    kSymbol = 128   // the rest, unassigned code points too
  };

  // Asked of the regex library once (about 30 ms): so both agree in every version of Unicode.
  static CharClasses from_pcre2();

  // `code_point` is at most U+10FFFF.
  uint8_t of(char32_t code_point) const {
    return pages_[size_t{page_of_[code_point >> 8]} << 8 | (code_point & 0xFF)];
  }

 private:
  static constexpr size_t kPages = 0x1100;
  void set(const std::vector<uint8_t>& classes);

  std::array<uint16_t, kPages> page_of_{};
  std::vector<uint8_t> pages_;  // distinct pages of 256 characters
};

}  // namespace minim
