// The spellings of tensor names, and what a name outside the text model belongs to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"

namespace minim {

// Module paths to try in order, without ".weight" and the like.
using Paths = std::vector<std::string>;

// What stands before "layers.", "embed_tokens" and "norm": "language_model.model." (the vendor),
// "model.language_model." (newer exporters), "model." or "" (text only). One checkpoint uses one;
// the vendor's when none is found.
std::string find_text_prefix(const Checkpoint& checkpoint);

Paths lm_head_paths();
// tail: "self_attn.q_proj", ... ; index modules have two homes: self_attn.index_{q,k}_* and
// self_attn.indexer.{q,k}_*.
Paths index_paths(const std::string& layer, const std::string& tail);
// tail: "gate", "shared_experts", "experts.7"; under block_sparse_moe or mlp.
Paths moe_paths(const std::string& layer, const std::string& tail);
Paths router_bias_names(const std::string& layer);

// Tensors that the text model leaves alone.
enum class Leftover {
  kVision,      // tower, projector, patch merger
  kMtp,         // multi-token prediction heads: advertised by configs, never used
  kDraft,       // draft models
  kRotary,      // a stored table of frequencies, which are computed here
  kCacheScale,  // k_scale, v_scale: must be 1
  kUnknown,
};
Leftover classify_leftover(std::string_view name);

}  // namespace minim
