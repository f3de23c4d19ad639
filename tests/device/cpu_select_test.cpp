// Block selection on constructed scores: ties, edges, forced blocks, splits.
//
// Index keys and queries here have nothing in their rotated channels, so that a block's score is
// what the test says: token t of the sequence gets the key value[t] * (1, -1, 1, ...) over the
// unrotated channels (norm weights are zero: a norm makes any such key equal, so the strength goes
// into how much of the key points along the query).
#include <algorithm>

#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

constexpr int kGroups = 2, kHeads = 2, kRotary = 64;
constexpr int kWidth = (kHeads + 3 * kGroups + 1) * kHeadDim;
constexpr int kMaxRows = 256;

// One layer whose index scores are chosen token by token.
class Selector {
 public:
  Selector(int top_k, int init, int local, int n_blocks, int n_threads = 1,
           const Kernels* kernels = nullptr)
      : n_blocks_(n_blocks) {
    ModelShape shape = tiny_spec().shape;
    shape.n_heads = kHeads;
    shape.n_kv_heads = kGroups;
    shape.rotary_dim = kRotary;
    shape.top_k_blocks = top_k;
    shape.init_blocks = init;
    shape.local_blocks = local;
    device_ = cpu_device(shape, n_threads, kernels);
    const std::vector<float> zeros(kHeadDim, 0.0f);
    const NormId norm = *device_->load_norm(zeros);
    norms_ = {norm, norm, norm, norm};
    EXPECT_TRUE(device_->reserve(kMaxRows));
    EXPECT_TRUE(device_->make_cache(
        make_kv_layout({KvFormat::kBf16, KvFormat::kBf16}, kGroups, {true}), n_blocks));
    projected_ = device_->make_rows(kWidth);
    blocks_.resize(static_cast<size_t>(n_blocks));
    std::iota(blocks_.rbegin(), blocks_.rend(), 0);  // physical order reversed
  }

  // Appends one token a strength; strengths in [-1, 1] are the cosine between key and query, times
  // 128. Group 1 sees the negative.
  void append(const std::vector<float>& strengths) {
    for (size_t first = 0; first < strengths.size(); first += kMaxRows) {
      const size_t n = std::min<size_t>(kMaxRows, strengths.size() - first);
      std::vector<float> rows(n * kWidth, 0.0f);
      for (size_t i = 0; i < n; ++i) fill(rows.data() + i * kWidth, strengths[first + i]);
      const StoredMatrix table = store(WeightFormat::kBf16, n, kWidth, rows);
      const EmbeddingId id = *device_->load_embedding(table.view);
      std::vector<int32_t> tokens(n);
      std::iota(tokens.begin(), tokens.end(), 0);
      device_->embed(id, tokens, projected_);
      span_ = {.first_row = 0,
               .n_rows = static_cast<int>(n),
               .first_position = position_,
               .blocks = blocks_};
      tokens_ = tokens;
      device_->norm_rope_and_store(0, norms_, batch(), projected_);
      position_ += static_cast<int>(n);
    }
  }

  // Selects for the rows of the last append; the list of one of them.
  void select() { device_->select_blocks(0, batch(), projected_); }
  std::vector<int32_t> list(int row, int group = 0) const {
    return device_->selected_blocks(row, group);
  }
  std::vector<int32_t> last(int group = 0) const { return list(span_.n_rows - 1, group); }
  int n_rows() const { return span_.n_rows; }

 private:
  static void fill(float* row, float strength) {
    for (int i = 0; i < kWidth; ++i) row[i] = 1.0f;  // q, k, v: anything
    float* index = row + (kHeads + 2 * kGroups) * kHeadDim;
    std::fill_n(index, (kGroups + 1) * kHeadDim, 0.0f);
    for (int d = kRotary; d < kHeadDim; ++d) {
      const bool even = d % 2 == 0;
      index[d] = even ? 1.0f : 0.0f;              // group 0 looks along the even channels
      index[kHeadDim + d] = even ? -1.0f : 0.0f;  // group 1 the other way
      const float along = strength, across = std::sqrt(1.0f - strength * strength);
      index[kGroups * kHeadDim + d] = even ? along : across;
    }
  }
  Batch batch() const { return {.tokens = tokens_, .sequences = {&span_, 1}, .logits_rows = {}}; }

  int n_blocks_;
  std::unique_ptr<Device> device_;
  AttentionNorms norms_;
  Rows projected_;
  std::vector<int32_t> blocks_, tokens_;
  SequenceSpan span_;
  int position_ = 0;
};

// `n_tokens` strengths, one value a block.
std::vector<float> per_block(const std::vector<float>& blocks, size_t n_tokens) {
  std::vector<float> strengths(n_tokens);
  for (size_t i = 0; i < n_tokens; ++i) strengths[i] = blocks[i / kBlockTokens];
  return strengths;
}

std::vector<int32_t> first_blocks(int n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(CpuSelect, T_c2_EqualScoresGoToTheLowestIdsAndTheOwnBlockIsIn) {
  for (int n_threads : {1, 2, 3}) {
    Selector selector(4, 0, 1, 40, n_threads);
    selector.append(std::vector<float>(39 * 128 + 5, 0.5f));
    selector.select();
    EXPECT_EQ(selector.last(0), (std::vector<int32_t>{0, 1, 2, 39}));
    EXPECT_EQ(selector.last(1), (std::vector<int32_t>{0, 1, 2, 39}));
  }
}

TEST(CpuSelect, T_c2_EqualMaximaInDistantPartsGoToTheLowestIds) {
  std::vector<float> blocks(40, 0.1f);
  for (size_t b : {5u, 13u, 22u, 31u, 36u}) blocks[b] = 0.75f;
  for (int n_threads : {1, 3}) {
    Selector selector(4, 0, 1, 40, n_threads);
    selector.append(per_block(blocks, 39 * 128 + 77));
    selector.select();
    EXPECT_EQ(selector.last(0), (std::vector<int32_t>{5, 13, 22, 39}));
  }
}

TEST(CpuSelect, T_c3_AllWinnersMayLieTogether) {
  std::vector<float> blocks(48, -0.25f);
  for (size_t b = 20; b < 35; ++b) blocks[b] = 0.5f + 0.02f * static_cast<float>(b % 7);
  for (int n_threads : {1, 2, 3}) {
    Selector selector(16, 0, 1, 48, n_threads);
    selector.append(per_block(blocks, 47 * 128 + 1));
    selector.select();
    std::vector<int32_t> expected(15);
    std::iota(expected.begin(), expected.end(), 20);
    expected.push_back(47);
    EXPECT_EQ(selector.last(0), expected);
  }
}

TEST(CpuSelect, OneStrongTokenCarriesItsBlockForItsGroupOnly) {
  std::vector<float> strengths(20 * 128, 0.0f);
  strengths[7 * 128 + 127] = 0.875f;
  strengths[11 * 128] = -0.875f;
  Selector selector(3, 0, 1, 20);
  selector.append(strengths);
  selector.select();
  EXPECT_EQ(selector.last(0), (std::vector<int32_t>{0, 7, 19}));
  EXPECT_EQ(selector.last(1), (std::vector<int32_t>{0, 11, 19}));
}

TEST(CpuSelect, T_c4_TheBudgetTurnsExactlyAtItsEdge) {
  std::vector<float> blocks(17, 0.5f);
  blocks[0] = -0.5f;  // the one to go when there are 17
  Selector selector(16, 0, 1, 17);
  selector.append(per_block(blocks, 16 * 128 - 2));
  selector.append({0.5f, 0.5f, 0.5f});  // positions 2046, 2047 | 2048
  selector.select();
  EXPECT_EQ(selector.list(0), first_blocks(16));
  EXPECT_EQ(selector.list(1), first_blocks(16));
  std::vector<int32_t> without_first = first_blocks(17);
  without_first.erase(without_first.begin());
  EXPECT_EQ(selector.list(2), without_first);
  selector.append(per_block({0.5f}, 126));
  selector.append({0.5f});  // position 2175: p % 128 = 127
  selector.select();
  EXPECT_EQ(selector.last(), without_first);
}

TEST(CpuSelect, T_c4_AShortPastIsKeptWhole) {
  Selector selector(16, 0, 1, 3);
  selector.append(std::vector<float>(1, 0.5f));
  selector.select();
  EXPECT_EQ(selector.last(), first_blocks(1));
  selector.append(std::vector<float>(127, 0.5f));
  selector.select();
  EXPECT_EQ(selector.last(), first_blocks(1));
  selector.append({0.5f});
  selector.select();
  EXPECT_EQ(selector.last(), first_blocks(2));
}

TEST(CpuSelect, T_c5_RowsThatCrossABlockEdgeHaveTheirOwnLists) {
  std::vector<float> blocks = {0.1f, 0.9f, 0.2f, 0.8f, 0.3f, 0.7f, 0.0f};
  Selector selector(3, 0, 1, 7, 2);
  selector.append(per_block(blocks, 5 * 128 - 3));
  selector.append(per_block({0.7f}, 7));  // rows in block 4 and in block 5
  selector.select();
  for (int row = 0; row < 3; ++row) EXPECT_EQ(selector.list(row), (std::vector<int32_t>{1, 3, 4}));
  for (int row = 3; row < 7; ++row) EXPECT_EQ(selector.list(row), (std::vector<int32_t>{1, 3, 5}));
}

TEST(CpuSelect, ForcedBlocksCountInsideTheBudget) {
  std::vector<float> blocks(12, 0.0f);
  blocks[4] = 0.9f;
  blocks[6] = 0.8f;
  Selector selector(4, 1, 2, 12, 2);
  selector.append(per_block(blocks, 12 * 128));
  selector.select();
  EXPECT_EQ(selector.last(), (std::vector<int32_t>{0, 4, 10, 11}));
  Selector all_forced(3, 1, 2, 12);
  all_forced.append(per_block(blocks, 12 * 128));
  all_forced.select();
  EXPECT_EQ(all_forced.last(), (std::vector<int32_t>{0, 10, 11}));
}

TEST(CpuSelect, T_c1_T_c6_ThreadsAndRowsTogetherGiveTheListsOfOneAlone) {
  Rng rng(8);
  std::vector<float> strengths(30 * 128 + 60);
  for (float& s : strengths) s = 0.1f * static_cast<float>(rng.below(10));  // many ties
  const size_t tail = 150;
  const std::vector<float> past(strengths.begin(), strengths.end() - tail);
  const std::vector<float> rest(strengths.end() - tail, strengths.end());
  std::vector<std::vector<int32_t>> alone;
  Selector one(5, 0, 1, 32);
  one.append(past);
  for (float strength : rest) {
    one.append({strength});
    one.select();
    for (int group : {0, 1}) alone.push_back(one.last(group));
  }
  for (int n_threads : {1, 2, 3}) {
    for (const Kernels* kernels : available_kernels()) {
      Selector together(5, 0, 1, 32, n_threads, kernels);
      together.append(past);
      together.append(rest);
      together.select();
      std::vector<std::vector<int32_t>> lists;
      for (int row = 0; row < together.n_rows(); ++row) {
        for (int group : {0, 1}) lists.push_back(together.list(row, group));
      }
      EXPECT_EQ(lists, alone) << n_threads << " threads, " << kernels->name;
    }
  }
}

}  // namespace
}  // namespace minim::cpu_test
