// One step of the model: tokens of one or more sequences in, logits out, the cache extended.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/config.h"
#include "model/weights.h"

namespace minim {

// What happened at one row in one layer; filled when a trace is asked for.
struct LayerTrace {
  std::vector<std::vector<int32_t>> blocks;  // per group, ascending; empty: dense attention
  std::vector<int32_t> experts;              // choice order; empty: no routing
  std::vector<float> expert_weights;
};
// hidden[0] = embedding, hidden[l + 1] = after layer l; [n_rows][hidden], only when `keep_hidden`.
struct Trace {
  bool keep_hidden = false;
  std::vector<std::vector<LayerTrace>> layers;          // [layer][row]
  std::vector<std::vector<std::vector<float>>> hidden;  // [layer + 1][row]
};

class Model {
 public:
  // Takes a device whose weights are loaded; max_rows bounds a step. kExhausted when the buffers
  // cannot be had.
  static Result<std::unique_ptr<Model>> make(const Config& config, Weights weights, Device& device,
                                             int max_rows);

  // logits [batch.logits_rows.size(), vocab], fp32; rows without a token are not masked here.
  // Appends the batch's rows to the cache. Checked before: tokens in range, n_rows <= max_rows,
  // blocks within the pool.
  void forward(const Batch& batch, std::span<float> logits, Trace* trace = nullptr);

  const Config& config() const { return config_; }
  int max_rows() const { return max_rows_; }

 private:
  Model(const Config& config, Weights weights, Device& device, int max_rows);
  void attention(int layer, const Batch& batch, Trace* trace);
  void feed_forward(int layer, int n_rows, Trace* trace);

  Config config_;
  Weights weights_;
  Device& device_;
  int max_rows_;
  Rows x_, normed_, projected_, attended_;
};

}  // namespace minim
