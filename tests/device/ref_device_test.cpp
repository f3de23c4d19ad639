// The reference device's weights, cache and plain steps.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/formats.h"
#include "device/device.h"
#include "device/ref/cache.h"
#include "device/ref/matrix.h"
#include "kernels/panel.h"
#include "support/near.h"

namespace minim::testing {
namespace {

using ref::Lane;
using ref::Matrix;

std::vector<double> random_values(size_t n, unsigned seed, double size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, size);
  std::vector<double> values(n);
  for (double& value : values) value = normal(random);
  return values;
}

std::vector<uint8_t> random_bytes(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// ---- weights ----

TEST(RefWeights, EveryFormatIsDequantisedExactly) {
  const size_t n_out = 19, n_in = 64;
  std::vector<uint8_t> values = random_bytes(n_out * n_in * 4, 1);
  std::vector<uint8_t> scales(n_out * n_in / 16);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(110 + i % 16);
  for (uint8_t& byte : values) {
    if ((byte & 127) == 127) byte = 1;  // no NaN in any format
  }
  const MatrixView bf16{WeightFormat::kBf16, n_out, n_in, values.data(), nullptr};
  const MatrixView f32{WeightFormat::kF32, n_out, n_in, values.data(), nullptr};
  const MatrixView mxfp8{WeightFormat::kMxfp8, n_out, n_in, values.data(), scales.data()};
  const MatrixView nvfp4{WeightFormat::kNvfp4, n_out, n_in, values.data(), scales.data(), 0.37f};
  const MatrixView parts[] = {bf16, f32, mxfp8, nvfp4};
  const Result<Matrix> all = ref::dequantise(parts);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->n_out, 4 * n_out);
  for (size_t r = 0; r < n_out; ++r) {
    for (size_t k = 0; k < n_in; ++k) {
      const size_t i = r * n_in + k;
      uint16_t half;
      float whole;
      std::memcpy(&half, &values[2 * i], 2);
      std::memcpy(&whole, &values[4 * i], 4);
      ASSERT_EQ(all->at(r, k), static_cast<double>(bf16_to_float(half)));
      ASSERT_EQ(all->at(n_out + r, k), static_cast<double>(whole));
      ASSERT_EQ(all->at(2 * n_out + r, k),
                std::ldexp(static_cast<double>(e4m3_to_float(values[i])), scales[i / 32] - 127));
      const uint8_t byte = values[i / 2];
      const double code = static_cast<double>(e2m1_to_float(k % 2 == 0 ? byte & 15 : byte >> 4));
      const double scale = static_cast<double>(e4m3_to_float(scales[i / 16]));
      ASSERT_EQ(all->at(3 * n_out + r, k), code * scale * static_cast<double>(0.37f));
    }
  }
}

TEST(RefWeights, TheProductIsTheSumOverTheUsedChannels) {
  for (const size_t n_out : {1, 15, 16, 17, 40}) {
    const size_t n_in = 33, n_rows = 3, n_used = 29;
    Matrix w = *ref::make_matrix(n_out, n_in);
    const auto values = random_values(n_out * n_in, 2), x = random_values(n_rows * n_in, 3);
    for (size_t i = 0; i < values.size(); ++i) w.at(i / n_in, i % n_in) = values[i];
    std::vector<double> got(n_rows * (n_out + 2), -1.0), want = got;
    ref::multiply(w, x.data(), n_in, n_rows, n_used, got.data(), n_out + 2);
    for (size_t t = 0; t < n_rows; ++t) {
      for (size_t r = 0; r < n_out; ++r) {
        double sum = 0;
        for (size_t k = 0; k < n_used; ++k) sum += values[r * n_in + k] * x[t * n_in + k];
        want[t * (n_out + 2) + r] = sum;
      }
    }
    EXPECT_EQ(got, want) << n_out << " rows";
  }
}

// ---- cache ----

struct CacheCase {
  KvFormat format;
  bool keep_exact;
  bool reread_e4m3;
};

double stored_value(const CacheCase& c, const std::vector<double>& x, size_t i) {
  if (c.format == KvFormat::kBf16) {
    return c.keep_exact ? x[i] : static_cast<double>(round_to_bf16(static_cast<float>(x[i])));
  }
  if (c.format == KvFormat::kFp8E4m3) {
    return static_cast<double>(round_to_e4m3(static_cast<float>(x[i])));
  }
  float group[16];
  uint8_t codes[8];
  for (size_t j = 0; j < 16; ++j) group[j] = static_cast<float>(x[i / 16 * 16 + j]);
  const uint8_t scale = nvfp4_kv_encode(group, codes);
  const uint8_t code = (codes[i % 16 / 2] >> (i % 2 * 4)) & 15u;
  const float value = nvfp4_kv_value(code, scale);
  return static_cast<double>(c.reread_e4m3 ? round_to_e4m3(value) : value);
}

TEST(RefCache, WhatIsStoredIsReadBackRoundedOnceInBothOrders) {
  for (const KvOrder order : {KvOrder::kBlockOuter, KvOrder::kLayerOuter}) {
    for (const CacheCase& c :
         {CacheCase{KvFormat::kBf16, false, false}, CacheCase{KvFormat::kBf16, true, false},
          CacheCase{KvFormat::kBf16, false, true}, CacheCase{KvFormat::kFp8E4m3, true, true},
          CacheCase{KvFormat::kNvfp4, true, false}, CacheCase{KvFormat::kNvfp4, false, true}}) {
      const KvLayout layout = make_kv_layout({c.format, c.format}, 2, {true, false, true}, order);
      auto cache = ref::Cache::make(layout, 3, c.keep_exact, c.reread_e4m3);
      ASSERT_TRUE(cache);
      // Every tile first, so that a tile that overlaps another is found when all are read.
      std::vector<ref::TileName> tiles;
      for (int layer = 0; layer < 3; ++layer) {
        for (int block = 0; block < 3; ++block) {
          for (int head = 0; head < 2; ++head) {
            tiles.push_back({layer, block, Lane::kKey, head});
            tiles.push_back({layer, block, Lane::kValue, head});
          }
          if (layer != 1) tiles.push_back({layer, block, Lane::kIndexKey, 0});
        }
      }
      for (size_t t = 0; t < tiles.size(); ++t) {
        const auto x = random_values(128 * 128, static_cast<unsigned>(t), 3);
        for (size_t token = 0; token < 128; ++token) cache->store(tiles[t], token, &x[128 * token]);
      }
      Matrix out = *ref::make_matrix(128, 128);
      for (size_t t = 0; t < tiles.size(); ++t) {
        const auto x = random_values(128 * 128, static_cast<unsigned>(t), 3);
        cache->load(tiles[t], 77, &out);
        for (size_t i = 0; i < 77 * 128; ++i) {
          const size_t token = i / 128, channel = i % 128;
          const double got =
              tiles[t].lane == Lane::kValue ? out.at(channel, token) : out.at(token, channel);
          ASSERT_EQ(got, stored_value(c, x, i)) << "tile " << t << " element " << i;
        }
      }
      EXPECT_EQ(cache->block_bytes(0, 0).empty(), c.keep_exact && c.format == KvFormat::kBf16);
    }
  }
}

// The panel layout as kernels/panel.h words it, walked in memory order.
TEST(RefCache, PanelAddressesWalkTheDocumentedLayout) {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kFp8E4m3, KvFormat::kNvfp4}) {
    const PanelFormat panel = format == KvFormat::kBf16      ? PanelFormat::kBf16
                              : format == KvFormat::kFp8E4m3 ? PanelFormat::kFp8
                                                             : PanelFormat::kNvfp4;
    std::set<std::pair<size_t, bool>> elements;
    std::set<size_t> scales;
    for (size_t key = 0; key < 128; ++key) {
      for (size_t channel = 0; channel < 128; ++channel) {
        const auto at = ref::panel_address(format, key, channel);
        EXPECT_EQ(at.byte / panel_bytes(panel, 128), key / 16);
        EXPECT_LT(at.byte, kv_tile_bytes(format));
        EXPECT_TRUE(elements.insert({at.byte, at.high_nibble}).second);
        if (format == KvFormat::kNvfp4) scales.insert(at.scale);
      }
    }
    for (const size_t scale : scales) {
      EXPECT_EQ(elements.count({scale, false}) + elements.count({scale, true}), 0u);
    }
    EXPECT_EQ(scales.size(), format == KvFormat::kNvfp4 ? 1024u : 0u);
  }
  // One key, one channel, by hand: key 18 = panel 1 lane 2; channel 93 = group 1, block 1, k 13.
  const auto at = ref::panel_address(KvFormat::kNvfp4, 18, 93);
  EXPECT_EQ(at.byte, 1152u + 576 + 128 + 64 + 2 * 4 + 1);
  EXPECT_TRUE(at.high_nibble);
  EXPECT_EQ(at.scale, 1152u + 576 + 512 + 16 + 2);
  EXPECT_EQ(ref::panel_address(KvFormat::kBf16, 18, 93).byte, 4096u + 46 * 64 + 2 * 4 + 2);
  EXPECT_EQ(ref::panel_address(KvFormat::kFp8E4m3, 18, 93).byte, 2048u + 46 * 32 + 2 * 2 + 1);
}

// ---- steps ----

class ToyStore final : public ExpertStore {
 public:
  explicit ToyStore(std::vector<MlpId> handles) : handles_(std::move(handles)) {}
  void acquire(int, std::span<const int32_t> ids, MlpId* handles) override {
    for (size_t i = 0; i < ids.size(); ++i) handles[i] = handles_[static_cast<size_t>(ids[i])];
    held_ += static_cast<int>(ids.size());
  }
  void release(int, std::span<const int32_t> ids) override {
    held_ -= static_cast<int>(ids.size());
  }
  int held() const { return held_; }

 private:
  std::vector<MlpId> handles_;
  int held_ = 0;
};

// f32 matrices keep the numbers of a test readable.
MatrixView view_of(const std::vector<float>& values, size_t n_out, size_t n_in) {
  return {WeightFormat::kF32, n_out, n_in, reinterpret_cast<const uint8_t*>(values.data()),
          nullptr};
}

std::vector<float> row_of(const Device& device, Rows rows, int row) {
  std::vector<float> out(static_cast<size_t>(rows.width));
  device.read_row(rows, row, out);
  return out;
}

class RefSteps : public ::testing::TestWithParam<bool> {
 protected:
  RefSteps() {
    shape_.hidden = 2;
    shape_.n_experts = 3;
    shape_.n_experts_per_token = 2;
    shape_.routed_scale = 2.0f;
    device_ = make_ref_device(shape_, RefOptions{.rounded = GetParam()});
    EXPECT_TRUE(device_->reserve(4));
    // bf16 1.0, 2.0, 3.0, ... row by row.
    for (int i = 1; i <= 8; ++i) table_.push_back(float_to_bf16(static_cast<float>(i)));
    const MatrixView view{WeightFormat::kBf16, 4, 2,
                          reinterpret_cast<const uint8_t*>(table_.data()), nullptr};
    embedding_ = *device_->load_embedding(view);
  }

  ModelShape shape_;
  std::vector<uint16_t> table_;
  std::unique_ptr<Device> device_;
  EmbeddingId embedding_ = EmbeddingId::kNone;
};

INSTANTIATE_TEST_SUITE_P(Numerics, RefSteps, ::testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "rounded" : "exact");
});

TEST_P(RefSteps, LinearAddRoundsTheProductAndTheSum) {
  const Rows x = device_->make_rows(2), y = device_->make_rows(2);
  const std::vector<int32_t> tokens = {3, 0};
  device_->embed(embedding_, tokens, x);
  device_->embed(embedding_, tokens, y);
  EXPECT_EQ(row_of(*device_, x, 0), (std::vector<float>{7, 8}));
  const std::vector<float> w = {1.0f, 0.0009765625f, 0.0f, 0.001953125f};
  const MatrixView view = view_of(w, 2, 2);
  const LinearId id = *device_->load_linear({&view, 1});
  device_->linear_add(id, y, 2, x);
  // Row 0: 7 + 8/1024 and 8/512; row 1: 1 + 2/1024 and 2/512. A bf16 value has 8 bits.
  if (GetParam()) {
    EXPECT_EQ(row_of(*device_, x, 0), (std::vector<float>{14, 8}));
    EXPECT_EQ(row_of(*device_, x, 1), (std::vector<float>{2, 2}));
  } else {
    EXPECT_EQ(row_of(*device_, x, 0), (std::vector<float>{14.0078125f, 8.015625f}));
    EXPECT_EQ(row_of(*device_, x, 1), (std::vector<float>{2.001953125f, 2.00390625f}));
  }
  std::vector<float> logits(2);
  const std::vector<int32_t> rows = {1};
  device_->logits(id, y, rows, logits.data());
  EXPECT_EQ(logits, (std::vector<float>{1.001953125f, 0.00390625f})) << "logits are never rounded";
}

TEST_P(RefSteps, MoeSumsInChoiceOrderAndReturnsEveryExpert) {
  // Expert e: gate 1, up -1 + big: activation from a constant input; down scales by e + 1.
  const std::vector<float> gate = {1, 0}, up = {0, 1};
  std::vector<MlpId> handles;
  for (int e = 0; e < 3; ++e) {
    const std::vector<float> down = {static_cast<float>(e + 1), 0.0f};
    handles.push_back(
        *device_->load_mlp(view_of(gate, 1, 2), view_of(up, 1, 2), view_of(down, 2, 1)));
  }
  ToyStore store(handles);
  const std::vector<float> router = {0, 0, 1, 0, 1, 0};  // experts 1 and 2 tie
  const std::vector<float> bias = {0.0f, 0.0f, 0.0f};
  const RouterId id = *device_->load_router(view_of(router, 3, 2), bias);
  const Rows h = device_->make_rows(2), x = device_->make_rows(2);
  const std::vector<int32_t> tokens = {0};
  device_->embed(embedding_, tokens, h);  // 1, 2
  device_->route(id, h, 1);
  EXPECT_EQ(device_->chosen_experts(0), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(device_->expert_weights(0), (std::vector<float>{1, 1}));
  device_->moe_add(0, store, handles[0], h, 1, x);
  EXPECT_EQ(store.held(), 0);
  // (2 + 1) * 1 * sigmoid(1.702) = 2.5379...; times 2 + 3 + 1.
  const double one = 3.0 / (1.0 + std::exp(-static_cast<double>(1.702f)));
  if (GetParam()) {
    const float activation = round_to_bf16(static_cast<float>(one));
    EXPECT_EQ(row_of(*device_, x, 0)[0], round_to_bf16(6 * activation));
  } else {
    EXPECT_FLOAT_EQ(row_of(*device_, x, 0)[0], static_cast<float>(6 * one));
  }
}

TEST_P(RefSteps, NormOfARowHasOnePlusTheWeight) {
  const Rows x = device_->make_rows(2), out = device_->make_rows(2);
  const std::vector<int32_t> tokens = {1};
  device_->embed(embedding_, tokens, x);  // 3, 4
  const std::vector<float> weight = {0.0f, 0.5f};
  device_->rms_norm(*device_->load_norm(weight), x, 1, out);
  const double root = std::sqrt(12.5 + 1e-6);
  std::vector<double> want = {3 / root, 4 / root * 1.5};
  if (GetParam()) {
    for (double& value : want)
      value = static_cast<double>(round_to_bf16(static_cast<float>(value)));
  }
  EXPECT_TRUE(near(row_of(*device_, out, 0), want, {.relative = 1e-7}));
}

TEST(RefMemory, TooLargeACacheIsAnErrorWithItsSize) {
  ModelShape shape;
  const auto device = make_ref_device(shape, RefOptions{});
  const KvLayout layout = make_kv_layout({}, 1024, std::vector<bool>(64, true));
  const Result<Ok> made = device->make_cache(layout, 2000000000);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kExhausted);
  EXPECT_NE(made.error().message.find("MiB"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace minim::testing
