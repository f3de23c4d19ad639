// Decode speed of a whole model against what memory allows.
//
// usage: decode_bench MODEL_DIR [THREADS [PAIRS [POSITION]]]
//
// A decode step must read every weight that its token uses once, and the cached vectors that it
// attends to. The limit is a plain read of the same number of bytes by the same number of threads
// from huge pages, measured in turn with the decode steps: pairs of (read, decode), so that a
// machine whose speed drifts slows both. Prints one CSV row a pair and the median.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/measure.h"
#include "engine/session.h"
#include "model/checkpoint.h"

namespace minim {
namespace {

// Bytes of weights that one token reads: everything of the text model but the experts it does not
// choose, and one row of the embedding table.
double weight_bytes_per_token(const Checkpoint& checkpoint, const Config& config) {
  double total = 0;
  for (const std::string_view name : checkpoint.names()) {
    const double bytes = static_cast<double>(checkpoint.find(name)->data.size());
    if (name.find("embed_tokens") != std::string_view::npos) continue;
    const bool routed = name.find(".experts.") != std::string_view::npos;
    total += routed ? bytes * config.n_experts_per_token / config.n_experts : bytes;
  }
  return total;
}

// Bytes of cache that one token at this position reads.
double cache_bytes_per_token(const Runtime& runtime, int position) {
  const Config& config = runtime.config();
  const KvLayout& layout = runtime.layout();
  double total = 0;
  for (const LayerKind& layer : config.layers) {
    const int keys =
        layer.sparse_attention ? std::min(position, config.top_k_blocks * kBlockTokens) : position;
    total +=
        2.0 * keys * config.n_kv_heads * static_cast<double>(kv_vector_bytes(layout.formats.main));
    if (layer.sparse_attention && position > config.top_k_blocks * kBlockTokens) {
      total += static_cast<double>(position) *
               static_cast<double>(kv_vector_bytes(layout.formats.index));
    }
  }
  return total;
}

class ReadLimit {
 public:
  ReadLimit(size_t bytes, ThreadPool& pool) : size_(bytes), pool_(pool) {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    madvise(memory, size_, MADV_HUGEPAGE);
    data_ = static_cast<uint64_t*>(memory);
    pool_.parallel_ranges(size_ / 8, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) data_[i] = i;
    });
  }
  ~ReadLimit() { munmap(data_, size_); }
  ReadLimit(const ReadLimit&) = delete;
  ReadLimit& operator=(const ReadLimit&) = delete;

  double seconds() {
    std::vector<uint64_t> sums(64);
    const double start = now_seconds();
    pool_.parallel_ranges(size_ / 64, [&](size_t begin, size_t end) {
      uint64_t lanes[8] = {};
      for (size_t line = begin; line < end; ++line) {
        for (size_t i = 0; i < 8; ++i) lanes[i] ^= data_[line * 8 + i];
      }
      uint64_t all = 0;
      for (const uint64_t lane : lanes) all ^= lane;
      sums[begin % sums.size()] = all;
    });
    const double elapsed = now_seconds() - start;
    volatile uint64_t sink = sums[0];
    (void)sink;
    return elapsed;
  }
  size_t size() const { return size_; }

 private:
  size_t size_;
  ThreadPool& pool_;
  uint64_t* data_;
};

int fail(const Error& error) {
  std::fprintf(stderr, "decode_bench: %s\n", error.message.c_str());
  return 1;
}

int run(const RuntimeOptions& options, int n_pairs, int position) {
  const double load_start = now_seconds();
  Result<std::unique_ptr<Runtime>> loaded = Runtime::load(options, ProgressSink{});
  if (!loaded) return fail(loaded.error());
  const double load_seconds = now_seconds() - load_start;
  Runtime& runtime = **loaded;
  Result<Checkpoint> checkpoint = Checkpoint::open(options.model_dir);
  if (!checkpoint) return fail(checkpoint.error());

  std::vector<int32_t> prompt(static_cast<size_t>(position));
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 7919 % 1000);
  Session sequence(runtime);
  const double prefill_start = now_seconds();
  if (Result<Ok> done = sequence.prefill(prompt, ProgressSink{}); !done) return fail(done.error());
  const double prefill_seconds = now_seconds() - prefill_start;

  const double bytes = weight_bytes_per_token(*checkpoint, runtime.config()) +
                       cache_bytes_per_token(runtime, position);
  ThreadPool pool(runtime.n_threads());
  // At least 512 MiB, so that nothing of it stays in a cache; its time is scaled to the bytes of a
  // step.
  ReadLimit limit(std::max<size_t>(static_cast<size_t>(bytes), size_t{512} << 20), pool);
  limit.seconds();
  if (Result<Ok> done = sequence.append(1); !done) return fail(done.error());

  std::printf("# cpu %s, tier %s, threads %d, bytes per token %.0f, position %d\n",
              cpu_model().c_str(), std::string(runtime.isa()).c_str(), runtime.n_threads(), bytes,
              position);
  std::printf("# load %.2f s (%.2f GB/s), prefill %.1f tokens/s\n", load_seconds,
              static_cast<double>(checkpoint->total_bytes()) / load_seconds * 1e-9,
              position / prefill_seconds);
  std::printf("pair,read_gb_per_s,decode_gb_per_s,tokens_per_s,ratio,cpu_waiting\n");
  std::vector<double> ratios;
  for (int pair = 0; pair < n_pairs; ++pair) {
    const double pressure = cpu_pressure_us();
    const double start = now_seconds();
    const double read = limit.seconds() * bytes / static_cast<double>(limit.size());
    const double decode_start = now_seconds();
    for (int i = 0; i < 4; ++i) {
      if (Result<Ok> done = sequence.append((pair * 4 + i) * 31 % 1000); !done)
        return fail(done.error());
    }
    const double end = now_seconds();
    const double decode = (end - decode_start) / 4;
    ratios.push_back(read / decode);
    std::printf("%d,%.2f,%.2f,%.2f,%.3f,%.3f\n", pair, bytes / read * 1e-9, bytes / decode * 1e-9,
                1 / decode, read / decode, (cpu_pressure_us() - pressure) * 1e-6 / (end - start));
    std::fflush(stdout);
  }
  std::printf("# median ratio of decode to plain read: %.3f\n", median(ratios));
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: decode_bench MODEL_DIR [THREADS [PAIRS [POSITION]]]\n");
    return 2;
  }
  minim::RuntimeOptions options;
  options.model_dir = argv[1];
  options.n_threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int pairs = argc > 3 ? std::max(7, std::atoi(argv[3])) : 15;
  const int position = argc > 4 ? std::max(1, std::atoi(argv[4])) : 64;
  options.context = position + 4 * pairs + 8;
  return minim::run(options, pairs, position);
}
