// Every step of the CPU device against the reference device, on sizes that no kernel likes. Both
// get the same bf16 inputs, so that they may differ only where a fp32 sum rounds to the other
// neighbour: one bf16 step, rarely.
#include <algorithm>

#include "device/cpu_fixture.h"

namespace minim::cpu_test {
namespace {

// The same device twice, and rows with the same contents in both.
class Pair {
 public:
  explicit Pair(const ModelShape& shape, AttentionMode mode = AttentionMode::kDirect)
      : cpu(cpu_device(shape, 2, nullptr, mode)),
        ref(make_ref_device(shape, {.rounded = true, .attention = mode})) {}

  template <typename Load>
  auto load(const Load& call) {
    const auto a = *call(*cpu), b = *call(*ref);
    EXPECT_EQ(a, b);
    return a;
  }
  void reserve(int max_rows) {
    EXPECT_TRUE(cpu->reserve(max_rows));
    EXPECT_TRUE(ref->reserve(max_rows));
  }
  // Rows of random bf16 values.
  std::pair<Rows, Rows> rows(Rng& rng, int n_rows, int width) {
    tables_.push_back(random_rows(rng, static_cast<size_t>(n_rows), static_cast<size_t>(width)));
    const StoredMatrix& table = tables_.back();
    const EmbeddingId id = load([&](Device& d) { return d.load_embedding(table.view); });
    std::vector<int32_t> all(static_cast<size_t>(n_rows));
    std::iota(all.begin(), all.end(), 0);
    const std::pair<Rows, Rows> made{cpu->make_rows(width), ref->make_rows(width)};
    cpu->embed(id, all, made.first);
    ref->embed(id, all, made.second);
    return made;
  }

  std::unique_ptr<Device> cpu, ref;

 private:
  std::vector<StoredMatrix> tables_;
};

// |a - b| within `steps` bf16 steps of the larger, plus `absolute`; at most one value in `rare`
// may differ at all.
void expect_close(Pair& pair, std::pair<Rows, Rows> rows, int n_rows, int width, float steps,
                  float absolute, size_t rare = 20, int first_column = 0) {
  size_t n_different = 0;
  for (int r = 0; r < n_rows; ++r) {
    std::vector<float> a(static_cast<size_t>(first_column + width)), b(a.size());
    pair.cpu->read_row(rows.first, r, a);
    pair.ref->read_row(rows.second, r, b);
    for (size_t i = static_cast<size_t>(first_column); i < a.size(); ++i) {
      const float allowed = steps * 0x1p-7f * std::max(std::fabs(a[i]), std::fabs(b[i])) + absolute;
      ASSERT_LE(std::fabs(a[i] - b[i]), allowed)
          << "row " << r << " column " << i << ": " << a[i] << " and " << b[i];
      n_different += a[i] != b[i];
    }
  }
  EXPECT_LE(n_different, 3 + static_cast<size_t>(n_rows * width) / rare);
}

struct Size {
  WeightFormat format;
  size_t n_out, n_in;
};

TEST(CpuSteps, LinearEqualsTheReferenceOnAwkwardSizes) {
  const Size sizes[] = {{WeightFormat::kBf16, 1, 96},    {WeightFormat::kBf16, 17, 33},
                        {WeightFormat::kBf16, 300, 160}, {WeightFormat::kMxfp8, 40, 96},
                        {WeightFormat::kMxfp8, 129, 32}, {WeightFormat::kNvfp4, 16, 16},
                        {WeightFormat::kNvfp4, 77, 80},  {WeightFormat::kNvfp4, 530, 224},
                        {WeightFormat::kF32, 24, 96}};
  Rng rng(1);
  for (const Size& size : sizes) {
    for (int n_rows : {1, 2, 5, 33, 40}) {
      SCOPED_TRACE(::testing::Message() << size.n_out << " x " << size.n_in << ", " << n_rows);
      Pair pair(tiny_spec().shape);
      pair.reserve(40);
      const StoredMatrix m = random_matrix(rng, size.format, size.n_out, size.n_in);
      const LinearId w = pair.load([&](Device& d) { return d.load_linear({&m.view, 1}); });
      const auto x = pair.rows(rng, n_rows, static_cast<int>(size.n_in));
      const auto y = pair.rows(rng, n_rows, static_cast<int>(size.n_out));
      const auto out = pair.rows(rng, n_rows, static_cast<int>(size.n_out) + 3);
      pair.cpu->linear(w, x.first, n_rows, out.first);
      pair.ref->linear(w, x.second, n_rows, out.second);
      // + 3: the columns beyond the matrix keep what they held
      expect_close(pair, out, n_rows, static_cast<int>(size.n_out) + 3, 1, 1e-6f);
      pair.cpu->linear_add(w, x.first, n_rows, y.first);
      pair.ref->linear_add(w, x.second, n_rows, y.second);
      expect_close(pair, y, n_rows, static_cast<int>(size.n_out), 1, 0.01f);
    }
  }
}

TEST(CpuSteps, PartsOfALinearLieSideBySide) {
  Rng rng(2);
  Pair pair(tiny_spec().shape);
  pair.reserve(9);
  const StoredMatrix parts[] = {random_matrix(rng, WeightFormat::kNvfp4, 24, 64),
                                random_matrix(rng, WeightFormat::kBf16, 5, 64),
                                random_matrix(rng, WeightFormat::kMxfp8, 48, 64),
                                random_matrix(rng, WeightFormat::kBf16, 130, 64)};
  const MatrixView views[] = {parts[0].view, parts[1].view, parts[2].view, parts[3].view};
  const LinearId w = pair.load([&](Device& d) { return d.load_linear(views); });
  const auto x = pair.rows(rng, 9, 64);
  const auto out = pair.rows(rng, 9, 24 + 5 + 48 + 130);
  pair.cpu->linear(w, x.first, 9, out.first);
  pair.ref->linear(w, x.second, 9, out.second);
  expect_close(pair, out, 9, 24 + 5 + 48 + 130, 1, 1e-6f);
}

TEST(CpuSteps, LogitsOfAnyRowsAreNotRounded) {
  Rng rng(3);
  const ModelShape shape = tiny_spec().shape;
  for (size_t vocab : {7u, 77u, 400u}) {
    Pair pair(shape);
    pair.reserve(40);
    const StoredMatrix m =
        random_matrix(rng, WeightFormat::kBf16, vocab, static_cast<size_t>(shape.hidden));
    const LinearId w = pair.load([&](Device& d) { return d.load_linear({&m.view, 1}); });
    const auto h = pair.rows(rng, 40, shape.hidden);
    std::vector<int32_t> every(40), odd;
    std::iota(every.begin(), every.end(), 0);
    for (int i = 1; i < 40; i += 2) odd.push_back(i);
    for (const std::vector<int32_t>& rows : {std::vector<int32_t>{39}, odd, every, {}}) {
      std::vector<float> a(rows.size() * vocab + 1, -7.0f), b(a);
      pair.cpu->logits(w, h.first, rows, a.data());
      pair.ref->logits(w, h.second, rows, b.data());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-6f) << i;
    }
  }
}

TEST(CpuSteps, NormEqualsTheReference) {
  Rng rng(4);
  for (int width : {32, 96, 352, 1024}) {
    Pair pair(tiny_spec().shape);
    pair.reserve(37);
    const std::vector<float> weight = random_vector(rng, static_cast<size_t>(width), 0.3f);
    const NormId norm = pair.load([&](Device& d) { return d.load_norm(weight); });
    const auto x = pair.rows(rng, 37, width);
    const auto out = pair.rows(rng, 37, width);
    pair.cpu->rms_norm(norm, x.first, 37, out.first);
    pair.ref->rms_norm(norm, x.second, 37, out.second);
    expect_close(pair, out, 37, width, 1, 0);
  }
}

struct MlpCase {
  WeightFormat format;
  int hidden;
  size_t width;
};

TEST(CpuSteps, MlpEqualsTheReferenceOnAwkwardSizes) {
  const MlpCase cases[] = {{WeightFormat::kBf16, 96, 37},
                           {WeightFormat::kBf16, 288, 1},
                           {WeightFormat::kNvfp4, 160, 48},
                           {WeightFormat::kMxfp8, 96, 352},
                           {WeightFormat::kNvfp4, 608, 400}};
  Rng rng(5);
  for (const MlpCase& c : cases) {
    for (int n_rows : {1, 3, 34}) {
      ModelShape shape = tiny_spec().shape;
      shape.hidden = c.hidden;
      const size_t hidden = static_cast<size_t>(c.hidden);
      Pair pair(shape);
      pair.reserve(34);
      const StoredMatrix gate = random_matrix(rng, c.format, c.width, hidden);
      const StoredMatrix up = random_matrix(rng, c.format, c.width, hidden);
      const StoredMatrix down = random_matrix(rng, c.format, hidden, c.width);
      const MlpId mlp =
          pair.load([&](Device& d) { return d.load_mlp(gate.view, up.view, down.view); });
      const auto h = pair.rows(rng, n_rows, c.hidden);
      const auto x = pair.rows(rng, n_rows, c.hidden);
      pair.cpu->mlp_add(mlp, h.first, n_rows, x.first);
      pair.ref->mlp_add(mlp, h.second, n_rows, x.second);
      expect_close(pair, x, n_rows, c.hidden, 1.01f, 0.02f);
    }
  }
}

// Attention on one layer: projected rows of several sequences in several steps, then compare q,
// selection and output.
struct AttentionCase {
  int n_heads, n_kv_heads, rotary_dim;
  KvFormats kv;
  AttentionMode mode;
  int top_k, init, local;
};

void PrintTo(const AttentionCase& c, std::ostream* out) {
  *out << c.n_heads << " heads in " << c.n_kv_heads << " groups";
}

class CpuAttention : public ::testing::TestWithParam<AttentionCase> {};

constexpr KvFormats kAllBf16{KvFormat::kBf16, KvFormat::kBf16};
constexpr KvFormats kAllNvfp4{KvFormat::kNvfp4, KvFormat::kNvfp4};

INSTANTIATE_TEST_SUITE_P(
    , CpuAttention,
    ::testing::Values(
        AttentionCase{4, 4, 64, kAllBf16, AttentionMode::kDirect, 3, 0, 1},
        AttentionCase{4, 2, 32, kAllNvfp4, AttentionMode::kDirect, 3, 1, 1},
        AttentionCase{3, 1, 64, kAllBf16, AttentionMode::kDirect, 2, 0, 2},
        AttentionCase{
            8, 2, 128, {KvFormat::kFp8E4m3, KvFormat::kBf16}, AttentionMode::kDirect, 2, 0, 1},
        AttentionCase{16, 2, 64, kAllNvfp4, AttentionMode::kGpu, 3, 0, 1},
        AttentionCase{
            32, 2, 64, {KvFormat::kNvfp4, KvFormat::kFp8E4m3}, AttentionMode::kDirect, 4, 1, 2},
        AttentionCase{20, 1, 64, kAllBf16, AttentionMode::kDirect, 3, 0, 1},
        AttentionCase{40, 1, 64, kAllNvfp4, AttentionMode::kGpu, 1, 0, 1}));

TEST_P(CpuAttention, EqualsTheReferenceAcrossBlocksAndSequences) {
  const AttentionCase& c = GetParam();
  ModelShape shape = tiny_spec().shape;
  shape.n_heads = c.n_heads;
  shape.n_kv_heads = c.n_kv_heads;
  shape.rotary_dim = c.rotary_dim;
  shape.top_k_blocks = c.top_k;
  shape.init_blocks = c.init;
  shape.local_blocks = c.local;
  Rng rng(6);
  Pair pair(shape, c.mode);
  AttentionNorms norms;
  for (NormId* norm : {&norms.q, &norms.k, &norms.index_q, &norms.index_k}) {
    const std::vector<float> weight = random_vector(rng, 128, 0.2f);
    *norm = pair.load([&](Device& d) { return d.load_norm(weight); });
  }
  constexpr int kMaxRows = 150;
  pair.reserve(kMaxRows);
  const KvLayout layout = make_kv_layout(c.kv, c.n_kv_heads, {false, true});
  ASSERT_TRUE(pair.cpu->make_cache(layout, 16));
  ASSERT_TRUE(pair.ref->make_cache(layout, 16));
  const int width = (c.n_heads + 3 * c.n_kv_heads + 1) * kHeadDim;
  const int n_queries = c.n_heads * kHeadDim;
  const std::pair<Rows, Rows> out{pair.cpu->make_rows(n_queries), pair.ref->make_rows(n_queries)};

  struct Sequence {
    std::vector<int32_t> blocks;
    int done = 0;
  };
  Sequence sequences[] = {{{3, 9, 1, 14, 0, 8}}, {{2, 4}}, {{7, 6, 5}}};
  const int steps[][3] = {{120, 1, 29}, {150, 0, 0}, {1, 1, 1},    {70, 37, 43},
                          {0, 1, 149},  {149, 1, 0}, {128, 20, 2}, {1, 1, 1}};
  for (const auto& step : steps) {
    std::vector<SequenceSpan> spans;
    int n_rows = 0;
    for (size_t i = 0; i < 3; ++i) {
      if (step[i] == 0) continue;
      spans.push_back({n_rows, step[i], sequences[i].done, sequences[i].blocks});
      n_rows += step[i];
      sequences[i].done += step[i];
    }
    ASSERT_LE(n_rows, kMaxRows);
    const std::vector<int32_t> tokens(static_cast<size_t>(n_rows), 0);
    const Batch batch{.tokens = tokens, .sequences = spans, .logits_rows = {}};
    const auto projected = pair.rows(rng, n_rows, width);
    for (int layer : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << "layer " << layer << ", " << n_rows << " rows");
      const auto p = layer == 0 ? pair.rows(rng, n_rows, width) : projected;
      pair.cpu->norm_rope_and_store(layer, norms, batch, p.first);
      pair.ref->norm_rope_and_store(layer, norms, batch, p.second);
      // An E4M3 step is 2^-3; what is left in the k and v columns is nobody's business.
      const float step_of = c.mode == AttentionMode::kGpu ? 16.0f : 1.0f;
      const int index_q = (c.n_heads + 2 * c.n_kv_heads) * kHeadDim;
      expect_close(pair, p, n_rows, n_queries, step_of, 0.002f);
      if (layer == 1) {
        expect_close(pair, p, n_rows, c.n_kv_heads * kHeadDim, step_of, 0.002f, 20, index_q);
      }
      if (layer == 1) {
        pair.cpu->select_blocks(layer, batch, p.first);
        pair.ref->select_blocks(layer, batch, p.second);
        for (int r = 0; r < n_rows; ++r) {
          for (int g = 0; g < c.n_kv_heads; ++g) {
            ASSERT_EQ(pair.cpu->selected_blocks(r, g), pair.ref->selected_blocks(r, g))
                << "row " << r << " group " << g;
          }
        }
      }
      pair.cpu->attend(layer, batch, layer == 1, p.first, out.first);
      pair.ref->attend(layer, batch, layer == 1, p.second, out.second);
      // p rounds to bf16 (kGpu: E4M3) relative to a block's own maximum
      const float slack = c.mode == AttentionMode::kGpu ? 0.05f : 0.008f;
      expect_close(pair, out, n_rows, n_queries, 2, slack, 1);
    }
  }
}

TEST(CpuSteps, T_d1_ABudgetThatCoversThePastEqualsDense) {
  for (int top_k : {3, 5}) {
    ModelShape shape = tiny_spec().shape;
    shape.top_k_blocks = top_k;
    Rng rng(7);
    const std::unique_ptr<Device> device = cpu_device(shape, 2);
    AttentionNorms norms;
    for (NormId* norm : {&norms.q, &norms.k, &norms.index_q, &norms.index_k}) {
      *norm = *device->load_norm(random_vector(rng, 128, 0.2f));
    }
    const int n_rows = top_k * kBlockTokens;
    ASSERT_TRUE(device->reserve(n_rows + 1));
    ASSERT_TRUE(device->make_cache(make_kv_layout(kAllNvfp4, 2, {true}), 6));
    const int width = (8 + 3 * 2 + 1) * kHeadDim;
    const StoredMatrix table =
        random_rows(rng, static_cast<size_t>(n_rows + 1), static_cast<size_t>(width));
    std::vector<int32_t> tokens(static_cast<size_t>(n_rows + 1));
    std::iota(tokens.begin(), tokens.end(), 0);
    const std::vector<int32_t> blocks = {0, 1, 2, 3, 4, 5};
    const SequenceSpan span{0, n_rows + 1, 0, blocks};
    const Batch batch{.tokens = tokens, .sequences = {&span, 1}, .logits_rows = {}};
    const Rows projected = device->make_rows(width), sparse = device->make_rows(8 * kHeadDim),
               dense = device->make_rows(8 * kHeadDim);
    device->embed(*device->load_embedding(table.view), tokens, projected);
    device->norm_rope_and_store(0, norms, batch, projected);
    device->select_blocks(0, batch, projected);
    device->attend(0, batch, true, projected, sparse);
    device->attend(0, batch, false, projected, dense);
    std::vector<float> a(8 * kHeadDim), b(a);
    for (int r = 0; r <= n_rows; ++r) {
      device->read_row(sparse, r, a);
      device->read_row(dense, r, b);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0, r < n_rows) << r;
    }
  }
}

}  // namespace
}  // namespace minim::cpu_test
