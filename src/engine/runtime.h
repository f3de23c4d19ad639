// A loaded model with its device and cache: what one sequence (engine/session.h) or many
// (engine/engine.h) run on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/weights.h"

namespace minim {

enum class Numerics : uint8_t { kExact, kReference };

inline constexpr uint64_t kAllMemory = UINT64_MAX;

struct RuntimeOptions {
  std::string model_dir;
  std::string isa = "auto";
  int n_threads = 0;                            // 0: the processors this process may run on
  std::optional<KvFormat> kv = {}, index = {};  // empty: what the checkpoint declares
  AttentionMode attention = AttentionMode::kDirect;
  Numerics numerics = Numerics::kExact;
  KvOrder order = KvOrder::kBlockOuter;
  int context = 0;     // positions that the cache must hold; 0: min(max_positions, 4096)
  int chunk = 512;     // prefill chunk in tokens
  int extra_rows = 0;  // that a step must hold beside a chunk
  // Bytes of the cache; at least one context. Empty: one context. kAllMemory: what is left beside
  // the weights, less a reserve for everything else.
  std::optional<uint64_t> kv_bytes = {};
};

// done / total in the unit of the phase; return false to stop.
struct ProgressSink {
  std::function<bool(std::string_view phase, size_t done, size_t total)> report;
};

class Runtime {
 public:
  // Loads everything. kUnsupported / kInvalid / kNotFound / kExhausted with one line; kCancelled
  // when the sink said stop.
  static Result<std::unique_ptr<Runtime>> load(const RuntimeOptions& options,
                                               const ProgressSink& progress);
  ~Runtime();

  const Config& config() const { return config_; }
  const GenerationDefaults& generation() const { return generation_; }
  Model& model() { return *model_; }
  Device& device() { return *device_; }
  int context() const { return context_; }
  int chunk() const { return chunk_; }
  int max_rows() const { return model_->max_rows(); }  // of a step
  int n_blocks() const { return n_blocks_; }
  size_t cache_bytes() const { return static_cast<size_t>(n_blocks_) * layout_.block_bytes; }
  size_t weights_bytes() const { return device_->weights_bytes(); }
  const KvLayout& layout() const { return layout_; }
  // What the bytes of a cached block depend on beside its tokens and the weights: formats and order
  // of the lanes, how they are read, the numeric contract.
  const std::string& cache_scope() const { return cache_scope_; }
  // model/weights_identity.h; for a cache that outlives this process.
  Result<std::string> weights_identity() const;
  std::string_view isa() const { return isa_; }  // tier in use; "reference" for the naive device
  std::string_view rejected_isa() const { return rejected_; }  // tier that failed its self-test
  int n_threads() const { return n_threads_; }
  // Names of tensors of the checkpoint that no rule recognises, and that are not used.
  const std::vector<std::string>& unknown_tensors() const { return unknown_tensors_; }

 private:
  Runtime() = default;
  Config config_;
  GenerationDefaults generation_;
  std::unique_ptr<Checkpoint> checkpoint_;  // mapped as long as the device lives
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  KvLayout layout_;
  std::string isa_, rejected_, cache_scope_;
  std::vector<std::string> unknown_tensors_;
  int context_ = 0, chunk_ = 0, n_blocks_ = 0, n_threads_ = 0;
};

// kInvalid with the first id outside [0, vocab) and its position.
Result<Ok> check_tokens(std::span<const int32_t> tokens, int vocab);

}  // namespace minim
