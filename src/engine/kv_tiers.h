// Where sealed blocks go beyond the pool: host memory, then a directory on disk.
//
// Owned by the engine thread; disk work runs on one thread of its own, straight from and to pool
// memory, on blocks that the engine keeps referenced until the operation is reported by poll().
// What is torn, foreign or damaged is a miss: it is never an error and never a wrong byte.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/block_key.h"

namespace minim {

struct KvTierOptions {
  uint64_t host_bytes = 0;  // budget of the second level; 0: none
  std::string disk_dir;     // empty: no third level
  uint64_t disk_bytes = 0;  // budget of the third level
};

class KvTiers {
 public:
  // Memory of one block, in a fixed order of pieces; pieces' sizes sum to block_bytes.
  using BlockMemory = std::function<std::vector<std::span<uint8_t>>(int32_t block)>;

  // `scope`: BlockKeyScope::cache, written into the directory; records of another scope stay there
  // unused until they are the oldest. kIo / kInvalid / kExhausted with one line: a directory that
  // cannot be made or written, that another process uses (named by its pid), budgets below one
  // block. A damaged index is rebuilt from the segments.
  static Result<std::unique_ptr<KvTiers>> open(const KvTierOptions& options, std::string scope,
                                               size_t block_bytes, BlockMemory memory);
  virtual ~KvTiers() = default;  // finishes the writes that have begun, drops the others

  virtual bool holds(const BlockKey& key) const = 0;
  // Begins to read `key` into the pool block `into`, which the caller keeps referenced until poll()
  // reports it.
  virtual void fetch(const BlockKey& key, int32_t into) = 0;
  // Begins to write a sealed block to disk. True: it will be reported, and the caller keeps the
  // block referenced until then. False: nothing to do (no disk level, held already, or the queue
  // is full).
  virtual bool store(const BlockKey& key, int32_t block) = 0;
  // The block is about to be lost from the pool: the host level copies it now.
  virtual void evicting(const BlockKey& key, int32_t block) = 0;

  struct Done {
    enum class Kind : uint8_t { kFetched, kStored };
    Kind kind = Kind::kFetched;
    BlockKey key;
    int32_t block = -1;
    bool ok = false;  // kFetched: the bytes are those that were stored under the key
  };
  // Appends what finished since the last call; never blocks. `wait`: until at least one operation
  // is reported, if any has begun.
  virtual void poll(std::vector<Done>& done, bool wait) = 0;

  struct Stats {
    uint64_t host_blocks = 0, host_hits = 0, host_evictions = 0;
    uint64_t disk_blocks = 0, disk_hits = 0, disk_evictions = 0, disk_bytes = 0;
    uint64_t stored = 0, store_failures = 0, damaged = 0;  // damaged: found and dropped
    std::string trouble;  // the last failure of the disk, one line; empty: none
  };
  virtual Stats stats() const = 0;
};

}  // namespace minim
