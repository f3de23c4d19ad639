// Sorted disjoint ranges; the surrogates are cut out of everything that is added.
#include "text/char_set.h"

#include <algorithm>

namespace minim {
namespace {

constexpr CharRange kSurrogates{0xD800, 0xDFFF};

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) add(range.first, range.last);
}

CharSet CharSet::all() { return {{0, kLastCodePoint}}; }

void CharSet::add(uint32_t first, uint32_t last) {
  if (first < kSurrogates.first) ranges_.push_back({first, std::min(last, kSurrogates.first - 1)});
  if (last > kSurrogates.last) ranges_.push_back({std::max(first, kSurrogates.last + 1), last});
  normalize();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CharSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(), [](const CharRange& a, const CharRange& b) {
    return a.first < b.first || (a.first == b.first && a.last < b.last);
  });
  std::vector<CharRange> merged;
  for (const CharRange& range : ranges_) {
    if (range.first > range.last) continue;
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

CharSet CharSet::complement() const {
  CharSet result;
  uint32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) result.ranges_.push_back({next, kLastCodePoint});
  const std::vector<CharRange> ranges = std::move(result.ranges_);
  result.ranges_.clear();
  for (const CharRange& range : ranges) {
    if (range.first < kSurrogates.first) {
      result.ranges_.push_back({range.first, std::min(range.last, kSurrogates.first - 1)});
    }
    if (range.last > kSurrogates.last) {
      result.ranges_.push_back({std::max(range.first, kSurrogates.last + 1), range.last});
    }
  }
  return result;
}

CharSet CharSet::intersection(const CharSet& other) const {
  CharSet result;
  size_t i = 0, j = 0;
  while (i < ranges_.size() && j < other.ranges_.size()) {
    const uint32_t first = std::max(ranges_[i].first, other.ranges_[j].first);
    const uint32_t last = std::min(ranges_[i].last, other.ranges_[j].last);
    if (first <= last) result.ranges_.push_back({first, last});
    ranges_[i].last < other.ranges_[j].last ? ++i : ++j;
  }
  return result;
}

bool CharSet::contains(uint32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CharRange& range) { return range.first <= c && c <= range.last; });
}

}  // namespace minim
