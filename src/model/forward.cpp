// The text model, top to bottom: embedding, layers of attention and feed-forward with pre-norm
// residuals, final norm and logits. What a layer is made of is two independent facts, its attention
// kind and its FFN kind; prefill and decode are the same calls with different row counts. All
// arithmetic is the device's.
#include "model/forward.h"

#include <utility>

#include "base/check.h"

namespace minim {
namespace {

std::vector<std::vector<float>> read_rows(const Device& device, Rows rows, int n_rows, int width) {
  std::vector<std::vector<float>> out(static_cast<size_t>(n_rows),
                                      std::vector<float>(static_cast<size_t>(width)));
  for (int row = 0; row < n_rows; ++row) device.read_row(rows, row, out[static_cast<size_t>(row)]);
  return out;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::make(const Config& config, Weights weights, Device& device,
                                           int max_rows) {
  Result<Ok> reserved = device.reserve(max_rows);
  if (!reserved) return reserved.error();
  return std::unique_ptr<Model>(new Model(config, std::move(weights), device, max_rows));
}

Model::Model(const Config& config, Weights weights, Device& device, int max_rows)
    : config_(config), weights_(std::move(weights)), device_(device), max_rows_(max_rows) {
  const int n_projected_heads = config.n_heads + 3 * config.n_kv_heads + 1;
  x_ = device.make_rows(config.hidden);
  normed_ = device.make_rows(config.hidden);
  projected_ = device.make_rows(n_projected_heads * kHeadDim);
  attended_ = device.make_rows(config.n_heads * kHeadDim);
}

void Model::forward(const Batch& batch, std::span<float> logits, Trace* trace) {
  CHECK(batch.n_rows() > 0 && batch.n_rows() <= max_rows_, "%d rows of at most %d", batch.n_rows(),
        max_rows_);
  const size_t n_logits = batch.logits_rows.size();
  CHECK(logits.size() == n_logits * static_cast<size_t>(config_.vocab));
  const int n_rows = batch.n_rows();
  if (trace != nullptr) {
    trace->hidden.clear();
    trace->layers.assign(static_cast<size_t>(config_.n_layers),
                         std::vector<LayerTrace>(static_cast<size_t>(n_rows)));
  }
  const auto keep_hidden = [&] {
    if (trace != nullptr && trace->keep_hidden) {
      trace->hidden.push_back(read_rows(device_, x_, n_rows, config_.hidden));
    }
  };

  const auto run = [&] {
    device_.embed(weights_.embedding, batch.tokens, x_);
    keep_hidden();
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      attention(layer, batch, trace);
      feed_forward(layer, n_rows, trace);
      keep_hidden();
    }
    if (n_logits == 0) return;
    device_.rms_norm(weights_.final_norm, x_, n_rows, normed_);
    device_.logits(weights_.lm_head, normed_, batch.logits_rows, logits.data());
  };
  if (trace == nullptr) {
    device_.run_step(run);
  } else {
    run();  // a trace looks at what each step left
  }
}

void Model::attention(int layer, const Batch& batch, Trace* trace) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const bool sparse = config_.layers[static_cast<size_t>(layer)].sparse_attention;
  device_.rms_norm(w.input_norm, x_, batch.n_rows(), normed_);
  device_.linear(w.qkv, normed_, batch.n_rows(), projected_);
  device_.norm_rope_and_store(layer, w.norms, batch, projected_);
  if (sparse) device_.select_blocks(layer, batch, projected_);
  device_.attend(layer, batch, sparse, projected_, attended_);
  device_.linear_add(w.output, attended_, batch.n_rows(), x_);

  if (trace == nullptr || !sparse) return;
  for (int row = 0; row < batch.n_rows(); ++row) {
    auto& blocks = trace->layers[static_cast<size_t>(layer)][static_cast<size_t>(row)].blocks;
    for (int group = 0; group < config_.n_kv_heads; ++group) {
      blocks.push_back(device_.selected_blocks(row, group));
    }
  }
}

void Model::feed_forward(int layer, int n_rows, Trace* trace) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  device_.rms_norm(w.post_attention_norm, x_, n_rows, normed_);
  if (!config_.layers[static_cast<size_t>(layer)].moe) {
    device_.mlp_add(w.mlp, normed_, n_rows, x_);
    return;
  }
  device_.route(w.router, normed_, n_rows);
  device_.moe_add(layer, *weights_.experts, w.mlp, normed_, n_rows, x_);

  if (trace == nullptr) return;
  for (int row = 0; row < n_rows; ++row) {
    LayerTrace& seen = trace->layers[static_cast<size_t>(layer)][static_cast<size_t>(row)];
    seen.experts = device_.chosen_experts(row);
    seen.expert_weights = device_.expert_weights(row);
  }
}

}  // namespace minim
