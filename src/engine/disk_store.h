// Blocks in a directory: segments, an index of them, and a budget. One call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/disk_index.h"
#include "engine/disk_lock.h"
#include "engine/disk_slots.h"
#include "engine/segment_file.h"

namespace minim {

struct DiskStoreOptions {
  std::string dir;
  uint64_t bytes = 0;      // of all segments; at least one record
  Sha256::Digest scope{};  // only records of this scope are found
  size_t block_bytes = 0;  // of such records
};

struct DiskStats {
  uint64_t blocks = 0;  // of this scope
  uint64_t bytes = 0;   // of all segments
  uint64_t hits = 0, evictions = 0, stored = 0, store_failures = 0, damaged = 0;
  bool read_only = false;  // a write has failed: nothing is written any more
  std::string trouble;
};

class DiskStore {
 public:
  // Locks the directory, reads its index (made again from the segments when it is of no use), drops
  // what the budget does not hold. Errors: those of DiskLock::take, and kIo when the index cannot
  // be made.
  static Result<std::unique_ptr<DiskStore>> open(DiskStoreOptions options);

  std::vector<BlockKey> keys() const { return slots_.own_keys(); }

  // True: the bytes that were written under this key. False: not there, or no longer good and
  // dropped; the pieces hold anything.
  bool read(const BlockKey& key, BlockPieces pieces);
  // False: not written, see stats(). Older records go first when the budget is full.
  bool write(const BlockKey& key, BlockPieces pieces);
  // Keys that read() and write() have dropped since the last call.
  std::vector<BlockKey> take_dropped();
  DiskStats stats() const;

 private:
  explicit DiskStore(DiskStoreOptions options);
  std::string index_path() const;
  Result<Ok> load();
  Result<Ok> list_segments();
  void accept(const std::vector<IndexRow>& rows);
  Result<Ok> rebuild();
  void scan_segment(const SegmentName& name, std::vector<IndexRow>& rows);
  void trim();
  Result<Ok> drop(const DiskSlots::Victim& victim);
  Result<SlotId> make_room();
  Result<Ok> write_record(SlotId slot, const BlockKey& key, BlockPieces pieces);
  Result<Ok> read_record(SlotId slot, const BlockKey& key, BlockPieces pieces) const;
  void drop_damaged(SlotId slot, const Error& why);
  void stop_writing(const Error& why);
  void note(const std::string& trouble);

  DiskStoreOptions options_;
  DiskSlots slots_;
  std::unique_ptr<DiskLock> lock_;
  std::unique_ptr<DiskIndex> index_;
  std::vector<BlockKey> dropped_;
  DiskStats stats_;
};

}  // namespace minim
