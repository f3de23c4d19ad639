// Walks through the layers of the text model and finds every weight (weight_finder.h).
//
// Fused gate_up tensors hold all gate rows, then all up rows, and become two row slices. Tensors
// that no rule touched are sorted into those left on purpose and those that nobody understands.
#include "model/weight_plan.h"

#include <fmt/format.h>

#include <map>

#include "base/json_fields.h"
#include "model/tensor_names.h"
#include "model/weight_finder.h"

namespace minim {
namespace {

constexpr size_t kMissingShown = 4;
constexpr size_t kMissingLimit = 10000;  // stop looking: this is another model

class Planner : private WeightFinder {
 public:
  Planner(const Checkpoint& checkpoint, const Config& config)
      : WeightFinder(checkpoint), config_(config), prefix_(find_text_prefix(checkpoint)) {}
  WeightPlan run();

 private:
  PlannedMlp mlp(const Paths& bases, size_t width);
  void fused_experts(const std::string& base, PlannedLayer& layer);

  void plan_layer(int index, PlannedLayer& layer);
  void plan_attention(const std::string& prefix, bool sparse, PlannedLayer& layer);
  void plan_moe(const std::string& prefix, PlannedLayer& layer);
  void plan_ends();
  void report_leftovers();
  void cache_scale(const std::string& name);

  const Config& config_;
  std::string prefix_;
  WeightPlan plan_;
};

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
  CheckpointReport& report = report_;
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
    report_.problems.push_back(fmt::format("and {} more", n_problems_ - kMaxProblems));
  }
  if (!missing_.empty()) {
    const size_t shown = std::min(kMissingShown, missing_.size());
    std::string names;
    for (size_t i = 0; i < shown; ++i) {
      names += fmt::format("{}{}", i == 0 ? "" : ", ", missing_[i]);
    }
    report_.problems.insert(
        report_.problems.begin(),
        fmt::format("{}{} tensors are missing: {}{}",
                    missing_.size() >= kMissingLimit ? "at least " : "", missing_.size(), names,
                    shown < missing_.size() ? ", ..." : ""));
  }
  plan_.report = std::move(report_);
  return std::move(plan_);
}

}  // namespace

WeightPlan plan_weights(const Checkpoint& checkpoint, const Config& config) {
  return Planner(checkpoint, config).run();
}

}  // namespace minim
