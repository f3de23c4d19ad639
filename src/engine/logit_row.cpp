// Searches in a row of 200,000 logits that seldom look at one twice.
//
// The row is cut into blocks of 128 ids. One pass finds each block's largest logit; after that most
// blocks are passed over: the k-th largest of the blocks' maxima is a lower bound of the k-th best
// logit, a block whose largest weight cannot change a sum is not summed, and a draw goes to the
// block in which the running sum passes the target. What comes out is what a sort of all ids and
// sums over all of them in order would give, bit for bit: whatever is skipped is smaller than what
// decides, or is added without effect. Making a list of all (logit, id) lost: 3 MB of writes a
// token took longer than everything else.
#include "engine/logit_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "engine/softmax.h"

namespace minim {
namespace {

constexpr size_t kWords = kSoftmaxBlock / 32;
constexpr float kLargestFloat = std::numeric_limits<float>::max();

using FloatQuad = float __attribute__((vector_size(16)));

// The largest finite one of a block's logits; -inf where there is none.
double largest_finite(const float* logits) {
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  std::array<FloatQuad, 4> lanes;
  lanes.fill(FloatQuad{kOut, kOut, kOut, kOut});
  for (size_t i = 0; i < kSoftmaxBlock; i += 16) {
    for (size_t lane = 0; lane < 4; ++lane) {
      FloatQuad x;
      std::memcpy(&x, logits + i + 4 * lane, sizeof x);
      // NaN compares false.
      lanes[lane] = ((x > lanes[lane]) & (x <= kLargestFloat)) ? x : lanes[lane];
    }
  }
  float largest = kOut;
  for (const FloatQuad& quad : lanes) {
    for (int i = 0; i < 4; ++i) largest = std::max(largest, quad[i]);
  }
  return largest;
}

}  // namespace

bool ahead(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

bool keep_mass(std::vector<Candidate>& candidates, double wanted) {
  double mass = 0.0;
  size_t sorted = 0;
  for (size_t batch = 64; sorted < candidates.size(); batch *= 2) {
    const size_t end = std::min(candidates.size(), sorted + batch);
    const auto from = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const auto to = candidates.begin() + static_cast<ptrdiff_t>(end);
    std::nth_element(from, to - 1, candidates.end(), ahead);
    std::sort(from, to, ahead);
    for (; sorted < end; ++sorted) {
      mass += candidates[sorted].first;
      if (mass >= wanted) {
        candidates.resize(sorted + 1);
        return true;
      }
    }
  }
  return false;
}

LogitRow::LogitRow(size_t vocab, size_t n_candidates) : vocab_(vocab) {
  const size_t n_blocks = (vocab + kSoftmaxBlock - 1) / kSoftmaxBlock;
  open_.assign(n_blocks * kWords, 0);
  for (std::vector<double>* values : {&block_max_, &block_weight_, &block_sum_, &order_}) {
    values->assign(n_blocks, 0.0);
  }
  candidates_.reserve(n_candidates);
}

LogitRow::LogitRow(const LogitRow& other) : LogitRow(other.vocab_, other.candidates_.capacity()) {}

size_t LogitRow::candidates_of_best(size_t vocab, size_t k) {
  return std::min(vocab, std::min(k, vocab) * (kSoftmaxBlock + 1) + 1);
}

// The block's logits as they may come, -inf for those that may not.
void LogitRow::read(size_t block, double* out) const {
  const size_t first = block * kSoftmaxBlock;
  for (size_t w = 0; w < kWords; ++w) {
    const uint32_t bits = open_[block * kWords + w];
    double* to = out + 32 * w;
    const float* from = logits_.data() + first + 32 * w;
    if (std::popcount(bits) > 16 && first + 32 * (w + 1) <= vocab_) {
      finite_or_never(from, 32, to);
      for (uint32_t left = ~bits; left != 0; left &= left - 1) to[std::countr_zero(left)] = kNever;
      continue;
    }
    std::fill(to, to + 32, kNever);
    for (uint32_t left = bits; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      if (std::isfinite(from[i])) to[i] = from[i];
    }
  }
  const auto least = std::lower_bound(
      adjusted_.begin(), adjusted_.end(), first,
      [](const Candidate& c, size_t id) { return static_cast<size_t>(c.second) < id; });
  for (auto it = least; it != adjusted_.end(); ++it) {
    const size_t at = static_cast<size_t>(it->second) - first;
    if (at >= kSoftmaxBlock) break;
    out[at] = it->first;
  }
}

void LogitRow::start(std::span<const float> logits, std::span<const Candidate> adjusted) {
  CHECK(logits.size() == vocab_);
  logits_ = logits;
  adjusted_ = adjusted;
  largest_ = kNever;
  alignas(16) double values[kSoftmaxBlock];
  for (size_t block = 0; block < block_max_.size(); ++block) {
    const uint32_t* bits = &open_[block * kWords];
    if (std::all_of(bits, bits + kWords, [](uint32_t word) { return word == ~uint32_t{0}; })) {
      block_max_[block] = largest_finite(logits_.data() + block * kSoftmaxBlock);
    } else {
      read(block, values);
      block_max_[block] = largest_of(values);
    }
    largest_ = std::max(largest_, block_max_[block]);
  }
}

bool LogitRow::empty() const { return largest_ == kNever; }

int32_t LogitRow::best() const {
  const auto block = std::find(block_max_.begin(), block_max_.end(), largest_) - block_max_.begin();
  CHECK(static_cast<size_t>(block) < block_max_.size());
  alignas(16) double values[kSoftmaxBlock];
  read(static_cast<size_t>(block), values);
  const double* at = std::find(values, values + kSoftmaxBlock, largest_);
  return static_cast<int32_t>(static_cast<size_t>(block) * kSoftmaxBlock) +
         static_cast<int32_t>(at - values);
}

double LogitRow::nth_largest(const std::vector<double>& values, size_t n) {
  std::copy(values.begin(), values.end(), order_.begin());
  const auto nth = order_.begin() + static_cast<ptrdiff_t>(n);
  std::nth_element(order_.begin(), nth, order_.end(), std::greater<>());
  return *nth;
}

std::vector<Candidate>& LogitRow::best_candidates(size_t k) {
  // One logit of each of the k best blocks is at least `bound`, so the k best are too; of those
  // equal to it the k lowest ids are enough. With fewer blocks than that nothing is known.
  const double bound = k < block_max_.size() ? nth_largest(block_max_, k) : kNever;
  candidates_.clear();
  size_t n_equal = 0;
  alignas(16) double values[kSoftmaxBlock];
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] == kNever || block_max_[block] < bound) continue;
    read(block, values);
    for (size_t i = 0; i < kSoftmaxBlock; ++i) {
      if (values[i] == kNever || values[i] < bound) continue;
      if (values[i] == bound && n_equal++ > k) continue;
      candidates_.emplace_back(values[i], static_cast<int32_t>(block * kSoftmaxBlock + i));
    }
  }
  if (k < candidates_.size()) {
    const auto end = candidates_.begin() + static_cast<ptrdiff_t>(k);
    std::nth_element(candidates_.begin(), end, candidates_.end(), ahead);
    candidates_.resize(k);
    std::sort(candidates_.begin(), candidates_.end(), ahead);
  }
  return candidates_;
}

void LogitRow::read_weights(size_t block, double* out) const {
  read(block, out);
  to_weights(out, largest_, temperature_);
  if (least_ <= 0.0) return;
  for (size_t i = 0; i < kSoftmaxBlock; ++i) {
    if (out[i] < least_) out[i] = 0.0;
  }
}

void LogitRow::sum_weights(double temperature, double least) {
  temperature_ = temperature;
  least_ = least;
  double total = 0.0;
  alignas(16) double values[kSoftmaxBlock];
  for (size_t block = 0; block < block_max_.size(); ++block) {
    const double weight = exp_of_negative((block_max_[block] - largest_) / temperature);
    block_weight_[block] = weight * (1 + 0x1p-40);  // exp() need not be monotone in its last bits
    const bool unseen = block_weight_[block] < least || is_negligible(weight, total);
    if (block_max_[block] != kNever && !unseen) {
      read_weights(block, values);
      for (const double value : values) total += value;
    }
    block_sum_[block] = total;
  }
}

int32_t LogitRow::draw(double uniform) const {
  const double target = uniform * block_sum_.back();
  const auto it = std::upper_bound(block_sum_.begin(), block_sum_.end(), target);
  // The sum is at least 1 (the best one's weight) and uniform below 1, so the target is below it.
  CHECK(it != block_sum_.end());
  const size_t block = static_cast<size_t>(it - block_sum_.begin());
  alignas(16) double values[kSoftmaxBlock];
  read_weights(block, values);
  double mass = block == 0 ? 0.0 : block_sum_[block - 1];
  size_t at = 0;
  for (; at < kSoftmaxBlock; ++at) {
    mass += values[at];
    if (target < mass) break;
  }
  CHECK(at < kSoftmaxBlock);
  return static_cast<int32_t>(block * kSoftmaxBlock + at);
}

// All weights from `least` on, 0 left out.
void LogitRow::gather(double least) {
  candidates_.clear();
  alignas(16) double values[kSoftmaxBlock];
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] == kNever || block_weight_[block] < least) continue;
    read_weights(block, values);
    for (size_t i = 0; i < kSoftmaxBlock; ++i) {
      if (values[i] <= 0.0 || values[i] < least) continue;
      candidates_.emplace_back(values[i], static_cast<int32_t>(block * kSoftmaxBlock + i));
    }
  }
}

std::vector<Candidate>& LogitRow::heaviest_candidates(double share) {
  const double total = block_sum_.back(), wanted = share * total;
  // A few blocks hold it in a row that has a favourite. If not: what lies below the second bound
  // cannot hold more than half of the rest, all together. The last is for shares so near 1 that
  // rounding decides.
  const size_t few = std::min<size_t>(32, block_weight_.size() - 1);
  for (const double least : {nth_largest(block_weight_, few),
                             (1.0 - share) * total / static_cast<double>(2 * vocab_), 0.0}) {
    gather(least);
    if (keep_mass(candidates_, wanted)) break;
  }
  return candidates_;
}

}  // namespace minim
