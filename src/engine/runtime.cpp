// Loading, in the order in which mistakes are cheapest to report (config, tier, files, space,
// weights), and one sequence over the pool.
//
// A Sequence owns blocks 0, 1, 2, ... so its block table never changes. Its cache is valid for
// exactly `tokens_`: a prompt that shares a prefix keeps it and overwrites what follows. That is
// allowed because a position's cache bytes depend on the tokens up to it alone, and readers never
// look behind their own position. The last token of a prompt is always run again, since logits are
// not cached.
#include "engine/runtime.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/memory_budget.h"
#include "kernels/kernels.h"
#include "model/checkpoint.h"

namespace minim {
namespace {

constexpr int kDefaultContext = 4096;

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

// The naive device keeps lanes that are not quantised as doubles.
size_t block_bytes_on(const KvLayout& layout, Numerics numerics) {
  const bool doubles =
      numerics == Numerics::kReference &&
      (layout.formats.main == KvFormat::kBf16 || layout.formats.index == KvFormat::kBf16);
  return layout.block_bytes * (doubles ? 4 : 1);
}

Result<Ok> check_space(size_t cache, size_t weights, int context) {
  const uint64_t free = read_memory_budget().available;
  if (cache + weights <= free) return Ok{};
  return Error{
      Code::kExhausted,
      fmt::format("no space for the cache: a context of {} tokens needs {} beside {} of "
                  "weights, {} are available; a smaller --context or --kv-dtype nvfp4 "
                  "needs less",
                  context, format_bytes(cache), format_bytes(weights), format_bytes(free))};
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
  runtime->n_blocks_ = (runtime->context_ - 1) / kBlockTokens + 1;
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
  const size_t cache =
      static_cast<size_t>(runtime->n_blocks_) * block_bytes_on(runtime->layout_, options.numerics);
  Result<Ok> space = check_space(cache, report.text_bytes, runtime->context_);
  if (!space) return space.error();
  runtime->unknown_tensors_ = std::move(report.unknown);

  Result<Weights> weights = load_weights(
      *runtime->checkpoint_, runtime->config_, *runtime->device_, [&](size_t done, size_t total) {
        return !progress.report || progress.report("loading", done, total);
      });
  if (!weights) return weights.error();
  Result<Ok> cache_made = runtime->device_->make_cache(runtime->layout_, runtime->n_blocks_);
  if (!cache_made) return cache_made.error();
  Result<std::unique_ptr<Model>> model =
      Model::make(runtime->config_, *std::move(weights), *runtime->device_, runtime->chunk_);
  if (!model) return model.error();
  runtime->model_ = *std::move(model);
  return runtime;
}

Sequence::Sequence(Runtime& runtime) : runtime_(runtime) {
  tokens_.reserve(static_cast<size_t>(runtime.context()));
  block_table_.resize(static_cast<size_t>(runtime.n_blocks()));
  for (size_t i = 0; i < block_table_.size(); ++i) block_table_[i] = static_cast<int32_t>(i);
  logits_.resize(static_cast<size_t>(runtime.config().vocab));
}

namespace {

Result<Ok> check_tokens(std::span<const int32_t> tokens, int vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return Error{Code::kInvalid, fmt::format("token {} at position {} is not in the vocabulary "
                                             "(ids 0 to {})",
                                             tokens[i], i, vocab - 1)};
  }
  return Ok{};
}

// One step of one sequence; logits of the last row when wanted.
void step(Model& model, std::span<const int32_t> tokens, int first_position,
          std::span<const int32_t> blocks, std::span<float> logits) {
  const int n_rows = static_cast<int>(tokens.size());
  const SequenceSpan span{
      .first_row = 0, .n_rows = n_rows, .first_position = first_position, .blocks = blocks};
  const std::array<int32_t, 1> last = {n_rows - 1};
  const Batch batch{.tokens = tokens,
                    .sequences = {&span, 1},
                    .logits_rows = std::span<const int32_t>(last).first(logits.empty() ? 0 : 1)};
  model.forward(batch, logits);
}

}  // namespace

Result<Ok> Sequence::prefill(std::span<const int32_t> tokens, const ProgressSink& progress,
                             const std::atomic<bool>* stop) {
  if (tokens.empty()) return Error{Code::kInvalid, "the prompt has no tokens, wanted at least one"};
  const size_t n = tokens.size();
  if (n > static_cast<size_t>(runtime_.context())) {
    return Error{Code::kExhausted,
                 fmt::format("the prompt has {} tokens, the context {}; a larger --context or a "
                             "shorter prompt helps",
                             n, runtime_.context())};
  }
  Result<Ok> checked = check_tokens(tokens, runtime_.config().vocab);
  if (!checked) return checked;

  const size_t shared = static_cast<size_t>(
      std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first -
      tokens_.begin());
  const size_t reused = std::min(shared, n - 1);
  reused_ = static_cast<int>(reused);
  tokens_.resize(reused);
  for (size_t done = reused; done < n;) {
    const bool stopped = stop != nullptr && stop->load(std::memory_order_relaxed);
    if (stopped || (progress.report && !progress.report("prefill", done - reused, n - reused))) {
      return Error{Code::kCancelled, fmt::format("stopped after {} of {} prompt tokens", done, n)};
    }
    const size_t rows = std::min(n - done, static_cast<size_t>(runtime_.chunk()));
    const bool last = done + rows == n;
    step(runtime_.model(), tokens.subspan(done, rows), static_cast<int>(done), block_table_,
         last ? std::span<float>(logits_) : std::span<float>());
    tokens_.insert(tokens_.end(), tokens.begin() + static_cast<ptrdiff_t>(done),
                   tokens.begin() + static_cast<ptrdiff_t>(done + rows));
    done += rows;
  }
  if (progress.report) progress.report("prefill", n - reused, n - reused);
  return Ok{};
}

Result<Ok> Sequence::append(int32_t token) {
  const std::array<int32_t, 1> one = {token};
  return append(one);
}

Result<Ok> Sequence::append(std::span<const int32_t> tokens) {
  CHECK(!tokens.empty());
  const size_t room = static_cast<size_t>(runtime_.context() - length());
  if (tokens.size() > room) {
    return Error{Code::kExhausted,
                 room == 0 ? fmt::format("the context of {} tokens is full", runtime_.context())
                           : fmt::format("the context of {} tokens has room for {}, not for {}",
                                         runtime_.context(), room, tokens.size())};
  }
  Result<Ok> checked = check_tokens(tokens, runtime_.config().vocab);
  if (!checked) return checked;
  while (!tokens.empty()) {
    const std::span<const int32_t> rows =
        tokens.first(std::min(tokens.size(), static_cast<size_t>(runtime_.chunk())));
    tokens = tokens.subspan(rows.size());
    step(runtime_.model(), rows, length(), block_table_,
         tokens.empty() ? std::span<float>(logits_) : std::span<float>());
    tokens_.insert(tokens_.end(), rows.begin(), rows.end());
  }
  return Ok{};
}

}  // namespace minim
