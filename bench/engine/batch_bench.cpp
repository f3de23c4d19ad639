// Decode speed of several sequences in one step against that of one.
//
// usage: batch_bench MODEL_DIR [THREADS [ROUNDS [POSITION]]]
//
// A step of n sequences reads dense weights once and each expert once for all rows that chose it,
// so where memory is the limit n sequences should be nearly n times as fast; where arithmetic is,
// they are not. Steps of 1, 2, 4 and 8 sequences take turns, so that a machine whose speed drifts
// slows all. Beside wall time stands processor time, which other load on the machine does not
// stretch: run with one thread, it tells the limit by arithmetic of one core. The cache holds
// zeros; what is in it makes no difference to the speed. Prints one CSV row a batch size.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "engine/measure.h"
#include "engine/runtime.h"

namespace minim {
namespace {

constexpr int kBatchSizes[] = {1, 2, 4, 8};
constexpr int kMostSequences = 8;

class Batches {
 public:
  Batches(Runtime& runtime, int position) : runtime_(runtime), position_(position) {
    const int n_blocks = position / kBlockTokens + 1;
    for (int i = 0; i < kMostSequences; ++i) {
      tables_.emplace_back(static_cast<size_t>(n_blocks));
      std::iota(tables_.back().begin(), tables_.back().end(), i * n_blocks);
    }
    logits_.resize(static_cast<size_t>(kMostSequences * runtime.config().vocab));
  }

  // One step of n sequences with one token each; other tokens each time, so that experts vary.
  void step(int n) {
    std::vector<SequenceSpan> spans;
    std::vector<int32_t> tokens, rows;
    for (int i = 0; i < n; ++i) {
      spans.push_back({i, 1, position_, tables_[static_cast<size_t>(i)]});
      tokens.push_back((n_steps_ * 7919 + i * 331) % 1000 % runtime_.config().vocab);
      rows.push_back(i);
    }
    ++n_steps_;
    runtime_.model().forward(
        {.tokens = tokens, .sequences = spans, .logits_rows = rows},
        std::span(logits_).first(static_cast<size_t>(n * runtime_.config().vocab)));
  }

 private:
  Runtime& runtime_;
  int position_;
  int n_steps_ = 0;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<float> logits_;
};

int run(const RuntimeOptions& options, int n_rounds, int position) {
  Result<std::unique_ptr<Runtime>> loaded = Runtime::load(options, ProgressSink{});
  if (!loaded) {
    std::fprintf(stderr, "batch_bench: %s\n", loaded.error().message.c_str());
    return 1;
  }
  Runtime& runtime = **loaded;
  Batches batches(runtime, position);
  constexpr size_t kSizes = std::size(kBatchSizes);
  std::vector<double> wall[kSizes], cpu[kSizes], megabytes[kSizes];
  batches.step(kMostSequences);
  for (int round = 0; round < n_rounds; ++round) {
    for (size_t i = 0; i < kSizes; ++i) {
      const uint64_t bytes = runtime.device().bytes_read();
      const double wall_start = now_seconds(), cpu_start = cpu_seconds();
      batches.step(kBatchSizes[i]);
      cpu[i].push_back(cpu_seconds() - cpu_start);
      wall[i].push_back(now_seconds() - wall_start);
      megabytes[i].push_back(static_cast<double>(runtime.device().bytes_read() - bytes) * 1e-6);
    }
  }
  std::printf("# cpu %s, tier %s, threads %d, position %d\n", cpu_model().c_str(),
              std::string(runtime.isa()).c_str(), runtime.n_threads(), position);
  std::printf("sequences,step_ms,tokens_per_s,gain,cpu_ms,cpu_gain,megabytes\n");
  for (size_t i = 0; i < kSizes; ++i) {
    const double n = kBatchSizes[i], w = median(wall[i]), c = median(cpu[i]);
    std::printf("%d,%.2f,%.2f,%.2f,%.2f,%.2f,%.1f\n", kBatchSizes[i], w * 1e3, n / w,
                n * median(wall[0]) / w, c * 1e3, n * median(cpu[0]) / c, median(megabytes[i]));
  }
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: batch_bench MODEL_DIR [THREADS [ROUNDS [POSITION]]]\n");
    return 2;
  }
  minim::RuntimeOptions options;
  options.model_dir = argv[1];
  options.n_threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int rounds = argc > 3 ? std::max(3, std::atoi(argv[3])) : 15;
  const int position = argc > 4 ? std::max(0, std::atoi(argv[4])) : 200;
  options.context = (position / minim::kBlockTokens + 1) * minim::kBlockTokens * 8;
  return minim::run(options, rounds, position);
}
