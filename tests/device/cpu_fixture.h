// Random weights and a small model that runs on any device, for tests of the CPU device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "base/formats.h"
#include "device/device.h"

namespace minim::cpu_test {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  // About normal, standard deviation 1.
  float normal() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(next() >> 40) * 0x1p-24f - 0.5f;
    return sum * 1.7320508f;
  }

 private:
  uint64_t state_;
};

// A matrix as a checkpoint would store it, with its bytes.
struct StoredMatrix {
  std::vector<uint8_t> values, scales;
  MatrixView view;
};

inline StoredMatrix store(WeightFormat format, size_t n_out, size_t n_in,
                          const std::vector<float>& w) {
  StoredMatrix m;
  m.view = {.format = format, .n_out = n_out, .n_in = n_in};
  if (format == WeightFormat::kBf16) {
    m.values.resize(n_out * n_in * 2);
    for (size_t i = 0; i < w.size(); ++i) {
      const uint16_t bits = float_to_bf16(w[i]);
      std::memcpy(m.values.data() + 2 * i, &bits, 2);
    }
  } else if (format == WeightFormat::kF32) {
    m.values.resize(n_out * n_in * 4);
    std::memcpy(m.values.data(), w.data(), m.values.size());
  } else if (format == WeightFormat::kMxfp8) {
    m.values.resize(n_out * n_in);
    m.scales.resize(n_out * n_in / kMxfp8Group);
    for (size_t i = 0; i < m.scales.size(); ++i) {
      m.scales[i] = mxfp8_encode(w.data() + i * kMxfp8Group, m.values.data() + i * kMxfp8Group);
    }
  } else {
    m.view.global = 0.0123f;
    m.values.resize(n_out * n_in / 2);
    m.scales.resize(n_out * n_in / kNvfp4Group);
    for (size_t i = 0; i < m.scales.size(); ++i) {
      m.scales[i] =
          nvfp4_encode(w.data() + i * kNvfp4Group, m.view.global, m.values.data() + i * 8);
    }
  }
  m.view.values = m.values.data();
  m.view.scales = m.scales.empty() ? nullptr : m.scales.data();
  return m;
}

inline StoredMatrix random_matrix(Rng& rng, WeightFormat format, size_t n_out, size_t n_in) {
  std::vector<float> w(n_out * n_in);
  const float scale = 1.0f / std::sqrt(static_cast<float>(n_in));
  for (float& value : w) value = rng.normal() * scale;
  return store(format, n_out, n_in, w);
}

// Rows of bf16 values that embed() turns into activations: the way to hand a device any input.
inline StoredMatrix random_rows(Rng& rng, size_t n_rows, size_t width) {
  std::vector<float> w(n_rows * width);
  for (float& value : w) value = rng.normal();
  return store(WeightFormat::kBf16, n_rows, width, w);
}

inline std::vector<float> random_vector(Rng& rng, size_t n, float scale) {
  std::vector<float> v(n);
  for (float& value : v) value = rng.normal() * scale;
  return v;
}

// Experts that are all resident; counts that what is acquired is released.
class ResidentExperts : public ExpertStore {
 public:
  void acquire(int layer, std::span<const int32_t> ids, MlpId* handles) override {
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_TRUE(i == 0 || ids[i - 1] < ids[i]) << "ids must ascend";
      handles[i] = experts.at(layer)[static_cast<size_t>(ids[i])];
      ++held;
      ++n_acquired;
    }
  }
  void release(int, std::span<const int32_t> ids) override { held -= ids.size(); }

  std::map<int, std::vector<MlpId>> experts;
  size_t held = 0, n_acquired = 0;
};

struct TinyLayer {
  bool sparse = false;
  bool moe = false;
};

struct TinySpec {
  ModelShape shape;
  std::vector<TinyLayer> layers;
  WeightFormat format = WeightFormat::kBf16;
  size_t dense_width = 40, expert_width = 48, shared_width = 64;
  KvFormats kv;
  KvOrder order = KvOrder::kBlockOuter;
  int n_blocks = 12;
  int max_rows = 600;
};

inline TinySpec tiny_spec() {
  TinySpec spec;
  spec.shape = {.hidden = 96,
                .n_layers = 2,
                .n_heads = 8,
                .n_kv_heads = 2,
                .rotary_dim = 64,
                .rope_theta = 5e6,
                .norm_eps = 1e-6f,
                .n_experts = 7,
                .n_experts_per_token = 3,
                .routed_scale = 2.0f,
                .top_k_blocks = 3,
                .init_blocks = 0,
                .local_blocks = 1,
                .vocab = 77};
  spec.layers = {{.sparse = false, .moe = false}, {.sparse = true, .moe = true}};
  return spec;
}

// Weights of one random model, kept so that several devices can load the same.
class TinyModel {
 public:
  explicit TinyModel(const TinySpec& spec, uint64_t seed = 1) : spec_(spec), rng_(seed) {
    const size_t hidden = static_cast<size_t>(spec.shape.hidden);
    const size_t heads = static_cast<size_t>(spec.shape.n_heads);
    const size_t groups = static_cast<size_t>(spec.shape.n_kv_heads);
    const size_t n_experts = static_cast<size_t>(spec.shape.n_experts);
    embedding_ = random_rows(rng_, static_cast<size_t>(spec.shape.vocab), hidden);
    for (const TinyLayer& kind : spec.layers) {
      Layer layer;
      const size_t widths[] = {heads * 128, groups * 128, groups * 128, groups * 128, 128};
      for (size_t i = 0; i < (kind.sparse ? 5u : 3u); ++i) {
        layer.qkv.push_back(
            random_matrix(rng_, i == 1 ? WeightFormat::kBf16 : small_format(), widths[i], hidden));
      }
      layer.output = random_matrix(rng_, small_format(), hidden, heads * 128);
      for (auto& norm : layer.norms) norm = random_vector(rng_, 128, 0.2f);
      layer.input_norm = random_vector(rng_, hidden, 0.2f);
      layer.post_norm = random_vector(rng_, hidden, 0.2f);
      add_mlp(layer, kind.moe ? spec.shared_width : spec.dense_width);
      if (kind.moe) {
        layer.gate = random_matrix(rng_, WeightFormat::kF32, n_experts, hidden);
        layer.bias = random_vector(rng_, n_experts, 0.1f);
        for (size_t e = 0; e < n_experts; ++e) add_mlp(layer, spec.expert_width);
      }
      layers_.push_back(std::move(layer));
    }
    final_norm_ = random_vector(rng_, hidden, 0.2f);
    lm_head_ =
        random_matrix(rng_, WeightFormat::kBf16, static_cast<size_t>(spec.shape.vocab), hidden);
  }

  const TinySpec& spec() const { return spec_; }

 private:
  friend class Runner;
  struct Layer {
    std::vector<StoredMatrix> qkv;
    StoredMatrix output;
    std::vector<float> norms[4];
    std::vector<float> input_norm, post_norm;
    std::vector<StoredMatrix> mlps;  // gate, up, down of the dense or shared one, then of experts
    StoredMatrix gate;
    std::vector<float> bias;
  };
  WeightFormat small_format() const { return spec_.format; }
  void add_mlp(Layer& layer, size_t width) {
    const size_t hidden = static_cast<size_t>(spec_.shape.hidden);
    layer.mlps.push_back(random_matrix(rng_, spec_.format, width, hidden));
    layer.mlps.push_back(random_matrix(rng_, spec_.format, width, hidden));
    layer.mlps.push_back(random_matrix(rng_, spec_.format, hidden, width));
  }

  TinySpec spec_;
  Rng rng_;
  StoredMatrix embedding_, lm_head_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
};

// A sequence of a test: its tokens and the blocks it may use.
struct TestSequence {
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;
  int done = 0;
};

inline TestSequence test_sequence(uint64_t seed, size_t n_tokens, std::vector<int32_t> blocks,
                                  int vocab = 77) {
  Rng rng(seed);
  TestSequence sequence{.tokens = {}, .blocks = std::move(blocks), .done = 0};
  for (size_t i = 0; i < n_tokens; ++i) {
    sequence.tokens.push_back(static_cast<int32_t>(rng.below(static_cast<size_t>(vocab))));
  }
  return sequence;
}

// A tiny model on one device.
class Runner {
 public:
  Runner(const TinyModel& model, std::unique_ptr<Device> device)
      : spec_(model.spec()), device_(std::move(device)) {
    Device& d = *device_;
    embedding_ = *d.load_embedding(model.embedding_.view);
    std::vector<bool> has_index;
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      const TinyModel::Layer& from = model.layers_[i];
      Layer layer;
      std::vector<MatrixView> parts;
      for (const StoredMatrix& part : from.qkv) parts.push_back(part.view);
      layer.qkv = *d.load_linear(parts);
      layer.output = *d.load_linear({&from.output.view, 1});
      layer.norms = {*d.load_norm(from.norms[0]), *d.load_norm(from.norms[1]),
                     *d.load_norm(from.norms[2]), *d.load_norm(from.norms[3])};
      layer.input_norm = *d.load_norm(from.input_norm);
      layer.post_norm = *d.load_norm(from.post_norm);
      for (size_t m = 0; m < from.mlps.size(); m += 3) {
        const MlpId id =
            *d.load_mlp(from.mlps[m].view, from.mlps[m + 1].view, from.mlps[m + 2].view);
        if (m == 0) {
          layer.mlp = id;
        } else {
          experts_.experts[static_cast<int>(i)].push_back(id);
        }
      }
      if (spec_.layers[i].moe) layer.router = *d.load_router(from.gate.view, from.bias);
      has_index.push_back(spec_.layers[i].sparse);
      layers_.push_back(layer);
    }
    final_norm_ = *d.load_norm(model.final_norm_);
    lm_head_ = *d.load_linear({&model.lm_head_.view, 1});
    EXPECT_TRUE(d.reserve(spec_.max_rows));
    layout_ = make_kv_layout(spec_.kv, spec_.shape.n_kv_heads, has_index, spec_.order);
    EXPECT_TRUE(d.make_cache(layout_, spec_.n_blocks));
    x_ = d.make_rows(spec_.shape.hidden);
    normed_ = d.make_rows(spec_.shape.hidden);
    projected_ = d.make_rows((spec_.shape.n_heads + 3 * spec_.shape.n_kv_heads + 1) * kHeadDim);
    attended_ = d.make_rows(spec_.shape.n_heads * kHeadDim);
  }

  Device& device() { return *device_; }
  ResidentExperts& experts() { return experts_; }
  const KvLayout& layout() const { return layout_; }
  Rows x() const { return x_; }

  // Whether forward() hands the device a whole step or operation by operation.
  void set_whole_steps(bool whole) { whole_steps_ = whole; }

  // The model as model/forward.cpp runs it; logits [batch.logits_rows.size(), vocab].
  void forward(const Batch& batch, float* logits) {
    const auto run = [&] { run_operations(batch, logits); };
    if (whole_steps_) {
      device_->run_step(run);
    } else {
      run();
    }
  }

  void run_operations(const Batch& batch, float* logits) {
    Device& d = *device_;
    const int n = batch.n_rows();
    d.embed(embedding_, batch.tokens, x_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& w = layers_[i];
      const int layer = static_cast<int>(i);
      d.rms_norm(w.input_norm, x_, n, normed_);
      d.linear(w.qkv, normed_, n, projected_);
      d.norm_rope_and_store(layer, w.norms, batch, projected_);
      if (spec_.layers[i].sparse) d.select_blocks(layer, batch, projected_);
      d.attend(layer, batch, spec_.layers[i].sparse, projected_, attended_);
      d.linear_add(w.output, attended_, n, x_);
      d.rms_norm(w.post_norm, x_, n, normed_);
      if (spec_.layers[i].moe) {
        d.route(w.router, normed_, n);
        d.moe_add(layer, experts_, w.mlp, normed_, n, x_);
      } else {
        d.mlp_add(w.mlp, normed_, n, x_);
      }
    }
    if (batch.logits_rows.empty()) return;
    d.rms_norm(final_norm_, x_, n, normed_);
    d.logits(lm_head_, normed_, batch.logits_rows, logits);
  }

  // Runs the next n_rows[i] tokens of sequence i in one step; logits of every row, in batch order.
  std::vector<float> step(std::span<TestSequence* const> sequences, std::span<const int> n_rows) {
    std::vector<int32_t> tokens, rows;
    std::vector<SequenceSpan> spans;
    for (size_t i = 0; i < sequences.size(); ++i) {
      TestSequence& sequence = *sequences[i];
      spans.push_back({.first_row = static_cast<int>(tokens.size()),
                       .n_rows = n_rows[i],
                       .first_position = sequence.done,
                       .blocks = sequence.blocks});
      const auto first = sequence.tokens.begin() + sequence.done;
      tokens.insert(tokens.end(), first, first + n_rows[i]);
      sequence.done += n_rows[i];
    }
    rows.resize(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> logits(tokens.size() * static_cast<size_t>(spec_.shape.vocab));
    forward({.tokens = tokens, .sequences = spans, .logits_rows = rows}, logits.data());
    return logits;
  }

  // A whole sequence in chunks of at most `chunk` rows; logits of every token.
  std::vector<float> run(TestSequence& sequence, int chunk) {
    std::vector<float> all;
    while (sequence.done < static_cast<int>(sequence.tokens.size())) {
      const int n = std::min(chunk, static_cast<int>(sequence.tokens.size()) - sequence.done);
      TestSequence* const one = &sequence;
      const std::vector<float> logits = step({&one, 1}, {&n, 1});
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  // The bytes of all layers of the blocks, in this order.
  std::vector<uint8_t> cache_bytes(std::span<const int32_t> blocks) {
    std::vector<uint8_t> bytes;
    for (int32_t block : blocks) {
      for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
        const std::span<uint8_t> part = device_->block_bytes(layer, block);
        bytes.insert(bytes.end(), part.begin(), part.end());
      }
    }
    return bytes;
  }

  void fill_cache(const std::function<uint8_t()>& byte) {
    for (int block = 0; block < spec_.n_blocks; ++block) {
      for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
        for (uint8_t& b : device_->block_bytes(layer, block)) b = byte();
      }
    }
  }

 private:
  struct Layer {
    LinearId qkv, output;
    AttentionNorms norms;
    NormId input_norm, post_norm;
    MlpId mlp;
    RouterId router = RouterId::kNone;
  };
  TinySpec spec_;
  std::unique_ptr<Device> device_;
  bool whole_steps_ = true;
  ResidentExperts experts_;
  KvLayout layout_;
  EmbeddingId embedding_;
  NormId final_norm_;
  LinearId lm_head_;
  std::vector<Layer> layers_;
  Rows x_, normed_, projected_, attended_;
};

inline const Kernels* best_kernels() { return available_kernels().back(); }

inline std::unique_ptr<Device> cpu_device(const ModelShape& shape, int n_threads = 1,
                                          const Kernels* kernels = nullptr,
                                          AttentionMode mode = AttentionMode::kDirect) {
  return make_cpu_device(shape, {.kernels = kernels != nullptr ? kernels : best_kernels(),
                                 .n_threads = n_threads,
                                 .attention = mode});
}

// Equal bits, NaN included; says where they first differ.
template <typename T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " values";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "differ first at " << i << ": " << +a[i] << " and " << +b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace minim::cpu_test
