// What config.json says, checked once. What the family fixes is constexpr; what a variant may
// change is a field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/kv_layout.h"

namespace minim {

struct LayerKind {
  bool sparse_attention = false;  // MSA; otherwise full causal attention
  bool moe = false;               // routed experts and a shared one; otherwise a dense gated MLP
};

// Fields carry the names and meanings of the family's config.json (legacy and flattened spelling
// are both read).
struct Config {
  std::string model_type;
  int n_layers = 0;
  int hidden = 0;
  int n_heads = 0;     // query heads
  int n_kv_heads = 0;  // = index heads = groups
  int vocab = 0;
  int max_positions = 0;
  float norm_eps = 1e-6f;
  double rope_theta = 5e6;
  int rotary_dim = 64;  // rotated channels of a head, NeoX halves
  float swiglu_alpha = 1.702f;
  float swiglu_limit = 7.0f;
  int dense_width = 0;  // FFN width of dense layers
  int n_experts = 0;
  int n_experts_per_token = 0;
  int expert_width = 0;
  int shared_width = 0;  // 0: no shared expert
  float routed_scale = 1.0f;
  int top_k_blocks = 16;              // kept blocks per (row, group), forced ones included
  int init_blocks = 0;                // always kept, from the start of the sequence
  int local_blocks = 1;               // always kept, up to the query's own
  bool router_bias = true;            // false (use_routing_bias): experts are chosen by score alone
  bool router_bias_declared = false;  // use_routing_bias is true, so that an absent one is a loss
  bool tied_embeddings = false;       // a checkpoint without lm_head uses the embedding table
  std::vector<LayerKind> layers;
  KvFormats kv;  // stored cache formats that the checkpoint declares
  bool has_vision = false;
  int image_token = -1;
  int video_token = -1;

  int group_size() const { return n_heads / n_kv_heads; }
};

// From generation_config.json (absent file: all empty), falling back to ids in config.json.
struct GenerationDefaults {
  std::vector<int32_t> stop_ids;
  std::optional<double> temperature, top_p;
  std::optional<int> top_k;
};

// Reads DIR/config.json. Errors name the field, what was found and what is allowed; a field that
// would change the arithmetic and that nothing here implements (rope_scaling, an attention gate,
// another activation, ...) is refused.
Result<Config> load_config(const std::string& model_dir);
Result<Config> parse_config(const std::string& json, const std::string& name);
Result<GenerationDefaults> load_generation_defaults(const std::string& model_dir);

}  // namespace minim
