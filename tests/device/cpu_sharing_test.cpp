// Sequences that share blocks of the cache: a shared block is read once for all of them, and nobody
// can tell by the results.
#include <ostream>

#include "device/cpu_fixture.h"
#include "kernels/panel.h"

namespace minim::cpu_test {
namespace {

constexpr size_t kStem = 640;  // five blocks, two more than the budget

TinySpec sharing_spec(WeightFormat weights, KvFormats kv) {
  TinySpec spec = tiny_spec();
  spec.format = weights;
  spec.kv = kv;
  spec.dense_width = 48;
  spec.n_blocks = 64;
  return spec;
}

// One sequence of a test: its tokens beside the stem, and which of the shared blocks it uses.
struct Branch {
  size_t n_tokens;                     // behind the stem
  std::vector<int32_t> shared_blocks;  // of the stem, and of a branch that another one wrote
};

// A stem in blocks 0 .. 4, whose tokens are those of seed 5, and branches behind it. Branch 1
// writes block 10 behind the stem, which branch 2 shares; 3 shares the first two blocks only.
const Branch kBranches[] = {{70, {0, 1, 2, 3, 4}},
                            {150, {0, 1, 2, 3, 4}},
                            {180, {0, 1, 2, 3, 4, 10}},
                            {400, {0, 1}},
                            {3, {0, 1, 2, 3, 4}}};
constexpr size_t kBranchCount = std::size(kBranches);

std::vector<int32_t> stem_tokens() { return test_sequence(5, kStem, {}).tokens; }

// Tokens of a branch: those that lie in shared blocks are the stem's and branch 1's.
TestSequence branch_sequence(size_t i) {
  const Branch& branch = kBranches[i];
  const size_t n_stem = std::min(kStem, branch.shared_blocks.size() * kBlockTokens);
  TestSequence sequence = test_sequence(100 + i, n_stem + branch.n_tokens, {});
  const std::vector<int32_t> stem = stem_tokens();
  std::copy_n(stem.begin(), n_stem, sequence.tokens.begin());
  if (i == 2) {
    const TestSequence other = branch_sequence(1);
    std::copy_n(other.tokens.begin() + kStem, kBlockTokens, sequence.tokens.begin() + kStem);
  }
  return sequence;
}

// The same sequence on blocks of its own, from its first token on.
std::vector<float> run_alone(const TinyModel& model, size_t i) {
  Runner runner(model, cpu_device(model.spec().shape));
  TestSequence sequence = branch_sequence(i);
  for (int32_t b = 0; b < 10; ++b) sequence.blocks.push_back(static_cast<int32_t>(40 - 3 * b));
  return runner.run(sequence, 600);
}

struct Kind {
  const char* name;
  WeightFormat weights;
  KvFormats kv;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class CpuSharing : public ::testing::TestWithParam<Kind> {
 protected:
  static TinySpec spec() { return sharing_spec(GetParam().weights, GetParam().kv); }
};

INSTANTIATE_TEST_SUITE_P(
    , CpuSharing,
    ::testing::Values(Kind{"Bf16", WeightFormat::kBf16, {KvFormat::kBf16, KvFormat::kBf16}},
                      Kind{"Nvfp4", WeightFormat::kNvfp4, {KvFormat::kNvfp4, KvFormat::kNvfp4}}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(CpuSharing, T_g3_StemsAndBranchesInSharedBlocksEqualPrivateCopies) {
  const TinyModel model(spec());
  std::vector<float> alone[kBranchCount];
  for (size_t i = 0; i < kBranchCount; ++i) alone[i] = run_alone(model, i);
  for (int n_threads : {1, 2, 5}) {
    SCOPED_TRACE(n_threads);
    Runner runner(model, cpu_device(spec().shape, n_threads));
    TestSequence stem = test_sequence(5, kStem, {0, 1, 2, 3, 4});
    runner.run(stem, 600);
    TestSequence sequences[kBranchCount];
    std::vector<float> together[kBranchCount];
    for (size_t i = 0; i < kBranchCount; ++i) {
      sequences[i] = branch_sequence(i);
      sequences[i].blocks = kBranches[i].shared_blocks;
      sequences[i].done = static_cast<int>(sequences[i].blocks.size()) * kBlockTokens;
      const int32_t own = i == 1 ? 10 : static_cast<int32_t>(20 + 5 * i);
      for (int32_t b = 0; b < 5; ++b) sequences[i].blocks.push_back(own + b);
    }
    // The block that branch 2 shares must be there before branch 2 starts.
    TestSequence* const writer = &sequences[1];
    const int head = kBlockTokens;
    together[1] = runner.step({&writer, 1}, {&head, 1});
    // In odd order, a few rows each, then one row each.
    const size_t vocab = static_cast<size_t>(spec().shape.vocab);
    for (int n = 37;; n = n == 1 ? 1 : n - 12) {
      std::vector<TestSequence*> now;
      std::vector<size_t> which;
      std::vector<int> n_rows;
      for (size_t i : {3, 0, 4, 2, 1}) {
        const int left = static_cast<int>(sequences[i].tokens.size()) - sequences[i].done;
        if (left == 0) continue;
        now.push_back(&sequences[i]);
        which.push_back(i);
        n_rows.push_back(std::min(left, n));
      }
      if (now.empty()) break;
      const std::vector<float> logits = runner.step(now, n_rows);
      auto from = logits.begin();
      for (size_t i = 0; i < which.size(); ++i) {
        const auto end = from + static_cast<ptrdiff_t>(static_cast<size_t>(n_rows[i]) * vocab);
        together[which[i]].insert(together[which[i]].end(), from, end);
        from = end;
      }
    }
    for (size_t i = 0; i < kBranchCount; ++i) {
      const std::vector<float> tail(alone[i].end() - static_cast<ptrdiff_t>(together[i].size()),
                                    alone[i].end());
      EXPECT_TRUE(same_bits(tail, together[i])) << "branch " << i;
    }
  }
}

// Rows of one sequence as sequences of one row each: they share every block, the last one too, of
// which each row sees another number of keys.
TEST_P(CpuSharing, T_g3_EveryRowSeesItsOwnPartOfALastBlockThatAllShare) {
  const TinyModel model(spec());
  const std::vector<int32_t> blocks = {7, 3, 9, 1, 5, 2};
  for (const size_t start : {0u, 200u, 636u}) {  // 636: rows of two last blocks
    SCOPED_TRACE(start);
    const std::vector<int32_t> tokens = test_sequence(5, start + 20, {}).tokens;
    std::vector<float> want, got;
    for (const bool apart : {false, true}) {
      Runner runner(model, cpu_device(spec().shape, 2));
      TestSequence head = test_sequence(5, start, blocks);
      runner.run(head, 600);
      std::vector<SequenceSpan> spans;
      for (int i = 0; i < 20; ++i) {
        spans.push_back({i, 1, static_cast<int>(start) + i, blocks});
      }
      if (!apart) spans = {{0, 20, static_cast<int>(start), blocks}};
      std::vector<int32_t> rows(20);
      std::iota(rows.begin(), rows.end(), 0);
      std::vector<float>& logits = apart ? got : want;
      logits.resize(20 * static_cast<size_t>(spec().shape.vocab));
      runner.forward(
          {.tokens = std::span(tokens).subspan(start), .sequences = spans, .logits_rows = rows},
          logits.data());
    }
    EXPECT_TRUE(same_bits(want, got));
  }
}

// Only blocks that lie in the same place count as shared, and only at the same index: here two
// sequences have each other's blocks in another order, and share the first and the third.
TEST_P(CpuSharing, T_g3_TheSameBlockAtAnotherIndexIsAnotherBlock) {
  const TinyModel model(spec());
  const std::vector<int32_t> tables[] = {{0, 1, 2, 3, 4, 5}, {0, 3, 2, 1, 4, 6}};
  const auto run = [&](bool together) {
    Runner runner(model, cpu_device(spec().shape, 2));
    Rng rng(4);
    TestSequence writer = test_sequence(5, kStem, tables[0]);
    runner.run(writer, 600);
    TestSequence sequences[2] = {test_sequence(5, kStem + 9, tables[0]),
                                 test_sequence(6, kStem + 9, tables[1])};
    for (TestSequence& sequence : sequences) sequence.done = kStem;
    std::vector<float> logits;
    if (together) {
      TestSequence* const both[] = {&sequences[0], &sequences[1]};
      const int n_rows[] = {9, 9};
      return runner.step(both, n_rows);
    }
    for (TestSequence& sequence : sequences) {
      const std::vector<float> part = runner.run(sequence, 9);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

// Blocks are written again between two steps of sequences that share them: the second step must
// see the new bytes.
TEST_P(CpuSharing, T_g4_ABlockThatWasWrittenAgainIsReadAgain) {
  const TinyModel model(spec());
  const auto decode = [&](Runner& runner) {
    TestSequence a = test_sequence(8, kStem + 1, {0, 1, 2, 3, 4, 5});
    TestSequence b = test_sequence(9, kStem + 1, {0, 1, 2, 3, 4, 6});
    a.done = b.done = kStem;
    TestSequence* const both[] = {&a, &b};
    const int n_rows[] = {1, 1};
    return runner.step(both, n_rows);
  };
  const auto write = [](Runner& runner, uint64_t seed) {
    TestSequence stem = test_sequence(seed, kStem, {0, 1, 2, 3, 4});
    runner.run(stem, 600);
  };
  Runner fresh(model, cpu_device(spec().shape, 2)), used(model, cpu_device(spec().shape, 2));
  write(fresh, 12);
  const std::vector<float> want = decode(fresh);
  write(used, 5);
  const std::vector<float> before = decode(used);
  write(used, 12);
  EXPECT_TRUE(same_bits(want, decode(used)));
  EXPECT_FALSE(same_bits(want, before)) << "the stem does not matter: the test shows nothing";
}

// ---- bytes

size_t packed_bytes(const PanelFormat format, size_t n_out, size_t n_in) {
  return (n_out + kPanelRows - 1) / kPanelRows * panel_bytes(format, n_in);
}

// Weights of one step of tiny_spec() in bf16, for a number of experts in use, without embedding and
// lm_head.
size_t step_weights(const TinySpec& spec, size_t n_experts_used) {
  const size_t hidden = static_cast<size_t>(spec.shape.hidden), q = 8 * 128, kv = 2 * 128;
  const auto bf16 = [](size_t n_out, size_t n_in) {
    return packed_bytes(PanelFormat::kBf16, n_out, n_in);
  };
  const auto mlp = [&](size_t width) { return 2 * bf16(width, hidden) + bf16(hidden, width); };
  const size_t dense_attention = bf16(q, hidden) + 2 * bf16(kv, hidden) + bf16(hidden, q);
  const size_t sparse_attention = dense_attention + bf16(kv, hidden) + bf16(128, hidden);
  return dense_attention + mlp(spec.dense_width) + sparse_attention +
         packed_bytes(PanelFormat::kF32, 7, hidden) + mlp(spec.shared_width) +
         n_experts_used * mlp(spec.expert_width);
}

TEST(CpuBytesRead, OneTokenReadsItsMatricesItsExpertsAndItsBlocks) {
  const TinySpec spec = sharing_spec(WeightFormat::kBf16, {KvFormat::kNvfp4, KvFormat::kFp8E4m3});
  const TinyModel model(spec);
  for (int n_threads : {1, 3}) {
    Runner runner(model, cpu_device(spec.shape, n_threads));
    EXPECT_EQ(runner.device().bytes_read(), 0u) << "loading is not a step";
    TestSequence sequence = test_sequence(5, kStem + 4, {0, 1, 2, 3, 4, 5});
    TestSequence* const one = &sequence;
    const int n_stem = 600, n_rest = 43, n_one = 1;
    runner.step({&one, 1}, {&n_stem, 1});
    runner.step({&one, 1}, {&n_rest, 1});
    const uint64_t before = runner.device().bytes_read();
    runner.step({&one, 1}, {&n_one, 1});  // position 643: the fourth token of block 5
    const size_t embedding = 96 * 2, lm_head = packed_bytes(PanelFormat::kBf16, 77, 96);
    // Two groups, K and V: all keys of the dense layer; two whole blocks and the own one of the
    // sparse layer, which scored five.
    const size_t keys = 2 * 2 * ((kStem + 4) + (2 * 128 + 4)) * 72, scored = 5 * 128 * 128;
    EXPECT_EQ(runner.device().bytes_read() - before,
              embedding + lm_head + step_weights(spec, 3) + keys + scored);
  }
}

TEST(CpuBytesRead, T_g3_SharedBlocksAreReadOnce) {
  TinySpec spec = sharing_spec(WeightFormat::kBf16, {KvFormat::kBf16, KvFormat::kBf16});
  spec.layers[1] = {.sparse = true, .moe = false};
  spec.shape.top_k_blocks = 1;
  const TinyModel model(spec);
  constexpr size_t kSequences = 6;
  uint64_t bytes[2];
  for (const bool shared : {false, true}) {
    Runner runner(model, cpu_device(spec.shape, 1));
    TestSequence sequences[kSequences];
    std::vector<TestSequence*> all;
    std::vector<int> n_rows(kSequences, 1);
    for (size_t i = 0; i < kSequences; ++i) {
      sequences[i] = test_sequence(30 + i, kStem + 1, {0, 1, 2, 3, 4});
      const int32_t own = static_cast<int32_t>(8 + 6 * i);
      if (!shared) sequences[i].blocks = {own + 1, own + 2, own + 3, own + 4, own + 5};
      sequences[i].blocks.push_back(own);
      sequences[i].done = kStem;
      all.push_back(&sequences[i]);
    }
    const uint64_t before = runner.device().bytes_read();
    runner.step(all, n_rows);
    bytes[shared] = runner.device().bytes_read() - before;
  }
  // Five times less: all keys of the dense layer (K and V of two groups) and five index tiles; the
  // budget of the sparse layer holds nothing but the own block.
  const size_t stem_bytes = 2 * 2 * kStem * 256 + kStem * 256;
  EXPECT_EQ(bytes[false] - bytes[true], (kSequences - 1) * stem_bytes);
}

}  // namespace
}  // namespace minim::cpu_test
