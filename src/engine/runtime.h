// A loaded model with its device and cache, and one sequence running on it.
//
// This is what the command line needs: one sequence at a time, its cache kept from call to call.
// Many sequences at once are the scheduler's business, which builds on the same Model and the same
// blocks.
#pragma once

#include <atomic>
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

struct RuntimeOptions {
  std::string model_dir;
  std::string isa = "auto";
  int n_threads = 0;                            // 0: the processors this process may run on
  std::optional<KvFormat> kv = {}, index = {};  // empty: what the checkpoint declares
  AttentionMode attention = AttentionMode::kDirect;
  Numerics numerics = Numerics::kExact;
  KvOrder order = KvOrder::kBlockOuter;
  int context = 0;  // positions that the cache must hold; 0: min(max_positions, 4096)
  int chunk = 512;  // prefill chunk in tokens
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
  int n_blocks() const { return n_blocks_; }
  size_t cache_bytes() const { return static_cast<size_t>(n_blocks_) * layout_.block_bytes; }
  size_t weights_bytes() const { return device_->weights_bytes(); }
  const KvLayout& layout() const { return layout_; }
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
  std::string isa_, rejected_;
  std::vector<std::string> unknown_tensors_;
  int context_ = 0, chunk_ = 0, n_blocks_ = 0, n_threads_ = 0;
};

// One sequence that owns blocks 0, 1, 2, ... of the runtime's pool.
class Sequence {
 public:
  explicit Sequence(Runtime& runtime);

  int length() const { return static_cast<int>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }

  // Makes the sequence equal to `tokens` (kInvalid when empty), reusing the cached prefix that
  // agrees, running the rest in chunks; logits of the last token are then in logits(). kExhausted:
  // longer than the context (both counts in the message); kInvalid: an id outside the vocabulary;
  // kCancelled: the sink or the flag said stop (the sequence stays usable, shorter).
  Result<Ok> prefill(std::span<const int32_t> tokens, const ProgressSink& progress,
                     const std::atomic<bool>* stop = nullptr);
  // Appends one token; allocates nothing after the first prefill.
  Result<Ok> append(int32_t token);
  // Appends tokens (at least one), running them in chunks: the bits of appending one by one.
  // kExhausted / kInvalid as above, and then nothing is appended.
  Result<Ok> append(std::span<const int32_t> tokens);
  std::span<const float> logits() const { return logits_; }
  int reused() const { return reused_; }  // tokens of the last prefill that were cached

 private:
  Runtime& runtime_;
  std::vector<int32_t> tokens_, block_table_;
  std::vector<float> logits_;
  int reused_ = 0;
};

}  // namespace minim
