// A segment is a vector of slots; records are also ordered by last use, and our own found by key.
// Invariant: a slot is in order_ iff it has a record, and in free_ iff it has none and its segment
// has our record size. Files of other sizes come from other models or layouts; their slots cannot
// be used again, so they go as whole files once they hold the oldest record. One file a record
// would need no slots, at the price of a file made and removed for every block.
#include "engine/disk_slots.h"

#include <algorithm>

#include "base/check.h"

namespace minim {
namespace {

constexpr uint64_t kSegmentBytes = uint64_t{256} << 20;
constexpr uint64_t kSegmentsPerBudget = 16;       // at least, so that dropping one costs little
constexpr uint64_t kMaxSlots = 65536;             // of a file, whatever its size says
constexpr uint64_t kMaxUsed = uint64_t{1} << 62;  // from a file: beyond it is no count of ours

}  // namespace

DiskSlots::DiskSlots(uint64_t record_bytes, uint64_t budget)
    : record_bytes_(record_bytes), budget_(budget) {
  CHECK(record_bytes_ >= kMinRecordBytes && budget_ >= record_bytes_);
  records_per_segment_ = std::max<uint64_t>(
      1, std::min(kSegmentBytes / record_bytes_, budget_ / record_bytes_ / kSegmentsPerBudget));
}

void DiskSlots::add_segment(const SegmentName& name, uint64_t file_bytes) {
  CHECK(segments_.count(name.id) == 0);
  Segment& segment = segments_[name.id];
  segment.record_bytes = name.record_bytes;
  segment.file_bytes = file_bytes;
  segment.slots.resize(static_cast<size_t>(std::min(file_bytes / name.record_bytes, kMaxSlots)));
  bytes_ += file_bytes;
  idle_.insert(name.id);
  if (name.record_bytes != record_bytes_) return;
  for (uint32_t slot = 0; slot < segment.slots.size(); ++slot) free_.insert({name.id, slot});
  if (segment.slots.size() < records_per_segment_) growing_ = name.id;
}

bool DiskSlots::put(SlotId slot, const Record& record) {
  const auto it = segments_.find(slot.segment);
  if (it == segments_.end() || slot.slot >= it->second.slots.size()) return false;
  Segment& segment = it->second;
  if (segment.slots[slot.slot] || record.used > kMaxUsed) return false;
  if (record.own && !own_.emplace(record.key, slot).second) return false;
  segment.slots[slot.slot] = record;
  ++segment.n_records;
  idle_.erase(slot.segment);
  free_.erase(slot);
  order_.emplace(record.used, slot);
  next_used_ = std::max(next_used_, record.used + 1);
  return true;
}

void DiskSlots::fill(SlotId slot, const BlockKey& key) {
  DCHECK(free_slot() == slot);
  const auto it = segments_.find(slot.segment);
  if (it == segments_.end() || slot.slot == it->second.slots.size()) extend(slot);
  CHECK(put(slot, {.key = key, .own = true, .used = next_used_}));
}

void DiskSlots::extend(SlotId slot) {
  const auto [it, is_new] = segments_.try_emplace(slot.segment);
  Segment& segment = it->second;
  if (is_new) segment.record_bytes = record_bytes_;
  segment.slots.emplace_back();
  // A file that was cut short may have had a part of this record already.
  const uint64_t end = segment.slots.size() * record_bytes_;
  bytes_ += std::max(end, segment.file_bytes) - segment.file_bytes;
  segment.file_bytes = std::max(end, segment.file_bytes);
  growing_.reset();
  if (segment.slots.size() < records_per_segment_) growing_ = slot.segment;
}

std::optional<SlotId> DiskSlots::free_slot() const {
  if (!free_.empty()) return *free_.begin();
  if (bytes_ > budget_ || record_bytes_ > budget_ - bytes_) return std::nullopt;
  if (growing_) {
    return SlotId{.segment = *growing_, .slot = static_cast<uint32_t>(at(*growing_).slots.size())};
  }
  uint64_t id = 0;
  for (auto it = segments_.begin(); it != segments_.end() && it->first == id; ++it) ++id;
  return SlotId{.segment = id, .slot = 0};
}

void DiskSlots::drop(SlotId slot) {
  Segment& segment = at(slot.segment);
  const Record gone = record(slot);
  segment.slots[slot.slot].reset();
  if (--segment.n_records == 0) idle_.insert(slot.segment);
  order_.erase({gone.used, slot});
  if (gone.own) own_.erase(gone.key);
  if (segment.record_bytes == record_bytes_) free_.insert(slot);
}

void DiskSlots::drop_segment(uint64_t id) {
  Segment& segment = at(id);
  for (uint32_t slot = 0; slot < segment.slots.size(); ++slot) {
    if (segment.slots[slot]) drop({id, slot});
    free_.erase({id, slot});
  }
  bytes_ -= segment.file_bytes;
  if (growing_ == id) growing_.reset();
  idle_.erase(id);
  segments_.erase(id);
}

uint64_t DiskSlots::touch(SlotId slot) {
  Record& touched = *at(slot.segment).slots[slot.slot];
  order_.erase({touched.used, slot});
  touched.used = next_used_++;
  order_.emplace(touched.used, slot);
  return touched.used;
}

std::optional<SlotId> DiskSlots::find(const BlockKey& key) const {
  const auto it = own_.find(key);
  return it == own_.end() ? std::nullopt : std::optional(it->second);
}

const DiskSlots::Record& DiskSlots::record(SlotId slot) const {
  const Segment& segment = at(slot.segment);
  CHECK(slot.slot < segment.slots.size() && segment.slots[slot.slot], "slot %u", slot.slot);
  return *segment.slots[slot.slot];
}

std::vector<SegmentName> DiskSlots::names() const {
  std::vector<SegmentName> names;
  for (const auto& [id, segment] : segments_) {
    names.push_back({.id = id, .record_bytes = segment.record_bytes});
  }
  return names;
}

uint64_t DiskSlots::file_bytes(uint64_t segment) const {
  const auto it = segments_.find(segment);
  return it == segments_.end() ? 0 : it->second.file_bytes;
}

SegmentName DiskSlots::name(uint64_t segment) const {
  const auto it = segments_.find(segment);
  return {.id = segment,
          .record_bytes = it == segments_.end() ? record_bytes_ : it->second.record_bytes};
}

std::vector<BlockKey> DiskSlots::own_keys() const {
  std::vector<BlockKey> keys;
  keys.reserve(own_.size());
  for (const auto& item : own_) keys.push_back(item.first);
  return keys;
}

std::vector<BlockKey> DiskSlots::own_keys(uint64_t segment) const {
  std::vector<BlockKey> keys;
  for (const std::optional<Record>& record : at(segment).slots) {
    if (record && record->own) keys.push_back(record->key);
  }
  return keys;
}

DiskSlots::Victim DiskSlots::next_to_go(bool whole_segments) const {
  for (const uint64_t id : idle_) {
    const bool useless = at(id).record_bytes != record_bytes_ || at(id).slots.empty();
    if (whole_segments || useless) return {.segment = id, .slot = {}};
  }
  CHECK(!order_.empty(), "nothing to drop");
  const SlotId oldest = order_.begin()->second;
  if (whole_segments || at(oldest.segment).record_bytes != record_bytes_) {
    return {.segment = oldest.segment, .slot = {}};
  }
  return {.segment = oldest.segment, .slot = oldest.slot};
}

DiskSlots::Segment& DiskSlots::at(uint64_t id) {
  const auto it = segments_.find(id);
  CHECK(it != segments_.end(), "segment %llu", static_cast<unsigned long long>(id));
  return it->second;
}

const DiskSlots::Segment& DiskSlots::at(uint64_t id) const {
  return const_cast<DiskSlots*>(this)->at(id);
}

}  // namespace minim
