// A step as one launch of the pool against the same step operation by operation: the same bits, for
// any number of threads and rows.
#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

TinySpec launch_spec() {
  TinySpec spec = tiny_spec();
  spec.format = WeightFormat::kNvfp4;
  spec.kv = {KvFormat::kNvfp4, KvFormat::kFp8E4m3};
  spec.dense_width = 80;
  spec.n_blocks = 24;
  return spec;
}

struct Outcome {
  std::vector<float> logits;
  std::vector<uint8_t> cache;
  uint64_t bytes_read = 0;
};

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_TRUE(same_bits(a.cache, b.cache));
}

// Two sequences: steps of these numbers of rows of the first one, each with one row of the second,
// which shares the first block.
Outcome run_steps(const TinyModel& model, int n_threads, bool whole, std::span<const int> n_rows) {
  Runner runner(model, cpu_device(model.spec().shape, n_threads));
  runner.set_whole_steps(whole);
  size_t total = 0;
  for (const int n : n_rows) total += static_cast<size_t>(n);
  TestSequence first = test_sequence(5, kBlockTokens + total, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  TestSequence second = test_sequence(6, kBlockTokens + n_rows.size(), {0, 12, 13});
  TestSequence* const both[] = {&first, &second};
  const int stem = kBlockTokens;
  runner.step({both, 1}, {&stem, 1});
  second.done = kBlockTokens;
  Outcome outcome;
  for (const int n : n_rows) {
    const int rows[] = {n, 1};
    const std::vector<float> logits = runner.step(both, rows);
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }
  const int32_t blocks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13};
  outcome.cache = runner.cache_bytes(blocks);
  outcome.bytes_read = runner.device().bytes_read();
  EXPECT_EQ(runner.experts().held, 0u) << "experts of the last layer are still held";
  return outcome;
}

TEST(CpuLaunch, T_h1_AStepInOneLaunchEqualsOperationByOperation) {
  const TinyModel model(launch_spec());
  const int n_rows[] = {300, 1, 1, 140, 1, 33, 2, 1};
  const Outcome want = run_steps(model, 1, false, n_rows);
  for (int n_threads : {1, 2, 3}) {
    SCOPED_TRACE(n_threads);
    const Outcome whole = run_steps(model, n_threads, true, n_rows);
    const Outcome parts = run_steps(model, n_threads, false, n_rows);
    expect_same(want, whole);
    expect_same(want, parts);
    EXPECT_EQ(whole.bytes_read, parts.bytes_read);
  }
}

TEST(CpuLaunch, T_h2_MoreThreadsThanProcessorsEndWithTheSameBits) {
  const TinyModel model(launch_spec());
  std::vector<int> n_rows(30, 1);
  n_rows[0] = 260;
  const Outcome one = run_steps(model, 1, true, n_rows);
  for (int n_threads : {8, 17}) {
    SCOPED_TRACE(n_threads);
    expect_same(one, run_steps(model, n_threads, true, n_rows));
  }
}

// Borders: one row, few rows that are routed without calling workers (16), tiles of attention and
// scores (16) and of products (32), all rows that were reserved; the row of the second sequence
// comes on top.
TEST(CpuLaunch, T_h4_RowCountsAtEveryBorderEqualOperationByOperation) {
  TinySpec spec = launch_spec();
  spec.max_rows = 258;
  const TinyModel model(spec);
  for (const int n : {1, 14, 15, 16, 17, 30, 31, 32, 33, 63, 64, 256, 257}) {
    SCOPED_TRACE(n);
    const int n_rows[] = {n, 400 / n < 3 ? n : 3, 1, n};
    const Outcome want = run_steps(model, 1, false, n_rows);
    expect_same(want, run_steps(model, 1, true, n_rows));
    expect_same(want, run_steps(model, 3, true, n_rows));
  }
}

TEST(CpuLaunch, AStepOfMorePhasesThanWereReservedTakesSeveralLaunches) {
  TinySpec spec = launch_spec();
  const TinyModel model(spec);
  const int n_rows[] = {200, 1, 40};
  const Outcome want = run_steps(model, 2, true, n_rows);
  spec.shape.n_layers = 0;  // the device reserves phases by this number
  const TinyModel same(spec);
  expect_same(want, run_steps(same, 2, true, n_rows));
}

// What is worked out once a step for all layers belongs to that step's batch.
TEST(CpuLaunch, AStepNeverUsesThePlanOfAnEarlierBatch) {
  const TinyModel model(launch_spec());
  Runner used(model, cpu_device(model.spec().shape, 2));
  TestSequence warm = test_sequence(9, 500, {20, 21, 22, 23});
  used.run(warm, 250);
  const int n_rows[] = {300, 7, 1};
  Runner fresh(model, cpu_device(model.spec().shape, 2));
  for (const int n : n_rows) {
    TestSequence a = test_sequence(5, 400, {3, 1, 2, 0}), b = a;
    TestSequence* const pa = &a;
    TestSequence* const pb = &b;
    EXPECT_TRUE(same_bits(used.step({&pa, 1}, {&n, 1}), fresh.step({&pb, 1}, {&n, 1}))) << n;
  }
}

}  // namespace
}  // namespace minim::cpu_test
