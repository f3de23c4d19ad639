// Gated MLPs and the mixture of experts of the reference device.
//
// Experts are visited in ascending id, each acquired for as long as its rows run, and their outputs
// are kept apart: the sum of a row is then formed in the row's own choice order, whatever the other
// rows chose.
#include <algorithm>

#include "device/ref/ref_device.h"

namespace minim::ref {

std::vector<double> RefDevice::run_mlp(const Mlp& mlp, const double* h) const {
  const size_t width = mlp.gate.n_out;
  std::vector<double> gate(width), up(width), out(mlp.down.n_out);
  multiply(mlp.gate, h, 0, 1, mlp.gate.n_in, gate.data(), 0);
  multiply(mlp.up, h, 0, 1, mlp.up.n_in, up.data(), 0);
  for (size_t i = 0; i < width; ++i) {
    gate[i] =
        rounded(swiglu(rounded(gate[i]), rounded(up[i]), shape_.swiglu_alpha, shape_.swiglu_limit));
  }
  multiply(mlp.down, gate.data(), 0, 1, width, out.data(), 0);
  return out;
}

void RefDevice::mlp_add(MlpId mlp, Rows h, int n_rows, Rows x) {
  for (int r = 0; r < n_rows; ++r) {
    const std::vector<double> y = run_mlp(get(mlps_, mlp), row(h, r));
    double* out = row(x, r);
    for (size_t i = 0; i < y.size(); ++i) out[i] = rounded(out[i] + rounded(y[i]));
  }
}

void RefDevice::route(RouterId router, Rows h, int n_rows) {
  const Router& weights = get(routers_, router);
  std::vector<double> scores(weights.gate.n_out);
  chosen_.clear();
  for (int r = 0; r < n_rows; ++r) {
    multiply(weights.gate, row(h, r), 0, 1, weights.gate.n_in, scores.data(), 0);
    chosen_.push_back(
        choose_experts(scores, weights.bias, shape_.n_experts_per_token, shape_.routed_scale));
  }
}

void RefDevice::moe_add(int layer, ExpertStore& experts, MlpId shared, Rows h, int n_rows, Rows x) {
  const size_t k = static_cast<size_t>(shape_.n_experts_per_token);
  std::vector<std::vector<double>> outputs(static_cast<size_t>(n_rows) * k);
  for (int32_t expert = 0; expert < shape_.n_experts; ++expert) {
    MlpId handle = MlpId::kNone;
    for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r) {
      const auto& ids = chosen_[r].ids;
      const auto found = std::find(ids.begin(), ids.end(), expert);
      if (found == ids.end()) continue;
      if (handle == MlpId::kNone) experts.acquire(layer, {&expert, 1}, &handle);
      outputs[r * k + static_cast<size_t>(found - ids.begin())] =
          run_mlp(get(mlps_, handle), row(h, static_cast<int>(r)));
    }
    if (handle != MlpId::kNone) experts.release(layer, {&expert, 1});
  }
  for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r) {
    std::vector<double> sum(static_cast<size_t>(shape_.hidden));
    for (size_t slot = 0; slot < k; ++slot) {
      const double weight = chosen_[r].weights[slot];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * outputs[r * k + slot][i];
    }
    if (shared != MlpId::kNone) {
      const std::vector<double> y = run_mlp(get(mlps_, shared), row(h, static_cast<int>(r)));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
    }
    double* out = row(x, static_cast<int>(r));
    for (size_t i = 0; i < sum.size(); ++i) out[i] = rounded(out[i] + rounded(sum[i]));
  }
}

std::vector<int32_t> RefDevice::chosen_experts(int row) const {
  return chosen_[static_cast<size_t>(row)].ids;
}

std::vector<float> RefDevice::expert_weights(int row) const {
  const auto& weights = chosen_[static_cast<size_t>(row)].weights;
  return {weights.begin(), weights.end()};
}

}  // namespace minim::ref
