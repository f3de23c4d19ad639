// Loading, in the order in which mistakes are cheapest to report: config, tier, files, space,
// weights.
#include "engine/runtime.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/memory_budget.h"
#include "kernels/kernels.h"
#include "model/checkpoint.h"
#include "model/weights_identity.h"

namespace minim {
namespace {

constexpr int kDefaultContext = 4096;
constexpr uint64_t kMaxBlocks = 1 << 30;

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Result<int> choose_context(int wanted, int max_positions) {
  if (wanted <= 0) return std::min(max_positions, kDefaultContext);
  if (wanted <= max_positions) return wanted;
  return Error{Code::kExhausted,
               fmt::format("a context of {} positions was asked for, this model has {} "
                           "(max_position_embeddings)",
                           wanted, max_positions)};
}

KvLayout layout_of(const Config& config, const RuntimeOptions& options) {
  KvFormats formats = config.kv;
  if (options.kv) formats.main = *options.kv;
  if (options.index) formats.index = *options.index;
  std::vector<bool> has_index;
  for (const LayerKind& kind : config.layers) has_index.push_back(kind.sparse_attention);
  return make_kv_layout(formats, config.n_kv_heads, std::move(has_index), options.order);
}

// Bump `minim-1` whenever the same tokens give other bytes.
std::string cache_scope_of(const KvLayout& layout, const RuntimeOptions& options) {
  return fmt::format(
      "minim-1 kv={} index={} order={} heads={} layers={} block={} attention={} "
      "numerics={}",
      kv_format_name(layout.formats.main), kv_format_name(layout.formats.index),
      layout.order == KvOrder::kBlockOuter ? "block" : "layer", layout.n_kv_heads,
      layout.has_index.size(), layout.block_bytes,
      options.attention == AttentionMode::kDirect ? "direct" : "gpu",
      options.numerics == Numerics::kExact ? "exact" : "reference");
}

// The naive device keeps lanes that are not quantised as doubles.
size_t block_bytes_on(const KvLayout& layout, Numerics numerics) {
  const bool doubles =
      numerics == Numerics::kReference &&
      (layout.formats.main == KvFormat::kBf16 || layout.formats.index == KvFormat::kBf16);
  return layout.block_bytes * (doubles ? 4 : 1);
}

// How many blocks the cache gets; at least one context's worth.
Result<int> choose_blocks(const RuntimeOptions& options, int context, size_t block_bytes,
                          size_t weights) {
  const size_t least = static_cast<size_t>(context - 1) / kBlockTokens + 1;
  if (!options.kv_bytes) return static_cast<int>(least);
  uint64_t bytes = *options.kv_bytes;
  if (bytes == kAllMemory) {
    const uint64_t available = read_memory_budget().available;
    const uint64_t taken = weights + available / 10;
    bytes = available > taken ? available - taken : 0;
  }
  const uint64_t blocks = std::min<uint64_t>(bytes / block_bytes, kMaxBlocks);
  if (blocks >= least) return static_cast<int>(blocks);
  return Error{Code::kExhausted,
               fmt::format("a cache of {} holds {} tokens, a context of {} needs {}; a smaller "
                           "--context or --kv-dtype nvfp4 needs less",
                           format_bytes(bytes), blocks * kBlockTokens, context,
                           format_bytes(least * block_bytes))};
}

Result<Ok> check_space(size_t cache, size_t weights, int context, bool size_given) {
  const uint64_t free = read_memory_budget().available;
  if (cache + weights <= free) return Ok{};
  const std::string needed =
      fmt::format("{} beside {} of weights, {} are available", format_bytes(cache),
                  format_bytes(weights), format_bytes(free));
  if (size_given) {
    return Error{Code::kExhausted,
                 fmt::format("no space for the cache, which is to have {}; a smaller "
                             "--kv-cache-gb needs less",
                             needed)};
  }
  return Error{Code::kExhausted,
               fmt::format("no space for the cache: a context of {} tokens needs {}; a smaller "
                           "--context or --kv-dtype nvfp4 needs less",
                           context, needed)};
}

// The standard library throws when the system refuses a thread.
Result<std::unique_ptr<Device>> start_cpu_device(const ModelShape& shape,
                                                 const CpuOptions& options) {
  try {
    return make_cpu_device(shape, options);
  } catch (const std::system_error& refused) {
    return Error{Code::kExhausted,
                 fmt::format("the system refused {} threads: {}; fewer --threads need less",
                             options.n_threads, refused.code().message())};
  }
}

}  // namespace

Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::load(const RuntimeOptions& options,
                                               const ProgressSink& progress) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  Result<Config> config = load_config(options.model_dir);
  if (!config) return config.error();
  runtime->config_ = *std::move(config);
  Result<GenerationDefaults> generation = load_generation_defaults(options.model_dir);
  if (!generation) return generation.error();
  runtime->generation_ = *std::move(generation);

  Result<int> context = choose_context(options.context, runtime->config_.max_positions);
  if (!context) return context.error();
  runtime->context_ = *context;
  runtime->chunk_ = std::min(std::max(options.chunk, 1), runtime->context_);
  runtime->layout_ = layout_of(runtime->config_, options);
  runtime->n_threads_ = options.n_threads > 0 ? options.n_threads : usable_processors();

  const ModelShape shape = model_shape(runtime->config_);
  if (options.numerics == Numerics::kReference) {
    runtime->device_ = make_ref_device(shape, {.rounded = false, .attention = options.attention});
    runtime->isa_ = "reference";
    runtime->n_threads_ = 1;
  } else {
    Result<KernelChoice> choice = choose_kernels(options.isa);
    if (!choice) return choice.error();
    runtime->isa_ = choice->kernels->name;
    runtime->rejected_ = choice->rejected;
    Result<std::unique_ptr<Device>> device =
        start_cpu_device(shape, {.kernels = choice->kernels,
                                 .n_threads = runtime->n_threads_,
                                 .attention = options.attention});
    if (!device) return device.error();
    runtime->device_ = *std::move(device);
  }

  Result<Checkpoint> checkpoint = Checkpoint::open(options.model_dir);
  if (!checkpoint) return checkpoint.error();
  runtime->checkpoint_ = std::make_unique<Checkpoint>(*std::move(checkpoint));
  CheckpointReport report = inspect_checkpoint(*runtime->checkpoint_, runtime->config_);
  const size_t block_bytes = block_bytes_on(runtime->layout_, options.numerics);
  Result<int> n_blocks = choose_blocks(options, runtime->context_, block_bytes, report.text_bytes);
  if (!n_blocks) return n_blocks.error();
  runtime->n_blocks_ = *n_blocks;
  const size_t cache = static_cast<size_t>(runtime->n_blocks_) * block_bytes;
  Result<Ok> space =
      check_space(cache, report.text_bytes, runtime->context_, options.kv_bytes.has_value());
  if (!space) return space.error();
  runtime->cache_scope_ = cache_scope_of(runtime->layout_, options);
  runtime->unknown_tensors_ = std::move(report.unknown);

  Result<Weights> weights = load_weights(
      *runtime->checkpoint_, runtime->config_, *runtime->device_, [&](size_t done, size_t total) {
        return !progress.report || progress.report("loading", done, total);
      });
  if (!weights) return weights.error();
  Result<Ok> cache_made = runtime->device_->make_cache(runtime->layout_, runtime->n_blocks_);
  if (!cache_made) return cache_made.error();
  Result<std::unique_ptr<Model>> model =
      Model::make(runtime->config_, *std::move(weights), *runtime->device_,
                  runtime->chunk_ + options.extra_rows);
  if (!model) return model.error();
  runtime->model_ = *std::move(model);
  return runtime;
}

Result<std::string> Runtime::weights_identity() const {
  return minim::weights_identity(*checkpoint_);
}

Result<Ok> check_tokens(std::span<const int32_t> tokens, int vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return Error{Code::kInvalid, fmt::format("token {} at position {} is not in the vocabulary "
                                             "(ids 0 to {})",
                                             tokens[i], i, vocab - 1)};
  }
  return Ok{};
}

}  // namespace minim
