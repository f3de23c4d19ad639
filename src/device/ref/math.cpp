// The operations of the model, written for reading: each is the formula of the architecture in the
// order in which one would say it, in double. What the devices must agree on to the letter (ties,
// NaN, forced blocks, block-local maxima) is decided here and tested with golden vectors.
#include "device/ref/math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/formats.h"

namespace minim::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double nan_is_lowest(double score) { return std::isnan(score) ? -kInfinity : score; }

// Ids 0 .. n-1 by score descending; the sort is stable, so equal scores keep the lower id first.
std::vector<int32_t> by_score(const std::vector<double>& scores) {
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

double round_bf16(double x) { return round_to_bf16(static_cast<float>(x)); }
double round_e4m3(double x) { return round_to_e4m3(static_cast<float>(x)); }

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void rms_norm(const double* x, std::span<const double> weight, double eps, double* out) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
  const double root = std::sqrt(squares / static_cast<double>(weight.size()) + eps);
  for (size_t i = 0; i < weight.size(); ++i) out[i] = x[i] / root * (1.0 + weight[i]);
}

RopeTable rope_table(int64_t position, size_t half, double theta) {
  RopeTable table;
  for (size_t i = 0; i < half; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(half);
    const double angle = static_cast<double>(position) * std::pow(theta, exponent);
    table.cos.push_back(std::cos(angle));
    table.sin.push_back(std::sin(angle));
  }
  return table;
}

void rotate(const RopeTable& table, double* x) {
  const size_t half = table.cos.size();
  for (size_t i = 0; i < half; ++i) {
    const double a = x[i], b = x[i + half];
    x[i] = a * table.cos[i] - b * table.sin[i];
    x[i + half] = b * table.cos[i] + a * table.sin[i];
  }
}

double swiglu(double gate, double up, double alpha, double limit) {
  const double g = std::min(gate, limit);
  const double u = std::clamp(up, -limit, limit);
  return (u + 1.0) * g * sigmoid(alpha * g);
}

ExpertChoice choose_experts(std::span<const double> logits, std::span<const float> bias, int k,
                            double scale) {
  std::vector<double> scores;
  for (size_t e = 0; e < logits.size(); ++e) {
    scores.push_back(nan_is_lowest(sigmoid(logits[e]) + bias[e]));
  }
  ExpertChoice choice;
  choice.ids = by_score(scores);
  choice.ids.resize(static_cast<size_t>(k));
  double sum = 0;
  for (const int32_t id : choice.ids) {
    choice.weights.push_back(sigmoid(logits[static_cast<size_t>(id)]));
    sum += choice.weights.back();
  }
  for (double& weight : choice.weights) weight = weight / sum * scale;
  return choice;
}

std::vector<int32_t> choose_blocks(std::span<const double> scores, int budget, int init,
                                   int local) {
  const int n_visible = static_cast<int>(scores.size());
  std::vector<double> keys;
  for (int b = 0; b < n_visible; ++b) {
    const bool forced = b >= n_visible - local || b < init;
    keys.push_back(forced ? kInfinity : nan_is_lowest(scores[static_cast<size_t>(b)]));
  }
  std::vector<int32_t> kept = by_score(keys);
  kept.resize(static_cast<size_t>(std::min(budget, n_visible)));
  std::sort(kept.begin(), kept.end());
  return kept;
}

double block_score(std::span<const double> visible_scores) {
  double best = -kInfinity;
  for (const double score : visible_scores) best = std::max(best, nan_is_lowest(score));
  return best;
}

AttentionState empty_attention() {
  return AttentionState{.max = -kInfinity, .denominator = 0, .value = {}};
}

namespace {

// exp(score - max) of the visible keys in place; returns their sum.
double probabilities_of(double* scores, size_t n_visible, double max) {
  double sum = 0;
  for (size_t j = 0; j < n_visible; ++j) {
    scores[j] = std::exp(scores[j] - max);
    sum += scores[j];
  }
  return sum;
}

double rounded_probability(double p, Probabilities mode) {
  switch (mode) {
    case Probabilities::kExact:
      return p;
    case Probabilities::kBf16:
      return round_bf16(p);
    case Probabilities::kE4m3:
      return round_e4m3(p * 448.0) / 448.0;
  }
  return p;
}

void merge(double max, double denominator, const double* value, AttentionState* state) {
  const double joint = std::max(state->max, max);
  const double old_share = state->max == -kInfinity ? 0.0 : std::exp(state->max - joint);
  const double new_share = std::exp(max - joint);
  state->max = joint;
  state->denominator = state->denominator * old_share + denominator * new_share;
  for (size_t d = 0; d < kHeadDim; ++d) {
    state->value[d] = state->value[d] * old_share + value[d] * new_share;
  }
}

}  // namespace

void attend_block(const double* q, size_t n_heads, const Matrix& keys, const Matrix& values,
                  size_t n_visible, Probabilities probabilities, AttentionState* states) {
  std::vector<double> p(n_heads * kBlockTokens), value(n_heads * kHeadDim);
  std::vector<double> max(n_heads), denominator(n_heads);
  multiply(keys, q, kHeadDim, n_heads, kHeadDim, p.data(), kBlockTokens);
  for (size_t head = 0; head < n_heads; ++head) {
    double* scores = p.data() + head * kBlockTokens;
    for (size_t j = 0; j < n_visible; ++j) scores[j] /= std::sqrt(static_cast<double>(kHeadDim));
    max[head] = *std::max_element(scores, scores + n_visible);
    denominator[head] = probabilities_of(scores, n_visible, max[head]);
    for (size_t j = 0; j < n_visible; ++j) {
      scores[j] = rounded_probability(scores[j], probabilities);
    }
  }
  multiply(values, p.data(), kBlockTokens, n_heads, n_visible, value.data(), kHeadDim);
  for (size_t head = 0; head < n_heads; ++head) {
    merge(max[head], denominator[head], value.data() + head * kHeadDim, &states[head]);
  }
}

void finish_attention(const AttentionState& state, double* out) {
  for (size_t d = 0; d < kHeadDim; ++d) {
    out[d] = state.denominator == 0 ? 0.0 : state.value[d] / state.denominator;
  }
}

}  // namespace minim::ref
