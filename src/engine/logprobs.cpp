// Log-probabilities of one row, and the most probable ids of it.
//
// The sum of the softmax is taken in double in order of the ids, by blocks: a block whose largest
// weight the sum cannot notice is passed over, which is most of a peaked row. The most probable ids
// are kept in a list of at most 20 that a block is held against as a whole; sorting all ids, or
// only keeping 200,000 doubles of a row, cost ten times as much. log() is a Newton iteration on our
// own exp(), because a C library's log() has a version for each processor.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "engine/sampler.h"
#include "engine/softmax.h"

namespace minim {
namespace {

constexpr int kMaxTop = 20;

using Best = std::array<std::pair<double, int32_t>, kMaxTop + 1>;  // one place to insert into

// The block's logits from id `first`, -inf where an id cannot come and behind the row's end.
void read_block(std::span<const float> logits, const TokenMask& allowed, size_t first,
                double* out) {
  const size_t n = std::min(kSoftmaxBlock, logits.size() - first);
  finite_or_never(logits.data() + first, n / 4 * 4, out);
  std::fill(out + n / 4 * 4, out + kSoftmaxBlock, kNever);
  for (size_t i = n / 4 * 4; i < n; ++i) {
    if (std::isfinite(logits[first + i])) out[i] = static_cast<double>(logits[first + i]);
  }
  if (allowed.empty() || std::memchr(allowed.data() + first, 0, n) == nullptr) return;
  for (size_t i = 0; i < n; ++i) {
    if (allowed[first + i] == 0) out[i] = kNever;
  }
}

// Puts the block's values into the `k` best so far; equal values stay in order of the ids.
void keep_best(const double* values, size_t first, size_t k, Best& best, size_t& n_best) {
  for (size_t i = 0; i < kSoftmaxBlock; ++i) {
    if (values[i] == kNever || (n_best == k && !(values[i] > best[k - 1].first))) continue;
    size_t at = n_best;
    for (; at > 0 && values[i] > best[at - 1].first; --at) best[at] = best[at - 1];
    best[at] = {values[i], static_cast<int32_t>(first + i)};
    n_best = std::min(n_best + 1, k);
  }
}

}  // namespace

double add_weights(double* values, double largest, double total) {
  const double block_largest = largest_of(values);
  if (block_largest == kNever) return total;
  if (is_negligible(exp_of_negative(block_largest - largest), total)) return total;
  to_weights(values, largest, 1.0);
  for (size_t i = 0; i < kSoftmaxBlock; ++i) total += values[i];
  return total;
}

double log_of(double x) {
  DCHECK(x >= 1.0);
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52) - 1023;
  double y = exponent * 0x1.62e42fefa39efp-1;  // too small by at most log 2
  // Newton for e^y = x; the error is about halved in square each time, 0.7 to 1e-16 in six.
  for (int i = 0; i < 6; ++i) y += x * exp_of_negative(-y) - 1.0;
  return y;
}

TokenLogprobs token_logprobs(std::span<const float> logits, const TokenMask& allowed, int32_t token,
                             int top_k) {
  const size_t vocab = logits.size(), id = static_cast<size_t>(token);
  CHECK(allowed.empty() || allowed.size() == vocab);
  CHECK(token >= 0 && id < vocab, "token %d of %zu", token, vocab);
  CHECK(top_k <= kMaxTop, "%d of at most %d", top_k, kMaxTop);
  const size_t k = static_cast<size_t>(std::max(top_k, 1));
  Best best;
  size_t n_best = 0;
  alignas(16) double values[kSoftmaxBlock];
  for (size_t first = 0; first < vocab; first += kSoftmaxBlock) {
    read_block(logits, allowed, first, values);
    if (n_best < k || largest_of(values) > best[k - 1].first) {
      keep_best(values, first, k, best, n_best);
    }
  }
  TokenLogprobs out{token, static_cast<float>(kNever), {}};
  if (n_best == 0) return out;
  const double largest = best[0].first;
  double sum = 0.0;
  for (size_t first = 0; first < vocab; first += kSoftmaxBlock) {
    read_block(logits, allowed, first, values);
    sum = add_weights(values, largest, sum);
  }
  const double log_sum = largest + log_of(sum);
  if ((allowed.empty() || allowed[id] != 0) && std::isfinite(logits[id])) {
    out.logprob = static_cast<float>(static_cast<double>(logits[id]) - log_sum);
  }
  const size_t n_top = std::min(n_best, static_cast<size_t>(std::max(top_k, 0)));
  out.top.reserve(n_top);
  for (size_t i = 0; i < n_top; ++i) {
    out.top.emplace_back(best[i].second, static_cast<float>(best[i].first - log_sum));
  }
  return out;
}

void log_softmax(std::span<const float> logits, const TokenMask& allowed,
                 std::vector<double>& out) {
  CHECK(logits.size() == allowed.size());
  const size_t vocab = logits.size();
  out.resize(vocab);
  alignas(16) double values[kSoftmaxBlock];
  double largest = kNever;
  for (size_t first = 0; first < vocab; first += kSoftmaxBlock) {
    read_block(logits, allowed, first, values);
    std::copy_n(values, std::min(kSoftmaxBlock, vocab - first), out.data() + first);
    largest = std::max(largest, largest_of(values));
  }
  if (largest == kNever) return;
  double sum = 0.0;
  for (size_t first = 0; first < vocab; first += kSoftmaxBlock) {
    const size_t n = std::min(kSoftmaxBlock, vocab - first);
    std::copy_n(out.data() + first, n, values);
    std::fill(values + n, values + kSoftmaxBlock, kNever);
    sum = add_weights(values, largest, sum);
  }
  const double log_sum = largest + log_of(sum);
  for (double& value : out) value -= log_sum;
}

std::vector<int32_t> top_ids(std::span<const double> values, int k) {
  std::vector<int32_t> ids(values.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const size_t n = std::min(ids.size(), static_cast<size_t>(std::max(k, 0)));
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), ids.end(),
                    [&](int32_t a, int32_t b) {
                      const double x = values[static_cast<size_t>(a)];
                      const double y = values[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  ids.resize(n);
  return ids;
}

}  // namespace minim
