#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "model/scale_scan.h"
#include "support/fake_device.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using ::testing::Contains;
using testing::FakeDevice;
using ::testing::HasSubstr;
using testing::PlainMatrix;
using testing::StoredTensor;
using testing::StoredTensors;
using testing::TempDir;

std::string golden(const std::string& name) { return MINIM_TEST_DATA "/model/" + name; }

// A model folder in memory: a golden one, changed at will, written out to be loaded.
struct Folder {
  SortedJson config;
  StoredTensors tensors;
};

Folder folder_like(const std::string& name) {
  const Result<std::string> text = read_file(golden(name) + "/config.json");
  const Result<Checkpoint> checkpoint = Checkpoint::open(golden(name));
  CHECK(text && checkpoint, "no golden checkpoint %s", name.c_str());
  return {SortedJson::parse(*text), testing::stored_tensors(*checkpoint)};
}

// What became of loading; `weights` is empty after an error. Members die in the right order.
struct Loaded {
  std::unique_ptr<TempDir> dir;
  Config config;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<FakeDevice> device = std::make_unique<FakeDevice>();
  CheckpointReport report;
  std::optional<Weights> weights;
  Error error;

  const LayerWeights& layer(size_t i) const { return weights->layers.at(i); }
  const FakeDevice::Mlp& expert(int layer, int id) const {
    const int32_t ids[] = {id};
    MlpId handle = MlpId::kNone;
    weights->experts->acquire(layer, ids, &handle);
    weights->experts->release(layer, ids);
    return device->mlp(handle);
  }
};

void load_into(Loaded& loaded, const std::string& dir, const LoadProgress& progress) {
  Result<Config> config = load_config(dir);
  ASSERT_TRUE(config) << config.error().message;
  loaded.config = *config;
  Result<Checkpoint> checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  loaded.checkpoint = std::make_unique<Checkpoint>(std::move(*checkpoint));
  loaded.report = inspect_checkpoint(*loaded.checkpoint, loaded.config);
  Result<Weights> weights =
      load_weights(*loaded.checkpoint, loaded.config, *loaded.device, progress);
  if (weights) {
    loaded.weights = std::move(*weights);
  } else {
    loaded.error = weights.error();
  }
}

Loaded load_golden(const std::string& name) {
  Loaded loaded;
  load_into(loaded, golden(name), nullptr);
  EXPECT_TRUE(loaded.weights) << name << ": " << loaded.error.message;
  return loaded;
}

Loaded load(const Folder& folder, const LoadProgress& progress = nullptr, int fail_after = -1) {
  Loaded loaded;
  loaded.device->fail_after = fail_after;
  loaded.dir = std::make_unique<TempDir>();
  testing::write_bytes(*loaded.dir / "config.json", folder.config.dump());
  testing::write_bytes(*loaded.dir / "model.safetensors",
                       testing::safetensors_bytes(folder.tensors));
  load_into(loaded, loaded.dir->path(), progress);
  return loaded;
}

void expect_loads(const Loaded& loaded) { EXPECT_TRUE(loaded.weights) << loaded.error.message; }

// Loading fails with `parts` in the message, and inspection names the same problem.
void expect_refused(const Folder& folder, const std::vector<std::string>& parts,
                    bool found_by_headers = true) {
  const Loaded loaded = load(folder);
  ASSERT_FALSE(loaded.weights) << "wanted an error with " << parts[0];
  for (const std::string& part : parts) EXPECT_THAT(loaded.error.message, HasSubstr(part));
  EXPECT_EQ(loaded.error.message.find('\n'), std::string::npos);
  EXPECT_EQ(loaded.report.problems.empty(), !found_by_headers);
  EXPECT_TRUE(loaded.device->linears.empty() || !found_by_headers)
      << "nothing is loaded when headers are wrong";
}

StoredTensor one_f32(float value) {
  return {Dtype::kF32, {1}, std::string(reinterpret_cast<const char*>(&value), sizeof value)};
}

double relative_l2(const PlainMatrix& a, const PlainMatrix& b) {
  EXPECT_EQ(a.values.size(), b.values.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.values.size() && i < b.values.size(); ++i) {
    difference += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
    norm += b.values[i] * b.values[i];
  }
  return std::sqrt(difference / norm);
}

void expect_same(const PlainMatrix& a, const PlainMatrix& b) {
  EXPECT_EQ(a.n_out, b.n_out);
  EXPECT_EQ(a.n_in, b.n_in);
  EXPECT_TRUE(a.values == b.values);
}

const std::string kLayer1 = "language_model.model.layers.1.";
const std::string kExpert = kLayer1 + "block_sparse_moe.experts.3.";

// ---- what is found

TEST(Weights, EveryGoldenCheckpointLoadsCompletely) {
  for (const char* name : {"m3-bf16", "m3-mxfp8", "m3-nvfp4", "m3-ct-nvfp4", "m3-native", "m3-text",
                           "m31-nvfp4", "m31-release", "m3-vl"}) {
    const Loaded loaded = load_golden(name);
    EXPECT_TRUE(loaded.report.problems.empty()) << name;
    EXPECT_TRUE(loaded.report.unknown.empty()) << name;
    EXPECT_EQ(loaded.report.text_bytes + loaded.report.vision_bytes,
              loaded.checkpoint->total_bytes())
        << name;
    ASSERT_TRUE(loaded.weights);
    ASSERT_EQ(loaded.weights->layers.size(), loaded.config.layers.size());
    ASSERT_EQ(loaded.device->embeddings.size(), 1u);
    for (size_t i = 0; i < loaded.config.layers.size(); ++i) {
      const LayerKind kind = loaded.config.layers[i];
      EXPECT_EQ(loaded.device->linear_parts(loaded.layer(i).qkv).size(),
                kind.sparse_attention ? 5u : 3u);
      EXPECT_EQ(loaded.layer(i).norms.index_q != NormId::kNone, kind.sparse_attention);
      EXPECT_EQ(loaded.layer(i).router != RouterId::kNone, kind.moe);
      EXPECT_NE(loaded.layer(i).mlp, MlpId::kNone);
      if (!kind.moe) continue;
      for (int e = 0; e < loaded.config.n_experts; ++e) {
        EXPECT_EQ(loaded.expert(static_cast<int>(i), e).down.n_out,
                  static_cast<size_t>(loaded.config.hidden));
      }
    }
  }
}

TEST(Weights, DemoModelLoads) {
  Loaded loaded;
  load_into(loaded, MINIM_DEMO_MODEL, nullptr);
  expect_loads(loaded);
  EXPECT_TRUE(loaded.report.unknown.empty());
}

TEST(Weights, FusedAndRenamedTensorsAreTheSameWeights) {
  const Loaded native = load_golden("m3-native"), vendor = load_golden("m3-bf16");
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto& a = native.device->linear_parts(native.layer(layer).qkv);
    const auto& b = vendor.device->linear_parts(vendor.layer(layer).qkv);
    ASSERT_EQ(a.size(), b.size());
    for (size_t part = 0; part < a.size(); ++part) expect_same(a[part], b[part]);
    const FakeDevice::Mlp& x = native.device->mlp(native.layer(layer).mlp);
    const FakeDevice::Mlp& y = vendor.device->mlp(vendor.layer(layer).mlp);
    expect_same(x.gate, y.gate);
    expect_same(x.up, y.up);
    expect_same(x.down, y.down);
    EXPECT_EQ(native.device->norm(native.layer(layer).norms.k),
              vendor.device->norm(vendor.layer(layer).norms.k));
  }
  for (int e = 0; e < 8; ++e) {
    expect_same(native.expert(1, e).gate, vendor.expert(1, e).gate);
    expect_same(native.expert(1, e).up, vendor.expert(1, e).up);
    expect_same(native.expert(1, e).down, vendor.expert(1, e).down);
  }
  const FakeDevice::Router& a = native.device->router(native.layer(1).router);
  const FakeDevice::Router& b = vendor.device->router(vendor.layer(1).router);
  EXPECT_EQ(a.gate.format, WeightFormat::kBf16);
  EXPECT_EQ(b.gate.format, WeightFormat::kF32);
  for (size_t i = 0; i < a.gate.values.size(); ++i) {
    EXPECT_EQ(a.gate.values[i], round_to_bf16(static_cast<float>(b.gate.values[i])));
  }
  for (size_t i = 0; i < a.bias.size(); ++i) EXPECT_EQ(a.bias[i], round_to_bf16(b.bias[i]));
}

TEST(Weights, QuantisedFormsAreNearTheirOrigin) {
  const Loaded bf16 = load_golden("m3-bf16"), mxfp8 = load_golden("m3-mxfp8"),
               modelopt = load_golden("m3-nvfp4"), compressed = load_golden("m3-ct-nvfp4");
  struct Case {
    const Loaded& loaded;
    WeightFormat attention, index, expert;
  };
  const Case cases[] = {
      {mxfp8, WeightFormat::kMxfp8, WeightFormat::kMxfp8, WeightFormat::kMxfp8},
      {modelopt, WeightFormat::kMxfp8, WeightFormat::kMxfp8, WeightFormat::kNvfp4},
      {compressed, WeightFormat::kNvfp4, WeightFormat::kBf16, WeightFormat::kNvfp4}};
  const auto expect_near = [](const PlainMatrix& got, const PlainMatrix& want,
                              WeightFormat format) {
    EXPECT_EQ(got.format, format);
    const double error = relative_l2(got, want);
    if (format == WeightFormat::kBf16) {
      EXPECT_EQ(error, 0);
    } else {
      EXPECT_LT(error, format == WeightFormat::kMxfp8 ? 0.035 : 0.12);
      EXPECT_GT(error, format == WeightFormat::kMxfp8 ? 0.015 : 0.06);
    }
  };
  for (const Case& c : cases) {
    const auto& got = c.loaded.device->linear_parts(c.loaded.layer(2).qkv);
    const auto& want = bf16.device->linear_parts(bf16.layer(2).qkv);
    for (size_t part = 0; part < 5; ++part) {
      expect_near(got[part], want[part], part < 3 ? c.attention : c.index);
    }
    for (int e = 0; e < 8; ++e) {
      expect_near(c.loaded.expert(3, e).gate, bf16.expert(3, e).gate, c.expert);
      expect_near(c.loaded.expert(3, e).up, bf16.expert(3, e).up, c.expert);
      expect_near(c.loaded.expert(3, e).down, bf16.expert(3, e).down, c.expert);
    }
  }
}

// Code times scale times (or over) the outer scale, from the stored bytes.
void expect_stored_product(const Loaded& loaded, const PlainMatrix& matrix, const std::string& path,
                           const char* codes, const char* outer, bool divides) {
  const Checkpoint& file = *loaded.checkpoint;
  float global = 0;
  std::memcpy(&global, file.find(path + outer)->data.data(), sizeof global);
  const std::span<const uint8_t> nibbles = file.find(path + codes)->data;
  const std::span<const uint8_t> scales = file.find(path + ".weight_scale")->data;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    const uint8_t code =
        static_cast<uint8_t>(i % 2 == 0 ? nibbles[i / 2] & 15 : nibbles[i / 2] >> 4);
    const double inner = static_cast<double>(e2m1_to_float(code)) * e4m3_to_float(scales[i / 16]);
    const double want = divides ? inner / global : inner * global;
    ASSERT_NEAR(matrix.values[i], want, 1e-7 * std::fabs(want)) << path << " element " << i;
  }
}

TEST(Weights, SuffixDecidesWhetherAnOuterScaleDivides) {
  const Loaded release = load_golden("m31-release"), modelopt = load_golden("m31-nvfp4");
  for (int e = 0; e < 8; ++e) {
    const std::string path = fmt::format("{}block_sparse_moe.experts.{}.", kLayer1, e);
    const FakeDevice::Mlp& a = release.expert(1, e);
    const FakeDevice::Mlp& b = modelopt.expert(1, e);
    const std::pair<const char*, const PlainMatrix FakeDevice::Mlp::*> parts[] = {
        {"w1", &FakeDevice::Mlp::gate},
        {"w3", &FakeDevice::Mlp::up},
        {"w2", &FakeDevice::Mlp::down}};
    for (const auto& [name, part] : parts) {
      expect_stored_product(release, a.*part, path + name, ".weight_packed", ".weight_global_scale",
                            true);
      expect_stored_product(modelopt, b.*part, path + name, ".weight", ".weight_scale_2", false);
    }
  }
}

TEST(Weights, GateAndUpKeepTheirOwnOuterScales) {
  Folder folder = folder_like("m3-ct-nvfp4");
  const Loaded before = load(folder);
  float divisor = 0;
  StoredTensor& stored = folder.tensors.at(kExpert + "w1.weight_global_scale");
  std::memcpy(&divisor, stored.bytes.data(), sizeof divisor);
  stored = one_f32(divisor * 4);
  const Loaded after = load(folder);
  expect_loads(after);
  const PlainMatrix& gate = before.expert(1, 3).gate;
  for (size_t i = 0; i < gate.values.size(); ++i) {
    ASSERT_EQ(after.expert(1, 3).gate.values[i] * 4, gate.values[i]);
  }
  expect_same(after.expert(1, 3).up, before.expert(1, 3).up);
}

// Rows of two tensors, one above the other.
StoredTensor stacked(const StoredTensor& a, const StoredTensor& b) {
  StoredTensor both = a;
  both.shape[0] += b.shape[0];
  both.bytes += b.bytes;
  return both;
}

TEST(Weights, FusedGateAndUpMayBeQuantised) {
  for (const char* name : {"m3-mxfp8", "m3-nvfp4"}) {
    Folder folder = folder_like(name);
    const Loaded split = load(folder);
    const std::vector<std::string> bases =
        std::string(name) == "m3-nvfp4"
            ? std::vector<std::string>{kLayer1 + "block_sparse_moe.shared_experts.", kExpert}
            : std::vector<std::string>{kLayer1 + "block_sparse_moe.shared_experts."};
    for (const std::string& base : bases) {
      const bool expert = base == kExpert;
      const std::string gate = base + (expert ? "w1" : "gate_proj"),
                        up = base + (expert ? "w3" : "up_proj"), fused = base + "gate_up_proj";
      for (const char* suffix : {".weight", ".weight_scale", ".weight_scale_inv"}) {
        if (!folder.tensors.contains(gate + suffix)) continue;
        folder.tensors[fused + suffix] =
            stacked(folder.tensors.at(gate + suffix), folder.tensors.at(up + suffix));
      }
      if (expert)
        folder.tensors[fused + ".weight_scale_2"] = folder.tensors.at(gate + ".weight_scale_2");
      for (const std::string& half : {gate, up}) {
        std::erase_if(folder.tensors,
                      [&](const auto& item) { return item.first.starts_with(half + "."); });
      }
    }
    const Loaded loaded = load(folder);
    expect_loads(loaded);
    EXPECT_TRUE(loaded.report.unknown.empty());
    expect_same(loaded.device->mlp(loaded.layer(1).mlp).gate,
                split.device->mlp(split.layer(1).mlp).gate);
    expect_same(loaded.device->mlp(loaded.layer(1).mlp).up,
                split.device->mlp(split.layer(1).mlp).up);
    expect_same(loaded.expert(1, 3).gate, split.expert(1, 3).gate);
    expect_same(loaded.expert(1, 3).up, split.expert(1, 3).up);
  }
}

TEST(Weights, EveryPrefixIsUnderstood) {
  const Folder text = folder_like("m3-text");
  const Loaded want = load(text);
  for (const char* prefix : {"language_model.model.", "model.language_model.", "model.", ""}) {
    Folder folder = text;
    folder.tensors.clear();
    for (const auto& [name, tensor] : text.tensors) {
      const bool head = name.starts_with("lm_head");
      const std::string renamed =
          head ? (*prefix == 'l' ? "language_model." + name : name) : prefix + name.substr(6);
      folder.tensors[renamed] = tensor;
    }
    const Loaded loaded = load(folder);
    expect_loads(loaded);
    EXPECT_TRUE(loaded.report.unknown.empty());
    expect_same(loaded.expert(3, 5).up, want.expert(3, 5).up);
  }
}

TEST(Weights, RouterBiasMayBeAbsentUnlessDeclaredAndLivesInSeveralPlaces) {
  Folder folder = folder_like("m3-text");
  const std::string old_name = "model.layers.2.block_sparse_moe.e_score_correction_bias";
  const StoredTensor bias = folder.tensors.at(old_name);
  const Loaded want = load(folder);
  folder.tensors.erase(old_name);
  ASSERT_EQ(folder.config["use_routing_bias"], true);
  expect_refused(folder, {"1 tensors are missing", old_name});
  folder.config.erase("use_routing_bias");
  const Loaded absent = load(folder);
  expect_loads(absent);
  EXPECT_EQ(absent.device->router(absent.layer(2).router).bias, std::vector<float>(6, 0.0f));
  for (const char* place : {"mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias",
                            "block_sparse_moe.gate.e_score_correction_bias"}) {
    Folder moved = folder;
    moved.tensors[std::string("model.layers.2.") + place] = bias;
    const Loaded loaded = load(moved);
    expect_loads(loaded);
    EXPECT_EQ(loaded.device->router(loaded.layer(2).router).bias,
              want.device->router(want.layer(2).router).bias);
  }
  folder.tensors[old_name] = bias;
  folder.config["use_routing_bias"] = false;
  const Loaded unused = load(folder);
  expect_loads(unused);
  EXPECT_EQ(unused.device->router(unused.layer(2).router).bias, std::vector<float>(6, 0.0f));
  EXPECT_TRUE(unused.report.unknown.empty());
}

TEST(Weights, TiedEmbeddingsStandInForTheHead) {
  Folder folder = folder_like("m3-text");
  folder.tensors.erase("lm_head.weight");
  expect_refused(folder, {"1 tensors are missing", "lm_head.weight"});
  folder.config["tie_word_embeddings"] = true;
  const Loaded loaded = load(folder);
  expect_loads(loaded);
  const PlainMatrix& head = loaded.device->linear_parts(loaded.weights->lm_head)[0];
  expect_same(head, testing::dequantised(loaded.device->embeddings[0]));
}

TEST(Weights, NormsMayBeFp32) {
  Folder folder = folder_like("m3-text");
  const Loaded want = load(folder);
  StoredTensor& norm = folder.tensors.at("model.norm.weight");
  std::string wide;
  for (size_t i = 0; i < norm.bytes.size(); i += 2)
    wide += std::string(2, '\0') + norm.bytes.substr(i, 2);
  norm = {Dtype::kF32, norm.shape, wide};
  const Loaded loaded = load(folder);
  expect_loads(loaded);
  EXPECT_EQ(loaded.device->norm(loaded.weights->final_norm),
            want.device->norm(want.weights->final_norm));
}

TEST(Weights, ExponentScalesMayCarryTheirOwnDtype) {
  Folder folder = folder_like("m31-nvfp4");
  const Loaded want = load(folder);
  for (auto& [name, tensor] : folder.tensors) {
    if (name.ends_with("_proj.weight_scale") && tensor.dtype == Dtype::kU8)
      tensor.dtype = Dtype::kF8E8m0;
  }
  const Loaded loaded = load(folder);
  expect_loads(loaded);
  expect_same(loaded.device->linear_parts(loaded.layer(0).qkv)[4],
              want.device->linear_parts(want.layer(0).qkv)[4]);
}

// ---- what is left

TEST(Weights, TensorsOfOtherPartsAreNotedOrUnknown) {
  Folder folder = folder_like("m3-text");
  const StoredTensor some{Dtype::kU8, {4}, "abcd"};
  folder.tensors["model.mtp.0.x"] = some;
  folder.tensors["vision_tower.vision_model.x"] = some;
  folder.tensors["patch_merge_mlp.linear_1.weight"] = some;
  folder.tensors["dspark.layers.0.x"] = some;
  folder.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = some;
  folder.tensors["model.layers.0.self_attn.index_v_proj.weight"] = some;
  folder.tensors["what.is.this"] = some;
  const Loaded loaded = load(folder);
  expect_loads(loaded);
  EXPECT_EQ(loaded.report.vision_bytes, 8u);
  EXPECT_EQ(
      loaded.report.unknown,
      (std::vector<std::string>{"model.layers.0.self_attn.index_v_proj.weight", "what.is.this"}));
  for (const char* part : {"mtp.", "vision tower", "draft", "rotary"}) {
    EXPECT_THAT(loaded.report.notes, Contains(HasSubstr(part)));
  }
}

TEST(Weights, OnlyCacheScalesOfOneAreAccepted) {
  Folder folder = folder_like("m31-nvfp4");
  folder.tensors[kLayer1 + "self_attn.k_proj.k_scale"] = one_f32(1.0f);
  const Loaded loaded = load(folder);
  expect_loads(loaded);
  EXPECT_THAT(loaded.report.notes, Contains(HasSubstr("k_scale")));
  EXPECT_TRUE(loaded.report.unknown.empty());
  folder.tensors[kLayer1 + "self_attn.v_proj.v_scale"] = one_f32(0.5f);
  expect_refused(folder, {"v_proj.v_scale", "0.5", "wanted 1"});
}

// ---- what is refused

TEST(Weights, MissingTensorsAreNamedAndCounted) {
  Folder folder = folder_like("m3-nvfp4");
  std::erase_if(folder.tensors, [](const auto& item) {
    return item.first.find(".experts.7.w2.weight_scale") != std::string::npos ||
           item.first.find("input_layernorm") != std::string::npos;
  });
  // Four norms; per MoE layer the block scales of one projection.
  expect_refused(folder, {"7 tensors are missing", "layers.0.input_layernorm.weight"});
  folder.tensors.clear();
  folder.tensors["x"] = {Dtype::kU8, {1}, "x"};
  expect_refused(folder, {"tensors are missing", "language_model.model.embed_tokens.weight"});
}

TEST(Weights, WrongShapesAndTypesAreReportedTogether) {
  Folder folder = folder_like("m3-bf16");
  folder.tensors.at(kLayer1 + "self_attn.o_proj.weight").shape = {1024, 256};
  folder.tensors.at(kLayer1 + "self_attn.q_proj.weight").dtype = Dtype::kF16;
  folder.tensors.at(kLayer1 + "block_sparse_moe.gate.weight").dtype = Dtype::kI32;
  folder.tensors.at("language_model.model.norm.weight").dtype = Dtype::kF16;
  folder.tensors.at("language_model.model.embed_tokens.weight").dtype = Dtype::kF16;
  const Loaded loaded = load(folder);
  ASSERT_FALSE(loaded.weights);
  EXPECT_EQ(loaded.report.problems.size(), 5u);
  EXPECT_THAT(loaded.report.problems, Contains(AllOf(HasSubstr("o_proj"), HasSubstr("[1024, 256]"),
                                                     HasSubstr("[256, 1024]"))));
  EXPECT_THAT(loaded.report.problems, Contains(AllOf(HasSubstr("q_proj"), HasSubstr("F16"))));
  EXPECT_THAT(loaded.report.problems, Contains(HasSubstr("block_sparse_moe.gate.weight")));
  EXPECT_THAT(loaded.error.message, HasSubstr("4 more problems"));
}

TEST(Weights, ScalesOfAnotherSchemeAreRefused) {
  Folder folder = folder_like("m3-mxfp8");
  StoredTensor& scale = folder.tensors.at(kExpert + "w1.weight_scale_inv");
  scale = {Dtype::kF32, {1, 2}, std::string(8, '\0')};  // 128 x 128 blocks
  expect_refused(folder, {"w1.weight_scale_inv", "F32 [1, 2]", "[64, 8]"});
  Folder no_scale = folder_like("m3-mxfp8");
  no_scale.tensors.erase(kExpert + "w1.weight_scale_inv");
  expect_refused(no_scale, {"missing", "experts.3.w1.weight_scale"});
  Folder mxfp4 = folder_like("m3-nvfp4");
  mxfp4.tensors.at(kExpert + "w1.weight_scale").dtype = Dtype::kU8;
  expect_refused(mxfp4, {"w1.weight_scale", "U8", "F8_E4M3"});
}

TEST(Weights, OuterScalesMustBeOnePositiveNumber) {
  for (const float bad : {0.0f, -1.0f, INFINITY, NAN, 1e-45f}) {
    Folder folder = folder_like("m3-ct-nvfp4");
    folder.tensors.at(kExpert + "w1.weight_global_scale") = one_f32(bad);
    expect_refused(folder, {"w1.weight_global_scale"});
  }
  for (const float bad : {0.0f, -1.0f, INFINITY, NAN}) {
    Folder folder = folder_like("m3-nvfp4");
    folder.tensors.at(kExpert + "w1.weight_scale_2") = one_f32(bad);
    expect_refused(folder, {"w1.weight_scale_2"});
    Folder inputs = folder_like("m3-nvfp4");
    inputs.tensors.at(kExpert + "w1.input_scale") = one_f32(bad);
    expect_refused(inputs, {"w1.input_scale"});
  }
  Folder none = folder_like("m3-nvfp4");
  none.tensors.erase(kExpert + "w1.weight_scale_2");
  expect_refused(none, {"missing", "w1.weight_global_scale"});
  Folder both = folder_like("m3-nvfp4");
  both.tensors[kExpert + "w1.weight_global_scale"] = one_f32(2);
  expect_refused(both, {"w1.weight_scale_2", "w1.weight_global_scale", "one of them"});
  Folder wide = folder_like("m3-nvfp4");
  wide.tensors.at(kExpert + "w1.weight_scale_2") = {Dtype::kF32, {2}, std::string(8, '\1')};
  expect_refused(wide, {"w1.weight_scale_2", "one F32"});
}

TEST(Weights, AmbiguousAndUnknownExtrasOfALinearAreRefused) {
  Folder both = folder_like("m3-ct-nvfp4");
  both.tensors[kExpert + "w1.weight"] = {Dtype::kBf16, {2}, "xxxx"};
  expect_refused(both, {"w1.weight", "w1.weight_packed", "one of them"});
  Folder bias = folder_like("m3-bf16");
  bias.tensors[kLayer1 + "self_attn.q_proj.bias"] = {Dtype::kBf16, {2}, "xxxx"};
  expect_refused(bias, {"q_proj.bias", "no bias"});
}

TEST(Weights, BadScaleBytesAreNamedWithTheirPlace) {
  for (const uint8_t bad : {0x7f, 0xff, 0x80, 0xb8}) {
    Folder folder = folder_like("m3-nvfp4");
    std::string& scales = folder.tensors.at(kExpert + "w2.weight_scale").bytes;  // [256, 4]
    scales[5 * 4 + 2] = static_cast<char>(bad);
    scales[100 * 4] = static_cast<char>(bad);
    expect_refused(folder, {"experts.3.w2.weight_scale", "2 scale bytes", "row 5, column 2"},
                   false);
  }
  Folder folder = folder_like("m3-mxfp8");
  std::string& scales = folder.tensors.at(kLayer1 + "self_attn.o_proj.weight_scale_inv").bytes;
  scales[255 * 32 + 31] = '\xff';
  expect_refused(folder, {"o_proj.weight_scale_inv", "1 scale bytes", "row 255, column 31"}, false);
  scales[255 * 32 + 31] = '\xfe';
  expect_loads(load(folder));
}

TEST(Weights, NumbersThatAreNotFiniteInNormsAndRoutersAreRefused) {
  Folder norm = folder_like("m3-text");
  norm.tensors.at("model.layers.0.self_attn.q_norm.weight").bytes.replace(6, 2, "\xc0\x7f", 2);
  expect_refused(norm, {"q_norm.weight", "element 3"}, false);
  Folder bias = folder_like("m3-text");
  bias.tensors.at("model.layers.2.block_sparse_moe.e_score_correction_bias")
      .bytes.replace(0, 4, std::string("\0\0\x80\x7f", 4));
  expect_refused(bias, {"e_score_correction_bias", "element 0"}, false);
  Folder router = folder_like("m3-text");
  router.tensors.at("model.layers.2.block_sparse_moe.gate.weight")
      .bytes.replace(4, 4, "\xff\xff\xff\xff");
  expect_refused(router, {"layers.2.block_sparse_moe.gate.weight", "wanted finite numbers"}, false);
}

TEST(Weights, TensorsAtOddAddressesAreRefused) {
  Folder folder = folder_like("m3-text");
  folder.tensors["a"] = {Dtype::kU8, {1}, "x"};
  expect_refused(folder, {"multiple of 2 bytes"});
}

TEST(Weights, DeviceWithoutMemoryAndStoppedLoadingAreErrors) {
  const Folder folder = folder_like("m3-text");
  const Loaded full = load(folder, nullptr, 7);
  ASSERT_FALSE(full.weights);
  EXPECT_EQ(full.error.code, Code::kExhausted);
  int calls = 0;
  const Loaded stopped = load(folder, [&](size_t, size_t) { return ++calls < 3; });
  ASSERT_FALSE(stopped.weights);
  EXPECT_EQ(stopped.error.code, Code::kCancelled);
  EXPECT_EQ(calls, 3);
}

TEST(Weights, ProgressCountsEveryByteOnce) {
  const Folder folder = folder_like("m3-nvfp4");
  size_t last = 0, total = 0;
  bool ascending = true;
  const Loaded loaded = load(folder, [&](size_t done, size_t all) {
    ascending = ascending && done > last;
    last = done;
    total = all;
    return true;
  });
  expect_loads(loaded);
  EXPECT_TRUE(ascending);
  EXPECT_EQ(last, total);
  // All but the embedding, which stays in its file, and the scalars that planning has read.
  const size_t embedding = 320 * 256 * 2, scalars = 3 * 8 * 3 * 2 * 4;
  EXPECT_EQ(total, loaded.report.text_bytes - embedding - scalars);
}

TEST(ScaleScan, FindsEveryBadByteAtEveryPlace) {
  std::vector<uint8_t> scales(10000);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(i % 127);
  EXPECT_EQ(find_bad_e4m3_scales(scales).count, 0u);
  EXPECT_EQ(find_bad_e8m0_scales(scales).count, 0u);
  for (const size_t at : {size_t{0}, size_t{15}, size_t{4095}, size_t{4096}, size_t{9999}}) {
    for (int byte = 0; byte < 256; ++byte) {
      const uint8_t old = scales[at];
      scales[at] = static_cast<uint8_t>(byte);
      const BadScales e4m3 = find_bad_e4m3_scales(scales), e8m0 = find_bad_e8m0_scales(scales);
      EXPECT_EQ(e4m3.count, byte >= 0x7f ? 1u : 0u);
      EXPECT_EQ(e8m0.count, byte == 0xff ? 1u : 0u);
      EXPECT_EQ(e4m3.first, e4m3.count > 0 ? at : 0);
      EXPECT_EQ(e8m0.first, e8m0.count > 0 ? at : 0);
      scales[at] = old;
    }
  }
  EXPECT_EQ(find_bad_e4m3_scales({}).count, 0u);
}

}  // namespace
}  // namespace minim
