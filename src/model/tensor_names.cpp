#include "model/tensor_names.h"

#include <array>

namespace minim {
namespace {

constexpr std::array<std::string_view, 4> kTextPrefixes = {"language_model.model.",
                                                           "model.language_model.", "model.", ""};

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool begins_with_module(std::string_view name, std::string_view module) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  return name.starts_with(module) && name.size() > module.size() && name[module.size()] == '.';
}

}  // namespace

std::string find_text_prefix(const Checkpoint& checkpoint) {
  for (const char* tail :
       {"embed_tokens.weight", "layers.0.input_layernorm.weight", "norm.weight"}) {
    for (const std::string_view prefix : kTextPrefixes) {
      if (checkpoint.find(std::string(prefix) + tail) != nullptr) return std::string(prefix);
    }
  }
  return std::string(kTextPrefixes[0]);
}

Paths lm_head_paths() { return {"language_model.lm_head", "lm_head", "model.lm_head"}; }

Paths index_paths(const std::string& layer, const std::string& tail) {
  return {layer + "self_attn.index_" + tail, layer + "self_attn.indexer." + tail};
}

Paths moe_paths(const std::string& layer, const std::string& tail) {
  return {layer + "block_sparse_moe." + tail, layer + "mlp." + tail};
}

Paths router_bias_names(const std::string& layer) {
  const std::string bias = "e_score_correction_bias";
  return {layer + "block_sparse_moe." + bias, layer + "mlp.gate." + bias, layer + "mlp." + bias,
          layer + "block_sparse_moe.gate." + bias};
}

Leftover classify_leftover(std::string_view name) {
  if (contains(name, "mtp.")) return Leftover::kMtp;
  for (const char* module :
       {"vision_tower", "multi_modal_projector", "patch_merge_mlp", "visual"}) {
    if (begins_with_module(name, module)) return Leftover::kVision;
  }
  for (const char* part : {"dspark", "dflash", "eagle", "draft", "nextn"}) {
    if (contains(name, part)) return Leftover::kDraft;
  }
  if (name.ends_with("rotary_emb.inv_freq")) return Leftover::kRotary;
  if (name.ends_with(".k_scale") || name.ends_with(".v_scale")) return Leftover::kCacheScale;
  return Leftover::kUnknown;
}

}  // namespace minim
