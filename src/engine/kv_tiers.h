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
  uint64_t host_bytes = 0;    // budget of the second level; 0: none. Committed as it fills
  std::string disk_dir = {};  // empty: no third level
  uint64_t disk_bytes = 0;    // budget of the third level's records; its index comes on top
};

class KvTiers {
 public:
  // Memory of one block, in a fixed order of pieces; pieces' sizes sum to block_bytes. Called on
  // the engine thread.
  using BlockMemory = std::function<std::vector<std::span<uint8_t>>(int32_t block)>;

  // `scope`: BlockKeyScope::cache, written into the directory; records of another scope stay there
  // unused until they are the oldest. One line each: kIo, a directory that cannot be made or
  // written; kBusy, one that another process uses (named by its pid); kExhausted, a budget below
  // one block (on disk: and its header, 4 to 8 KiB). A damaged index is rebuilt from the segments.
  static Result<std::unique_ptr<KvTiers>> open(const KvTierOptions& options,
                                               const std::string& scope, size_t block_bytes,
                                               BlockMemory memory);
  // Finishes the writes that store() has begun (at most 64), drops the reads. Pool memory must
  // still be there.
  virtual ~KvTiers() = default;

  // A look into a table; what the disk has dropped since the last poll() is still in it.
  virtual bool holds(const BlockKey& key) const = 0;
  // Begins to read `key` into the pool block `into`, which the caller keeps referenced until poll()
  // reports it. From memory it is done at once, and reported by the next poll(). A key that is not
  // held is reported with ok = false.
  virtual void fetch(const BlockKey& key, int32_t into) = 0;
  // Begins to write a sealed block to disk. True: it will be reported, and the caller keeps the
  // block referenced until then. False: nothing to do (no disk level, on disk already or on the
  // way, the queue is full, or an earlier write has failed).
  virtual bool store(const BlockKey& key, int32_t block) = 0;
  // The sealed block is about to be lost from the pool: the host level copies it now.
  virtual void evicting(const BlockKey& key, int32_t block) = 0;

  struct Done {
    enum class Kind : uint8_t { kFetched, kStored };
    Kind kind = Kind::kFetched;
    BlockKey key;
    int32_t block = -1;
    // kFetched: the bytes are those that were stored under the key; else the block holds anything,
    // and the key is no longer held. kStored: it was written.
    bool ok = false;
  };
  // Appends what finished since the last call; never blocks. `wait`: until at least one operation
  // is reported, if any has begun.
  virtual void poll(std::vector<Done>& done, bool wait) = 0;

  struct Stats {
    uint64_t host_blocks = 0, host_hits = 0, host_evictions = 0;
    uint64_t disk_blocks = 0, disk_hits = 0, disk_evictions = 0;  // blocks: of this scope
    uint64_t disk_bytes = 0;                                      // of all records, of any scope
    uint64_t stored = 0, store_failures = 0, damaged = 0;         // damaged: found and dropped
    // The last failure of the disk, one line, for whoever tells people; empty: none. After a write
    // that failed nothing more is written, and what is there is still read.
    std::string trouble;
  };
  virtual Stats stats() const = 0;
};

}  // namespace minim
