// What the CPU device allocates: everything before the first step, nothing in one.
#include <atomic>
#include <cstdlib>
#include <new>

#include "device/cpu_fixture.h"

namespace {
std::atomic<size_t> n_allocations{0};
}  // namespace

// Not inlined: the compiler would see malloc meet delete and warn.
#define MINIM_COUNTED __attribute__((noinline))

MINIM_COUNTED void* operator new(size_t bytes) {
  ++n_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  std::abort();
}
MINIM_COUNTED void* operator new[](size_t bytes) { return operator new(bytes); }
MINIM_COUNTED void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
MINIM_COUNTED void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
MINIM_COUNTED void operator delete(void* memory) noexcept { std::free(memory); }
MINIM_COUNTED void operator delete[](void* memory) noexcept { std::free(memory); }
MINIM_COUNTED void operator delete(void* memory, size_t) noexcept { std::free(memory); }
MINIM_COUNTED void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace minim::cpu_test {
namespace {

TEST(CpuMemory, StepsAllocateNothing) {
  TinySpec spec = tiny_spec();
  spec.kv = {KvFormat::kNvfp4, KvFormat::kNvfp4};
  const TinyModel model(spec);
  Runner runner(model, cpu_device(spec.shape, 2));
  const std::vector<int32_t> blocks = {0, 1, 2, 3, 4};
  std::vector<float> logits(600 * static_cast<size_t>(spec.shape.vocab));
  int position = 0;
  for (int n_rows : {550, 1, 7, 1, 41}) {  // the first prefill as well
    const TestSequence sequence = test_sequence(1, static_cast<size_t>(n_rows), blocks);
    const SequenceSpan span{0, n_rows, position, blocks};
    std::vector<int32_t> rows(static_cast<size_t>(n_rows));
    std::iota(rows.begin(), rows.end(), 0);
    const Batch batch{.tokens = sequence.tokens, .sequences = {&span, 1}, .logits_rows = rows};
    const size_t before = n_allocations;
    runner.forward(batch, logits.data());
    EXPECT_EQ(n_allocations - before, 0u) << n_rows << " rows";
    position += n_rows;
  }
}

TEST(CpuMemory, WeightsAreCountedAsTheyArePacked) {
  Rng rng(1);
  const std::unique_ptr<Device> device = cpu_device(tiny_spec().shape);
  EXPECT_EQ(device->weights_bytes(), 0u);
  const StoredMatrix m = random_matrix(rng, WeightFormat::kNvfp4, 64, 128);
  ASSERT_TRUE(device->load_linear({&m.view, 1}));
  EXPECT_EQ(device->weights_bytes(), 64u * 128 * 9 / 16);
  ASSERT_TRUE(device->load_norm(std::vector<float>(96)));
  EXPECT_EQ(device->weights_bytes(), 64u * 128 * 9 / 16 + 96 * 4);
}

TEST(CpuMemory, ACacheThatCannotBeHadIsAnError) {
  const std::unique_ptr<Device> device = cpu_device(tiny_spec().shape);
  const KvLayout layout = make_kv_layout({}, 2, {true, true});
  const Result<Ok> made = device->make_cache(layout, 2000000000);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kExhausted);
  EXPECT_TRUE(device->make_cache(layout, 2));
}

TEST(CpuMemory, BlockBytesAreTheTilesOfTheLayout) {
  const std::unique_ptr<Device> device = cpu_device(tiny_spec().shape);
  for (KvOrder order : {KvOrder::kBlockOuter, KvOrder::kLayerOuter}) {
    const KvLayout layout =
        make_kv_layout({KvFormat::kFp8E4m3, KvFormat::kNvfp4}, 2, {false, true}, order);
    ASSERT_TRUE(device->make_cache(layout, 3));
    for (int layer : {0, 1}) {
      for (int block : {0, 1, 2}) {
        std::span<uint8_t> bytes = device->block_bytes(layer, block);
        ASSERT_EQ(bytes.size(), layout.layer_bytes(layer));
        for (uint8_t& byte : bytes) {  // disjoint: each is still zero
          ASSERT_EQ(byte, 0);
          byte = 1;
        }
      }
    }
  }
}

}  // namespace
}  // namespace minim::cpu_test
