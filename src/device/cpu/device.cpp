// Owns the memory of the CPU device: packed weights in an arena, activations, the cache pool and
// every scratch buffer, all sized before the first step, so that steps allocate nothing.
//
// Activations are rows of floats, padded to 16, that hold bf16 values between operations: kernels
// read them without conversion, and at these row counts weights, not activations, fill memory and
// its bandwidth.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace minim {

std::unique_ptr<Device> make_cpu_device(const ModelShape& shape, const CpuOptions& options) {
  return std::make_unique<cpu::CpuDevice>(shape, options);
}

namespace cpu {

namespace {

// Phases of a step, unless scores take several passes: then the step takes several launches.
constexpr size_t kLayerPhases = 16, kOtherPhases = 8;
constexpr size_t kScoreFloats = size_t{2} << 20;  // 8 MiB of block scores

// Cuts one buffer into pieces; the first run, without memory, only measures.
class Carver {
 public:
  explicit Carver(uint8_t* base) : base_(base) {}
  template <typename T>
  T* take(size_t n) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (n * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  uint8_t* base_;
  size_t used_ = 0;
};

}  // namespace

CpuDevice::CpuDevice(const ModelShape& shape, const CpuOptions& options)
    : shape_(shape),
      kernels_(*options.kernels),
      mode_(options.attention),
      pool_(options.n_threads, options.pin_threads),
      phases_(kLayerPhases * static_cast<size_t>(shape.n_layers) + kOtherPhases) {
  CHECK(shape.hidden > 0 && shape.hidden % 16 == 0, "hidden size %d", shape.hidden);
  CHECK(shape.n_kv_heads > 0 && shape.n_heads % shape.n_kv_heads == 0, "%d heads in %d groups",
        shape.n_heads, shape.n_kv_heads);
  CHECK(shape.rotary_dim % 32 == 0 && shape.rotary_dim <= kHeadDim, "%d rotated channels",
        shape.rotary_dim);
  CHECK(shape.local_blocks >= 1 && shape.init_blocks >= 0 &&
            shape.local_blocks + shape.init_blocks <= shape.top_k_blocks,
        "%d local and %d init blocks in a budget of %d", shape.local_blocks, shape.init_blocks,
        shape.top_k_blocks);
  CHECK(shape.n_experts_per_token <= shape.n_experts, "%d of %d experts", shape.n_experts_per_token,
        shape.n_experts);
  for (int i = 0; i < shape.rotary_dim / 2; ++i) {
    inverse_frequencies_.push_back(std::pow(shape.rope_theta, -2.0 * i / shape.rotary_dim));
  }
}

// ---- weights

Result<LinearId> CpuDevice::load_linear(std::span<const MatrixView> parts) {
  CHECK(!parts.empty(), "a linear without parts");
  PackedLinear linear{.parts = {}, .n_in = parts[0].n_in, .n_out = 0};
  for (const MatrixView& view : parts) {
    CHECK(view.n_in == linear.n_in, "parts of %zu and %zu columns", linear.n_in, view.n_in);
    Result<PackedMatrix> matrix = pack(view, false, kernels_, pool_, arena_, weights_bytes_);
    if (!matrix) return matrix.error();
    linear.parts.push_back({.matrix = *matrix, .column = linear.n_out});
    linear.n_out += view.n_out;
  }
  linears_.push_back(std::move(linear));
  return static_cast<LinearId>(linears_.size() - 1);
}

Result<MlpId> CpuDevice::load_mlp(const MatrixView& gate, const MatrixView& up,
                                  const MatrixView& down) {
  const size_t hidden = static_cast<size_t>(shape_.hidden);
  CHECK(gate.n_in == hidden && up.n_in == hidden && down.n_out == hidden, "an MLP of another size");
  CHECK(gate.n_out == up.n_out && gate.n_out == down.n_in, "MLP widths %zu, %zu, %zu", gate.n_out,
        up.n_out, down.n_in);
  PackedMlp mlp;
  for (const auto& [view, matrix] :
       {std::pair(&gate, &mlp.gate), std::pair(&up, &mlp.up), std::pair(&down, &mlp.down)}) {
    Result<PackedMatrix> packed = pack(*view, false, kernels_, pool_, arena_, weights_bytes_);
    if (!packed) return packed.error();
    *matrix = *packed;
  }
  mlps_.push_back(mlp);
  if (padded(gate.n_out) > activation_stride_) {
    activation_stride_ = padded(gate.n_out);
    if (Result<Ok> fits = fit_scratch(); !fits) return fits.error();
  }
  return static_cast<MlpId>(mlps_.size() - 1);
}

Result<NormId> CpuDevice::load_norm(std::span<const float> weight) {
  CHECK(!weight.empty() && weight.size() % 16 == 0, "a norm of %zu", weight.size());
  const Result<uint8_t*> memory = arena_.take(weight.size_bytes());
  if (!memory) return memory.error();
  float* const w1 = reinterpret_cast<float*>(*memory);
  for (size_t i = 0; i < weight.size(); ++i) w1[i] = 1.0f + weight[i];
  weights_bytes_ += weight.size_bytes();
  norms_.push_back(w1);
  return static_cast<NormId>(norms_.size() - 1);
}

Result<RouterId> CpuDevice::load_router(const MatrixView& gate, std::span<const float> bias) {
  CHECK(gate.n_out == bias.size() && bias.size() == static_cast<size_t>(shape_.n_experts),
        "a router of %zu and %zu experts", gate.n_out, bias.size());
  Result<PackedMatrix> matrix = pack(gate, true, kernels_, pool_, arena_, weights_bytes_);
  if (!matrix) return matrix.error();
  Router router{.gate = {.parts = {}, .n_in = gate.n_in, .n_out = gate.n_out},
                .bias = {bias.begin(), bias.end()}};
  router.gate.parts.push_back({.matrix = *matrix, .column = 0});
  weights_bytes_ += bias.size_bytes();
  routers_.push_back(std::move(router));
  return static_cast<RouterId>(routers_.size() - 1);
}

Result<EmbeddingId> CpuDevice::load_embedding(const MatrixView& table) {
  CHECK(table.format == WeightFormat::kBf16, "an embedding of format %d",
        static_cast<int>(table.format));
  embeddings_.push_back(table);
  return static_cast<EmbeddingId>(embeddings_.size() - 1);
}

// ---- memory

Result<Ok> CpuDevice::reserve(int max_rows) {
  CHECK(max_rows > 0 && max_rows_ == 0, "reserve(%d)", max_rows);
  max_rows_ = static_cast<size_t>(max_rows);
  const size_t k = static_cast<size_t>(shape_.n_experts_per_token);
  const size_t n_experts = static_cast<size_t>(shape_.n_experts);
  row_position_.resize(max_rows_);
  row_sequence_.resize(max_rows_);
  rope_position_.assign(max_rows_, -1);
  sequence_order_.reserve(max_rows_);
  attend_tiles_.reserve(max_rows_);
  score_tiles_.reserve(max_rows_);
  selected_.assign(max_rows_ * static_cast<size_t>(shape_.n_kv_heads * shape_.top_k_blocks),
                   kNoBlock);
  chosen_.resize(max_rows_ * k);
  chosen_weights_.resize(max_rows_ * k);
  slots_.resize(max_rows_ * k);
  slot_rows_.resize(max_rows_ * (k + 1));
  segments_.reserve(n_experts + 1);
  active_experts_.reserve(n_experts);
  expert_handles_.resize(n_experts);
  expert_counts_.resize(n_experts);
  return fit_scratch();
}

// Lays out every scratch buffer for what is known so far: weights may be loaded and the cache made
// after reserve().
Result<Ok> CpuDevice::fit_scratch() {
  if (max_rows_ == 0) return Ok{};
  const size_t n_groups = static_cast<size_t>(shape_.n_kv_heads);
  const size_t n_slots = max_rows_ * static_cast<size_t>(shape_.n_experts_per_token + 1);
  const size_t state_floats = (kHeadDim + 2) * std::min(kLanes, heads_per_group());
  n_scores_ = std::max(kScoreFloats, n_groups * static_cast<size_t>(n_blocks_));
  std::vector<ThreadScratch> threads = scratch_;
  threads.resize(static_cast<size_t>(pool_.n_threads()));
  const auto carve = [&](Carver memory) {
    activations_ = memory.take<float>(n_slots * activation_stride_);
    router_scores_ = memory.take<float>(max_rows_ * padded(static_cast<size_t>(shape_.n_experts)));
    scores_ = memory.take<float>(n_scores_);
    rope_ = memory.take<float>(max_rows_ * 2 * inverse_frequencies_.size());
    for (ThreadScratch& thread : threads) {
      thread.gathered = memory.take<float>(kTileRows * static_cast<size_t>(shape_.hidden));
      thread.product = memory.take<float>(kTileRows * kGroupColumns);
      thread.product_up = memory.take<float>(kTileRows * kGroupColumns);
      thread.slots = memory.take<float>(n_slots * kGroupColumns);
      thread.sum = memory.take<float>(kGroupColumns);
      thread.keys = memory.take<float>(kBlockTokens * kHeadDim);
      thread.values = memory.take<float>(kBlockTokens * kHeadDim);
      thread.lane_queries = memory.take<float>(lane_tiles(kAttendRows) * kHeadDim * kLanes);
      thread.states = memory.take<float>(kAttendRows * segments_per_row() * state_floats);
      thread.partial = memory.take<AttentionPartial>(1);
      thread.index_queries = memory.take<float>(kScoreRows * n_groups * kHeadDim);
      thread.maxima = memory.take<float>(kScoreRows * n_groups);
      thread.n_visible = memory.take<int32_t>(kScoreRows * n_groups);
      thread.best = memory.take<uint64_t>(static_cast<size_t>(shape_.top_k_blocks));
    }
    return memory.used();
  };
  Result<AlignedBuffer> memory = AlignedBuffer::make(carve(Carver(nullptr)));
  if (!memory) return memory.error();
  scratch_memory_ = std::move(*memory);
  carve(Carver(scratch_memory_.data()));
  scratch_ = std::move(threads);
  std::fill(rope_position_.begin(), rope_position_.end(), -1);
  return Ok{};
}

Rows CpuDevice::make_rows(int width) {
  CHECK(max_rows_ > 0, "make_rows before reserve");
  Result<AlignedBuffer> memory =
      AlignedBuffer::make(max_rows_ * padded(static_cast<size_t>(width)) * sizeof(float));
  CHECK(memory, "%s", memory.error().message.c_str());
  rows_.push_back(std::move(*memory));
  return {rows_.back().data(), width};
}

Result<Ok> CpuDevice::make_cache(const KvLayout& layout, int n_blocks) {
  CHECK(layout.n_kv_heads == shape_.n_kv_heads, "a cache of %d heads", layout.n_kv_heads);
  CHECK(n_blocks > 0, "%d blocks", n_blocks);
  if (layout.block_bytes > SIZE_MAX / static_cast<size_t>(n_blocks)) {
    return Error{Code::kExhausted, "no memory: the cache is larger than the address space"};
  }
  Result<AlignedBuffer> memory =
      AlignedBuffer::make(layout.block_bytes * static_cast<size_t>(n_blocks));
  if (!memory) return memory.error();
  cache_ = std::move(*memory);
  layout_ = layout;
  n_blocks_ = n_blocks;
  return fit_scratch();
}

std::span<uint8_t> CpuDevice::block_bytes(int layer, int block) {
  CHECK(block >= 0 && block < n_blocks_, "block %d of %d", block, n_blocks_);
  return {layer_tiles(layer, block), layout_.layer_bytes(layer)};
}

// ---- small steps

void CpuDevice::begin_step() {
  CHECK(!in_step_, "a step inside a step");
  in_step_ = true;
  planned_ = {};
}

void CpuDevice::end_step() {
  run_phases();
  in_step_ = false;
  planned_ = {};
}

void CpuDevice::run_phases() {
  pool_.launch(phases_.phases());
  phases_.clear();
}

void CpuDevice::embed(EmbeddingId table, std::span<const int32_t> tokens, Rows x) {
  const MatrixView& view = embeddings_[static_cast<size_t>(table)];
  CHECK(view.n_in == static_cast<size_t>(x.width), "embedding of %zu into %d", view.n_in, x.width);
  weight_bytes_read_ += tokens.size() * view.n_in * sizeof(uint16_t);
  add_loop(tokens.size(), [=, this, view = &view](size_t i) {
    const size_t token = static_cast<size_t>(tokens[i]);
    CHECK(token < view->n_out, "token %d of %zu", tokens[i], view->n_out);
    const uint16_t* const values = reinterpret_cast<const uint16_t*>(view->values);
    kernels_.widen_bf16(values + token * view->n_in, view->n_in, row(x, i));
  });
}

// ---- looking inside

void CpuDevice::read_row(Rows x, int i, std::span<float> out) const {
  CHECK(out.size() <= static_cast<size_t>(x.width), "%zu of %d columns", out.size(), x.width);
  std::copy_n(row(x, static_cast<size_t>(i)), out.size(), out.begin());
}

std::vector<int32_t> CpuDevice::selected_blocks(int row, int group) const {
  const size_t budget = static_cast<size_t>(shape_.top_k_blocks);
  const size_t list = static_cast<size_t>(row * shape_.n_kv_heads + group);
  const int32_t* const first = selected_.data() + list * budget;
  return {first, std::find(first, first + budget, kNoBlock)};
}

std::vector<int32_t> CpuDevice::chosen_experts(int row) const {
  const int32_t* const first = chosen_.data() + row * shape_.n_experts_per_token;
  return {first, first + shape_.n_experts_per_token};
}

std::vector<float> CpuDevice::expert_weights(int row) const {
  const float* const first = chosen_weights_.data() + row * shape_.n_experts_per_token;
  return {first, first + shape_.n_experts_per_token};
}

uint64_t CpuDevice::bytes_read() const {
  uint64_t total = weight_bytes_read_;
  for (const ThreadScratch& thread : scratch_) total += thread.bytes_read;
  return total;
}

}  // namespace cpu
}  // namespace minim
