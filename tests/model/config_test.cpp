#include "model/config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

std::string golden(const std::string& name) { return MINIM_TEST_DATA "/model/" + name; }

SortedJson golden_json(const std::string& name) {
  const Result<std::string> text = read_file(golden(name) + "/config.json");
  return SortedJson::parse(*text);
}

// A change to a golden config: a pointer into it and the new JSON value ("" removes the key).
struct Change {
  const char* pointer;
  const char* value;
};

Result<Config> parse_changed(const std::string& name, std::initializer_list<Change> changes) {
  SortedJson json = golden_json(name);
  for (const Change& change : changes) {
    const SortedJson::json_pointer pointer(change.pointer);
    if (*change.value == '\0') {
      json[pointer.parent_pointer()].erase(pointer.back());
    } else {
      json[pointer] = SortedJson::parse(change.value);
    }
  }
  return parse_config(json.dump(), "config.json");
}

// The error of a changed config: one line that names what it should.
void expect_refused(const std::string& name, std::initializer_list<Change> changes,
                    const std::string& named) {
  const Result<Config> config = parse_changed(name, changes);
  ASSERT_FALSE(config) << changes.begin()->pointer << " = " << changes.begin()->value;
  const std::string& message = config.error().message;
  EXPECT_NE(message.find(named), std::string::npos) << message;
  EXPECT_NE(message.find("config.json"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u) << message;
}

Config must_load(const std::string& name) {
  Result<Config> config = load_config(golden(name));
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}

TEST(Config, VendorSpellingIsRead) {
  const Config config = must_load("m3-bf16");
  EXPECT_EQ(config.model_type, "minimax_m3_vl");
  EXPECT_EQ(config.n_layers, 4);
  EXPECT_EQ(config.hidden, 256);
  EXPECT_EQ(config.n_heads, 8);
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.group_size(), 4);
  EXPECT_EQ(config.vocab, 320);
  EXPECT_EQ(config.max_positions, 1048576);
  EXPECT_EQ(config.norm_eps, 1e-6f);
  EXPECT_EQ(config.rope_theta, 5e6);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.swiglu_alpha, 1.702f);
  EXPECT_EQ(config.swiglu_limit, 7.0f);
  EXPECT_EQ(config.dense_width, 128);
  EXPECT_EQ(config.n_experts, 8);
  EXPECT_EQ(config.n_experts_per_token, 2);
  EXPECT_EQ(config.expert_width, 64);
  EXPECT_EQ(config.shared_width, 64);
  EXPECT_EQ(config.routed_scale, 2.0f);
  EXPECT_EQ(config.top_k_blocks, 4);
  EXPECT_EQ(config.init_blocks, 0);
  EXPECT_EQ(config.local_blocks, 1);
  EXPECT_TRUE(config.router_bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.has_vision);
  EXPECT_EQ(config.image_token, 310);
  EXPECT_EQ(config.video_token, 311);
  EXPECT_EQ(config.kv, (KvFormats{KvFormat::kBf16, KvFormat::kBf16}));
  ASSERT_EQ(config.layers.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(config.layers[i].sparse_attention, i > 0);
    EXPECT_EQ(config.layers[i].moe, i > 0);
  }
}

TEST(Config, FlattenedSpellingSaysTheSame) {
  const Config vendor = must_load("m3-bf16");
  const Config flat = must_load("m3-native");
  EXPECT_EQ(flat.n_layers, 2);
  EXPECT_EQ(flat.rope_theta, vendor.rope_theta);
  EXPECT_EQ(flat.rotary_dim, vendor.rotary_dim);
  EXPECT_EQ(flat.top_k_blocks, vendor.top_k_blocks);
  EXPECT_EQ(flat.local_blocks, vendor.local_blocks);
  EXPECT_EQ(flat.init_blocks, 0);
  EXPECT_EQ(flat.shared_width, vendor.shared_width);
  EXPECT_EQ(flat.max_positions, 524288);
  ASSERT_EQ(flat.layers.size(), 2u);
  EXPECT_FALSE(flat.layers[0].sparse_attention);
  EXPECT_FALSE(flat.layers[0].moe);
  EXPECT_TRUE(flat.layers[1].sparse_attention);
  EXPECT_TRUE(flat.layers[1].moe);
}

TEST(Config, AttentionAndFeedForwardKindsAreIndependent) {
  const Config text = must_load("m3-text");
  ASSERT_EQ(text.layers.size(), 4u);
  const bool sparse[] = {false, true, false, true}, moe[] = {false, false, true, true};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(text.layers[i].sparse_attention, sparse[i]);
    EXPECT_EQ(text.layers[i].moe, moe[i]);
  }
  EXPECT_EQ(text.model_type, "minimax_m3");
  const Config release = must_load("m31-release");
  EXPECT_TRUE(release.layers[0].sparse_attention);
  EXPECT_FALSE(release.layers[0].moe);
  EXPECT_EQ(release.init_blocks, 1);
}

TEST(Config, StoredCacheFormatsFollowTheDeclarations) {
  const KvFormats nvfp4{KvFormat::kNvfp4, KvFormat::kNvfp4};
  EXPECT_EQ(must_load("m31-nvfp4").kv, nvfp4);
  // "FP8" there is the type of the arithmetic.
  EXPECT_EQ(must_load("m31-release").kv, nvfp4);
  EXPECT_EQ(must_load("m3-nvfp4").kv, KvFormats{});
  const auto kv_of = [](const char* quantization) {
    const Result<Config> config =
        parse_changed("m3-bf16", {{"/quantization_config", quantization}});
    EXPECT_TRUE(config) << config.error().message;
    return config ? config->kv : KvFormats{};
  };
  const KvFormats fp8{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3};
  EXPECT_EQ(kv_of(R"({"kv_cache_quant_algo":"FP8"})"), fp8);
  EXPECT_EQ(kv_of(R"({"kv_cache_scheme":{"num_bits":8,"type":"float","dynamic":false}})"), fp8);
  EXPECT_EQ(kv_of(R"({"kv_cache_scheme":"NVFP4"})"), nvfp4);
  EXPECT_EQ(kv_of(R"({"kv_cache_scheme":{"num_bits":4,"type":"float"}})"), nvfp4);
  EXPECT_EQ(kv_of(R"({"kv_cache_scheme":null,"kv_cache_quant_algo":null})"), KvFormats{});
  EXPECT_EQ(kv_of(R"({"kv_cache_quant_algo":"FP8","index_k_quant_type":"bf16"})"),
            (KvFormats{KvFormat::kFp8E4m3, KvFormat::kBf16}));
  EXPECT_EQ(kv_of("null"), KvFormats{});
}

TEST(Config, CacheFormatThatOnlyTheSideFileNamesIsRead) {
  const testing::TempDir dir;
  testing::write_bytes(dir / "config.json", golden_json("m3-bf16").dump());
  testing::write_bytes(dir / "hf_quant_config.json",
                       R"({"quantization":{"kv_cache_quant_algo":"NVFP4"}})");
  const Result<Config> config = load_config(dir.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kv, (KvFormats{KvFormat::kNvfp4, KvFormat::kNvfp4}));
  testing::write_bytes(dir / "hf_quant_config.json",
                       R"({"quantization":{"kv_cache_quant_algo":"INT8"}})");
  const Result<Config> refused = load_config(dir.path());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("kv_cache_quant_algo"), std::string::npos);
  testing::write_bytes(dir / "hf_quant_config.json", "{");
  EXPECT_FALSE(load_config(dir.path()));
}

TEST(Config, ContradictingCacheDeclarationsAreRefused) {
  expect_refused(
      "m3-bf16",
      {{"/quantization_config", R"({"kv_cache_quant_algo":"FP8","kv_cache_scheme":"NVFP4"})"}},
      "kv_cache_scheme");
  expect_refused("m3-bf16",
                 {{"/quantization_config", R"({"kv_cache_scheme":{"num_bits":8,"type":"int"}})"}},
                 "type");
  expect_refused("m3-bf16",
                 {{"/quantization_config", R"({"kv_cache_scheme":{"num_bits":6,"type":"float"}})"}},
                 "num_bits");
  expect_refused("m3-bf16", {{"/quantization_config", R"({"index_k_quant_type":"int4"})"}},
                 "index_k_quant_type");
}

// Every required number: missing, null, text, fraction, negative, zero, huge, beyond 64 bits.
TEST(Config, NumbersOfTheWrongTypeOrRangeAreRefusedByName) {
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "vocab_size", "num_local_experts", "num_experts_per_tok", "intermediate_size",
        "dense_intermediate_size", "shared_intermediate_size", "head_dim", "rotary_dim",
        "max_position_embeddings", "rms_norm_eps", "rope_theta", "swiglu_alpha", "swiglu_limit",
        "routed_scaling_factor"}) {
    const std::string pointer = std::string("/text_config/") + key;
    for (const char* value : {"null", "\"256\"", "-256", "0", "1e300", "18446744073709551615",
                              "[256]", "{}", "true", "-9223372036854775808"}) {
      expect_refused("m3-bf16", {{pointer.c_str(), value}}, key);
    }
  }
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "vocab_size", "num_local_experts",
                          "num_experts_per_tok", "intermediate_size", "dense_intermediate_size"}) {
    const std::string pointer = std::string("/text_config/") + key;
    expect_refused("m3-bf16", {{pointer.c_str(), ""}}, key);
    expect_refused("m3-bf16", {{pointer.c_str(), "256.5"}}, key);
  }
  for (const char* key : {"sparse_topk_blocks", "sparse_local_block", "sparse_block_size",
                          "sparse_index_dim", "sparse_num_index_heads"}) {
    const std::string pointer = std::string("/text_config/sparse_attention_config/") + key;
    for (const char* value : {"null", "\"4\"", "-1", "0", "4.5", "99999999999"}) {
      expect_refused("m3-bf16", {{pointer.c_str(), value}}, key);
    }
  }
  expect_refused("m3-bf16", {{"/text_config/sparse_attention_config/sparse_init_block", "-1"}},
                 "sparse_init_block");
}

TEST(Config, ShapesThatDoNotFitTogetherAreRefusedByName) {
  expect_refused("m3-bf16", {{"/text_config/num_attention_heads", "7"}}, "num_attention_heads");
  expect_refused("m3-bf16", {{"/text_config/head_dim", "64"}}, "head_dim");
  expect_refused("m3-bf16", {{"/text_config/hidden_size", "250"}}, "hidden_size");
  expect_refused("m3-bf16", {{"/text_config/intermediate_size", "60"}}, "intermediate_size");
  expect_refused("m3-bf16", {{"/text_config/rotary_dim", "48"}}, "rotary_dim");
  expect_refused("m3-bf16", {{"/text_config/rotary_dim", "160"}}, "rotary_dim");
  expect_refused("m3-bf16", {{"/text_config/rotary_dim", "32"}}, "partial_rotary_factor");
  expect_refused("m3-bf16", {{"/text_config/num_experts_per_tok", "9"}}, "num_experts_per_tok");
  const char* sparse = "/text_config/sparse_attention_config/";
  const auto at = [&](const char* key) { return std::string(sparse) + key; };
  expect_refused("m3-bf16", {{at("sparse_num_index_heads").c_str(), "4"}},
                 "sparse_num_index_heads");
  expect_refused("m3-bf16", {{at("sparse_index_dim").c_str(), "64"}}, "sparse_index_dim");
  expect_refused("m3-bf16", {{at("sparse_block_size").c_str(), "64"}}, "sparse_block_size");
  expect_refused("m3-bf16", {{at("sparse_init_block").c_str(), "4"}}, "sparse_topk_blocks");
  expect_refused("m3-bf16", {{at("sparse_attention_freq").c_str(), "[0,1,1]"}},
                 "sparse_attention_freq");
  expect_refused("m3-bf16", {{at("sparse_attention_freq").c_str(), "[0,1,1,2]"}},
                 "sparse_attention_freq[3]");
  expect_refused("m3-bf16", {{"/text_config/moe_layer_freq", "[0,1,1,1,1]"}}, "moe_layer_freq");
  expect_refused("m3-bf16", {{"/text_config/moe_layer_freq", "1"}}, "moe_layer_freq");
  expect_refused("m3-bf16", {{"/text_config/moe_layer_freq", ""}}, "moe_layer_freq");
  expect_refused("m3-bf16", {{at("sparse_attention_freq").c_str(), ""}}, "sparse_attention_freq");
  expect_refused("m3-bf16", {{"/image_token_index", "320"}}, "image_token_index");
  expect_refused("m3-native", {{"/text_config/mlp_layer_types", R"(["dense"])"}},
                 "mlp_layer_types");
}

TEST(Config, UnknownKindsOfLayersAreRefusedByName) {
  expect_refused("m3-native",
                 {{"/text_config/layer_types", R"(["full_attention","sliding_attention"])"}},
                 "sliding_attention");
  expect_refused("m3-native", {{"/text_config/layer_types", R"(["full_attention",1])"}},
                 "layer_types[1]");
  expect_refused("m3-native", {{"/text_config/mlp_layer_types", R"(["dense","linear"])"}},
                 "linear");
}

TEST(Config, ArithmeticThatNothingImplementsIsRefused) {
  const Change refused[] = {
      {"/text_config/rope_scaling", R"({"rope_type":"yarn","factor":2.0})"},
      {"/text_config/rope_scaling", R"({"factor":2.0})"},
      {"/text_config/rope_parameters", R"({"rope_type":"linear","factor":2.0})"},
      {"/text_config/attention_output_gate", "true"},
      {"/text_config/hidden_act", "\"gelu\""},
      {"/text_config/swiglu_beta", "0.5"},
      {"/text_config/use_gemma_norm", "false"},
      {"/text_config/use_qk_norm", "false"},
      {"/text_config/qk_norm_type", "\"per_layer\""},
      {"/text_config/scoring_func", "\"softmax\""},
      {"/text_config/norm_topk_prob", "false"},
      {"/text_config/n_group", "4"},
      {"/text_config/n_shared_experts", "2"},
      {"/text_config/sliding_window", "4096"},
      {"/text_config/sparse_attention_config/sparse_score_type", "\"lse\""},
      {"/text_config/sparse_attention_config/sparse_disable_index_value", "[0,1,0,1]"},
      {"/model_type", "\"llama\""},
  };
  for (const Change& change : refused) {
    const std::string pointer = change.pointer;
    expect_refused("m3-bf16", {change}, pointer.substr(pointer.rfind('/') + 1));
  }
  // "silu" is the family's activation only beside its constants.
  expect_refused("m3-native", {{"/text_config/swiglu_alpha", ""}}, "hidden_act");
}

TEST(Config, HarmlessVariantsAreAccepted) {
  const Change accepted[] = {
      {"/text_config/rope_scaling", "null"},
      {"/text_config/rope_scaling", R"({"rope_type":"default"})"},
      {"/text_config/sliding_window", "null"},
      {"/text_config/swiglu_beta", "1.0"},
      {"/text_config/num_mtp_modules", "7"},
      {"/text_config/head_dim", ""},
      {"/text_config/max_position_embeddings", ""},
      {"/text_config/scoring_func", ""},
      {"/text_config/partial_rotary_factor", ""},
      {"/text_config/rotary_dim", ""},
      {"/text_config/index_topk_blocks", "4"},
      {"/text_config/something_new", "[1,2,3]"},
      {"/vision_config", "null"},
  };
  for (const Change& change : accepted) {
    const Result<Config> config = parse_changed("m3-bf16", {change});
    EXPECT_TRUE(config) << config.error().message;
    if (config) {
      EXPECT_EQ(config->rotary_dim, 64);
    }
  }
  const Result<Config> tied =
      parse_changed("m3-bf16", {{"/text_config/tie_word_embeddings", "true"}});
  ASSERT_TRUE(tied);
  EXPECT_TRUE(tied->tied_embeddings);
  const Result<Config> unbiased =
      parse_changed("m3-bf16", {{"/text_config/use_routing_bias", "false"}});
  ASSERT_TRUE(unbiased);
  EXPECT_FALSE(unbiased->router_bias);
  const Result<Config> alone = parse_changed("m3-bf16", {{"/text_config/n_shared_experts", "0"}});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->shared_width, 0);
}

TEST(Config, TwoSpellingsThatDisagreeAreRefused) {
  expect_refused("m3-bf16", {{"/text_config/index_topk_blocks", "8"}}, "index_topk_blocks");
  expect_refused("m3-bf16",
                 {{"/text_config/mlp_layer_types", R"(["sparse","sparse","sparse","sparse"])"}},
                 "mlp_layer_types");
  expect_refused("m3-bf16", {{"/text_config/num_experts", "4"}}, "num_experts is 4");
  expect_refused("m3-bf16", {{"/text_config/rope_parameters", R"({"rope_theta":10000})"}},
                 "rope_theta");
  expect_refused("m3-bf16",
                 {{"/text_config/sparse_attention_config/use_sparse_attention", "false"}},
                 "use_sparse_attention");
}

TEST(Config, SparseAttentionCanBeOffAltogether) {
  const char* base = "/text_config/sparse_attention_config";
  const Result<Config> config =
      parse_changed("m3-bf16", {{base, R"({"use_sparse_attention":false})"}});
  ASSERT_TRUE(config) << config.error().message;
  for (const LayerKind& layer : config->layers) EXPECT_FALSE(layer.sparse_attention);
}

TEST(Config, DocumentsThatAreNotAConfigAreRefused) {
  for (const char* text : {"", "[]", "null", "5", "\"x\"", "{", "{}", "{\"text_config\":5}",
                           "{\"model_type\":\"minimax_m3\",\"text_config\":[]}", "\xff\xfe"}) {
    const Result<Config> config = parse_config(text, "config.json");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos) << config.error().message;
  }
  const Result<Config> absent = load_config("/nonexistent/folder");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

TEST(Config, ObjectsThatAreNoneAreNamedAsFields) {
  expect_refused("m3-bf16", {{"/text_config/rope_scaling", "5"}},
                 "text_config.rope_scaling is 5, wanted an object");
  EXPECT_EQ(parse_config("[]", "config.json").error().message,
            "config.json: found a list of 0, wanted an object");
}

TEST(Config, LinksToNothingAreNotAbsentFiles) {
  for (const char* name : {"generation_config.json", "hf_quant_config.json"}) {
    const testing::TempDir dir;
    testing::write_bytes(dir / "config.json", golden_json("m3-native").dump());
    EXPECT_TRUE(load_config(dir.path()));
    EXPECT_TRUE(load_generation_defaults(dir.path()));
    std::filesystem::create_symlink("nowhere", dir / name);
    EXPECT_FALSE(load_config(dir.path()) && load_generation_defaults(dir.path())) << name;
  }
}

TEST(GenerationDefaults, AreReadFromTheirFile) {
  const Result<GenerationDefaults> defaults = load_generation_defaults(golden("m3-bf16"));
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->stop_ids, std::vector<int32_t>{315});
  EXPECT_EQ(defaults->temperature, 1.0);
  EXPECT_EQ(defaults->top_p, 0.95);
  EXPECT_FALSE(defaults->top_k);
}

TEST(GenerationDefaults, FallBackToTheIdsOfTheConfig) {
  const testing::TempDir dir;
  testing::write_bytes(dir / "config.json", golden_json("m3-native").dump());
  const Result<GenerationDefaults> defaults = load_generation_defaults(dir.path());
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->stop_ids, std::vector<int32_t>{315});
  EXPECT_FALSE(defaults->temperature);
}

TEST(GenerationDefaults, ListsOfStopIdsAndGreedyModeAreRead) {
  const testing::TempDir dir;
  testing::write_bytes(
      dir / "generation_config.json",
      R"({"eos_token_id":[315,1,2],"do_sample":false,"top_k":40,"temperature":0.7})");
  const Result<GenerationDefaults> defaults = load_generation_defaults(dir.path());
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->stop_ids, (std::vector<int32_t>{315, 1, 2}));
  EXPECT_EQ(defaults->temperature, 0.0);
  EXPECT_EQ(defaults->top_k, 40);
}

TEST(GenerationDefaults, NonsenseIsRefusedByName) {
  const testing::TempDir dir;
  const std::pair<const char*, const char*> cases[] = {{R"({"eos_token_id":"x"})", "eos_token_id"},
                                                       {R"({"eos_token_id":[-1]})", "eos_token_id"},
                                                       {R"({"temperature":-1})", "temperature"},
                                                       {R"({"top_p":1.5})", "top_p"},
                                                       {R"({"top_k":"many"})", "top_k"},
                                                       {R"([])", "object"},
                                                       {R"({"do_sample":1})", "do_sample"}};
  for (const auto& [text, named] : cases) {
    testing::write_bytes(dir / "generation_config.json", text);
    const Result<GenerationDefaults> defaults = load_generation_defaults(dir.path());
    ASSERT_FALSE(defaults) << text;
    EXPECT_NE(defaults.error().message.find(named), std::string::npos) << defaults.error().message;
  }
}

}  // namespace
}  // namespace minim
