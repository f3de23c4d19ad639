// The list of records on disk, kept so that opening a directory does not read every segment.
//
// It is a convenience: each row is believed only as far as the record that it names agrees, and a
// lost index is made again from the segments' headers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/disk_slots.h"

namespace minim {

struct IndexRow {
  SlotId slot;
  BlockKey key{};
  Sha256::Digest scope{};
  uint64_t used = 0;
};

class DiskIndex {
 public:
  // Opens or makes the file, and reads all rows. An error: not an index of this version, damaged,
  // or what the system says; remove() and a second try decide which.
  static Result<DiskIndex> open(const std::string& path, std::vector<IndexRow>& rows);
  // With what the library keeps beside it. Files that are not there are no error.
  static Result<Ok> remove(const std::string& path);
  DiskIndex(DiskIndex&&) noexcept;
  DiskIndex& operator=(DiskIndex&&) noexcept;
  ~DiskIndex();

  // Each is on its way to disk when it returns: it survives the end of the process, and after a
  // loss of power either all or none of it is there. Errors are one line, kIo.
  Result<Ok> insert(const IndexRow& row);
  Result<Ok> insert_all(std::span<const IndexRow> rows);
  Result<Ok> touch(SlotId slot, uint64_t used);
  Result<Ok> erase(SlotId slot);
  Result<Ok> erase_segment(uint64_t segment);

 private:
  struct State;
  explicit DiskIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace minim
