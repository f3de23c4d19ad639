// A checkpoint loaded onto a device with a block pool, and one sequence run on it: what model tests
// share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/weights.h"

namespace minim::testing {

using DeviceFactory = std::function<std::unique_ptr<Device>(const ModelShape&)>;

inline DeviceFactory cpu_factory(const Kernels* kernels, int n_threads,
                                 AttentionMode attention = AttentionMode::kDirect) {
  return [=](const ModelShape& shape) {
    return make_cpu_device(
        shape, CpuOptions{.kernels = kernels, .n_threads = n_threads, .attention = attention});
  };
}

inline DeviceFactory ref_factory(bool rounded, AttentionMode attention = AttentionMode::kDirect) {
  return [=](const ModelShape& shape) {
    return make_ref_device(shape, RefOptions{.rounded = rounded, .attention = attention});
  };
}

// Members are declared so that the device dies before the mapping it reads.
struct LoadedModel {
  Config config;
  KvLayout layout;
  int n_blocks = 0;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
};

struct LoadOptions {
  std::optional<KvFormats> formats;  // empty: what the checkpoint declares
  KvOrder order = KvOrder::kBlockOuter;
  int max_rows = 512;
  int n_blocks = 24;
};

// Loads DIR or fails the test (then `model` is null).
inline LoadedModel load_model(const std::string& dir, const DeviceFactory& factory,
                              const LoadOptions& options = {}) {
  LoadedModel loaded;
  Result<Config> config = load_config(dir);
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return loaded;
  loaded.config = *config;
  Result<Checkpoint> checkpoint = Checkpoint::open(dir);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  if (!checkpoint) return loaded;
  loaded.checkpoint = std::make_unique<Checkpoint>(std::move(*checkpoint));
  loaded.device = factory(model_shape(loaded.config));
  Result<Weights> weights =
      load_weights(*loaded.checkpoint, loaded.config, *loaded.device, nullptr);
  EXPECT_TRUE(weights) << weights.error().message;
  if (!weights) return loaded;

  std::vector<bool> has_index;
  for (const LayerKind& layer : loaded.config.layers) has_index.push_back(layer.sparse_attention);
  loaded.layout = make_kv_layout(options.formats.value_or(loaded.config.kv),
                                 loaded.config.n_kv_heads, has_index, options.order);
  loaded.n_blocks = options.n_blocks;
  Result<Ok> cache = loaded.device->make_cache(loaded.layout, options.n_blocks);
  EXPECT_TRUE(cache) << cache.error().message;
  if (!cache) return loaded;
  Result<std::unique_ptr<Model>> model =
      Model::make(loaded.config, std::move(*weights), *loaded.device, options.max_rows);
  EXPECT_TRUE(model) << model.error().message;
  if (model) loaded.model = std::move(*model);
  return loaded;
}

// One sequence on a loaded model. Its blocks are a permutation of the pool when a table is given,
// else 0, 1, 2, ...
class SequenceRunner {
 public:
  explicit SequenceRunner(LoadedModel& loaded, std::vector<int32_t> table = {})
      : loaded_(loaded), table_(std::move(table)) {
    if (table_.empty()) {
      table_.resize(static_cast<size_t>(loaded.n_blocks));
      std::iota(table_.begin(), table_.end(), 0);
    }
  }

  // Runs tokens in chunks of at most `chunk` rows; returns the logits of the last `keep` rows,
  // row-major.
  std::vector<float> run(std::span<const int32_t> tokens, int chunk, int keep,
                         Trace* trace = nullptr) {
    std::vector<float> kept;
    const int n = static_cast<int>(tokens.size());
    for (int begin = 0; begin < n; begin += chunk) {
      const int end = std::min(n, begin + chunk);
      std::vector<int32_t> wanted;
      for (int i = std::max(begin, n - keep); i < end; ++i) wanted.push_back(i - begin);
      const size_t old = kept.size();
      kept.resize(old + wanted.size() * static_cast<size_t>(loaded_.config.vocab));
      const SequenceSpan span{
          .first_row = 0, .n_rows = end - begin, .first_position = position_, .blocks = table_};
      const Batch batch{
          .tokens = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          .sequences = std::span(&span, 1),
          .logits_rows = wanted};
      loaded_.model->forward(batch, std::span(kept).subspan(old), trace);
      position_ += end - begin;
    }
    return kept;
  }

  int position() const { return position_; }

  // Bytes of the used blocks, layer after layer, wherever the blocks lie. A pool starts zeroed, so
  // two runs of the same tokens on fresh pools must agree in every byte, those behind the end
  // included.
  std::vector<uint8_t> cache_bytes() const {
    std::vector<uint8_t> out;
    const int n_used = (position_ + kBlockTokens - 1) / kBlockTokens;
    for (int layer = 0; layer < loaded_.config.n_layers; ++layer) {
      for (int i = 0; i < n_used; ++i) {
        const auto bytes = loaded_.device->block_bytes(layer, table_[static_cast<size_t>(i)]);
        out.insert(out.end(), bytes.begin(), bytes.end());
      }
    }
    return out;
  }

 private:
  LoadedModel& loaded_;
  std::vector<int32_t> table_;
  int position_ = 0;
};

inline double relative_l2(std::span<const float> got, std::span<const float> want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    difference += d * d;
    size += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(difference / size);
}

}  // namespace minim::testing
