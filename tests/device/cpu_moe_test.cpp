// Mixtures of experts: grouping changes nothing, sums run in choice order.
#include <algorithm>

#include "base/fp_env.h"
#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

constexpr size_t kExperts = 9, kHidden = 160, kWidth = 48, kSharedWidth = 80;
constexpr int kChoices = 4;

ModelShape moe_shape() {
  ModelShape shape = tiny_spec().shape;
  shape.hidden = kHidden;
  shape.n_experts = kExperts;
  shape.n_experts_per_token = kChoices;
  shape.routed_scale = 2.0f;
  return shape;
}

struct MoeWeights {
  explicit MoeWeights(uint64_t seed = 11, WeightFormat expert_format = WeightFormat::kNvfp4) {
    Rng rng(seed);
    gate = random_matrix(rng, WeightFormat::kF32, kExperts, kHidden);
    bias = random_vector(rng, kExperts, 0.05f);
    for (size_t e = 0; e <= kExperts; ++e) {
      const bool shared = e == kExperts;
      const size_t width = shared ? kSharedWidth : kWidth;
      const WeightFormat format = shared ? WeightFormat::kBf16 : expert_format;
      for (int i = 0; i < 2; ++i) mlps.push_back(random_matrix(rng, format, width, kHidden));
      mlps.push_back(random_matrix(rng, format, kHidden, width));
    }
    h = random_rows(rng, 64, kHidden);
    x = random_rows(rng, 64, kHidden);
  }
  StoredMatrix gate;
  std::vector<float> bias;
  std::vector<StoredMatrix> mlps;  // gate, up, down of each expert, the shared one last
  StoredMatrix h, x;
};

class Moe {
 public:
  Moe(const MoeWeights& w, std::unique_ptr<Device> made) : device(std::move(made)) {
    for (size_t e = 0; e <= kExperts; ++e) {
      const MlpId id =
          *device->load_mlp(w.mlps[3 * e].view, w.mlps[3 * e + 1].view, w.mlps[3 * e + 2].view);
      e < kExperts ? experts.experts[0].push_back(id) : void(shared = id);
    }
    router = *device->load_router(w.gate.view, w.bias);
    h_table_ = *device->load_embedding(w.h.view);
    x_table_ = *device->load_embedding(w.x.view);
    EXPECT_TRUE(device->reserve(64));
    h = device->make_rows(kHidden);
    x = device->make_rows(kHidden);
  }

  // Runs the listed rows of the tables as one step; the result, row after row.
  std::vector<float> run(const std::vector<int32_t>& rows, bool with_shared = true) {
    const int n = static_cast<int>(rows.size());
    device->embed(h_table_, rows, h);
    device->embed(x_table_, rows, x);
    device->route(router, h, n);
    device->moe_add(0, experts, with_shared ? shared : MlpId::kNone, h, n, x);
    EXPECT_EQ(experts.held, 0u);
    std::vector<float> out(rows.size() * kHidden);
    for (size_t r = 0; r < rows.size(); ++r) {
      device->read_row(x, static_cast<int>(r), {out.data() + r * kHidden, kHidden});
    }
    return out;
  }

  std::unique_ptr<Device> device;
  ResidentExperts experts;
  MlpId shared = MlpId::kNone;
  RouterId router;
  Rows h, x;

 private:
  EmbeddingId h_table_, x_table_;
};

std::vector<int32_t> rows_from(int first, int n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

TEST(CpuMoe, RoutingAndSumEqualTheReference) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kNvfp4}) {
    const MoeWeights weights(12, format);
    for (bool with_shared : {true, false}) {
      Moe cpu(weights, cpu_device(moe_shape(), 2));
      Moe ref(weights, make_ref_device(moe_shape(), {.rounded = true}));
      const std::vector<float> a = cpu.run(rows_from(0, 64), with_shared);
      const std::vector<float> b = ref.run(rows_from(0, 64), with_shared);
      for (int r = 0; r < 64; ++r) {
        ASSERT_EQ(cpu.device->chosen_experts(r), ref.device->chosen_experts(r)) << "row " << r;
        const std::vector<float> wa = cpu.device->expert_weights(r);
        const std::vector<float> wb = ref.device->expert_weights(r);
        for (size_t c = 0; c < wa.size(); ++c) ASSERT_NEAR(wa[c], wb[c], 1e-6f);
      }
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 0x1p-7f * std::fabs(b[i]) + 0.02f) << i;
      }
    }
  }
}

TEST(CpuMoe, T_f2_AStepOfManyRowsEqualsRowByRow) {
  const MoeWeights weights;
  for (int n_threads : {1, 2, 3}) {
    Moe grouped(weights, cpu_device(moe_shape(), n_threads));
    Moe single(weights, cpu_device(moe_shape()));
    std::vector<float> expected;
    for (int32_t r = 0; r < 64; ++r) {
      const std::vector<float> one = single.run({r});
      expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(same_bits(grouped.run(rows_from(0, 64)), expected));
  }
}

TEST(CpuMoe, T_f3_PermutedRowsGivePermutedResults) {
  const MoeWeights weights;
  Moe moe(weights, cpu_device(moe_shape(), 2));
  const std::vector<float> plain = moe.run(rows_from(0, 40));
  std::vector<int32_t> order = rows_from(0, 40);
  Rng rng(13);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  const std::vector<float> permuted = moe.run(order);
  for (size_t r = 0; r < order.size(); ++r) {
    EXPECT_EQ(std::memcmp(permuted.data() + r * kHidden,
                          plain.data() + static_cast<size_t>(order[r]) * kHidden,
                          kHidden * sizeof(float)),
              0)
        << "row " << order[r];
  }
}

TEST(CpuMoe, T_f4_EmptyExpertsAndCrowdedExpertsAreOrdinary) {
  MoeWeights weights;
  for (size_t e = 0; e < kExperts; ++e) weights.bias[e] = e < kChoices ? 100.0f : -100.0f;
  Moe crowded(weights, cpu_device(moe_shape(), 2));
  const std::vector<float> all = crowded.run(rows_from(0, 64));
  EXPECT_EQ(crowded.experts.n_acquired, static_cast<size_t>(kChoices));
  for (int r = 0; r < 64; ++r) {
    std::vector<int32_t> chosen = crowded.device->chosen_experts(r);
    std::sort(chosen.begin(), chosen.end());
    EXPECT_EQ(chosen, (std::vector<int32_t>{0, 1, 2, 3}));
  }
  const std::vector<float> one = crowded.run({17});
  EXPECT_TRUE(
      same_bits(one, std::vector<float>(all.begin() + 17 * kHidden, all.begin() + 18 * kHidden)));
}

// The whole layer written out with the kernels, one row and one expert at a time.
class ByHand {
 public:
  explicit ByHand(const MoeWeights& w) : kernels_(*available_kernels().front()), weights_(w) {}

  std::vector<float> run(const std::vector<float>& h, const std::vector<float>& x,
                         const std::vector<int32_t>& chosen, const std::vector<float>& weights,
                         bool with_shared) const {
    const FlushDenormals flush;
    std::vector<float> sum(kHidden, 0.0f), out = x;
    for (size_t c = 0; c < chosen.size(); ++c) {
      const std::vector<float> y = mlp(static_cast<size_t>(chosen[c]), h);
      for (size_t i = 0; i < kHidden; ++i) sum[i] = std::fma(weights[c], y[i], sum[i]);
    }
    if (with_shared) {
      const std::vector<float> y = mlp(kExperts, h);
      for (size_t i = 0; i < kHidden; ++i) sum[i] = sum[i] + y[i];
    }
    for (size_t i = 0; i < kHidden; ++i) out[i] = round_to_bf16(out[i] + round_to_bf16(sum[i]));
    return out;
  }

 private:
  std::vector<float> product(const StoredMatrix& m, const std::vector<float>& x) const {
    const bool bf16 = m.view.format == WeightFormat::kBf16;
    const PanelFormat format = bf16 ? PanelFormat::kBf16 : PanelFormat::kNvfp4;
    const size_t n_panels = (m.view.n_out + kPanelRows - 1) / kPanelRows;
    std::vector<uint8_t> memory(n_panels * panel_bytes(format, m.view.n_in) + 64);
    uint8_t* data = memory.data() + (64 - reinterpret_cast<size_t>(memory.data()) % 64);
    const PackSource source{format, m.view.n_out, m.view.n_in, m.view.values, m.view.scales};
    for (size_t p = 0; p < n_panels; ++p) {
      kernels_.pack_panel(source, p, data + p * panel_bytes(format, m.view.n_in));
    }
    std::vector<float> y(n_panels * kPanelRows);
    kernels_.linear({format, m.view.n_in, n_panels, data, m.view.global}, x.data(), x.size(), 1,
                    y.data(), y.size());
    y.resize(m.view.n_out);
    return y;
  }
  std::vector<float> mlp(size_t expert, const std::vector<float>& h) const {
    std::vector<float> gate = product(weights_.mlps[3 * expert], h);
    std::vector<float> up = product(weights_.mlps[3 * expert + 1], h);
    kernels_.round_bf16(gate.data(), gate.size());
    kernels_.round_bf16(up.data(), up.size());
    const ModelShape shape = moe_shape();
    kernels_.swiglu(gate.data(), up.data(), gate.size(), shape.swiglu_alpha, shape.swiglu_limit,
                    gate.data());
    return product(weights_.mlps[3 * expert + 2], gate);
  }

  const Kernels& kernels_;
  const MoeWeights& weights_;
};

TEST(CpuMoe, T_f5_TheSharedExpertIsAddedLastWithoutARoundingBefore) {
  const MoeWeights weights;
  const ByHand by_hand(weights);
  Moe moe(weights, cpu_device(moe_shape(), 2));
  for (bool with_shared : {true, false}) {
    const std::vector<float> out = moe.run(rows_from(5, 30), with_shared);
    for (size_t r = 0; r < 30; ++r) {
      const auto row_of = [r](const StoredMatrix& table) {
        std::vector<float> row(kHidden);
        for (size_t i = 0; i < kHidden; ++i) {
          uint16_t bits;
          std::memcpy(&bits, table.values.data() + 2 * ((r + 5) * kHidden + i), 2);
          row[i] = bf16_to_float(bits);
        }
        return row;
      };
      const int row = static_cast<int>(r);
      const std::vector<float> expected =
          by_hand.run(row_of(weights.h), row_of(weights.x), moe.device->chosen_experts(row),
                      moe.device->expert_weights(row), with_shared);
      const auto first = out.begin() + static_cast<ptrdiff_t>(r * kHidden);
      ASSERT_TRUE(same_bits(std::vector<float>(first, first + kHidden), expected)) << "row " << r;
    }
  }
}

TEST(CpuMoe, T_f6_EveryChosenExpertIsAcquiredOnceAndNoOther) {
  const MoeWeights weights;
  Moe moe(weights, cpu_device(moe_shape(), 2));
  for (int n : {1, 2, 64}) {
    moe.experts.n_acquired = 0;
    moe.run(rows_from(0, n));
    std::vector<int32_t> wanted;
    for (int r = 0; r < n; ++r) {
      const std::vector<int32_t> chosen = moe.device->chosen_experts(r);
      EXPECT_EQ(chosen.size(), static_cast<size_t>(kChoices));
      wanted.insert(wanted.end(), chosen.begin(), chosen.end());
      float sum = 0;
      for (float weight : moe.device->expert_weights(r)) sum += weight;
      EXPECT_NEAR(sum, moe_shape().routed_scale, 1e-5f);
    }
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    EXPECT_EQ(moe.experts.n_acquired, wanted.size());
  }
}

TEST(CpuMoe, EqualExpertScoresGoToTheLowerIds) {
  MoeWeights weights;
  std::fill(weights.gate.values.begin(), weights.gate.values.end(), uint8_t{0});
  std::fill(weights.bias.begin(), weights.bias.end(), 0.25f);
  weights.bias[7] = 0.5f;
  Moe moe(weights, cpu_device(moe_shape()));
  moe.run({0});
  EXPECT_EQ(moe.device->chosen_experts(0), (std::vector<int32_t>{7, 0, 1, 2}));
  EXPECT_EQ(moe.device->expert_weights(0), (std::vector<float>(4, 0.5f)));
}

TEST(CpuMoe, ABf16GateRoutesAsItsFloatTwin) {
  MoeWeights weights;
  std::vector<float> gate(kExperts * kHidden);
  std::memcpy(gate.data(), weights.gate.values.data(), weights.gate.values.size());
  for (float& value : gate) value = round_to_bf16(value);
  weights.gate = store(WeightFormat::kF32, kExperts, kHidden, gate);
  MoeWeights twin;
  twin.gate = store(WeightFormat::kBf16, kExperts, kHidden, gate);
  Moe a(weights, cpu_device(moe_shape())), b(twin, cpu_device(moe_shape()));
  EXPECT_TRUE(same_bits(a.run(rows_from(0, 20)), b.run(rows_from(0, 20))));
}

}  // namespace
}  // namespace minim::cpu_test
