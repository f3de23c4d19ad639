// Rebuilds the golden checkpoints that are not stored: m3-mxfp8, m3-nvfp4, m3-ct-nvfp4, m3-native
// and m3-vl hold the weights of m3-bf16 in other formats and under other names, 23 MB of bytes that
// follow from 9. Run when the tests are built: derive_checkpoints GOLDEN_MODEL_DIR. Each file's
// bytes are compared with a stored hash, so a quantiser that changes cannot pass for golden data.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/formats.h"
#include "base/json.h"
#include "model/checkpoint.h"
#include "support/safetensors_writer.h"

namespace minim::testing {
namespace {

struct Target {
  const char* name;
  const char* file;
  uint64_t hash;  // FNV-1a of the file
  StoredTensors (*derive)(const StoredTensors& bf16);
};

uint64_t fnv1a(std::string_view bytes, uint64_t seed = 0) {
  uint64_t hash = 0xCBF29CE484222325u ^ seed;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

// ---- reading and writing elements

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / dtype_bytes(tensor.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == Dtype::kF32) {
      std::memcpy(&values[i], tensor.bytes.data() + 4 * i, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
      values[i] = bf16_to_float(bits);
    }
  }
  return values;
}

std::string f32_bytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

std::string bf16_bytes(std::span<const float> values) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t bits = float_to_bf16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return bytes;
}

StoredTensor one_f32(float value) { return {Dtype::kF32, {1}, f32_bytes({&value, 1})}; }

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

// ---- quantised forms

bool contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

// Which weights the MXFP8 release quantises.
bool quantisable(const std::string& name) {
  return name.ends_with(".weight") && !contains(name, "norm") && !name.ends_with("gate.weight") &&
         !contains(name, "embed_tokens") && !contains(name, "lm_head");
}

void put_mxfp8(StoredTensors& out, const std::string& module, const StoredTensor& weight) {
  const std::vector<float> values = floats_of(weight);
  std::string codes(values.size(), '\0'), scales(values.size() / kMxfp8Group, '\0');
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] =
        static_cast<char>(mxfp8_encode(values.data() + i * kMxfp8Group,
                                       reinterpret_cast<uint8_t*>(codes.data()) + i * kMxfp8Group));
  }
  std::vector<int64_t> scale_shape = weight.shape;
  scale_shape[1] /= kMxfp8Group;
  out[module + ".weight"] = {Dtype::kF8E4m3, weight.shape, codes};
  out[module + ".weight_scale_inv"] = {Dtype::kU8, scale_shape, scales};
}

void put_nvfp4(StoredTensors& out, const std::string& module, const char* values_suffix,
               const StoredTensor& weight, double global) {
  const std::vector<float> values = floats_of(weight);
  std::string codes(values.size() / 2, '\0'), scales(values.size() / kNvfp4Group, '\0');
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<char>(
        nvfp4_encode(values.data() + i * kNvfp4Group, global,
                     reinterpret_cast<uint8_t*>(codes.data()) + i * kNvfp4Group / 2));
  }
  std::vector<int64_t> code_shape = weight.shape, scale_shape = weight.shape;
  code_shape[1] /= 2;
  scale_shape[1] /= kNvfp4Group;
  out[module + values_suffix] = {Dtype::kU8, code_shape, codes};
  out[module + ".weight_scale"] = {Dtype::kF8E4m3, scale_shape, scales};
}

std::string module_of(const std::string& name) {
  return name.substr(0, name.size() - std::strlen(".weight"));
}

StoredTensors mxfp8_form(const StoredTensors& bf16) {
  StoredTensors out;
  for (const auto& [name, tensor] : bf16) {
    if (quantisable(name)) {
      put_mxfp8(out, module_of(name), tensor);
    } else {
      out[name] = tensor;
    }
  }
  return out;
}

// Experts in NVFP4 with one outer multiplier for w1 and w3, the rest as mxfp8_form.
StoredTensors modelopt_form(const StoredTensors& bf16) {
  StoredTensors out;
  for (const auto& [name, tensor] : bf16) {
    if (!quantisable(name)) {
      out[name] = tensor;
    } else if (!contains(name, ".experts.")) {
      put_mxfp8(out, module_of(name), tensor);
    } else {
      const std::string module = module_of(name);
      const std::string expert = module.substr(0, module.size() - 2);
      double most = largest(floats_of(tensor));
      if (!module.ends_with("w2")) {
        most = std::max(largest(floats_of(bf16.at(expert + "w1.weight"))),
                        largest(floats_of(bf16.at(expert + "w3.weight"))));
      }
      const float global = static_cast<float>(most / (6 * 448));
      put_nvfp4(out, module, ".weight", tensor, global);
      out[module + ".weight_scale_2"] = one_f32(global);
      out[module + ".input_scale"] = one_f32(1.0f);
    }
  }
  return out;
}

// Every linear but the indexer in NVFP4; the outer scale divides.
StoredTensors compressed_form(const StoredTensors& bf16) {
  StoredTensors out;
  for (const auto& [name, tensor] : bf16) {
    if (!quantisable(name) || contains(name, "index_")) {
      out[name] = tensor;
      continue;
    }
    const std::string module = module_of(name);
    const float divisor = static_cast<float>(448 * 6 / largest(floats_of(tensor)));
    put_nvfp4(out, module, ".weight_packed", tensor, 1.0 / static_cast<double>(divisor));
    out[module + ".weight_global_scale"] = one_f32(divisor);
    out[module + ".input_global_scale"] = one_f32(contains(name, ".experts.") ? 300.0f : 350.0f);
  }
  return out;
}

// ---- other names

StoredTensors first_two_layers(const StoredTensors& bf16) {
  StoredTensors out;
  for (const auto& [name, tensor] : bf16) {
    if (!contains(name, ".layers.2.") && !contains(name, ".layers.3.")) out[name] = tensor;
  }
  return out;
}

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  return name;
}

std::string native_name(std::string name) {
  name = replaced(std::move(name), "language_model.lm_head", "lm_head");
  name = replaced(std::move(name), "language_model.model.", "model.language_model.");
  name = replaced(std::move(name), ".self_attn.index_", ".self_attn.indexer.");
  name = replaced(std::move(name), ".block_sparse_moe.e_score", ".mlp.gate.e_score");
  return replaced(std::move(name), ".block_sparse_moe.", ".mlp.");
}

// Gate and up rows in one tensor, experts in one tensor, the router in bf16, the exporter's names.
StoredTensors native_form(const StoredTensors& bf16) {
  StoredTensors out;
  const StoredTensors layers = first_two_layers(bf16);
  for (const auto& [name, tensor] : layers) {
    const std::string native = native_name(name);
    if (contains(name, ".experts.")) {
      const std::string base = native.substr(0, native.find(".experts.")) + ".experts";
      const bool down = name.ends_with("w2.weight");
      if (name.ends_with("w3.weight")) continue;
      // Names come in the order of expert, then w1, w2, w3: eight experts have one digit.
      StoredTensor& all = out[base + (down ? ".down_proj" : ".gate_up_proj")];
      all.dtype = Dtype::kBf16;
      all.shape = {8, down ? tensor.shape[0] : 2 * tensor.shape[0], tensor.shape[1]};
      all.bytes += tensor.bytes;
      if (!down) all.bytes += layers.at(replaced(name, ".w1.", ".w3.")).bytes;
    } else if (name.ends_with(".gate_proj.weight")) {
      const StoredTensor& up = layers.at(replaced(name, "gate_proj", "up_proj"));
      out[replaced(native, "gate_proj", "gate_up_proj")] = {
          Dtype::kBf16, {2 * tensor.shape[0], tensor.shape[1]}, tensor.bytes + up.bytes};
    } else if (!name.ends_with(".up_proj.weight")) {
      out[native] = tensor.dtype == Dtype::kF32
                        ? StoredTensor{Dtype::kBf16, tensor.shape, bf16_bytes(floats_of(tensor))}
                        : tensor;
    }
  }
  return out;
}

// ---- the vision tower: numbers from a counter

constexpr uint64_t kSeed = 11;

// Sums of twelve 16-bit pieces of SplitMix64, centred: mean 0, deviation 1, exact in a double.
std::vector<float> near_normal(const std::string& name, size_t n, double deviation, double mean) {
  uint64_t state = fnv1a(name, kSeed);
  std::vector<float> values(n);
  for (float& value : values) {
    int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      uint64_t z = state += 0x9E3779B97F4A7C15u;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      z ^= z >> 31;
      for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int64_t>(z >> shift & 0xFFFF);
    }
    const double normal = static_cast<double>(2 * sum - 12 * 65535) / 131072.0;
    value = static_cast<float>(normal * deviation + mean);
  }
  return values;
}

void put_random(StoredTensors& out, const std::string& name, std::vector<int64_t> shape,
                double deviation, double mean = 0) {
  size_t n = 1;
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  out[name] = {Dtype::kBf16, std::move(shape), bf16_bytes(near_normal(name, n, deviation, mean))};
}

void put_linear(StoredTensors& out, const std::string& name, int64_t n_out, int64_t n_in,
                double gain) {
  put_random(out, name + ".weight", {n_out, n_in}, gain / std::sqrt(static_cast<double>(n_in)));
  put_random(out, name + ".bias", {n_out}, 0.1);
}

void put_layer_norm(StoredTensors& out, const std::string& name) {
  put_random(out, name + ".weight", {160}, 0.1, 1.0);
  put_random(out, name + ".bias", {160}, 0.1);
}

StoredTensors vision_form(const StoredTensors& bf16) {
  StoredTensors out = first_two_layers(bf16);
  const std::string tower = "vision_tower.vision_model.";
  const std::string patch = tower + "embeddings.patch_embedding.weight";
  out[patch] = {Dtype::kF32,
                {160, 3, 2, 14, 14},
                f32_bytes(near_normal(patch, 160 * 1176, 1 / std::sqrt(1176.0), 0))};
  put_layer_norm(out, tower + "pre_layrnorm");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = fmt::format("{}encoder.layers.{}.", tower, layer);
    put_layer_norm(out, prefix + "layer_norm1");
    put_layer_norm(out, prefix + "layer_norm2");
    for (const char* name : {"q_proj", "k_proj", "out_proj"}) {
      put_linear(out, prefix + "self_attn." + name, 160, 160, 1.5);
    }
    put_linear(out, prefix + "self_attn.v_proj", 160, 160, 1.0);
    put_linear(out, prefix + "mlp.fc1", 320, 160, 1.5);
    put_linear(out, prefix + "mlp.fc2", 160, 320, 1.5);
  }
  put_linear(out, "multi_modal_projector.linear_1", 256, 160, 1.5);
  put_linear(out, "multi_modal_projector.linear_2", 256, 256, 1.5);
  put_linear(out, "patch_merge_mlp.linear_1", 256, 1024, 1.5);
  put_linear(out, "patch_merge_mlp.linear_2", 256, 256, 1.5);
  return out;
}

constexpr const char* kOneOfOne = "model-00001-of-00001.safetensors";
constexpr Target kTargets[] = {
    {"m3-mxfp8", kOneOfOne, 0x240c7ec1af531615, mxfp8_form},
    {"m3-nvfp4", kOneOfOne, 0xd113646d21ab9a7b, modelopt_form},
    {"m3-ct-nvfp4", kOneOfOne, 0xd6c6cda60a022098, compressed_form},
    {"m3-native", "model.safetensors", 0x9abb8c30e5724385, native_form},
    {"m3-vl", kOneOfOne, 0x9d8cebd78c9dc06c, vision_form},
};

// Written under another name first: a reader never sees half a file, and two builds that run at
// once do not disturb each other.
bool derive(const std::string& root, const Target& target, const StoredTensors& bf16) {
  const std::string path = fmt::format("{}/{}/{}", root, target.name, target.file);
  if (const Result<std::string> present = read_file(path);
      present && fnv1a(*present) == target.hash) {
    return true;
  }
  const std::string bytes = safetensors_bytes(target.derive(bf16));
  if (fnv1a(bytes) != target.hash) {
    std::fprintf(stderr, "%s: derived bytes hash to %#llx, wanted %#llx\n", target.name,
                 static_cast<unsigned long long>(fnv1a(bytes)),
                 static_cast<unsigned long long>(target.hash));
    return false;
  }
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  write_bytes(part, bytes);
  std::filesystem::rename(part, path);
  return true;
}

int run(const std::string& root) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(root + "/m3-bf16");
  if (!checkpoint) {
    std::fprintf(stderr, "%s\n", checkpoint.error().message.c_str());
    return 1;
  }
  const StoredTensors bf16 = stored_tensors(*checkpoint);
  bool good = true;
  for (const Target& target : kTargets) good = derive(root, target, bf16) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace minim::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: derive_checkpoints GOLDEN_MODEL_DIR\n");
    return 2;
  }
  return minim::testing::run(argv[1]);
}
