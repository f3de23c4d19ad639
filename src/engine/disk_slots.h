// Which record lies in which slot of which segment, and which of them goes next: the disk level's
// bookkeeping, without a disk.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/block_key.h"
#include "engine/segment_file.h"

namespace minim {

struct SlotId {
  uint64_t segment = 0;
  uint32_t slot = 0;
  auto operator<=>(const SlotId&) const = default;
};

class DiskSlots {
 public:
  struct Record {
    BlockKey key{};
    bool own = false;   // of the scope that find() looks in
    uint64_t used = 0;  // the smallest goes first
  };

  // `record_bytes`: of the records to come. `budget`: bytes of all segments together; at least one
  // such record.
  DiskSlots(uint64_t record_bytes, uint64_t budget);

  // A file that is there already, all its slots free. Its number is new.
  void add_segment(const SegmentName& name, uint64_t file_bytes);
  // A record that is there already. False: no such slot, not free, or its key is known in another.
  bool put(SlotId slot, const Record& record);
  // A slot for a record to come: a free one, or a new one at the end of a segment where the budget
  // allows. nullopt: something must go first (next_to_go()).
  std::optional<SlotId> free_slot() const;
  // The slot that free_slot() names has this record now, the youngest, of our scope.
  void fill(SlotId slot, const BlockKey& key);
  void drop(SlotId slot);          // its record
  void drop_segment(uint64_t id);  // with its records
  uint64_t touch(SlotId slot);     // now the youngest: its new `used`
  uint64_t next_used() const { return next_used_; }

  std::optional<SlotId> find(const BlockKey& key) const;  // own records
  const Record& record(SlotId slot) const;
  std::vector<SegmentName> names() const;
  SegmentName name(uint64_t segment) const;  // one that is there or that free_slot() has named
  size_t n_slots(uint64_t segment) const { return at(segment).slots.size(); }
  size_t n_records(uint64_t segment) const { return at(segment).n_records; }
  uint64_t file_bytes(uint64_t segment) const;  // 0: it is not there
  std::vector<BlockKey> own_keys() const;
  std::vector<BlockKey> own_keys(uint64_t segment) const;
  size_t n_own() const { return own_.size(); }
  uint64_t bytes() const { return bytes_; }
  bool over_budget() const { return bytes_ > budget_; }

  // What to drop to make room: the oldest record, or a whole segment: one whose records have
  // another size, when it is empty or holds the oldest record; with `whole_segments` one of any
  // size. There must be a segment, and no free slot unless `whole_segments`.
  struct Victim {
    uint64_t segment = 0;
    std::optional<uint32_t> slot;  // empty: the segment
  };
  Victim next_to_go(bool whole_segments) const;

 private:
  struct Segment {
    uint64_t record_bytes = 0, file_bytes = 0;
    std::vector<std::optional<Record>> slots;
    size_t n_records = 0;
  };
  Segment& at(uint64_t id);
  const Segment& at(uint64_t id) const;
  void extend(SlotId slot);

  uint64_t record_bytes_, budget_, records_per_segment_;
  std::map<uint64_t, Segment> segments_;
  std::set<std::pair<uint64_t, SlotId>> order_;  // all records by `used`
  std::set<SlotId> free_;                        // slots of our record size
  std::set<uint64_t> idle_;                      // segments without a record
  std::unordered_map<BlockKey, SlotId, BlockKeyHash> own_;
  std::optional<uint64_t> growing_;  // a segment of our record size with room for more
  uint64_t bytes_ = 0, next_used_ = 1;
};

}  // namespace minim
