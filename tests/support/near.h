// Closeness of two arrays of numbers, for results that may differ by the order of a sum.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace minim::testing {

// Limits that a comparison must meet; infinity (the default) asks nothing.
struct Near {
  double absolute = HUGE_VAL;     // |got - want| of every element
  double relative = HUGE_VAL;     // the same over the largest |want|
  double relative_l2 = HUGE_VAL;  // |got - want| over |want| as vectors
  double cosine = HUGE_VAL;       // 1 - cos(got, want)
};

template <typename T, typename U>
::testing::AssertionResult near(const std::vector<T>& got, const std::vector<U>& want,
                                const Near& limit) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, wanted " << want.size();
  }
  double largest = 0, worst = 0, difference = 0, got_size = 0, want_size = 0, product = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    if (!std::isfinite(g) || !std::isfinite(w)) {
      if ((std::isnan(g) && std::isnan(w)) || g == w) continue;
      return ::testing::AssertionFailure() << "at " << i << ": " << g << ", wanted " << w;
    }
    if (std::fabs(g - w) > worst) {
      worst = std::fabs(g - w);
      worst_at = i;
    }
    largest = std::max(largest, std::fabs(w));
    difference += (g - w) * (g - w);
    got_size += g * g;
    want_size += w * w;
    product += g * w;
  }
  const double relative = worst == 0 ? 0 : worst / largest;
  const double relative_l2 = difference == 0 ? 0 : std::sqrt(difference / want_size);
  const double cosine =
      difference == 0 ? 0 : 1 - product / std::sqrt(got_size) / std::sqrt(want_size);
  if (worst <= limit.absolute && relative <= limit.relative && relative_l2 <= limit.relative_l2 &&
      cosine <= limit.cosine) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "worst at " << worst_at << ": " << static_cast<double>(got[worst_at]) << ", wanted "
         << static_cast<double>(want[worst_at]) << "; absolute " << worst << ", relative "
         << relative << ", relative L2 " << relative_l2 << ", 1 - cosine " << cosine;
}

}  // namespace minim::testing
