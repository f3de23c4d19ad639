// Reads config.json (and what hf_quant_config.json says about the cache) into Config.
//
// The family is written in two spellings: the vendor's (sparse_attention_config, moe_layer_freq,
// rope_theta) and the flattened one that newer exporters save (layer_types, index_*,
// rope_parameters); text fields stand in text_config or, in text-only extractions, at the top.
// Each value is looked up under both; where both are present they must agree, because choosing
// one silently would run another model than its file describes.
//
// Two rules keep the rest of the program simple. A field that would change the arithmetic and that
// nothing here implements is refused, never ignored. And every size is bounded, so that products
// of two of them fit an int64 and nobody downstream has to think about overflow. Attention kind and
// FFN kind are two independent lists: M3.1 has sparse attention above dense FFNs.
#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/json.h"
#include "base/json_fields.h"
#include "model/kv_declaration.h"

namespace minim {
namespace {

constexpr int kMaxLayers = 1024;
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxHeads = 1024;
constexpr int kMaxVocab = 1 << 24;
constexpr int kMaxPositions = 1 << 28;
constexpr int kMaxExperts = 4096;
constexpr int kMaxBlocks = 4096;
// MXFP8 groups 32 input channels and NVFP4 16; every width of the family is a multiple of 32, and
// 16 keeps NVFP4 checkpoints of other widths in reach.
constexpr int kHiddenMultiple = 32;
constexpr int kWidthMultiple = 16;

// A required integer that must also be a multiple.
int width(JsonFields& fields, const char* key, int multiple) {
  const int value = fields.integer(key, multiple, kMaxWidth);
  if (value % multiple != 0) fields.wanted(key, fmt::format("a multiple of {}", multiple));
  return value;
}

// One value in two spellings.
struct Spelling {
  JsonFields& fields;
  const char* key;
};
int either(Spelling flat, Spelling legacy, int low, int high, int fallback) {
  const int a = flat.fields.integer_or(flat.key, low, high, fallback);
  const int b = legacy.fields.integer_or(legacy.key, low, high, fallback);
  if (flat.fields.find(flat.key) == nullptr) return b;
  if (legacy.fields.find(legacy.key) != nullptr && a != b) {
    flat.fields.fail(fmt::format("{} is {} but {}{} is {}, wanted the same value", flat.key, a,
                                 legacy.fields.where(), legacy.key, b));
  }
  return a;
}

// `names`: a list of kinds, one a layer, each `on` or `off`. `flags`: a list of 0 and 1. Empty when
// neither is there.
std::vector<bool> named_kinds(JsonFields& fields, const char* key, int n_layers, const char* on,
                              const char* off) {
  std::vector<bool> kinds;
  if (!fields.has(key)) return kinds;
  const SortedJson& list = *fields.find(key);
  if (!list.is_array() || list.size() != static_cast<size_t>(n_layers)) {
    fields.wanted(key, fmt::format("a list of num_hidden_layers = {} names", n_layers));
    return kinds;
  }
  for (const SortedJson& item : list) {
    if (item != on && item != off) {
      fields.fail(fmt::format("{}[{}] is {}, wanted \"{}\" or \"{}\"", key, kinds.size(),
                              describe_json(item), on, off),
                  Code::kUnsupported);
    }
    kinds.push_back(item == on);
  }
  return kinds;
}

std::vector<bool> flagged_kinds(JsonFields& fields, const char* key, int n_layers) {
  std::vector<bool> kinds;
  if (!fields.has(key)) return kinds;
  const SortedJson& list = *fields.find(key);
  if (!list.is_array() || list.size() != static_cast<size_t>(n_layers)) {
    fields.wanted(key, fmt::format("a list of num_hidden_layers = {} numbers 0 or 1", n_layers));
    return kinds;
  }
  for (const SortedJson& item : list) {
    const std::optional<int> flag = json_integer(item, 0, 1);
    if (!flag && !item.is_boolean()) {
      fields.fail(
          fmt::format("{}[{}] is {}, wanted 0 or 1", key, kinds.size(), describe_json(item)));
    }
    kinds.push_back(item.is_boolean() ? item.get<bool>() : flag.value_or(0) == 1);
  }
  return kinds;
}

std::vector<bool> agreeing(std::vector<bool> named, std::vector<bool> flagged, JsonFields& fields,
                           const char* named_key, const char* flagged_key) {
  if (named.empty() && flagged.empty()) {
    fields.fail(fmt::format("{} (or {}) is missing: the kind of each layer is unknown", named_key,
                            flagged_key));
  }
  if (!named.empty() && !flagged.empty() && named != flagged) {
    fields.fail(fmt::format("{} and {} describe different layers", named_key, flagged_key));
  }
  return named.empty() ? flagged : named;
}

void read_layer_kinds(JsonFields& text, JsonFields& sparse, Config& config) {
  const int n = config.n_layers;
  std::vector<bool> attention_flags = flagged_kinds(sparse, "sparse_attention_freq", n);
  std::vector<bool> attention_names =
      named_kinds(text, "layer_types", n, "minimax_m3_sparse", "full_attention");
  if (!sparse.flag_or("use_sparse_attention", true)) {
    for (const bool on : attention_flags) {
      if (on) sparse.fail("use_sparse_attention is false but sparse_attention_freq has a 1");
    }
    attention_flags.assign(static_cast<size_t>(n), false);
  }
  const std::vector<bool> attention =
      agreeing(std::move(attention_names), std::move(attention_flags), text, "layer_types",
               "sparse_attention_config.sparse_attention_freq");
  const std::vector<bool> moe =
      agreeing(named_kinds(text, "mlp_layer_types", n, "sparse", "dense"),
               flagged_kinds(text, "moe_layer_freq", n), text, "mlp_layer_types", "moe_layer_freq");
  if (attention.size() != static_cast<size_t>(n) || moe.size() != static_cast<size_t>(n)) return;
  for (size_t i = 0; i < attention.size(); ++i) {
    config.layers.push_back({.sparse_attention = attention[i], .moe = moe[i]});
  }
  // An index with a value branch adds an output of its own to the attention.
  const std::vector<bool> key_only = flagged_kinds(sparse, "sparse_disable_index_value", n);
  for (size_t i = 0; i < key_only.size() && i < attention.size(); ++i) {
    if (attention[i] && !key_only[i]) {
      sparse.fail(
          fmt::format("sparse_disable_index_value[{}] is 0 on a sparse layer, wanted 1: the "
                      "index value branch is not implemented",
                      i),
          Code::kUnsupported);
    }
  }
}

void read_heads(JsonFields& text, Config& config) {
  config.n_heads = text.integer("num_attention_heads", 1, kMaxHeads);
  config.n_kv_heads = text.integer("num_key_value_heads", 1, kMaxHeads);
  if (config.n_heads % config.n_kv_heads != 0) {
    text.wanted("num_attention_heads",
                fmt::format("a multiple of num_key_value_heads = {}", config.n_kv_heads));
  }
  if (text.integer_or("head_dim", 1, kMaxWidth, kHeadDim) != kHeadDim) {
    text.wanted("head_dim", "128 (nothing else is implemented)", Code::kUnsupported);
  }
}

void read_selection(JsonFields& text, JsonFields& sparse, Config& config) {
  const int heads = either({text, "index_n_heads"}, {sparse, "sparse_num_index_heads"}, 1,
                           kMaxHeads, config.n_kv_heads);
  const int dim =
      either({text, "index_head_dim"}, {sparse, "sparse_index_dim"}, 1, kMaxWidth, kHeadDim);
  const int block =
      either({text, "index_block_size"}, {sparse, "sparse_block_size"}, 1, kMaxWidth, kBlockTokens);
  config.top_k_blocks =
      either({text, "index_topk_blocks"}, {sparse, "sparse_topk_blocks"}, 1, kMaxBlocks, 16);
  config.local_blocks =
      either({text, "index_local_blocks"}, {sparse, "sparse_local_block"}, 1, kMaxBlocks, 1);
  config.init_blocks =
      either({text, "index_init_blocks"}, {sparse, "sparse_init_block"}, 0, kMaxBlocks, 0);
  sparse.only("sparse_score_type", "max");
  bool any_sparse = false;
  for (const LayerKind& layer : config.layers) any_sparse = any_sparse || layer.sparse_attention;
  if (!any_sparse) return;
  const auto refuse = [&](const char* flat, const char* legacy, int found, int wanted) {
    if (found == wanted) return;
    text.fail(fmt::format("{} ({}) is {}, wanted {}", legacy, flat, found, wanted),
              Code::kUnsupported);
  };
  refuse("index_n_heads", "sparse_num_index_heads = num_key_value_heads", heads, config.n_kv_heads);
  refuse("index_head_dim", "sparse_index_dim", dim, kHeadDim);
  refuse("index_block_size", "sparse_block_size", block, kBlockTokens);
  if (config.init_blocks + config.local_blocks > config.top_k_blocks) {
    text.fail(
        fmt::format("sparse_topk_blocks (index_topk_blocks) is {}, wanted at least the {} "
                    "forced blocks (init {} + local {})",
                    config.top_k_blocks, config.init_blocks + config.local_blocks,
                    config.init_blocks, config.local_blocks));
  }
}

void read_rope(JsonFields& text, Config& config) {
  JsonFields parameters = text.object_or_empty("rope_parameters");
  parameters.only("rope_type", "default");
  if (text.has("rope_scaling")) {
    JsonFields scaling = text.object_or_empty("rope_scaling");
    scaling.only("rope_type", "default");
    scaling.only("type", "default");
    if (!scaling.has("rope_type") && !scaling.has("type")) {
      text.wanted("rope_scaling", "null (no scaling is implemented)", Code::kUnsupported);
    }
  }
  const double lowest = 1.0, highest = 1e12;
  const double theta = parameters.number_or("rope_theta", lowest, highest, config.rope_theta);
  config.rope_theta = text.number_or("rope_theta", lowest, highest, theta);
  if (parameters.has("rope_theta") && config.rope_theta != theta) {
    text.wanted("rope_theta", fmt::format("rope_parameters.rope_theta = {:g}", theta));
  }
  const double factor =
      text.number_or("partial_rotary_factor", 0.0, 1.0,
                     parameters.number_or("partial_rotary_factor", 0.0, 1.0, -1.0));
  const int by_factor = static_cast<int>(std::lround(factor * kHeadDim));
  if (text.find("rotary_dim") == nullptr && factor < 0) {
    text.fail("rotary_dim (or partial_rotary_factor) is missing, wanted 32, 64, 96 or 128");
  }
  config.rotary_dim = text.integer_or("rotary_dim", 1, kMaxWidth, by_factor);
  if (config.rotary_dim % 32 != 0 || config.rotary_dim < 32 || config.rotary_dim > kHeadDim) {
    text.fail(fmt::format("rotary_dim is {}, wanted 32, 64, 96 or 128", config.rotary_dim));
  }
  if (factor >= 0 && by_factor != config.rotary_dim) {
    text.fail(fmt::format("rotary_dim is {} but partial_rotary_factor is {:g}, which is {} of {}",
                          config.rotary_dim, factor, by_factor, kHeadDim));
  }
}

// The family's activation is called "swigluoai" in the vendor's spelling and "silu" beside
// swiglu_alpha and swiglu_limit in the flattened one; "silu" alone would be another function.
void read_activation(JsonFields& text, Config& config) {
  config.swiglu_alpha = static_cast<float>(text.number_or("swiglu_alpha", 1e-6, 1e3, 1.702));
  config.swiglu_limit = static_cast<float>(text.number_or("swiglu_limit", 1e-6, 1e6, 7.0));
  text.only("swiglu_beta", 1.0);
  const std::string act = text.text_or("hidden_act", "swigluoai");
  const bool flattened = act == "silu" && text.has("swiglu_alpha") && text.has("swiglu_limit");
  if (act != "swigluoai" && !flattened) {
    text.wanted("hidden_act", "\"swigluoai\", or \"silu\" beside swiglu_alpha and swiglu_limit",
                Code::kUnsupported);
  }
}

void read_feed_forward(JsonFields& text, Config& config) {
  bool any_moe = false, any_dense = false;
  for (const LayerKind& layer : config.layers) (layer.moe ? any_moe : any_dense) = true;
  if (any_dense) config.dense_width = width(text, "dense_intermediate_size", kWidthMultiple);
  if (!any_moe) return;
  const bool has_flat = text.find("num_experts") != nullptr;
  const bool has_legacy = text.find("num_local_experts") != nullptr;
  const char* experts_key = has_flat && !has_legacy ? "num_experts" : "num_local_experts";
  config.n_experts = text.integer(experts_key, 1, kMaxExperts);
  if (has_flat && has_legacy && text.integer("num_experts", 1, kMaxExperts) != config.n_experts) {
    text.wanted("num_experts", fmt::format("num_local_experts = {}", config.n_experts));
  }
  config.n_experts_per_token = text.integer("num_experts_per_tok", 1, kMaxExperts);
  if (config.n_experts_per_token > config.n_experts) {
    text.wanted("num_experts_per_tok",
                fmt::format("at most {} = {}", experts_key, config.n_experts));
  }
  config.expert_width = width(text, "intermediate_size", kWidthMultiple);
  if (text.integer_or("n_shared_experts", 0, 1, 1) == 1) {
    config.shared_width = text.find("shared_intermediate_size") == nullptr
                              ? config.expert_width
                              : width(text, "shared_intermediate_size", kWidthMultiple);
  }
  config.routed_scale = static_cast<float>(text.number_or("routed_scaling_factor", 1e-6, 1e6, 1.0));
  config.router_bias = text.flag_or("use_routing_bias", true);
  config.router_bias_declared = config.router_bias && text.has("use_routing_bias");
  text.only("scoring_func", "sigmoid");
  text.only("norm_topk_prob", true);
  text.only("n_group", 1);
  text.only("topk_group", 1);
}

void refuse_what_nothing_implements(JsonFields& text) {
  text.only("use_gemma_norm", true);
  text.only("use_qk_norm", true);
  text.only("qk_norm_type", "per_head");
  text.only("attention_output_gate", false);
  text.only("attention_bias", false);
  text.only("mlp_bias", false);
  if (text.has("sliding_window")) {
    text.wanted("sliding_window", "null (not implemented)", Code::kUnsupported);
  }
}

// ---- documents

int token_id(JsonFields& root, JsonFields& text, const char* key, const char* other_key,
             int vocab) {
  for (JsonFields* fields : {&root, &text}) {
    for (const char* k : {key, other_key}) {
      if (fields->has(k)) return fields->integer(k, 0, vocab - 1);
    }
  }
  return -1;
}

void read_model_type(JsonFields& root, Config& config) {
  config.model_type = root.text_or("model_type", "");
  if (!config.model_type.starts_with("minimax_m3")) {
    root.wanted("model_type", "one of the minimax_m3 family (minimax_m3_vl, minimax_m3)",
                Code::kUnsupported);
  }
}

Config read_config(JsonFields& root, KvDeclaration& kv) {
  Config config;
  read_model_type(root, config);
  JsonFields nested = root.object_or_empty("text_config");
  JsonFields& text = root.has("text_config") ? nested : root;
  JsonFields sparse = text.object_or_empty("sparse_attention_config");
  config.n_layers = text.integer("num_hidden_layers", 1, kMaxLayers);
  config.hidden = width(text, "hidden_size", kHiddenMultiple);
  config.vocab = text.integer("vocab_size", 1, kMaxVocab);
  config.max_positions = text.integer_or("max_position_embeddings", 1, kMaxPositions, 524288);
  config.norm_eps = static_cast<float>(text.number_or("rms_norm_eps", 1e-12, 1e-1, 1e-6));
  config.tied_embeddings =
      text.flag_or("tie_word_embeddings", root.flag_or("tie_word_embeddings", false));
  read_heads(text, config);
  read_layer_kinds(text, sparse, config);
  read_selection(text, sparse, config);
  read_rope(text, config);
  read_activation(text, config);
  read_feed_forward(text, config);
  refuse_what_nothing_implements(text);
  config.has_vision = root.has("vision_config");
  config.image_token = token_id(root, text, "image_token_index", "image_token_id", config.vocab);
  config.video_token = token_id(root, text, "video_token_index", "video_token_id", config.vocab);
  // Text-only extractions keep the quantisation at the top, re-saved ones beside the text fields.
  JsonFields quantization = root.object_or_empty("quantization_config");
  read_kv(quantization, kv);
  if (&text != &root) {
    JsonFields inner = text.object_or_empty("quantization_config");
    read_kv(inner, kv);
  }
  return config;
}

Result<Config> config_from(const std::string& json, const std::string& name,
                           const std::optional<std::string>& hf_quant, const std::string& hf_name) {
  const Result<SortedJson> document = parse_sorted_json(json, name);
  if (!document) return document.error();
  FirstError error;
  JsonFields root(*document, name + ": ", error);
  if (error) return *error;
  KvDeclaration kv;
  Config config = read_config(root, kv);
  if (hf_quant) {
    const Result<SortedJson> extra = parse_sorted_json(*hf_quant, hf_name);
    if (!extra) return extra.error();
    JsonFields outer(*extra, hf_name + ": ", error);
    JsonFields quantization = outer.object_or_empty("quantization");
    read_kv(quantization, kv);
  }
  if (error) return *error;
  config.kv = stored_formats(kv);
  return config;
}

}  // namespace

Result<Config> parse_config(const std::string& json, const std::string& name) {
  return config_from(json, name, std::nullopt, "");
}

Result<Config> load_config(const std::string& model_dir) {
  const std::string path = model_dir + "/config.json";
  const Result<std::string> json = require_plain_file(path);
  if (!json) return json.error();
  const std::string hf_path = model_dir + "/hf_quant_config.json";
  const Result<std::optional<std::string>> hf = read_plain_file(hf_path);
  if (!hf) return hf.error();
  return config_from(*json, path, *hf, hf_path);
}

}  // namespace minim
