// The public face: checks that belong to nobody else, and the way to the loop.
#include "engine/engine.h"

#include <fmt/format.h>

#include <utility>

#include "engine/engine_loop.h"

namespace minim {
namespace {

// The bytes of a block, layer by layer.
KvTiers::BlockMemory block_memory(Device& device, int n_layers) {
  return [&device, n_layers](int32_t block) {
    std::vector<std::span<uint8_t>> pieces;
    pieces.reserve(static_cast<size_t>(n_layers));
    for (int layer = 0; layer < n_layers; ++layer) {
      pieces.push_back(device.block_bytes(layer, block));
    }
    return pieces;
  };
}

// BlockKeyScope::cache. Within a process the weights stay what they are.
Result<std::string> scope_of(const Runtime& runtime, const KvTierOptions& tiers) {
  if (tiers.disk_dir.empty()) return runtime.cache_scope();
  Result<std::string> weights = runtime.weights_identity();
  if (!weights) return weights.error();
  return fmt::format("{} weights={}", runtime.cache_scope(), *weights);
}

Result<std::unique_ptr<KvTiers>> open_tiers(Runtime& runtime, const KvTierOptions& options,
                                            const std::string& scope) {
  if (options.host_bytes == 0 && options.disk_dir.empty()) return std::unique_ptr<KvTiers>();
  const int n_layers = runtime.config().n_layers;
  if (runtime.device().block_bytes(0, 0).empty()) {
    return Error{Code::kUnsupported,
                 fmt::format("the {} device keeps its cache in no form that can be stored; "
                             "--numerics exact has one",
                             runtime.device().name())};
  }
  return KvTiers::open(options, scope, runtime.layout().block_bytes,
                       block_memory(runtime.device(), n_layers));
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineLoop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::make(Runtime& runtime, EngineOptions options) {
  const size_t vocab = static_cast<size_t>(runtime.config().vocab);
  if (options.token_mask.empty()) options.token_mask.assign(vocab, 1);
  if (options.token_mask.size() != vocab) {
    return Error{Code::kInvalid, fmt::format("a token mask of {} ids for a vocabulary of {}",
                                             options.token_mask.size(), vocab)};
  }
  if (options.max_sequences < 1 || options.max_queue < 1) {
    return Error{Code::kInvalid, fmt::format("{} sequences at once and {} waiting; wanted at least "
                                             "one of each",
                                             options.max_sequences, options.max_queue)};
  }
  Result<std::string> scope = scope_of(runtime, options.tiers);
  if (!scope) return scope.error();
  Result<std::unique_ptr<KvTiers>> tiers = open_tiers(runtime, options.tiers, *scope);
  if (!tiers) return tiers.error();
  return std::unique_ptr<Engine>(new Engine(std::make_unique<EngineLoop>(
      runtime, std::move(options), *std::move(scope), *std::move(tiers))));
}

Result<Ticket> Engine::submit(GenerateRequest request) { return loop_->submit(std::move(request)); }
Result<Ok> Engine::start() { return loop_->start(); }
bool Engine::step(bool wait) { return loop_->step(wait); }
EngineStats Engine::stats() const { return loop_->stats(); }
double Engine::estimated_wait_seconds() const { return loop_->estimated_wait_seconds(); }
void Engine::forget_cache() { loop_->forget_cache(); }
void Engine::check_invariants() const { loop_->check_invariants(); }

}  // namespace minim
