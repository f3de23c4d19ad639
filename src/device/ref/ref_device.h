// The reference device: its state. What each step means is said in device/device.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/ref/cache.h"
#include "device/ref/math.h"
#include "device/ref/matrix.h"

namespace minim::ref {

struct Mlp {
  Matrix gate, up, down;
};

struct Router {
  Matrix gate;
  std::vector<float> bias;
};

class RefDevice final : public Device {
 public:
  RefDevice(const ModelShape& shape, const RefOptions& options)
      : shape_(shape), options_(options) {}

  const char* name() const override { return "ref"; }

  Result<LinearId> load_linear(std::span<const MatrixView> parts) override;
  Result<MlpId> load_mlp(const MatrixView& gate, const MatrixView& up,
                         const MatrixView& down) override;
  Result<NormId> load_norm(std::span<const float> weight) override;
  Result<RouterId> load_router(const MatrixView& gate, std::span<const float> bias) override;
  Result<EmbeddingId> load_embedding(const MatrixView& table) override;
  size_t weights_bytes() const override { return weights_bytes_; }

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

 private:
  static double* row(Rows x, int index) {
    return static_cast<double*>(x.data) + static_cast<ptrdiff_t>(index) * x.width;
  }
  // Rounds to bf16 where the contract `exact` does, and not at all otherwise.
  double rounded(double x) const { return options_.rounded ? round_bf16(x) : x; }
  void round_all(double* x, size_t n) const;
  // The E4M3 arithmetic of `gpu` holds where the lane is quantised.
  bool e4m3_arithmetic(KvFormat lane) const {
    return options_.attention == AttentionMode::kGpu && lane != KvFormat::kBf16;
  }
  Probabilities probabilities() const;

  template <typename Id, typename T>
  Id keep(std::vector<T>* list, T item) {
    list->push_back(std::move(item));
    return static_cast<Id>(list->size() - 1);
  }
  template <typename T, typename Id>
  static const T& get(const std::vector<T>& list, Id id) {
    return list[static_cast<size_t>(id)];
  }

  // Norm and RoPE of one head in place, unrounded.
  void norm_rope(NormId norm, const RopeTable& table, double* head) const;
  void round_query(KvFormat lane, double* head) const;
  void store_row(int layer, const AttentionNorms& norms, int block, int position, double* row);
  void attend_group(int layer, const SequenceSpan& span, int group, bool sparse, Rows projected,
                    Rows out);
  bool attends_to(bool sparse, const SequenceSpan& span, int row, int group, int block) const;

  // MLP(h) of one row; the last product stays unrounded.
  std::vector<double> run_mlp(const Mlp& mlp, const double* h) const;

  ModelShape shape_;
  RefOptions options_;
  std::vector<Matrix> linears_;
  std::vector<Mlp> mlps_;
  std::vector<std::vector<double>> norms_;
  std::vector<Router> routers_;
  std::vector<MatrixView> embeddings_;
  size_t weights_bytes_ = 0;

  int max_rows_ = 0;
  std::vector<Doubles> rows_;
  KvLayout layout_;
  std::optional<Cache> cache_;
  std::vector<std::vector<int32_t>> selected_;  // [row * n_kv_heads + group], ascending
  std::vector<ExpertChoice> chosen_;            // [row]
};

}  // namespace minim::ref
