// The one seam between the model and a machine: about fifteen steps, and memory.
//
// A device runs the mathematics of the family; the model (model/forward.cpp) says in which order.
// Activations live in Rows, whose contents only the device understands (the CPU keeps floats
// holding bf16 values, the reference device doubles), so one forward pass serves every device.
// Prefill and decode are the same calls with different row counts; where a device wants another
// schedule it chooses inside a step.
//
// Shapes were checked when weights were loaded and space when the batch was built, so steps cannot
// fail. A device is used by one thread at a time; it may use a pool of its own inside a step. Every
// row's result depends on that row, its sequence's cache and the weights alone: batch mates, chunk
// sizes and thread counts never change a bit.
//
// Rounding points of the `exact` contract are those of ARCHITECTURE.md; "rounded" below means: to
// bf16.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/kv_layout.h"
#include "device/weights.h"
#include "kernels/kernels.h"

namespace minim {

// What a device must know of the architecture.
struct ModelShape {
  int hidden = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads =
      0;  // = index heads = groups; query head j belongs to group j / (n_heads / n_kv_heads)
  int rotary_dim = 64;  // rotated channels of a head
  double rope_theta = 5e6;
  float norm_eps = 1e-6f;
  float swiglu_alpha = 1.702f;
  float swiglu_limit = 7.0f;
  int n_experts = 0;
  int n_experts_per_token = 0;
  float routed_scale = 1.0f;
  int top_k_blocks = 16;
  int init_blocks = 0;
  int local_blocks = 1;
  int vocab = 0;
};

// [n_rows, width] activations. The device owns the memory and knows the element type.
struct Rows {
  void* data = nullptr;
  int width = 0;
};

// One sequence's share of a step: rows [first_row, first_row + n_rows) of the batch are its next
// tokens, at positions first_position, first_position + 1, ... `blocks` holds the block ids of
// positions 0 .. first_position + n_rows - 1 (position / kBlockTokens indexes it), all of them
// within the pool and not shared with rows that another span writes.
struct SequenceSpan {
  int first_row = 0;
  int n_rows = 0;
  int first_position = 0;
  std::span<const int32_t> blocks;
};

// What one step runs. `logits_rows`: the rows whose logits are wanted, ascending.
struct Batch {
  std::span<const int32_t> tokens;  // one a row, each in [0, vocab)
  std::span<const SequenceSpan> sequences;
  std::span<const int32_t> logits_rows;
  int n_rows() const { return static_cast<int>(tokens.size()); }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;  // "cpu", "ref"

  // ---- weights: loaded once; views may be released afterwards except where said
  // ------------------------------------- The rows of all parts, one below the other (their formats
  // may differ). Fails only for lack of memory (kExhausted).
  virtual Result<LinearId> load_linear(std::span<const MatrixView> parts) = 0;
  // A gated MLP: gate and up [width, hidden], down [hidden, width].
  virtual Result<MlpId> load_mlp(const MatrixView& gate, const MatrixView& up,
                                 const MatrixView& down) = 0;
  virtual Result<NormId> load_norm(
      std::span<const float> weight) = 0;  // stored weight w; the norm multiplies by 1 + w
  // gate [n_experts, hidden] (kF32 or kBf16), bias [n_experts].
  virtual Result<RouterId> load_router(const MatrixView& gate, std::span<const float> bias) = 0;
  // table [vocab, hidden], kBf16. The view must outlive the device: only looked-up rows are ever
  // touched.
  virtual Result<EmbeddingId> load_embedding(const MatrixView& table) = 0;
  virtual size_t weights_bytes() const = 0;  // owned by the device
  // Calls body(i) for every i in [0, n), in any order, on the threads that the device has for work
  // on the host: for what loading does beside handing over weights. body must not call the device.
  virtual void for_each(size_t n, const std::function<void(size_t)>& body) {
    for (size_t i = 0; i < n; ++i) body(i);
  }

  // ---- memory
  // Buffers for steps of at most max_rows rows; called once, before make_rows.
  virtual Result<Ok> reserve(int max_rows) = 0;
  virtual Rows make_rows(int width) = 0;  // zeroed
  // The block pool, zeroed lazily. kExhausted when the memory cannot be had.
  virtual Result<Ok> make_cache(const KvLayout& layout, int n_blocks) = 0;
  // The raw bytes of one layer of one block, layout().layer_bytes(layer) long (tests, spill). The
  // reference device keeps unquantised lanes as doubles and has no bytes for them: then empty.
  virtual std::span<uint8_t> block_bytes(int layer, int block) = 0;

  // ---- steps
  // Calls body(), which calls the steps of one batch below, none of them in another run_step. A
  // device may put them off and run them together when body returns, so what body captures, the
  // batch and what it points to must live until run_step returns, and only then are results there
  // (logits, "looking inside"). Steps outside of run_step are done when they return; the bits are
  // the same.
  template <typename Body>
  void run_step(const Body& body) {
    begin_step();
    body();
    end_step();
  }

  // x[r] = embedding row of tokens[r]; no scaling.
  virtual void embed(EmbeddingId table, std::span<const int32_t> tokens, Rows x) = 0;
  // out = NORM(x), rounded once. Rows [0, n_rows).
  virtual void rms_norm(NormId norm, Rows x, int n_rows, Rows out) = 0;
  // out[r] = W x[r], rounded. out.width >= the matrix's rows.
  virtual void linear(LinearId w, Rows x, int n_rows, Rows out) = 0;
  // x[r] = rounded(x[r] + rounded(W y[r])).
  virtual void linear_add(LinearId w, Rows y, int n_rows, Rows x) = 0;

  // The attention input of a layer: projected rows hold q | k | v, and | index q | index k in MSA
  // layers (widths n_heads, n_kv_heads, n_kv_heads, n_kv_heads and 1 times 128). Per-head norm and
  // RoPE (fp32, one rounding at the end) of q and index q in place; k and index k go from the fp32
  // result, v from the rounded projection, straight into the cache. kGpu rounds q and index q to
  // E4M3 instead of bf16 where the lane is quantised (fp8, nvfp4).
  virtual void norm_rope_and_store(int layer, const AttentionNorms& norms, const Batch& batch,
                                   Rows projected) = 0;

  // For every row and group: the top_k_blocks blocks of the row's own past, by score (largest index
  // q . index k over the visible keys of the block) descending, then block id ascending; NaN =
  // -inf. The last local_blocks up to the row's own and the first init_blocks are always in and
  // count inside top_k_blocks; at most that many visible: all are kept. Result is kept inside the
  // device for attend() of the same layer.
  virtual void select_blocks(int layer, const Batch& batch, Rows projected) = 0;

  // out[r] = attention of the row's query heads (first n_heads * 128 columns of projected) over the
  // selected blocks (sparse) or all its blocks (dense), keys at positions <= its own; [n_rows,
  // n_heads * 128], rounded.
  virtual void attend(int layer, const Batch& batch, bool sparse, Rows projected, Rows out) = 0;

  // x[r] = rounded(x[r] + rounded(MLP(h[r]))); gate and up outputs rounded, activation rounded,
  // down rounded.
  virtual void mlp_add(MlpId mlp, Rows h, int n_rows, Rows x) = 0;

  // Chooses experts for every row: scores sigmoid(gate h), by score + bias descending, ties to the
  // lower id; weights = score / sum of the chosen scores * routed_scale, fp32. Kept inside the
  // device for moe_add().
  virtual void route(RouterId router, Rows h, int n_rows) = 0;
  // x[r] = rounded(x[r] + rounded(sum over the chosen, in choice order, of weight * E(h[r]), plus
  // shared(h[r]) last)); down outputs stay fp32 until that one rounding. shared may be absent.
  virtual void moe_add(int layer, ExpertStore& experts, MlpId shared, Rows h, int n_rows,
                       Rows x) = 0;

  // out[i] = logits of row rows[i] of h, fp32, not rounded: [rows.size(), vocab], in host memory.
  virtual void logits(LinearId w, Rows h, std::span<const int32_t> rows, float* out) = 0;

  // ---- looking inside (tests, score --trace)
  virtual void read_row(Rows x, int row, std::span<float> out) const = 0;  // out.size() <= width
  virtual std::vector<int32_t> selected_blocks(
      int row, int group) const = 0;  // of the last select_blocks, ascending
  virtual std::vector<int32_t> chosen_experts(
      int row) const = 0;  // of the last route, choice order
  virtual std::vector<float> expert_weights(int row) const = 0;
  // Bytes that steps have read since the device was made: every matrix that a step multiplied with
  // (of experts those that were chosen) once a step as it is stored on the device, embedding rows
  // that were looked up, cached vectors each time they were unpacked. Not counted: norms,
  // activations. A device that does not count says 0.
  virtual uint64_t bytes_read() const { return 0; }

 private:
  virtual void begin_step() {}
  virtual void end_step() {}
};

struct CpuOptions {
  const Kernels* kernels = nullptr;
  int n_threads = 1;
  AttentionMode attention = AttentionMode::kDirect;
  bool pin_threads = false;  // as ThreadPool's
};
std::unique_ptr<Device> make_cpu_device(const ModelShape& shape, const CpuOptions& options);

// The naive device: plain loops, double accumulators, one thread. `rounded` false: nothing is
// rounded between operations (the cache still is, unless its format is bf16): the meaning, free of
// bf16 noise. true: the rounding points of `exact`.
struct RefOptions {
  bool rounded = false;
  AttentionMode attention = AttentionMode::kDirect;
};
std::unique_ptr<Device> make_ref_device(const ModelShape& shape, const RefOptions& options);

}  // namespace minim
