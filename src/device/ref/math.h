// The operations of the model as pure functions of doubles. Nothing here rounds unless it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/kv_layout.h"
#include "device/ref/matrix.h"

namespace minim::ref {

// Nearest value of the format, through float32 as writers of the cache and of activations do.
double round_bf16(double x);
double round_e4m3(double x);  // saturating

double sigmoid(double x);

// out[i] = x[i] / sqrt(mean of x^2 + eps) * (1 + weight[i]). In and out may be the same.
void rms_norm(const double* x, std::span<const double> weight, double eps, double* out);

// cos[i], sin[i] of position * theta^(-2i / (2 half)), i < half.
struct RopeTable {
  std::vector<double> cos, sin;
};
RopeTable rope_table(int64_t position, size_t half, double theta);
// Rotates the pairs (i, i + half) of x in place; channels from 2 half on stay.
void rotate(const RopeTable& table, double* x);

// (clamp(up, -limit, limit) + 1) * g * sigmoid(alpha g), g = min(gate, limit).
double swiglu(double gate, double up, double alpha, double limit);

// The k experts with the largest sigmoid(logit) + bias, descending, ties to the lower id; weights
// are the sigmoids alone, divided by their sum, times `scale`. A NaN is the worst score.
struct ExpertChoice {
  std::vector<int32_t> ids;
  std::vector<double> weights;
};
ExpertChoice choose_experts(std::span<const double> logits, std::span<const float> bias, int k,
                            double scale);

// scores[b] of the visible blocks 0 .. own (the last entry). Ids of the kept blocks, ascending: the
// last `local` and the first `init` ones are in and count inside `budget`; the others by score
// descending, then id ascending; NaN counts as -inf, -0 equals +0.
std::vector<int32_t> choose_blocks(std::span<const double> scores, int budget, int init, int local);

// Largest score of the visible keys; NaN counts as -inf.
double block_score(std::span<const double> visible_scores);

// How probabilities enter P*V. The denominator sums the unrounded values in every mode.
enum class Probabilities { kExact, kBf16, kE4m3 };  // kE4m3: P * 448 rounded

// The running attention of one head of one row over the blocks seen so far.
struct AttentionState {
  double max;          // of the scaled scores
  double denominator;  // sum of exp(s - max)
  double value[kHeadDim];
};
AttentionState empty_attention();

// Attention of one row's heads [n_heads][128] to one block, on its own maximum, merged into states
// [n_heads]. keys [128 tokens, 128 channels], values [128 channels, 128 tokens]; tokens
// < n_visible (at least 1) take part.
void attend_block(const double* q, size_t n_heads, const Matrix& keys, const Matrix& values,
                  size_t n_visible, Probabilities probabilities, AttentionState* states);

// value / denominator; zeros when no key was seen.
void finish_attention(const AttentionState& state, double* out);

}  // namespace minim::ref
