// A device that computes nothing and keeps what it was given, dequantised: for tests of loading.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "base/formats.h"
#include "device/device.h"

namespace minim::testing {

// A matrix as numbers; `format` of the view it came from.
struct PlainMatrix {
  WeightFormat format = WeightFormat::kBf16;
  size_t n_out = 0, n_in = 0;
  std::vector<double> values;  // [n_out, n_in]

  double at(size_t row, size_t column) const { return values[row * n_in + column]; }
};

inline double stored_value(const MatrixView& view, size_t row, size_t column) {
  const size_t i = row * view.n_in + column;
  switch (view.format) {
    case WeightFormat::kBf16: {
      const uint16_t bits = static_cast<uint16_t>(view.values[2 * i] | view.values[2 * i + 1] << 8);
      return bf16_to_float(bits);
    }
    case WeightFormat::kF32: {
      uint32_t bits = 0;
      for (size_t b = 0; b < 4; ++b) bits |= uint32_t{view.values[4 * i + b]} << (8 * b);
      return std::bit_cast<float>(bits);
    }
    case WeightFormat::kMxfp8:
      return static_cast<double>(e4m3_to_float(view.values[i])) *
             e8m0_to_float(view.scales[i / kMxfp8Group]);
    case WeightFormat::kNvfp4:
      return static_cast<double>(
                 e2m1_to_float(static_cast<uint8_t>(view.values[i / 2] >> (4 * (i % 2))))) *
             e4m3_to_float(view.scales[i / kNvfp4Group]) * view.global;
  }
  return 0;
}

inline PlainMatrix dequantised(const MatrixView& view) {
  PlainMatrix matrix{.format = view.format, .n_out = view.n_out, .n_in = view.n_in, .values = {}};
  for (size_t row = 0; row < view.n_out; ++row) {
    for (size_t column = 0; column < view.n_in; ++column) {
      matrix.values.push_back(stored_value(view, row, column));
    }
  }
  return matrix;
}

class FakeDevice : public Device {
 public:
  struct Mlp {
    PlainMatrix gate, up, down;
  };
  struct Router {
    PlainMatrix gate;
    std::vector<float> bias;
  };
  std::vector<std::vector<PlainMatrix>> linears;  // by id: the parts
  std::vector<Mlp> mlps;
  std::vector<std::vector<float>> norms;
  std::vector<Router> routers;
  std::vector<MatrixView> embeddings;
  int fail_after = -1;  // loads until kExhausted; negative: never

  const std::vector<PlainMatrix>& linear_parts(LinearId id) const {
    return linears.at(static_cast<size_t>(id));
  }
  const Mlp& mlp(MlpId id) const { return mlps.at(static_cast<size_t>(id)); }
  const std::vector<float>& norm(NormId id) const { return norms.at(static_cast<size_t>(id)); }
  const Router& router(RouterId id) const { return routers.at(static_cast<size_t>(id)); }

  const char* name() const override { return "fake"; }
  Result<LinearId> load_linear(std::span<const MatrixView> parts) override {
    if (exhausted()) return error();
    linears.emplace_back();
    for (const MatrixView& part : parts) linears.back().push_back(dequantised(part));
    return static_cast<LinearId>(linears.size() - 1);
  }
  Result<MlpId> load_mlp(const MatrixView& gate, const MatrixView& up,
                         const MatrixView& down) override {
    if (exhausted()) return error();
    mlps.push_back({dequantised(gate), dequantised(up), dequantised(down)});
    return static_cast<MlpId>(mlps.size() - 1);
  }
  Result<NormId> load_norm(std::span<const float> weight) override {
    if (exhausted()) return error();
    norms.emplace_back(weight.begin(), weight.end());
    return static_cast<NormId>(norms.size() - 1);
  }
  Result<RouterId> load_router(const MatrixView& gate, std::span<const float> bias) override {
    if (exhausted()) return error();
    routers.push_back({dequantised(gate), {bias.begin(), bias.end()}});
    return static_cast<RouterId>(routers.size() - 1);
  }
  Result<EmbeddingId> load_embedding(const MatrixView& table) override {
    embeddings.push_back(table);
    return static_cast<EmbeddingId>(embeddings.size() - 1);
  }
  size_t weights_bytes() const override { return 0; }

  Result<Ok> reserve(int) override { return Ok{}; }
  Rows make_rows(int width) override { return {nullptr, width}; }
  Result<Ok> make_cache(const KvLayout&, int) override { return Ok{}; }
  std::span<uint8_t> block_bytes(int, int) override { return {}; }
  void embed(EmbeddingId, std::span<const int32_t>, Rows) override { no_steps(); }
  void rms_norm(NormId, Rows, int, Rows) override { no_steps(); }
  void linear(LinearId, Rows, int, Rows) override { no_steps(); }
  void linear_add(LinearId, Rows, int, Rows) override { no_steps(); }
  void norm_rope_and_store(int, const AttentionNorms&, const Batch&, Rows) override { no_steps(); }
  void select_blocks(int, const Batch&, Rows) override { no_steps(); }
  void attend(int, const Batch&, bool, Rows, Rows) override { no_steps(); }
  void mlp_add(MlpId, Rows, int, Rows) override { no_steps(); }
  void route(RouterId, Rows, int) override { no_steps(); }
  void moe_add(int, ExpertStore&, MlpId, Rows, int, Rows) override { no_steps(); }
  void logits(LinearId, Rows, std::span<const int32_t>, float*) override { no_steps(); }
  void read_row(Rows, int, std::span<float>) const override { no_steps(); }
  std::vector<int32_t> selected_blocks(int, int) const override { return {}; }
  std::vector<int32_t> chosen_experts(int) const override { return {}; }
  std::vector<float> expert_weights(int) const override { return {}; }

 private:
  static void no_steps() { CHECK(false, "the fake device loads weights only"); }
  static Error error() { return {Code::kExhausted, "no memory left"}; }
  bool exhausted() { return fail_after >= 0 && fail_after-- == 0; }
};

}  // namespace minim::testing
