// Gated MLPs: dense ones, and mixtures of experts with a shared expert that rides along.
//
// Rows are sorted by expert (a counting sort: experts ascending, rows ascending inside), so that
// each expert's weights are read once a step for all its rows. Two phases:
//   1. an item is a group of panels of gate and the same panels of up, of one expert: the rounded
//      activation lands in activations_[slot], a slot being one (row, choice);
//   2. an item is a group of output columns of *all* experts: it makes every slot's share of those
//      columns in the thread's own scratch, sums them per row in choice order in fp32 (shared
//      expert last), rounds once and adds to the residual.
// Cutting phase 2 by columns instead of by expert keeps the fp32 outputs of all slots out of main
// memory (they would be 63 MB a layer at 512 rows of M3) and saves a third phase. A dense MLP is
// the same with one expert that every row chose.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim::cpu {

namespace {
constexpr size_t kSerialRows = 16;  // fewer rows are routed faster than workers are called
}  // namespace

void CpuDevice::choose_experts(const Router& router, size_t row) {
  const size_t n_experts = router.bias.size();
  const size_t k = static_cast<size_t>(shape_.n_experts_per_token);
  float* const scores = router_scores_ + row * padded(n_experts);
  kernels_.sigmoid(scores, n_experts, scores);
  int32_t* const chosen = chosen_.data() + row * k;
  float* const weights = chosen_weights_.data() + row * k;
  uint64_t last = UINT64_MAX;
  float sum = 0.0f;
  for (size_t c = 0; c < k; ++c) {  // the best behind the last one: keys are distinct
    uint64_t best = 0;
    for (size_t e = 0; e < n_experts; ++e) {
      const uint64_t key = rank_key(scores[e] + router.bias[e], static_cast<uint32_t>(e));
      if (key > best && key < last) best = key;
    }
    last = best;
    chosen[c] = static_cast<int32_t>(ranked_id(best));
    weights[c] = scores[chosen[c]];
    sum += weights[c];
  }
  for (size_t c = 0; c < k; ++c) weights[c] = weights[c] / sum * shape_.routed_scale;
}

void CpuDevice::route(RouterId id, Rows h, int n_rows) {
  const Router& router = routers_[static_cast<size_t>(id)];
  CHECK(router.gate.n_in == static_cast<size_t>(h.width), "router of %zu columns, rows of %d",
        router.gate.n_in, h.width);
  const size_t n = static_cast<size_t>(n_rows);
  run_linear(router.gate, source(h), n, Sink::kRaw, router_scores_, padded(router.bias.size()));
  if (n <= kSerialRows) {
    add_serial([=, this, router = &router] {
      for (size_t i = 0; i < n; ++i) choose_experts(*router, i);
    });
  } else {
    add_loop(n, [this, router = &router](size_t i) { choose_experts(*router, i); });
  }
}

// Fills active_experts_, segments_ (without their MLPs), slot_rows_ and slots_ from chosen_.
void CpuDevice::sort_by_expert(size_t n_rows) {
  const size_t k = static_cast<size_t>(shape_.n_experts_per_token);
  std::fill(expert_counts_.begin(), expert_counts_.end(), size_t{0});
  for (size_t i = 0; i < n_rows * k; ++i) ++expert_counts_[static_cast<size_t>(chosen_[i])];
  active_experts_.clear();
  segments_.clear();
  size_t n_slots = 0;
  for (size_t e = 0; e < expert_counts_.size(); ++e) {
    const size_t n = expert_counts_[e];
    if (n == 0) continue;
    active_experts_.push_back(static_cast<int32_t>(e));
    segments_.push_back({.mlp = nullptr, .first_slot = n_slots, .n_rows = n});
    expert_counts_[e] = n_slots;  // from here on: the next free slot
    n_slots += n;
  }
  for (size_t i = 0; i < n_rows * k; ++i) {
    const size_t slot = expert_counts_[static_cast<size_t>(chosen_[i])]++;
    slot_rows_[slot] = static_cast<int32_t>(i / k);
    slots_[i] = slot;
  }
}

void CpuDevice::activate(const Segment& segment, size_t first_panel, size_t n_panels,
                         const RowSource& h, ThreadScratch& scratch) const {
  const PackedMlp& mlp = *segment.mlp;
  const size_t first_column = first_panel * kPanelRows;
  const size_t stride = n_panels * kPanelRows;
  const size_t columns = std::min(stride, mlp.gate.n_out - first_column);
  RowSource rows = h;
  rows.ids = slot_rows_.data() + segment.first_slot;
  for (size_t first = 0; first < segment.n_rows; first += kTileRows) {
    const size_t n = std::min(kTileRows, segment.n_rows - first);
    const RowSource x = tile_rows(rows, first, n, mlp.gate.panels.n_in, scratch);
    multiply(mlp.gate, first_panel, n_panels, x, n, scratch.product, stride);
    multiply(mlp.up, first_panel, n_panels, x, n, scratch.product_up, stride);
    for (size_t i = 0; i < n; ++i) {
      float* const gate = scratch.product + i * stride;
      float* const up = scratch.product_up + i * stride;
      kernels_.round_bf16(gate, columns);
      kernels_.round_bf16(up, columns);
      kernels_.swiglu(
          gate, up, columns, shape_.swiglu_alpha, shape_.swiglu_limit,
          activations_ + (segment.first_slot + first + i) * activation_stride_ + first_column);
    }
  }
}

// Columns [16 first_panel, 16 (first_panel + n_panels)) of the result, for all rows.
void CpuDevice::combine(size_t first_panel, size_t n_panels, size_t n_rows, size_t n_choices,
                        bool shared, Rows x, ThreadScratch& scratch) const {
  const size_t columns = n_panels * kPanelRows;
  for (const Segment& segment : segments_) {
    for (size_t first = 0; first < segment.n_rows; first += kTileRows) {
      const size_t slot = segment.first_slot + first;
      const RowSource rows{activations_ + slot * activation_stride_, activation_stride_, nullptr};
      multiply(segment.mlp->down, first_panel, n_panels, rows,
               std::min(kTileRows, segment.n_rows - first), scratch.slots + slot * columns,
               columns);
    }
  }
  for (size_t r = 0; r < n_rows; ++r) {
    float* sum = scratch.sum;
    float* const last = scratch.slots + (n_rows * n_choices + r) * columns;
    if (n_choices == 0) {
      sum = last;
    } else {
      std::fill_n(sum, columns, 0.0f);
      for (size_t i = r * n_choices; i < (r + 1) * n_choices; ++i) {
        kernels_.accumulate(chosen_weights_[i], scratch.slots + slots_[i] * columns, sum, columns);
      }
      if (shared) kernels_.accumulate(1.0f, last, sum, columns);
    }
    kernels_.round_bf16(sum, columns);
    kernels_.add_bf16(row(x, r) + first_panel * kPanelRows, sum, columns);
  }
}

// The experts that rows chose, and behind them the shared one, which every row chose.
void CpuDevice::gather_experts(int layer, ExpertStore& experts, MlpId shared, size_t n_rows) {
  sort_by_expert(n_rows);
  experts.acquire(layer, active_experts_, expert_handles_.data());
  for (size_t i = 0; i < active_experts_.size(); ++i) {
    segments_[i].mlp = &mlps_[static_cast<size_t>(expert_handles_[i])];
  }
  if (shared == MlpId::kNone) return;
  const size_t n_slots = n_rows * static_cast<size_t>(shape_.n_experts_per_token);
  segments_.push_back(
      {.mlp = &mlps_[static_cast<size_t>(shared)], .first_slot = n_slots, .n_rows = n_rows});
  for (size_t r = 0; r < n_rows; ++r) slot_rows_[n_slots + r] = static_cast<int32_t>(r);
}

// Cuts segments_ into items of phase 1 and returns how many there are.
size_t CpuDevice::cut_segments() {
  size_t n_panels = 0, n_items = 0;
  for (const Segment& segment : segments_) n_panels += segment.mlp->gate.panels.n_panels;
  segment_step_ = panels_per_item(n_panels);
  for (Segment& segment : segments_) {
    segment.first_item = n_items;
    n_items += (segment.mlp->gate.panels.n_panels + segment_step_ - 1) / segment_step_;
    weight_bytes_read_ += segment.mlp->bytes();
  }
  return n_items;
}

void CpuDevice::activate_item(size_t item, const RowSource& h, ThreadScratch& scratch) const {
  const auto next =
      std::upper_bound(segments_.begin(), segments_.end(), item,
                       [](size_t i, const Segment& segment) { return i < segment.first_item; });
  const Segment& segment = *(next - 1);
  const size_t first_panel = (item - segment.first_item) * segment_step_;
  const size_t n_panels = segment.mlp->gate.panels.n_panels - first_panel;
  activate(segment, first_panel, std::min(segment_step_, n_panels), h, scratch);
}

// Phase 2; `shared`: the last segment is the expert that every row chose.
void CpuDevice::add_combine(size_t n_rows, size_t n_choices, bool shared, Rows x) {
  const size_t n_panels = static_cast<size_t>(shape_.hidden) / kPanelRows;
  const size_t step = panels_per_item(n_panels);
  add_loop((n_panels + step - 1) / step, [=, this](size_t item, size_t thread) {
    const size_t first_panel = item * step;
    combine(first_panel, std::min(step, n_panels - first_panel), n_rows, n_choices, shared, x,
            scratch_[thread]);
  });
}

void CpuDevice::mlp_add(MlpId mlp, Rows h, int n_rows, Rows x) {
  CHECK(h.width == shape_.hidden && x.width == shape_.hidden, "rows of %d and %d", h.width,
        x.width);
  const size_t n = static_cast<size_t>(n_rows);
  if (n == 0) return;
  add_phase(
      [=, this] {
        segments_.clear();
        segments_.push_back(
            {.mlp = &mlps_[static_cast<size_t>(mlp)], .first_slot = 0, .n_rows = n});
        for (size_t r = 0; r < n; ++r) slot_rows_[r] = static_cast<int32_t>(r);
        return cut_segments();
      },
      [=, this](size_t item, size_t thread) { activate_item(item, source(h), scratch_[thread]); });
  add_combine(n, 0, true, x);
}

void CpuDevice::moe_add(int layer, ExpertStore& experts, MlpId shared, Rows h, int n_rows, Rows x) {
  CHECK(h.width == shape_.hidden && x.width == shape_.hidden, "rows of %d and %d", h.width,
        x.width);
  const size_t n = static_cast<size_t>(n_rows);
  if (n == 0) return;
  ExpertStore* const store = &experts;
  add_phase(
      [=, this] {
        gather_experts(layer, *store, shared, n);
        return cut_segments();
      },
      [=, this](size_t item, size_t thread) { activate_item(item, source(h), scratch_[thread]); });
  add_combine(n, static_cast<size_t>(shape_.n_experts_per_token), shared != MlpId::kNone, x);
  add_serial([=, this] { store->release(layer, active_experts_); });
}

}  // namespace minim::cpu
