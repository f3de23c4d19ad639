// Arbitrary bytes as config.json. What is accepted must keep every promise that later code relies
// on instead of checking again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/result.h"
#include "model/config.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const minim::Config& config) {
  require(config.n_layers > 0 && config.layers.size() == static_cast<size_t>(config.n_layers));
  require(config.hidden > 0 && config.hidden % 32 == 0 && config.vocab > 0);
  require(config.n_kv_heads > 0 && config.n_heads % config.n_kv_heads == 0);
  require(config.rotary_dim >= 32 && config.rotary_dim <= 128 && config.rotary_dim % 32 == 0);
  require(config.norm_eps > 0 && config.rope_theta >= 1 && config.swiglu_limit > 0);
  require(config.image_token < config.vocab && config.video_token < config.vocab);
  for (const minim::LayerKind& layer : config.layers) {
    require(layer.moe || config.dense_width > 0);
    require(!layer.moe || (config.expert_width > 0 && config.n_experts_per_token > 0 &&
                           config.n_experts_per_token <= config.n_experts));
    require(!layer.sparse_attention ||
            config.init_blocks + config.local_blocks <= config.top_k_blocks);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const minim::Result<minim::Config> config = minim::parse_config(text, "fuzz");
  if (config) {
    check(*config);
  } else {
    require(config.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
