// The named weights of the text model, bound to a device once. Names, spellings, fused forms and
// precisions of the checkpoint end here: the forward pass sees ids only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace minim {

struct LayerWeights {
  NormId input_norm, post_attention_norm;
  AttentionNorms norms;
  LinearId qkv = LinearId::kNone;  // q | k | v, and | index q | index k in MSA layers
  LinearId output = LinearId::kNone;
  MlpId mlp = MlpId::kNone;  // dense layers; the shared expert of MoE layers
  RouterId router = RouterId::kNone;
};

struct Weights {
  EmbeddingId embedding = EmbeddingId::kNone;
  std::vector<LayerWeights> layers;
  NormId final_norm = NormId::kNone;
  LinearId lm_head = LinearId::kNone;
  std::unique_ptr<ExpertStore> experts;
};

// What a checkpoint holds beside the text model, and what nobody here understands.
struct CheckpointReport {
  std::vector<std::string> problems;  // each makes loading fail: missing tensor, wrong shape or
                                      // dtype, bad scale byte, ...
  std::vector<std::string> notes;    // skipped on purpose: vision tower, draft, mtp, KV scales of 1
  std::vector<std::string> unknown;  // tensors that no rule recognises
  size_t text_bytes = 0;             // of the text model's tensors
  size_t vision_bytes = 0;
};

// Reads headers only (plus scalars): what load_weights would say, all problems at once. Never
// fails.
CheckpointReport inspect_checkpoint(const Checkpoint& checkpoint, const Config& config);

// Called with bytes done and bytes in all; returns false to stop (then kCancelled).
using LoadProgress = std::function<bool(size_t done, size_t total)>;

// Finds, checks and hands every tensor of the text model to the device; each byte of a shard is
// read once. The checkpoint must outlive the device (embedding rows stay mapped).
Result<Weights> load_weights(const Checkpoint& checkpoint, const Config& config, Device& device,
                             const LoadProgress& progress);

ModelShape model_shape(const Config& config);

}  // namespace minim
