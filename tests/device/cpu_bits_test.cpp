// What may never change a bit: threads, tiers, chunk sizes, batch mates, block ids, the order of
// the pool, and whatever lies in memory that no token owns.
#include <functional>
#include <ostream>

#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

struct Outcome {
  std::vector<float> logits;
  std::vector<uint8_t> cache;
};

constexpr size_t kTokens = 600;  // five blocks, the last one partly filled

std::vector<int32_t> five_blocks() { return {0, 1, 2, 3, 4}; }

Outcome run_all(const TinyModel& model, std::unique_ptr<Device> device, int chunk) {
  Runner runner(model, std::move(device));
  TestSequence sequence = test_sequence(5, kTokens, five_blocks());
  Outcome outcome;
  outcome.logits = runner.run(sequence, chunk);
  outcome.cache = runner.cache_bytes(sequence.blocks);
  EXPECT_EQ(runner.experts().held, 0u);
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_TRUE(same_bits(a.cache, b.cache));
}

// Formats of weights, cache and attention that the tests below go through.
struct Variant {
  const char* name;
  WeightFormat weights;
  KvFormats kv;
  AttentionMode mode;
};

const Variant kVariants[] = {
    {"Bf16", WeightFormat::kBf16, {KvFormat::kBf16, KvFormat::kBf16}, AttentionMode::kDirect},
    {"Nvfp4", WeightFormat::kNvfp4, {KvFormat::kNvfp4, KvFormat::kNvfp4}, AttentionMode::kDirect},
    {"Mixed", WeightFormat::kBf16, {KvFormat::kFp8E4m3, KvFormat::kBf16}, AttentionMode::kDirect},
    {"Gpu", WeightFormat::kNvfp4, {KvFormat::kNvfp4, KvFormat::kFp8E4m3}, AttentionMode::kGpu},
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class CpuBits : public ::testing::TestWithParam<Variant> {
 protected:
  static TinySpec spec() {
    TinySpec spec = tiny_spec();
    spec.format = GetParam().weights;
    spec.kv = GetParam().kv;
    if (spec.format == WeightFormat::kBf16) spec.expert_width = 37;
    if (spec.format == WeightFormat::kNvfp4) spec.dense_width = 80;
    return spec;
  }
  static std::unique_ptr<Device> device(const TinySpec& spec, int n_threads = 1,
                                        const Kernels* kernels = nullptr) {
    return cpu_device(spec.shape, n_threads, kernels, GetParam().mode);
  }
};

INSTANTIATE_TEST_SUITE_P(, CpuBits, ::testing::ValuesIn(kVariants),
                         [](const auto& variant) { return std::string(variant.param.name); });

TEST_P(CpuBits, T_h1_ThreadsNeverChangeABit) {
  const TinyModel model(spec());
  const Outcome one = run_all(model, device(spec(), 1), 600);
  for (int n_threads : {2, 3}) {
    SCOPED_TRACE(n_threads);
    expect_same(one, run_all(model, device(spec(), n_threads), 600));
  }
}

TEST_P(CpuBits, EveryTierGivesTheBitsOfScalar) {
  const TinyModel model(spec());
  const std::span<const Kernels* const> tiers = available_kernels();
  if (tiers.size() == 1) GTEST_SKIP() << "this machine has the scalar tier only";
  const Outcome scalar = run_all(model, device(spec(), 2, tiers[0]), 600);
  for (const Kernels* tier : tiers.subspan(1)) {
    SCOPED_TRACE(tier->name);
    expect_same(scalar, run_all(model, device(spec(), 2, tier), 600));
  }
}

TEST_P(CpuBits, T_d6_ChunksOfAnySizeEqualOneShot) {
  const TinyModel model(spec());
  const Outcome whole = run_all(model, device(spec(), 2), 600);
  for (int chunk : {7, 128, 500}) {
    SCOPED_TRACE(chunk);
    expect_same(whole, run_all(model, device(spec(), 2), chunk));
  }
}

TEST_P(CpuBits, T_d5_T_b3_DecodeTokenByTokenEqualsPrefill) {
  const TinyModel model(spec());
  expect_same(run_all(model, device(spec(), 2), 600), run_all(model, device(spec(), 2), 1));
}

TEST_P(CpuBits, T_a1_BlockIdsMayBePermuted) {
  const TinyModel model(spec());
  const Outcome plain = run_all(model, device(spec()), 200);
  Runner runner(model, device(spec()));
  TestSequence sequence = test_sequence(5, kTokens, {11, 2, 7, 0, 5});
  EXPECT_TRUE(same_bits(plain.logits, runner.run(sequence, 200)));
  EXPECT_TRUE(same_bits(plain.cache, runner.cache_bytes(sequence.blocks)));
}

TEST_P(CpuBits, T_a2_BytesThatNoTokenOwnsNeverMatter) {
  const TinyModel model(spec());
  const Outcome plain = run_all(model, device(spec()), 200);
  Rng rng(9);
  const std::function<uint8_t()> poisons[] = {[] { return uint8_t{0xff}; },
                                              [] { return uint8_t{0x7f}; },
                                              [&rng] { return static_cast<uint8_t>(rng.next()); }};
  for (const std::function<uint8_t()>& poison : poisons) {
    Runner runner(model, device(spec(), 2));
    runner.fill_cache(poison);
    TestSequence sequence = test_sequence(5, kTokens, five_blocks());
    EXPECT_TRUE(same_bits(plain.logits, runner.run(sequence, 200)));
  }
}

TEST_P(CpuBits, T_a3_SharedBlocksEqualPrivateCopies) {
  const TinyModel model(spec());
  const auto prefix_of = [](const TestSequence& a, uint64_t seed) {
    TestSequence b = test_sequence(seed, 400, {0, 1, 8, 9});
    std::copy_n(a.tokens.begin(), 256, b.tokens.begin());
    return b;
  };
  Runner shared(model, device(spec(), 2));
  TestSequence a = test_sequence(5, 300, {0, 1, 2});
  shared.run(a, 300);
  TestSequence b = prefix_of(a, 6);
  b.done = 256;
  const std::vector<float> tail = shared.run(b, 100);

  Runner alone(model, device(spec(), 2));
  TestSequence c = prefix_of(a, 6);
  c.blocks = {3, 4, 5, 6};
  const std::vector<float> all = alone.run(c, 400);
  EXPECT_TRUE(same_bits(
      tail, std::vector<float>(all.end() - static_cast<ptrdiff_t>(tail.size()), all.end())));
}

TEST_P(CpuBits, T_a5_LayerOuterEqualsBlockOuter) {
  TinySpec other = spec();
  other.order = KvOrder::kLayerOuter;
  const TinyModel model(spec()), same(other);
  expect_same(run_all(model, device(spec()), 250), run_all(same, device(other), 250));
}

TEST_P(CpuBits, T_b4_LaterTokensChangeNoEarlierByte) {
  const TinyModel model(spec());
  // A byte was written where two pools that held different bytes agree afterwards.
  std::vector<uint8_t> early[2], late[2];
  for (int i = 0; i < 2; ++i) {
    Runner runner(model, device(spec(), 2));
    runner.fill_cache([i] { return i == 0 ? uint8_t{0x00} : uint8_t{0xff}; });
    TestSequence sequence = test_sequence(5, 128, {3});
    TestSequence* const one = &sequence;
    const int first = 77, rest = 51;
    runner.step({&one, 1}, {&first, 1});
    early[i] = runner.cache_bytes(sequence.blocks);
    runner.step({&one, 1}, {&rest, 1});
    late[i] = runner.cache_bytes(sequence.blocks);
  }
  size_t n_written = 0;
  for (size_t b = 0; b < early[0].size(); ++b) {
    ASSERT_EQ(late[0][b], late[1][b]) << "byte " << b << " belongs to no token";
    if (early[0][b] != early[1][b]) continue;
    ++n_written;
    ASSERT_EQ(late[0][b], early[0][b]) << "byte " << b;
  }
  EXPECT_EQ(n_written, early[0].size() * 77 / 128);
}

TEST_P(CpuBits, T_f3_BatchMatesNeverChangeABit) {
  const TinyModel model(spec());
  const size_t vocab = static_cast<size_t>(spec().shape.vocab);
  const size_t lengths[] = {300, 129, 40};
  const std::vector<int32_t> blocks[] = {{0, 1, 2}, {3, 4}, {5}};
  std::vector<float> alone[3];
  for (size_t i = 0; i < 3; ++i) {
    Runner runner(model, device(spec()));
    TestSequence sequence = test_sequence(20 + i, lengths[i], blocks[i]);
    alone[i] = runner.run(sequence, 64);
  }
  Runner together(model, device(spec(), 2));
  TestSequence sequences[3] = {test_sequence(20, lengths[0], blocks[0]),
                               test_sequence(21, lengths[1], blocks[1]),
                               test_sequence(22, lengths[2], blocks[2])};
  std::vector<float> mixed[3];
  Rng rng(3);
  for (;;) {
    std::vector<TestSequence*> now;
    std::vector<size_t> which;
    std::vector<int> n_rows;
    for (size_t i : {2, 0, 1}) {
      const int left = static_cast<int>(lengths[i]) - sequences[i].done;
      if (left == 0) continue;
      now.push_back(&sequences[i]);
      which.push_back(i);
      n_rows.push_back(std::min(left, 1 + static_cast<int>(rng.below(50))));
    }
    if (now.empty()) break;
    const std::vector<float> logits = together.step(now, n_rows);
    auto from = logits.begin();
    for (size_t i = 0; i < which.size(); ++i) {
      const auto end = from + static_cast<ptrdiff_t>(static_cast<size_t>(n_rows[i]) * vocab);
      mixed[which[i]].insert(mixed[which[i]].end(), from, end);
      from = end;
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(alone[i], mixed[i])) << "sequence " << i;
}

}  // namespace
}  // namespace minim::cpu_test
