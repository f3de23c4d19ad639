// Takes the planned weights (weight_plan.cpp) through memory once and hands them to the device.
//
// The work is cut into units: one expert, one projection, one norm. Units run in the order in which
// their bytes lie in the shards, whatever the layers are, so that a disk sees one forward sweep;
// ids do not depend on that order. Ahead of the sweep the system is told what comes, behind it
// pages are given back, so that the resident size stays near what the device holds itself plus a
// window. Releasing unit by unit would leave the pages that two tensors share, and a checkpoint has
// a hundred thousand tensors: neighbours are joined first.
//
// The embedding table is never read here: the device keeps the view and touches rows as tokens
// come.
#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/formats.h"
#include "base/json_fields.h"
#include "base/mapped_file.h"
#include "model/scale_scan.h"
#include "model/weight_plan.h"

namespace minim {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kAheadBytes = size_t{192} << 20;
constexpr size_t kBehindBytes = size_t{32} << 20;
constexpr size_t kScanBytes = size_t{128} << 10;   // of scales, an item for a thread
constexpr size_t kReleaseBytes = size_t{2} << 20;  // the same of pages
constexpr size_t kJoinGap = 4096;                  // scalars between two tensors

// Experts that live in the device for good.
class ResidentExperts : public ExpertStore {
 public:
  ResidentExperts(size_t n_layers, size_t n_experts)
      : handles_(n_layers, std::vector<MlpId>(n_experts, MlpId::kNone)) {}
  MlpId* slot(size_t layer, size_t expert) { return &handles_[layer][expert]; }
  void acquire(int layer, std::span<const int32_t> ids, MlpId* handles) override {
    const std::vector<MlpId>& all = handles_[static_cast<size_t>(layer)];
    for (size_t i = 0; i < ids.size(); ++i) handles[i] = all[static_cast<size_t>(ids[i])];
  }
  void release(int, std::span<const int32_t>) override {}

 private:
  std::vector<std::vector<MlpId>> handles_;
};

struct Unit {
  std::vector<Bytes> parts;  // all that it reads
  std::function<Result<Ok>()> load;

  size_t bytes() const {
    size_t sum = 0;
    for (const Bytes part : parts) sum += part.size();
    return sum;
  }
  // The place of its largest part.
  const uint8_t* place() const {
    const auto largest = std::max_element(parts.begin(), parts.end(),
                                          [](Bytes a, Bytes b) { return a.size() < b.size(); });
    return largest == parts.end() ? nullptr : largest->data();
  }
};

Bytes values_of(const PlannedMatrix& matrix) { return {matrix.view.values, matrix.value_bytes()}; }
Bytes scales_of(const PlannedMatrix& matrix) { return {matrix.view.scales, matrix.scale_bytes()}; }

// All block scales, by several threads.
BadScales find_bad_scales(const PlannedMatrix& matrix, Device& device) {
  const bool nvfp4 = matrix.view.format == WeightFormat::kNvfp4;
  const Bytes scales = scales_of(matrix);
  std::vector<BadScales> found((scales.size() + kScanBytes - 1) / kScanBytes);
  device.for_each(found.size(), [&](size_t i) {
    const size_t begin = i * kScanBytes;
    const Bytes piece = scales.subspan(begin, std::min(kScanBytes, scales.size() - begin));
    found[i] = nvfp4 ? find_bad_e4m3_scales(piece) : find_bad_e8m0_scales(piece);
  });
  BadScales all;
  for (size_t i = 0; i < found.size(); ++i) {
    if (all.count == 0 && found[i].count > 0) all.first = i * kScanBytes + found[i].first;
    all.count += found[i].count;
  }
  return all;
}

Result<Ok> check_scales(const PlannedMatrix& matrix, Device& device) {
  const bool nvfp4 = matrix.view.format == WeightFormat::kNvfp4;
  const Bytes scales = scales_of(matrix);
  const BadScales bad = find_bad_scales(matrix, device);
  if (bad.count == 0) return Ok{};
  const size_t columns = scales.size() / matrix.view.n_out;
  return Error{Code::kInvalid,
               fmt::format("tensor {} has {} scale bytes that are no positive number, the first "
                           "{:#04x} at row {}, column {}; wanted {}",
                           in_quotes(matrix.name), bad.count, scales[bad.first],
                           matrix.first_row + bad.first / columns, bad.first % columns,
                           nvfp4 ? "E4M3 in 0x00..0x7e" : "E8M0 in 0x00..0xfe")};
}

// bf16 or fp32 to floats; not a number or infinite is refused.
Result<std::vector<float>> finite_floats(const uint8_t* values, size_t n, bool is_f32,
                                         const std::string& name) {
  std::vector<float> floats(n);
  for (size_t i = 0; i < n; ++i) {
    if (is_f32) {
      std::memcpy(&floats[i], values + 4 * i, sizeof(float));
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, values + 2 * i, sizeof bits);
      floats[i] = bf16_to_float(bits);
    }
    if (!std::isfinite(floats[i])) {
      return Error{Code::kInvalid, fmt::format("tensor {} has {} at element {}, wanted finite "
                                               "numbers",
                                               in_quotes(name), floats[i], i)};
    }
  }
  return floats;
}

Result<std::vector<float>> to_floats(const PlannedVector& vector) {
  const TensorView& tensor = *vector.tensor;
  return finite_floats(tensor.data.data(), static_cast<size_t>(tensor.shape[0]),
                       tensor.dtype == Dtype::kF32, vector.name);
}

// A router is small and one bad number in it sends every token astray.
Result<Ok> check_router(const PlannedMatrix& router) {
  const MatrixView& view = router.view;
  const Result<std::vector<float>> floats = finite_floats(
      view.values, view.n_out * view.n_in, view.format == WeightFormat::kF32, router.name);
  if (!floats) return floats.error();
  return Ok{};
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const Config& config, const WeightPlan& plan, Device& device)
      : checkpoint_(checkpoint), config_(config), plan_(plan), device_(device) {}
  Result<Weights> run(const LoadProgress& progress);

 private:
  void add_norm(const PlannedVector& vector, NormId* id);
  void add_linear(std::vector<const PlannedMatrix*> parts, LinearId* id);
  void add_mlp(const PlannedMlp& mlp, MlpId* id);
  void add_router(const PlannedLayer& layer, RouterId* id);
  void add_layer(size_t index, ResidentExperts& experts);
  void add_all(ResidentExperts& experts);

  Result<Ok> load_units(const LoadProgress& progress);
  void announce(size_t done);
  void give_back(const Unit& unit, bool last);
  void release(Bytes range);

  const Checkpoint& checkpoint_;
  const Config& config_;
  const WeightPlan& plan_;
  Device& device_;
  Weights weights_;
  std::vector<Unit> units_;
  size_t next_announced_ = 0, announced_bytes_ = 0;
  std::vector<Bytes> behind_;
  size_t behind_bytes_ = 0;
};

// Copies an id out of a device's answer.
template <typename Id>
Result<Ok> keep(Result<Id> loaded, Id* id) {
  if (!loaded) return loaded.error();
  *id = *loaded;
  return Ok{};
}

Result<Ok> check_all_scales(const std::vector<const PlannedMatrix*>& matrices, Device& device) {
  for (const PlannedMatrix* matrix : matrices) {
    if (Result<Ok> checked = check_scales(*matrix, device); !checked) return checked;
  }
  return Ok{};
}

std::vector<Bytes> parts_of(const std::vector<const PlannedMatrix*>& matrices) {
  std::vector<Bytes> parts;
  for (const PlannedMatrix* matrix : matrices) {
    parts.push_back(values_of(*matrix));
    if (matrix->scale_bytes() > 0) parts.push_back(scales_of(*matrix));
  }
  return parts;
}

void Loader::add_norm(const PlannedVector& vector, NormId* id) {
  units_.push_back({.parts = {vector.tensor->data}, .load = [this, &vector, id]() -> Result<Ok> {
                      const Result<std::vector<float>> weight = to_floats(vector);
                      if (!weight) return weight.error();
                      return keep(device_.load_norm(*weight), id);
                    }});
}

void Loader::add_linear(std::vector<const PlannedMatrix*> matrices, LinearId* id) {
  std::vector<Bytes> parts = parts_of(matrices);
  units_.push_back({.parts = std::move(parts),
                    .load = [this, matrices = std::move(matrices), id]() -> Result<Ok> {
                      if (Result<Ok> checked = check_all_scales(matrices, device_); !checked)
                        return checked;
                      std::vector<MatrixView> views;
                      for (const PlannedMatrix* matrix : matrices) views.push_back(matrix->view);
                      return keep(device_.load_linear(views), id);
                    }});
}

void Loader::add_mlp(const PlannedMlp& mlp, MlpId* id) {
  const std::vector<const PlannedMatrix*> matrices = {&mlp.gate, &mlp.up, &mlp.down};
  units_.push_back(
      {.parts = parts_of(matrices), .load = [this, &mlp, matrices, id]() -> Result<Ok> {
         if (Result<Ok> checked = check_all_scales(matrices, device_); !checked) return checked;
         return keep(device_.load_mlp(mlp.gate.view, mlp.up.view, mlp.down.view), id);
       }});
}

void Loader::add_router(const PlannedLayer& layer, RouterId* id) {
  std::vector<Bytes> parts = {values_of(layer.router)};
  if (layer.router_bias.tensor != nullptr) parts.push_back(layer.router_bias.tensor->data);
  units_.push_back({.parts = std::move(parts), .load = [this, &layer, id]() -> Result<Ok> {
                      if (Result<Ok> finite = check_router(layer.router); !finite) return finite;
                      std::vector<float> bias(layer.router.view.n_out, 0.0f);
                      if (layer.router_bias.tensor != nullptr) {
                        Result<std::vector<float>> stored = to_floats(layer.router_bias);
                        if (!stored) return stored.error();
                        bias = std::move(*stored);
                      }
                      return keep(device_.load_router(layer.router.view, bias), id);
                    }});
}

void Loader::add_layer(size_t index, ResidentExperts& experts) {
  const PlannedLayer& layer = plan_.layers[index];
  const LayerKind kind = config_.layers[index];
  LayerWeights& ids = weights_.layers[index];
  add_norm(layer.input_norm, &ids.input_norm);
  add_norm(layer.post_attention_norm, &ids.post_attention_norm);
  add_norm(layer.q_norm, &ids.norms.q);
  add_norm(layer.k_norm, &ids.norms.k);
  if (kind.sparse_attention) {
    add_norm(layer.index_q_norm, &ids.norms.index_q);
    add_norm(layer.index_k_norm, &ids.norms.index_k);
  }
  std::vector<const PlannedMatrix*> qkv;
  for (const PlannedMatrix& matrix : layer.qkv) qkv.push_back(&matrix);
  add_linear(std::move(qkv), &ids.qkv);
  add_linear({&layer.output}, &ids.output);
  if (layer.has_mlp) add_mlp(layer.mlp, &ids.mlp);
  if (!kind.moe) return;
  add_router(layer, &ids.router);
  for (size_t e = 0; e < layer.experts.size(); ++e) {
    add_mlp(layer.experts[e], experts.slot(index, e));
  }
}

void Loader::add_all(ResidentExperts& experts) {
  add_norm(plan_.final_norm, &weights_.final_norm);
  add_linear({&plan_.lm_head}, &weights_.lm_head);
  weights_.layers.resize(plan_.layers.size());
  for (size_t i = 0; i < plan_.layers.size(); ++i) add_layer(i, experts);
  std::stable_sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
    return std::less<const uint8_t*>()(a.place(), b.place());
  });
}

// Keeps kAheadBytes of coming units on their way from the disk.
void Loader::announce(size_t done) {
  while (next_announced_ < units_.size() && announced_bytes_ < done + kAheadBytes) {
    const Unit& unit = units_[next_announced_++];
    for (const Bytes part : unit.parts) checkpoint_.will_need(part);
    announced_bytes_ += unit.bytes();
  }
}

// Unmapping takes as long as a tenth of the load: pieces, by all threads. They end where pages end.
void Loader::release(Bytes range) {
  if (range.empty()) return;
  const size_t before = reinterpret_cast<uintptr_t>(range.data()) % kReleaseBytes;
  device_.for_each((before + range.size() + kReleaseBytes - 1) / kReleaseBytes, [&](size_t i) {
    const size_t begin = i == 0 ? 0 : i * kReleaseBytes - before;
    const size_t end = std::min(range.size(), (i + 1) * kReleaseBytes - before);
    checkpoint_.release(range.subspan(begin, end - begin));
  });
}

void Loader::give_back(const Unit& unit, bool last) {
  behind_.insert(behind_.end(), unit.parts.begin(), unit.parts.end());
  behind_bytes_ += unit.bytes();
  if (behind_bytes_ < kBehindBytes && !last) return;
  std::sort(behind_.begin(), behind_.end(),
            [](Bytes a, Bytes b) { return std::less<const uint8_t*>()(a.data(), b.data()); });
  Bytes joined;
  for (const Bytes part : behind_) {
    const uintptr_t end = reinterpret_cast<uintptr_t>(joined.data()) + joined.size();
    const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data());
    if (!joined.empty() && begin <= end + kJoinGap) {
      const size_t reach = static_cast<size_t>(part.data() + part.size() - joined.data());
      joined = {joined.data(), std::max(joined.size(), reach)};
    } else {
      release(joined);
      joined = part;
    }
  }
  release(joined);
  behind_.clear();
  behind_bytes_ = 0;
}

Result<Ok> Loader::load_units(const LoadProgress& progress) {
  size_t total = 0, done = 0;
  for (const Unit& unit : units_) total += unit.bytes();
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = units_[i];
    announce(done);
    if (Result<Ok> loaded = unit.load(); !loaded) return loaded;
    give_back(unit, i + 1 == units_.size());
    done += unit.bytes();
    if (progress && !progress(done, total)) {
      return Error{Code::kCancelled,
                   fmt::format("loading stopped after {} of {} bytes", done, total)};
    }
  }
  return Ok{};
}

Result<Weights> Loader::run(const LoadProgress& progress) {
  auto experts = std::make_unique<ResidentExperts>(plan_.layers.size(),
                                                   static_cast<size_t>(config_.n_experts));
  add_all(*experts);
  Result<Ok> embedding = keep(device_.load_embedding(plan_.embedding.view), &weights_.embedding);
  if (!embedding) return embedding.error();
  if (Result<Ok> loaded = load_units(progress); !loaded) return loaded.error();
  weights_.experts = std::move(experts);
  return std::move(weights_);
}

}  // namespace

CheckpointReport inspect_checkpoint(const Checkpoint& checkpoint, const Config& config) {
  return plan_weights(checkpoint, config).report;
}

Result<Weights> load_weights(const Checkpoint& checkpoint, const Config& config, Device& device,
                             const LoadProgress& progress) {
  const WeightPlan plan = plan_weights(checkpoint, config);
  const std::vector<std::string>& problems = plan.report.problems;
  if (!problems.empty()) {
    const std::string more =
        problems.size() == 1 ? "" : fmt::format(" (and {} more problems)", problems.size() - 1);
    return Error{Code::kInvalid, "weights: " + problems[0] + more};
  }
  return Loader(checkpoint, config, plan, device).run(progress);
}

ModelShape model_shape(const Config& config) {
  return {.hidden = config.hidden,
          .n_layers = config.n_layers,
          .n_heads = config.n_heads,
          .n_kv_heads = config.n_kv_heads,
          .rotary_dim = config.rotary_dim,
          .rope_theta = config.rope_theta,
          .norm_eps = config.norm_eps,
          .swiglu_alpha = config.swiglu_alpha,
          .swiglu_limit = config.swiglu_limit,
          .n_experts = config.n_experts,
          .n_experts_per_token = config.n_experts_per_token,
          .routed_scale = config.routed_scale,
          .top_k_blocks = config.top_k_blocks,
          .init_blocks = config.init_blocks,
          .local_blocks = config.local_blocks,
          .vocab = config.vocab};
}

}  // namespace minim
