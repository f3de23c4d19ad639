// Finds every weight of the text model and decides how it is stored.
//
// The format of a matrix follows from the tensors that stand beside each other and their dtypes,
// never from a quant_method: four conventions are in use and one word ("mxfp8") stands for two of
// them.
//
//   X.weight BF16                                          plain
//   X.weight F8_E4M3 + X.weight_scale_inv | weight_scale   MXFP8 (E8M0 bytes, a multiplier in spite
//                                                          of the name)
//   X.weight_packed | X.weight U8 + X.weight_scale F8_E4M3 NVFP4, with one of
//     X.weight_scale_2                                       a multiplier (ModelOpt)
//     X.weight_global_scale                                  a divisor (compressed-tensors, M3.1)
//
// Every matrix keeps its own outer scale, so w1 and w3 of one expert may differ. Fused gate_up
// tensors hold all gate rows, then all up rows, and become two row slices. Tensors that no rule
// touched are sorted into those left on purpose and those that nobody understands.
#include "model/weight_plan.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>

#include "base/formats.h"
#include "base/json_fields.h"
#include "model/checkpoint.h"
#include "model/tensor_names.h"

namespace minim {
namespace {

constexpr size_t kMissingShown = 4;
constexpr size_t kMissingLimit = 10000;  // stop looking: this is another model
constexpr size_t kMaxProblems = 50;

using Shape = std::vector<int64_t>;

Shape shape_of(size_t a) { return {static_cast<int64_t>(a)}; }
Shape shape_of(size_t a, size_t b) { return {static_cast<int64_t>(a), static_cast<int64_t>(b)}; }

size_t columns_in_bytes(WeightFormat format, size_t n) {
  switch (format) {
    case WeightFormat::kBf16:
      return 2 * n;
    case WeightFormat::kF32:
      return 4 * n;
    case WeightFormat::kMxfp8:
      return n;
    case WeightFormat::kNvfp4:
      return n / 2;
  }
  return 0;
}

size_t scales_in_row(WeightFormat format, size_t n) {
  return format == WeightFormat::kMxfp8   ? n / kMxfp8Group
         : format == WeightFormat::kNvfp4 ? n / kNvfp4Group
                                          : 0;
}

// Rows [first, first + count) of a matrix.
PlannedMatrix slice_rows(const PlannedMatrix& whole, size_t first, size_t count) {
  PlannedMatrix part = whole;
  const MatrixView& view = whole.view;
  part.view.n_out = count;
  part.first_row = whole.first_row + first;
  if (view.values != nullptr) {
    part.view.values = view.values + first * columns_in_bytes(view.format, view.n_in);
  }
  if (view.scales != nullptr) {
    part.view.scales = view.scales + first * scales_in_row(view.format, view.n_in);
  }
  return part;
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const Config& config)
      : checkpoint_(checkpoint), config_(config), prefix_(find_text_prefix(checkpoint)) {}
  WeightPlan run();

 private:
  // ---- looking up: each marks what it finds as used
  const TensorView* take(const std::string& name);
  const std::string* first_with(const Paths& paths, const char* suffix) const;
  void missing(const std::string& name);
  void problem(std::string text);
  void check(const std::string& name, const TensorView& tensor, std::initializer_list<Dtype> dtypes,
             const Shape& shape);
  void check_alignment(const std::string& name, const TensorView& tensor);
  std::optional<double> scalar(const std::string& name);

  PlannedVector vector(const Paths& names, size_t n, bool optional = false);
  PlannedMatrix linear(const Paths& paths, size_t n_out, size_t n_in);
  PlannedMatrix plain(const std::string& name, size_t n_out, size_t n_in, bool or_f32 = false);
  PlannedMatrix mxfp8(const std::string& path, size_t n_out, size_t n_in);
  PlannedMatrix nvfp4(const std::string& path, const std::string& values, size_t n_out,
                      size_t n_in);
  float outer_scale(const std::string& path);
  void ignored_companions(const std::string& path);
  PlannedMlp mlp(const Paths& bases, size_t width);
  void fused_experts(const std::string& base, PlannedLayer& layer);

  void plan_layer(int index, PlannedLayer& layer);
  void plan_attention(const std::string& prefix, bool sparse, PlannedLayer& layer);
  void plan_moe(const std::string& prefix, PlannedLayer& layer);
  void plan_ends();
  void report_leftovers();
  void cache_scale(const std::string& name);

  const Checkpoint& checkpoint_;
  const Config& config_;
  std::string prefix_;
  WeightPlan plan_;
  std::unordered_set<const TensorView*> used_;
  std::vector<std::string> missing_;
  size_t n_problems_ = 0;
};

void Planner::problem(std::string text) {
  if (++n_problems_ <= kMaxProblems) plan_.report.problems.push_back(std::move(text));
}

void Planner::missing(const std::string& name) { missing_.push_back(name); }

const TensorView* Planner::take(const std::string& name) {
  const TensorView* tensor = checkpoint_.find(name);
  if (tensor != nullptr && used_.insert(tensor).second) {
    plan_.report.text_bytes += tensor->data.size();
  }
  return tensor;
}

const std::string* Planner::first_with(const Paths& paths, const char* suffix) const {
  for (const std::string& path : paths) {
    if (checkpoint_.find(path + suffix) != nullptr) return &path;
  }
  return nullptr;
}

void Planner::check(const std::string& name, const TensorView& tensor,
                    std::initializer_list<Dtype> dtypes, const Shape& shape) {
  std::string wanted;
  bool known = false;
  for (const Dtype dtype : dtypes) {
    known = known || dtype == tensor.dtype;
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", dtype_name(dtype));
  }
  if (!known || tensor.shape != shape) {
    problem(fmt::format("tensor {} is {} {}, wanted {} {}", in_quotes(name),
                        dtype_name(tensor.dtype), shape_in_brackets(tensor.shape), wanted,
                        shape_in_brackets(shape)));
  }
}

// Devices read bf16 and fp32 elements of matrices in place. Exporters sort tensors by element size,
// so this fails for hand-made files only.
void Planner::check_alignment(const std::string& name, const TensorView& tensor) {
  const size_t bytes = dtype_bytes(tensor.dtype);
  if (reinterpret_cast<uintptr_t>(tensor.data.data()) % bytes == 0) return;
  problem(fmt::format("tensor {} does not start at a multiple of {} bytes in its file",
                      in_quotes(name), bytes));
}

// One finite positive F32; reports and returns nothing otherwise.
std::optional<double> Planner::scalar(const std::string& name) {
  const TensorView* tensor = take(name);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype != Dtype::kF32 || tensor->data.size() != sizeof(float)) {
    problem(fmt::format("tensor {} is {} {}, wanted one F32", in_quotes(name),
                        dtype_name(tensor->dtype), shape_in_brackets(tensor->shape)));
    return std::nullopt;
  }
  float value = 0;
  std::memcpy(&value, tensor->data.data(), sizeof value);
  if (!(value > 0) || !std::isfinite(value)) {
    problem(
        fmt::format("tensor {} is {}, wanted a positive finite number", in_quotes(name), value));
    return std::nullopt;
  }
  return value;
}

PlannedVector Planner::vector(const Paths& names, size_t n, bool optional) {
  const std::string* name = first_with(names, "");
  if (name == nullptr) {
    if (!optional) missing(names[0]);
    return {};
  }
  const TensorView* tensor = take(*name);
  check(*name, *tensor, {Dtype::kBf16, Dtype::kF32}, shape_of(n));
  return {tensor, *name};
}

PlannedMatrix Planner::plain(const std::string& name, size_t n_out, size_t n_in, bool or_f32) {
  const TensorView* tensor = take(name);
  const bool is_f32 = or_f32 && tensor->dtype == Dtype::kF32;
  if (or_f32) {
    check(name, *tensor, {Dtype::kBf16, Dtype::kF32}, shape_of(n_out, n_in));
  } else {
    check(name, *tensor, {Dtype::kBf16}, shape_of(n_out, n_in));
  }
  check_alignment(name, *tensor);
  return {.view = {.format = is_f32 ? WeightFormat::kF32 : WeightFormat::kBf16,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = tensor->data.data()},
          .name = name};
}

PlannedMatrix Planner::mxfp8(const std::string& path, size_t n_out, size_t n_in) {
  const std::string name = path + ".weight";
  const TensorView* values = take(name);
  if (n_in % kMxfp8Group != 0) {
    problem(fmt::format("tensor {} has {} input channels, wanted a multiple of {} for MXFP8",
                        in_quotes(name), n_in, kMxfp8Group));
    return {};
  }
  check(name, *values, {Dtype::kF8E4m3}, shape_of(n_out, n_in));
  const bool vendor = checkpoint_.find(path + ".weight_scale_inv") != nullptr;
  const std::string scale_name = path + (vendor ? ".weight_scale_inv" : ".weight_scale");
  const TensorView* scales = take(scale_name);
  if (scales == nullptr) {
    missing(scale_name);
    return {};
  }
  check(scale_name, *scales, {Dtype::kU8, Dtype::kF8E8m0}, shape_of(n_out, n_in / kMxfp8Group));
  return {.view = {.format = WeightFormat::kMxfp8,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = values->data.data(),
                   .scales = scales->data.data()},
          .name = scale_name};
}

// The suffix says whether an outer scale multiplies or divides.
float Planner::outer_scale(const std::string& path) {
  const std::string multiplier = path + ".weight_scale_2", divisor = path + ".weight_global_scale";
  const bool multiplies = checkpoint_.find(multiplier) != nullptr;
  const bool divides = checkpoint_.find(divisor) != nullptr;
  if (multiplies && divides) {
    problem(fmt::format("tensors {} and {} are both there, wanted one of them",
                        in_quotes(multiplier), in_quotes(divisor)));
  }
  if (!multiplies && !divides) missing(divisor + " (or weight_scale_2)");
  const std::optional<double> value = scalar(multiplies ? multiplier : divisor);
  const float scale =
      static_cast<float>(multiplies ? value.value_or(1.0) : 1.0 / value.value_or(1.0));
  if (!(scale > 0) || !std::isfinite(scale)) {
    problem(fmt::format("tensor {} is {}, which leaves no usable outer scale", in_quotes(divisor),
                        *value));
  }
  return scale;
}

PlannedMatrix Planner::nvfp4(const std::string& path, const std::string& name, size_t n_out,
                             size_t n_in) {
  const TensorView* values = take(name);
  if (n_in % kNvfp4Group != 0) {
    problem(fmt::format("tensor {} has {} input channels, wanted a multiple of {} for NVFP4",
                        in_quotes(name), n_in, kNvfp4Group));
    return {};
  }
  check(name, *values, {Dtype::kU8}, shape_of(n_out, n_in / 2));
  const std::string scale_name = path + ".weight_scale";
  const TensorView* scales = take(scale_name);
  if (scales == nullptr) {
    missing(scale_name);
    return {};
  }
  check(scale_name, *scales, {Dtype::kF8E4m3}, shape_of(n_out, n_in / kNvfp4Group));
  return {.view = {.format = WeightFormat::kNvfp4,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = values->data.data(),
                   .scales = scales->data.data(),
                   .global = outer_scale(path)},
          .name = scale_name};
}

// Scales of activations are checked and left: linears take their input unquantised. A bias is not:
// the family has none, and leaving one out would change the result.
void Planner::ignored_companions(const std::string& path) {
  scalar(path + ".input_scale");
  scalar(path + ".input_global_scale");
  if (take(path + ".bias") != nullptr) {
    problem(fmt::format("tensor {} is a bias, wanted none: linears of this family have no bias",
                        in_quotes(path + ".bias")));
  }
}

PlannedMatrix Planner::linear(const Paths& paths, size_t n_out, size_t n_in) {
  const std::string* path = first_with(paths, ".weight");
  const std::string* packed = first_with(paths, ".weight_packed");
  if (path == nullptr && packed == nullptr) {
    missing(paths[0] + ".weight");
    return {};
  }
  if (path != nullptr && packed != nullptr) {
    problem(fmt::format("tensors {} and {} are both there, wanted one of them",
                        in_quotes(*path + ".weight"), in_quotes(*packed + ".weight_packed")));
    return {};
  }
  if (packed != nullptr) {
    ignored_companions(*packed);
    return nvfp4(*packed, *packed + ".weight_packed", n_out, n_in);
  }
  ignored_companions(*path);
  const std::string name = *path + ".weight";
  const Dtype dtype = checkpoint_.find(name)->dtype;
  if (dtype == Dtype::kF8E4m3) return mxfp8(*path, n_out, n_in);
  if (dtype == Dtype::kU8) return nvfp4(*path, name, n_out, n_in);
  if (dtype == Dtype::kBf16) return plain(name, n_out, n_in);
  take(name);
  problem(
      fmt::format("tensor {} is {}, wanted BF16, F8_E4M3 with E8M0 scales (MXFP8) or U8 with "
                  "E4M3 scales (NVFP4)",
                  in_quotes(name), dtype_name(dtype)));
  return {};
}

PlannedMlp Planner::mlp(const Paths& bases, size_t width) {
  const size_t hidden = static_cast<size_t>(config_.hidden);
  Paths gate, up, down, fused;
  for (const std::string& base : bases) {
    gate.insert(gate.end(), {base + ".gate_proj", base + ".w1"});
    up.insert(up.end(), {base + ".up_proj", base + ".w3"});
    down.insert(down.end(), {base + ".down_proj", base + ".w2"});
    fused.push_back(base + ".gate_up_proj");
  }
  PlannedMlp mlp;
  mlp.down = linear(down, hidden, width);
  if (first_with(fused, ".weight") != nullptr || first_with(fused, ".weight_packed") != nullptr) {
    const PlannedMatrix both = linear(fused, 2 * width, hidden);
    mlp.gate = slice_rows(both, 0, width);
    mlp.up = slice_rows(both, width, width);
  } else {
    mlp.gate = linear(gate, width, hidden);
    mlp.up = linear(up, width, hidden);
  }
  return mlp;
}

// experts.gate_up_proj [n_experts, 2 * width, hidden] and experts.down_proj [n_experts, hidden,
// width], without ".weight".
void Planner::fused_experts(const std::string& base, PlannedLayer& layer) {
  const size_t n = static_cast<size_t>(config_.n_experts);
  const size_t width = static_cast<size_t>(config_.expert_width);
  const size_t hidden = static_cast<size_t>(config_.hidden);
  const auto whole = [&](const std::string& name, size_t n_out, size_t n_in) -> PlannedMatrix {
    const TensorView* tensor = take(name);
    if (tensor == nullptr) {
      missing(name);
      return {};
    }
    Shape shape = shape_of(n, n_out);
    shape.push_back(static_cast<int64_t>(n_in));
    check(name, *tensor, {Dtype::kBf16}, shape);
    check_alignment(name, *tensor);
    return {.view = {.format = WeightFormat::kBf16,
                     .n_out = n * n_out,
                     .n_in = n_in,
                     .values = tensor->data.data()},
            .name = name};
  };
  const PlannedMatrix gate_up = whole(base + ".gate_up_proj", 2 * width, hidden);
  const PlannedMatrix down = whole(base + ".down_proj", hidden, width);
  for (size_t e = 0; e < n; ++e) {
    layer.experts.push_back({.gate = slice_rows(gate_up, 2 * e * width, width),
                             .up = slice_rows(gate_up, (2 * e + 1) * width, width),
                             .down = slice_rows(down, e * hidden, hidden)});
  }
}

void Planner::plan_moe(const std::string& prefix, PlannedLayer& layer) {
  const size_t n_experts = static_cast<size_t>(config_.n_experts);
  const size_t hidden = static_cast<size_t>(config_.hidden);
  const Paths gate = moe_paths(prefix, "gate");
  if (const std::string* path = first_with(gate, ".weight")) {
    layer.router = plain(*path + ".weight", n_experts, hidden, true);
  } else {
    missing(gate[0] + ".weight");
  }
  PlannedVector bias = vector(router_bias_names(prefix), n_experts, !config_.router_bias_declared);
  if (config_.router_bias) layer.router_bias = std::move(bias);
  if (config_.shared_width > 0) {
    layer.has_mlp = true;
    layer.mlp = mlp(moe_paths(prefix, "shared_experts"), static_cast<size_t>(config_.shared_width));
  }
  const Paths experts = moe_paths(prefix, "experts");
  if (const std::string* base = first_with(experts, ".gate_up_proj")) {
    return fused_experts(*base, layer);
  }
  for (size_t e = 0; e < n_experts && missing_.size() < kMissingLimit; ++e) {
    layer.experts.push_back(mlp(moe_paths(prefix, fmt::format("experts.{}", e)),
                                static_cast<size_t>(config_.expert_width)));
  }
}

void Planner::plan_attention(const std::string& prefix, bool sparse, PlannedLayer& layer) {
  const size_t hidden = static_cast<size_t>(config_.hidden);
  const size_t q_rows = static_cast<size_t>(config_.n_heads) * kHeadDim;
  const size_t kv_rows = static_cast<size_t>(config_.n_kv_heads) * kHeadDim;
  const std::string attention = prefix + "self_attn.";
  layer.qkv = {linear({attention + "q_proj"}, q_rows, hidden),
               linear({attention + "k_proj"}, kv_rows, hidden),
               linear({attention + "v_proj"}, kv_rows, hidden)};
  layer.output = linear({attention + "o_proj"}, hidden, q_rows);
  layer.q_norm = vector({attention + "q_norm.weight"}, kHeadDim);
  layer.k_norm = vector({attention + "k_norm.weight"}, kHeadDim);
  if (!sparse) return;
  layer.qkv.push_back(linear(index_paths(prefix, "q_proj"), kv_rows, hidden));
  layer.qkv.push_back(linear(index_paths(prefix, "k_proj"), kHeadDim, hidden));
  layer.index_q_norm = vector(index_paths(prefix, "q_norm.weight"), kHeadDim);
  layer.index_k_norm = vector(index_paths(prefix, "k_norm.weight"), kHeadDim);
}

void Planner::plan_layer(int index, PlannedLayer& layer) {
  const LayerKind kind = config_.layers[static_cast<size_t>(index)];
  const std::string prefix = fmt::format("{}layers.{}.", prefix_, index);
  const size_t hidden = static_cast<size_t>(config_.hidden);
  layer.input_norm = vector({prefix + "input_layernorm.weight"}, hidden);
  layer.post_attention_norm = vector({prefix + "post_attention_layernorm.weight"}, hidden);
  plan_attention(prefix, kind.sparse_attention, layer);
  if (kind.moe) return plan_moe(prefix, layer);
  layer.has_mlp = true;
  layer.mlp = mlp({prefix + "mlp"}, static_cast<size_t>(config_.dense_width));
}

void Planner::plan_ends() {
  const size_t vocab = static_cast<size_t>(config_.vocab);
  const size_t hidden = static_cast<size_t>(config_.hidden);
  const std::string table = prefix_ + "embed_tokens.weight";
  if (checkpoint_.find(table) == nullptr) {
    missing(table);
  } else {
    plan_.embedding = plain(table, vocab, hidden);
  }
  plan_.final_norm = vector({prefix_ + "norm.weight"}, hidden);
  const bool stored = first_with(lm_head_paths(), ".weight") != nullptr ||
                      first_with(lm_head_paths(), ".weight_packed") != nullptr;
  plan_.lm_head =
      stored || !config_.tied_embeddings ? linear(lm_head_paths(), vocab, hidden) : plan_.embedding;
}

void Planner::cache_scale(const std::string& name) {
  const std::optional<double> value = scalar(name);
  if (value && *value != 1.0) {
    problem(fmt::format("tensor {} is {}, wanted 1: cache scales are not implemented",
                        in_quotes(name), *value));
  }
}

void Planner::report_leftovers() {
  CheckpointReport& report = plan_.report;
  std::map<Leftover, std::pair<size_t, size_t>> found;  // tensors, bytes
  for (const std::string_view name : checkpoint_.names()) {
    const TensorView* tensor = checkpoint_.find(name);
    if (used_.contains(tensor)) continue;
    const Leftover kind = classify_leftover(name);
    ++found[kind].first;
    found[kind].second += tensor->data.size();
    if (kind == Leftover::kUnknown) report.unknown.emplace_back(name);
    if (kind == Leftover::kCacheScale) cache_scale(std::string(name));
  }
  const auto note = [&](Leftover kind, const char* text) {
    if (const auto it = found.find(kind); it != found.end()) {
      report.notes.push_back(
          fmt::format("{} tensors ({} bytes) {}", it->second.first, it->second.second, text));
    }
  };
  note(Leftover::kVision, "of the vision tower and its projector are not read yet");
  note(Leftover::kMtp, "of multi-token prediction (mtp.) are skipped");
  note(Leftover::kDraft, "of a draft model are not read yet");
  note(Leftover::kRotary, "of rotary frequencies are skipped: they are computed");
  note(Leftover::kCacheScale, "are cache scales (k_scale, v_scale)");
  report.vision_bytes = found[Leftover::kVision].second;
}

WeightPlan Planner::run() {
  plan_ends();
  plan_.layers.resize(config_.layers.size());
  for (size_t i = 0; i < plan_.layers.size() && missing_.size() < kMissingLimit; ++i) {
    plan_layer(static_cast<int>(i), plan_.layers[i]);
  }
  report_leftovers();
  if (n_problems_ > kMaxProblems) {
    plan_.report.problems.push_back(fmt::format("and {} more", n_problems_ - kMaxProblems));
  }
  if (!missing_.empty()) {
    const size_t shown = std::min(kMissingShown, missing_.size());
    std::string names;
    for (size_t i = 0; i < shown; ++i) {
      names += fmt::format("{}{}", i == 0 ? "" : ", ", missing_[i]);
    }
    plan_.report.problems.insert(
        plan_.report.problems.begin(),
        fmt::format("{}{} tensors are missing: {}{}",
                    missing_.size() >= kMissingLimit ? "at least " : "", missing_.size(), names,
                    shown < missing_.size() ? ", ..." : ""));
  }
  return std::move(plan_);
}

}  // namespace

size_t PlannedMatrix::value_bytes() const {
  return view.n_out * columns_in_bytes(view.format, view.n_in);
}

size_t PlannedMatrix::scale_bytes() const {
  return view.n_out * scales_in_row(view.format, view.n_in);
}

WeightPlan plan_weights(const Checkpoint& checkpoint, const Config& config) {
  return Planner(checkpoint, config).run();
}

}  // namespace minim
