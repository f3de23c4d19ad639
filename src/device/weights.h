// Weights as a checkpoint stores them (views) and as the model names them once a device has taken
// them (ids).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace minim {

enum class WeightFormat : uint8_t { kBf16, kF32, kMxfp8, kNvfp4 };

// A row-major matrix [n_out, n_in] inside a mapped shard. Not owned.
struct MatrixView {
  WeightFormat format = WeightFormat::kBf16;
  size_t n_out = 0, n_in = 0;
  const uint8_t* values = nullptr;  // bf16 / float32 / E4M3 [n_out, n_in]; nvfp4 [n_out, n_in / 2],
                                    // low nibble = even column
  const uint8_t* scales =
      nullptr;          // mxfp8: E8M0 [n_out, n_in / 32]; nvfp4: E4M3 [n_out, n_in / 16]
  float global = 1.0f;  // nvfp4: outer scale, always as a multiplier
};

// Names of loaded weights; kNone (-1) is "absent".
enum class LinearId : int32_t { kNone = -1 };
enum class MlpId : int32_t { kNone = -1 };
enum class NormId : int32_t { kNone = -1 };
enum class RouterId : int32_t { kNone = -1 };
enum class EmbeddingId : int32_t { kNone = -1 };

struct AttentionNorms {
  NormId q = NormId::kNone, k = NormId::kNone, index_q = NormId::kNone,
         index_k = NormId::kNone;  // index_*: MSA layers
};

// Where a device finds routed experts. Today all are resident; a store that reads them from disk
// fits behind the same calls.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;
  // Makes the listed experts of a layer usable until the matching release; ids ascending and
  // distinct; handles[i] belongs to ids[i]. May block.
  virtual void acquire(int layer, std::span<const int32_t> ids, MlpId* handles) = 0;
  virtual void release(int layer, std::span<const int32_t> ids) = 0;
};

}  // namespace minim
