// Sets of Unicode code points, for character classes.
#pragma once

#include <cstdint>
#include <vector>

namespace minim {

struct CharRange {
  uint32_t first;
  uint32_t last;
  bool operator==(const CharRange&) const = default;
};

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Code points 0..10FFFF without the surrogates D800..DFFF, which no text can hold.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet all();

  void add(uint32_t first, uint32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersection(const CharSet& other) const;
  CharSet without(const CharSet& other) const { return intersection(other.complement()); }

  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t c) const;
  // Ascending, neither overlapping nor adjacent.
  const std::vector<CharRange>& ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void normalize();
  std::vector<CharRange> ranges_;
};

}  // namespace minim
