// Which blocks a row's attention takes, how often, in which order, and whose choice that is.
#include <algorithm>
#include <atomic>

#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

TinySpec one_layer(KvFormats kv, int top_k, int n_blocks) {
  TinySpec spec = tiny_spec();
  spec.layers = {{.sparse = true, .moe = false}};
  spec.shape.n_layers = 1;
  spec.shape.top_k_blocks = top_k;
  spec.kv = kv;
  spec.n_blocks = n_blocks;
  return spec;
}

constexpr KvFormats kFormats{KvFormat::kNvfp4, KvFormat::kFp8E4m3};

// ---- index keys belong to a block

// Fills blocks 0 .. n_blocks - 1 with a past of that many blocks less a few tokens, copies them
// behind themselves, all bytes or those before the index keys, and goes on with both.
std::pair<std::vector<float>, std::vector<float>> decode_on_a_copy(int n_blocks, bool index_keys) {
  const TinySpec spec = one_layer(kFormats, 16, 40);
  const TinyModel model(spec);
  Runner runner(model, cpu_device(spec.shape, 2));
  std::vector<int32_t> blocks(static_cast<size_t>(n_blocks)), copies(blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::iota(copies.begin(), copies.end(), n_blocks);
  TestSequence original =
      test_sequence(5, static_cast<size_t>(n_blocks * kBlockTokens - 7), blocks);
  runner.run(original, 600);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::span<const uint8_t> from = runner.device().block_bytes(0, blocks[i]);
    const size_t n_bytes = index_keys ? from.size() : runner.layout().index_tile();
    std::copy_n(from.begin(), n_bytes, runner.device().block_bytes(0, copies[i]).begin());
  }
  TestSequence next = test_sequence(6, original.tokens.size() + 3, blocks);
  next.done = original.done;
  TestSequence copy = next;
  copy.blocks = copies;
  std::vector<float> want = runner.run(next, 1);
  return {std::move(want), runner.run(copy, 1)};
}

TEST(CpuAttend, T_a4_IndexKeysAreBytesOfABlock) {
  const KvLayout with = make_kv_layout(kFormats, 2, {true}),
                 without = make_kv_layout(kFormats, 2, {false});
  EXPECT_EQ(with.block_bytes - without.block_bytes, kv_tile_bytes(kFormats.index));
  const auto whole = decode_on_a_copy(18, true);
  EXPECT_TRUE(same_bits(whole.first, whole.second));
  const auto partial = decode_on_a_copy(18, false);
  EXPECT_FALSE(same_bits(partial.first, partial.second)) << "index keys do not matter";
  // The reason why copies are tried beyond 16 blocks: up to there nobody misses the index keys.
  const auto small = decode_on_a_copy(16, false);
  EXPECT_TRUE(same_bits(small.first, small.second));
}

// ---- the choice

TEST(CpuAttend, T_c1_AnySplitOfALongPastChoosesTheSameBlocks) {
  constexpr int kBlocks = 300;
  const TinySpec spec = one_layer(kFormats, 16, kBlocks);
  const TinyModel model(spec);
  std::vector<int32_t> blocks(kBlocks);
  std::iota(blocks.rbegin(), blocks.rend(), 0);
  std::vector<std::vector<int32_t>> want;
  for (int n_threads : {1, 2, 5, 16, 64}) {  // 8 items a thread: other splits
    Runner runner(model, cpu_device(spec.shape, n_threads));
    Rng rng(3);
    runner.fill_cache([&rng] { return static_cast<uint8_t>(rng.next() & 0xb7); });
    TestSequence sequence = test_sequence(5, (kBlocks - 1) * kBlockTokens + 20, blocks);
    sequence.done = static_cast<int>(sequence.tokens.size()) - 5;
    runner.run(sequence, 5);
    std::vector<std::vector<int32_t>> lists;
    for (int row = 0; row < 5; ++row) {
      for (int group : {0, 1}) lists.push_back(runner.device().selected_blocks(row, group));
    }
    EXPECT_EQ(lists[0].size(), 16u);
    if (want.empty()) want = lists;
    EXPECT_EQ(lists, want) << n_threads << " threads";
  }
}

// Two sparse layers in one step: each one's attention takes the blocks of its own choice.
TEST(CpuAttend, T_c7_EveryLayerChoosesForItself) {
  TinySpec spec = one_layer(kFormats, 3, 24);
  const std::vector<int32_t> blocks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Rng rng(4);
  const std::unique_ptr<Device> device = cpu_device(spec.shape, 2);
  AttentionNorms norms;
  for (NormId* norm : {&norms.q, &norms.k, &norms.index_q, &norms.index_k}) {
    *norm = *device->load_norm(random_vector(rng, 128, 0.2f));
  }
  constexpr int kRows = 20, kPast = 9 * kBlockTokens + 30;
  ASSERT_TRUE(device->reserve(kPast + kRows));
  ASSERT_TRUE(device->make_cache(make_kv_layout(kFormats, 2, {true, true}), 10));
  const int width = (8 + 3 * 2 + 1) * kHeadDim;
  const StoredMatrix table = random_rows(rng, kPast + kRows, static_cast<size_t>(width));
  const EmbeddingId rows_of = *device->load_embedding(table.view);
  std::vector<int32_t> tokens(kPast);
  const Rows projected[] = {device->make_rows(width), device->make_rows(width)};
  const Rows out[] = {device->make_rows(8 * kHeadDim), device->make_rows(8 * kHeadDim)};
  for (int layer : {0, 1}) {  // other keys in each layer
    for (int i = 0; i < kPast; ++i) tokens[static_cast<size_t>(i)] = layer == 0 ? i : kPast - i;
    const SequenceSpan span{0, kPast, 0, blocks};
    device->embed(rows_of, tokens, projected[layer]);
    device->norm_rope_and_store(layer, norms, {tokens, {&span, 1}, {}}, projected[layer]);
  }
  tokens.resize(kRows);
  std::iota(tokens.begin(), tokens.end(), kPast);
  const SequenceSpan span{0, kRows, kPast, blocks};
  const Batch batch{tokens, {&span, 1}, {}};
  const auto layer_step = [&](int layer) {
    device->embed(rows_of, tokens, projected[layer]);
    device->norm_rope_and_store(layer, norms, batch, projected[layer]);
    device->select_blocks(layer, batch, projected[layer]);
    device->attend(layer, batch, true, projected[layer], out[layer]);
  };
  std::vector<int32_t> lists[2];
  std::vector<float> alone[2], together[2];
  const auto read = [&](int layer, std::vector<float>& values) {
    values.resize(kRows * 8 * kHeadDim);
    for (int r = 0; r < kRows; ++r) {
      device->read_row(out[layer], r, std::span(values).subspan(r * 8 * kHeadDim, 8 * kHeadDim));
    }
  };
  for (int layer : {0, 1}) {
    layer_step(layer);
    lists[layer] = device->selected_blocks(0, 0);
    read(layer, alone[layer]);
  }
  EXPECT_NE(lists[0], lists[1]) << "both layers would choose alike: the test shows nothing";
  device->run_step([&] {
    layer_step(0);
    layer_step(1);
  });
  for (int layer : {0, 1}) {
    read(layer, together[layer]);
    EXPECT_TRUE(same_bits(alone[layer], together[layer])) << "layer " << layer;
  }
  EXPECT_EQ(device->selected_blocks(0, 0), lists[1]);
}

// ---- attention to the chosen

// Four sequences of which three share a stem, in steps of many and of few rows; blocks lie where
// `places` puts them.
std::vector<float> run_mixed(const TinyModel& model, const std::vector<int32_t>& places,
                             int n_threads, const Kernels* kernels = nullptr) {
  Runner runner(model, cpu_device(model.spec().shape, n_threads, kernels));
  const std::vector<int32_t> tables[] = {
      {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 6, 7}, {0, 1, 8, 9, 10, 11}, {12, 13, 14, 15, 16, 17}};
  const int done[] = {0, 4 * kBlockTokens, 2 * kBlockTokens, 0};
  TestSequence sequences[4];
  for (size_t i = 0; i < 4; ++i) {
    sequences[i] = test_sequence(40 + i, 6 * kBlockTokens - 11 * i, {});
    for (const int32_t block : tables[i]) {
      sequences[i].blocks.push_back(places[static_cast<size_t>(block)]);
    }
    sequences[i].done = done[i];
  }
  TestSequence* const first = &sequences[0];
  const int stem = 4 * kBlockTokens;
  std::vector<float> logits = runner.step({&first, 1}, {&stem, 1});
  TestSequence* const all[] = {&sequences[0], &sequences[1], &sequences[2], &sequences[3]};
  for (const int n : {40, 1, 9, 1, 1, 100}) {
    const int n_rows[] = {n, 1 + n / 2, n, 2};
    const std::vector<float> more = runner.step(all, n_rows);
    logits.insert(logits.end(), more.begin(), more.end());
  }
  return logits;
}

std::vector<int32_t> in_order(int n) {
  std::vector<int32_t> places(static_cast<size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

TEST(CpuAttend, T_d2_BlocksAreTakenInTheOrderOfTheSequenceWhereverTheyLie) {
  const TinyModel model(one_layer(kFormats, 3, 18));
  std::vector<int32_t> places = in_order(18);
  const std::vector<float> want = run_mixed(model, places, 2);
  Rng rng(6);
  for (int round = 0; round < 4; ++round) {
    std::reverse(places.begin(), places.end());
    if (round > 0) {
      for (size_t i = places.size() - 1; i > 0; --i) std::swap(places[i], places[rng.below(i + 1)]);
    }
    EXPECT_TRUE(same_bits(want, run_mixed(model, places, 2))) << "round " << round;
  }
}

TEST(CpuAttend, T_d3_AnyCutIntoTilesGivesTheSameBits) {
  const TinyModel model(one_layer(kFormats, 3, 18));
  const std::vector<float> want = run_mixed(model, in_order(18), 1);
  for (int n_threads : {2, 3, 5, 8, 24}) {  // the rows of a tile depend on the threads
    EXPECT_TRUE(same_bits(want, run_mixed(model, in_order(18), n_threads))) << n_threads;
  }
}

// A table of kernels that counts what attention merges.
std::atomic<size_t> n_merged_lanes{0}, n_visible_keys{0};

void counting_merge(const AttentionPartial& partial, size_t first_lane, size_t n_lanes, float* max,
                    float* denominator, float* value) noexcept {
  n_merged_lanes += n_lanes;
  best_kernels()->merge_partial(partial, first_lane, n_lanes, max, denominator, value);
}

void counting_attend(const float* q, const float* k, const float* v, size_t n_keys,
                     const int32_t* n_visible, AttentionMode mode, AttentionPartial* out) noexcept {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    n_visible_keys += static_cast<size_t>(n_visible[lane]);
  }
  best_kernels()->attend_block(q, k, v, n_keys, n_visible, mode, out);
}

TEST(CpuAttend, T_d4_EveryRowTakesEachOfItsBlocksExactlyOnce) {
  Kernels counting = *best_kernels();
  counting.merge_partial = counting_merge;
  counting.attend_block = counting_attend;
  const TinyModel model(one_layer(kFormats, 3, 18));
  for (int n_threads : {1, 3}) {
    n_merged_lanes = n_visible_keys = 0;
    run_mixed(model, in_order(18), n_threads, &counting);
    // A row at position p takes min(p / 128 + 1, 3) blocks, all whole but the own one, in 8 heads.
    size_t n_blocks = 0, n_keys = 0;
    const auto count = [&](int first_position, int n_rows) {
      for (int p = first_position; p < first_position + n_rows; ++p) {
        const int blocks = std::min(p / kBlockTokens + 1, 3);
        n_blocks += static_cast<size_t>(blocks);
        n_keys += static_cast<size_t>((blocks - 1) * kBlockTokens + p % kBlockTokens + 1);
      }
    };
    count(0, 4 * kBlockTokens);
    int done[] = {4 * kBlockTokens, 4 * kBlockTokens, 2 * kBlockTokens, 0};
    for (const int n : {40, 1, 9, 1, 1, 100}) {
      const int n_rows[] = {n, 1 + n / 2, n, 2};
      for (size_t i = 0; i < 4; ++i) {
        count(done[i], n_rows[i]);
        done[i] += n_rows[i];
      }
    }
    EXPECT_EQ(n_merged_lanes, 8 * n_blocks) << n_threads << " threads";
    EXPECT_EQ(n_visible_keys, 8 * n_keys) << n_threads << " threads";
  }
}

}  // namespace
}  // namespace minim::cpu_test
