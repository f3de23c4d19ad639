// The CPU device: kernels (kernels.h) over a pool of threads. See device.h for what each step does;
// the steps live in device.cpp (memory and small steps), linear.cpp, norm_rope.cpp, select.cpp,
// attend.cpp and moe.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/phase_list.h"
#include "base/thread_pool.h"
#include "device/cpu/packed.h"
#include "device/device.h"
#include "kernels/kernels.h"

namespace minim::cpu {

inline constexpr size_t kTileRows = 32;  // rows that pass a group of panels together
inline constexpr size_t kGroupPanels = 16;
inline constexpr size_t kGroupColumns = kGroupPanels * kPanelRows;
inline constexpr size_t kAttendRows = 16;  // rows that share a dequantised block
inline constexpr size_t kScoreRows = 16;   // rows that share a pass over index tiles

constexpr size_t padded(size_t n) { return (n + 15) / 16 * 16; }
constexpr size_t own_block(int position) { return static_cast<size_t>(position) / kBlockTokens; }

// What one thread needs while it runs an item; reserved once.
struct alignas(64) ThreadScratch {
  float* gathered = nullptr;      // [kTileRows, hidden]
  float* product = nullptr;       // [kTileRows, kGroupColumns], also of gate
  float* product_up = nullptr;    // the same, of up
  float* slots = nullptr;         // [max_rows * (experts per token + 1), kGroupColumns]
  float* sum = nullptr;           // [kGroupColumns]
  float* keys = nullptr;          // [128, 128]
  float* values = nullptr;        // [128, 128]
  float* lane_queries = nullptr;  // [lane tiles, 128, 16]
  float* states = nullptr;        // [segments, (128 + 2) * lanes]
  AttentionPartial* partial = nullptr;
  float* index_queries = nullptr;  // [kScoreRows, groups, 128]
  float* maxima = nullptr;         // [kScoreRows, groups]
  int32_t* n_visible = nullptr;    // [kScoreRows, groups]
  uint64_t* best = nullptr;        // [top_k_blocks]
  uint64_t bytes_read = 0;         // of the cache, since the device was made
};

// Rows of a matrix, in the listed order or (ids null) as they lie.
struct RowSource {
  const float* data = nullptr;
  size_t stride = 0;
  const int32_t* ids = nullptr;
};

// What becomes of a product.
enum class Sink : uint8_t {
  kRounded,  // to bf16, stored
  kAdded,    // to bf16, added to what is there, rounded again
  kRaw,      // stored as it is
};

// Rows that work items handle together, since they have blocks of the cache in common.
struct RowTile {
  const int32_t* rows = nullptr;
  size_t n_rows = 0;
  size_t end_block = 0;    // scoring: one behind the last block that a row wants scored
  size_t first_score = 0;  // of scores_: first row of this tile in the pass
  size_t first_item = 0;
};

// The tiles of a step for one purpose, and the rows that they point to.
struct RowTiles {
  std::vector<RowTile> tiles;
  std::vector<int32_t> rows;

  void reserve(size_t max_rows);
  void clear();
  // Appends a row to the last tile, or starts another one.
  void add(size_t row, bool starts_tile);
};

// One expert (or the shared one, or a dense MLP) with its rows: slots [first_slot, first_slot +
// n_rows) of activations_.
struct Segment {
  const PackedMlp* mlp = nullptr;
  size_t first_slot = 0, n_rows = 0;
  size_t first_item = 0;
};

// The heads of one row that share a lane tile.
struct LaneSegment {
  size_t row = 0;
  size_t lane_tile = 0, first_lane = 0, n_lanes = 0;
  size_t first_head = 0;  // inside the group
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const ModelShape& shape, const CpuOptions& options);

  const char* name() const override { return "cpu"; }
  Result<LinearId> load_linear(std::span<const MatrixView> parts) override;
  Result<MlpId> load_mlp(const MatrixView& gate, const MatrixView& up,
                         const MatrixView& down) override;
  Result<NormId> load_norm(std::span<const float> weight) override;
  Result<RouterId> load_router(const MatrixView& gate, std::span<const float> bias) override;
  Result<EmbeddingId> load_embedding(const MatrixView& table) override;
  size_t weights_bytes() const override { return weights_bytes_; }
  void for_each(size_t n, const std::function<void(size_t)>& body) override {
    pool_.parallel_for(n, [&](size_t i) { body(i); });
  }

  Result<Ok> reserve(int max_rows) override;
  Rows make_rows(int width) override;
  Result<Ok> make_cache(const KvLayout& layout, int n_blocks) override;
  std::span<uint8_t> block_bytes(int layer, int block) override;

  void embed(EmbeddingId table, std::span<const int32_t> tokens, Rows x) override;
  void rms_norm(NormId norm, Rows x, int n_rows, Rows out) override;
  void linear(LinearId w, Rows x, int n_rows, Rows out) override;
  void linear_add(LinearId w, Rows y, int n_rows, Rows x) override;
  void norm_rope_and_store(int layer, const AttentionNorms& norms, const Batch& batch,
                           Rows projected) override;
  void select_blocks(int layer, const Batch& batch, Rows projected) override;
  void attend(int layer, const Batch& batch, bool sparse, Rows projected, Rows out) override;
  void mlp_add(MlpId mlp, Rows h, int n_rows, Rows x) override;
  void route(RouterId router, Rows h, int n_rows) override;
  void moe_add(int layer, ExpertStore& experts, MlpId shared, Rows h, int n_rows, Rows x) override;
  void logits(LinearId w, Rows h, std::span<const int32_t> rows, float* out) override;

  void read_row(Rows x, int row, std::span<float> out) const override;
  std::vector<int32_t> selected_blocks(int row, int group) const override;
  std::vector<int32_t> chosen_experts(int row) const override;
  std::vector<float> expert_weights(int row) const override;
  uint64_t bytes_read() const override;

 private:
  struct Router {
    PackedLinear gate;
    std::vector<float> bias;
  };

  // device.cpp
  Result<Ok> fit_scratch();
  void begin_step() override;
  void end_step() override;
  void run_phases();
  // Every step is a series of phases, each of them `open` and its items (ThreadPool::Phase), put
  // off until end_step() inside run_step. So steps write members only in phases, or what all layers
  // of a batch have in common; and closures hold values, for they outlive the call.
  template <typename Open, typename Body>
  void add_phase(const Open& open, const Body& body) {
    if (phases_.full()) run_phases();
    phases_.add(open, body);
    if (!in_step_) run_phases();
  }
  template <typename Body>
  void add_loop(size_t n, const Body& body) {
    add_phase([n] { return n; }, body);
  }
  template <typename Call>
  void add_serial(const Call& call) {
    add_phase(
        [call] {
          call();
          return size_t{0};
        },
        [](size_t) {});
  }
  static float* row(Rows x, size_t i) {
    return static_cast<float*>(x.data) + i * padded(static_cast<size_t>(x.width));
  }
  static RowSource source(Rows x) {
    return {static_cast<const float*>(x.data), padded(static_cast<size_t>(x.width)), nullptr};
  }
  const float* norm_weight(NormId id) const { return norms_[static_cast<size_t>(id)]; }
  uint8_t* layer_tiles(int layer, int32_t block) const {
    return cache_.data() + layout_.offset(layer, block, n_blocks_);
  }

  // row_tiles.cpp
  void index_rows(const Batch& batch);
  int32_t block_id(const Batch& batch, size_t row, size_t block) const;
  static size_t tile_row(const RowTile& tile, size_t i) {
    return static_cast<size_t>(tile.rows[i]);
  }
  void attend_tiles(const Batch& batch);
  void score_tiles(const Batch& batch);
  bool planned(bool& what) const;

  // linear.cpp
  size_t panels_per_item(size_t n_panels) const;
  RowSource tile_rows(const RowSource& x, size_t first, size_t n_rows, size_t width,
                      ThreadScratch& scratch) const;
  void multiply(const PackedMatrix& w, size_t first_panel, size_t n_panels, const RowSource& x,
                size_t n_rows, float* y, size_t y_stride) const;
  void run_linear(const PackedLinear& w, const RowSource& x, size_t n_rows, Sink sink, float* out,
                  size_t out_stride);
  void linear_item(const PackedLinear::Part& part, size_t first_panel, size_t n_panels,
                   const RowSource& x, size_t n_rows, Sink sink, float* out, size_t out_stride,
                   ThreadScratch& scratch) const;

  // norm_rope.cpp
  const float* rope_row(size_t row);
  void norm_rope_row(int layer, const AttentionNorms& norms, const Batch& batch, size_t row,
                     float* projected);

  // select.cpp
  size_t n_local() const { return static_cast<size_t>(shape_.local_blocks); }
  void keep_all(size_t row, size_t n_visible_blocks);
  void run_pass(int layer, const Batch& batch, Rows projected, size_t first_tile, size_t end_tile);
  void score_block(int layer, const Batch& batch, const RowTile& tile, size_t first, size_t end,
                   size_t block, size_t score_stride, ThreadScratch& scratch);
  void score_item(int layer, const Batch& batch, Rows projected, const RowTile& tile,
                  size_t first_block, size_t end_block, size_t score_stride,
                  ThreadScratch& scratch);
  void choose(size_t row, const float* scores, size_t score_stride, ThreadScratch& scratch);

  // attend.cpp
  size_t heads_per_group() const { return static_cast<size_t>(shape_.n_heads / shape_.n_kv_heads); }
  size_t segments_per_row() const { return (heads_per_group() + kLanes - 1) / kLanes; }
  size_t lane_tiles(size_t n_rows) const;
  LaneSegment lane_segment(size_t segment) const;
  float* state(const ThreadScratch& scratch, size_t segment) const;
  void load_block(int layer, int32_t id, size_t group, size_t n_keys, ThreadScratch& scratch) const;
  void attend_item(int layer, const Batch& batch, const RowTile& tile, size_t group, bool sparse,
                   Rows projected, Rows out, ThreadScratch& scratch);
  void attend_rows(const RowTile& tile, const int32_t* visible, ThreadScratch& scratch) const;
  void start_lanes(const RowTile& tile, size_t group, Rows projected, ThreadScratch& scratch) const;
  void finish_lanes(const RowTile& tile, size_t group, Rows out, ThreadScratch& scratch) const;

  // moe.cpp
  void choose_experts(const Router& router, size_t row);
  void sort_by_expert(size_t n_rows);
  void gather_experts(int layer, ExpertStore& experts, MlpId shared, size_t n_rows);
  size_t cut_segments();
  void activate_item(size_t item, const RowSource& h, ThreadScratch& scratch) const;
  void add_combine(size_t n_rows, size_t n_choices, bool shared, Rows x);
  void activate(const Segment& segment, size_t first_panel, size_t n_panels, const RowSource& h,
                ThreadScratch& scratch) const;
  void combine(size_t first_panel, size_t n_panels, size_t n_rows, size_t n_choices, bool shared,
               Rows x, ThreadScratch& scratch) const;

  const ModelShape shape_;
  const Kernels& kernels_;
  const AttentionMode mode_;
  ThreadPool pool_;
  PhaseList phases_;
  bool in_step_ = false;

  Arena arena_;
  size_t weights_bytes_ = 0;
  uint64_t weight_bytes_read_ = 0;
  std::vector<PackedLinear> linears_;
  std::vector<PackedMlp> mlps_;
  std::vector<const float*> norms_;
  std::vector<Router> routers_;
  std::vector<MatrixView> embeddings_;

  size_t max_rows_ = 0;
  std::vector<AlignedBuffer> rows_;
  KvLayout layout_;
  AlignedBuffer cache_;
  int n_blocks_ = 0;

  AlignedBuffer scratch_memory_;
  std::vector<ThreadScratch> scratch_;
  float* activations_ = nullptr;  // [slots, activation_stride_]
  size_t activation_stride_ = 0;
  float* router_scores_ = nullptr;  // [max_rows, n_experts]
  float* scores_ = nullptr;         // [rows of a pass, groups, blocks]
  size_t n_scores_ = 0;

  // Of the current step.
  std::vector<int> row_position_;
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> sequence_order_;  // sequences that share blocks lie side by side
  RowTiles attend_tiles_, score_tiles_;
  size_t most_blocks_ = 0;  // of a row of score_tiles_
  // Inside run_step: which of the above are made already; they depend on the batch alone.
  struct Planned {
    bool rows = false, attend = false, score = false;
  } planned_;
  std::vector<int32_t> selected_;  // [max_rows, groups, top_k_blocks], ascending, kNoBlock behind

  std::vector<double> inverse_frequencies_;
  float* rope_ = nullptr;           // [max_rows, cos | sin, rotary_dim / 2]
  std::vector<int> rope_position_;  // whose angles a row of rope_ holds

  std::vector<int32_t> chosen_;  // [max_rows, n_experts_per_token]
  std::vector<float> chosen_weights_;
  std::vector<Segment> segments_;
  size_t segment_step_ = 0;         // panels of an item of segments_
  std::vector<int32_t> slot_rows_;  // row of a slot
  std::vector<size_t> slots_;       // slot of (row, choice)
  std::vector<int32_t> active_experts_;
  std::vector<MlpId> expert_handles_;
  std::vector<size_t> expert_counts_;
};

// The same order for block scores and expert scores, as one integer: score descending, id
// ascending; NaN counts as -inf, both zeros are equal. The largest key wins.
uint64_t rank_key(float score, uint32_t id);
constexpr uint32_t ranked_id(uint64_t key) { return ~static_cast<uint32_t>(key); }

}  // namespace minim::cpu
