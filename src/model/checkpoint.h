// A checkpoint folder as a set of named tensors in mapped files. Files are untrusted: every offset
// is checked before use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace minim {

enum class Dtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4m3,
  kF8E5m2,
  kF8E8m0,
  kU16,
  kI16,
  kF16,
  kBf16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};
size_t dtype_bytes(Dtype dtype);
std::string_view dtype_name(Dtype dtype);
// "[2, 3]" for messages; a shape of very many dimensions is cut short.
std::string shape_in_brackets(std::span<const int64_t> shape);

// A tensor inside a shard; `data` points into the mapping.
struct TensorView {
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

class Checkpoint {
 public:
  // DIR with model.safetensors.index.json and its shards, or with *.safetensors files. Maps every
  // shard, reads every header. Errors: absent or truncated shard, a Git LFS pointer, header not
  // JSON, unknown dtype, shape x dtype != bytes, overlapping or out-of-range offsets, a tensor that
  // appears twice, an index that names a tensor its shard lacks.
  static Result<Checkpoint> open(const std::string& model_dir);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const TensorView* find(std::string_view name) const;  // nullptr when absent
  std::vector<std::string_view> names() const;          // ascending
  size_t total_bytes() const;                           // of all tensors
  size_t n_shards() const;
  const std::string& dir() const;  // as it was opened
  // The files that hold the tensors, by name; their bytes as tensors' are.
  struct ShardFile {
    std::string_view name;
    std::span<const uint8_t> bytes;
  };
  std::vector<ShardFile> shards() const;
  // Tells the system that these bytes will be read soon / are no longer needed (they stay valid,
  // but may be read again from disk).
  void will_need(std::span<const uint8_t> data) const;
  void release(std::span<const uint8_t> data) const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Parses a safetensors header (the JSON behind the 8-byte length) against a data area of
// `data_bytes`; `name` is for errors.
struct HeaderEntry {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // in the data area
};
Result<std::vector<HeaderEntry>> parse_safetensors_header(std::string_view json,
                                                          uint64_t data_bytes,
                                                          std::string_view name);

}  // namespace minim
