// Where every weight of the text model lies in a checkpoint and how it is stored: the result of
// looking at headers and scalars only.
#pragma once

#include <string>
#include <vector>

#include "device/weights.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

namespace minim {

struct PlannedMatrix {
  MatrixView view;
  std::string name;      // of the tensor whose block scales must be checked, else of the values
  size_t first_row = 0;  // of `view` in that tensor: more than 0 in fused tensors

  size_t value_bytes() const;
  size_t scale_bytes() const;
};

struct PlannedMlp {
  PlannedMatrix gate, up, down;
};

struct PlannedVector {
  const TensorView* tensor = nullptr;  // kBf16 or kF32, one dimension
  std::string name;
};

struct PlannedLayer {
  PlannedVector input_norm, post_attention_norm, q_norm, k_norm, index_q_norm, index_k_norm;
  std::vector<PlannedMatrix> qkv;  // in the order of LayerWeights::qkv
  PlannedMatrix output;
  bool has_mlp = false;
  PlannedMlp mlp;             // dense FFN or shared expert
  PlannedMatrix router;       // MoE layers
  PlannedVector router_bias;  // no tensor: zeros
  std::vector<PlannedMlp> experts;
};

struct WeightPlan {
  PlannedMatrix embedding, lm_head;
  PlannedVector final_norm;
  std::vector<PlannedLayer> layers;
  CheckpointReport report;
};

// Never fails: what is wrong stands in report.problems, and then the plan must not be used.
WeightPlan plan_weights(const Checkpoint& checkpoint, const Config& config);

}  // namespace minim
