#include "engine/disk_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kv_blocks.h"

namespace minim {
namespace {

using testing::numbered_key;

constexpr uint64_t kRecord = kMinRecordBytes;

// A slot for a new record, however many old ones must go.
SlotId room(DiskSlots& slots, std::vector<BlockKey>* gone = nullptr) {
  std::optional<SlotId> slot = slots.free_slot();
  while (!slot) {
    const DiskSlots::Victim victim = slots.next_to_go(false);
    if (victim.slot) {
      const SlotId id{.segment = victim.segment, .slot = *victim.slot};
      if (gone != nullptr) gone->push_back(slots.record(id).key);
      slots.drop(id);
    } else {
      if (gone != nullptr) {
        for (const BlockKey& key : slots.own_keys(victim.segment)) gone->push_back(key);
      }
      slots.drop_segment(victim.segment);
    }
    slot = slots.free_slot();
  }
  return *slot;
}

TEST(DiskSlots, RecordsFillSegmentsInOrderAndTheOldestMakeRoom) {
  DiskSlots slots(kRecord, 40 * kRecord);  // two records a segment
  for (uint32_t n = 0; n < 40; ++n) {
    const SlotId slot = room(slots);
    EXPECT_EQ(slot, (SlotId{.segment = n / 2, .slot = n % 2}));
    slots.fill(slot, numbered_key(n));
  }
  EXPECT_EQ(slots.bytes(), 40 * kRecord);
  EXPECT_EQ(slots.free_slot(), std::nullopt);
  slots.touch({.segment = 0, .slot = 0});
  std::vector<BlockKey> gone;
  EXPECT_EQ(room(slots, &gone), (SlotId{.segment = 0, .slot = 1}));
  EXPECT_EQ(gone, std::vector{numbered_key(1)});
}

TEST(DiskSlots, ARecordFromAnIndexMustFitItsFile) {
  DiskSlots slots(kRecord, 100 * kRecord);
  slots.add_segment({.id = 7, .record_bytes = kRecord}, 2 * kRecord + 100);
  const DiskSlots::Record record{.key = numbered_key(1), .own = true, .used = 5};
  EXPECT_FALSE(slots.put({.segment = 6, .slot = 0}, record)) << "no such segment";
  EXPECT_FALSE(slots.put({.segment = 7, .slot = 2}, record)) << "only a part of it is there";
  DiskSlots::Record endless = record;
  endless.used = UINT64_MAX;
  EXPECT_FALSE(slots.put({.segment = 7, .slot = 1}, endless));
  EXPECT_TRUE(slots.put({.segment = 7, .slot = 1}, record));
  EXPECT_FALSE(slots.put({.segment = 7, .slot = 1}, record)) << "taken";
  EXPECT_FALSE(slots.put({.segment = 7, .slot = 0}, record)) << "known elsewhere";
  EXPECT_EQ(slots.next_used(), 6u);
  EXPECT_EQ(slots.bytes(), 2 * kRecord + 100);
}

TEST(DiskSlots, FilesThatHoldNoRecordOfOursGoFirst) {
  DiskSlots slots(kRecord, 4 * kRecord);
  slots.add_segment({.id = 0, .record_bytes = kRecord}, kRecord - 1);      // a piece of a record
  slots.add_segment({.id = 1, .record_bytes = 2 * kRecord}, 2 * kRecord);  // of another size, empty
  slots.add_segment({.id = 999'999'999'999, .record_bytes = kRecord}, kRecord);
  const SlotId last{.segment = 999'999'999'999, .slot = 0};
  EXPECT_EQ(slots.free_slot(), last);
  slots.fill(last, numbered_key(0));
  slots.fill(room(slots), numbered_key(1));
  slots.fill(room(slots), numbered_key(2));
  EXPECT_EQ(slots.n_own(), 3u);
  EXPECT_LE(slots.bytes(), 4 * kRecord);
  for (const SegmentName& name : slots.names()) {
    EXPECT_TRUE(parse_segment_name(segment_file_name(name))) << "a number that can be read again";
  }
}

TEST(DiskSlots, AFileOfAbsurdSizeTakesLittleMemory) {
  DiskSlots slots(kRecord, 4 * kRecord);
  slots.add_segment({.id = 0, .record_bytes = kRecord}, uint64_t{1} << 60);
  EXPECT_LE(slots.n_slots(0), 65536u);
  EXPECT_TRUE(slots.over_budget());
  EXPECT_EQ(slots.next_to_go(true).slot, std::nullopt);
  slots.drop_segment(0);
  EXPECT_EQ(slots.bytes(), 0u);
}

// Against a list of (key, used): the oldest goes, nothing is lost or found twice, and files never
// outgrow the budget.
TEST(DiskSlots, RandomUseAgreesWithAList) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    const uint64_t n_max = 1 + random() % 40;
    DiskSlots slots(kRecord, n_max * kRecord + random() % kRecord);
    std::vector<BlockKey> by_use;  // oldest first
    for (int i = 0; i < 2000; ++i) {
      const BlockKey key = numbered_key(static_cast<uint32_t>(random() % (2 * n_max)));
      const std::optional<SlotId> found = slots.find(key);
      const auto listed = std::find(by_use.begin(), by_use.end(), key);
      ASSERT_EQ(found.has_value(), listed != by_use.end());
      if (found && random() % 4 == 0) {
        slots.drop(*found);
        by_use.erase(listed);
      } else if (found) {
        slots.touch(*found);
        std::rotate(listed, listed + 1, by_use.end());
      } else {
        std::vector<BlockKey> gone;
        const SlotId slot = room(slots, &gone);
        if (!gone.empty()) {
          ASSERT_EQ(gone, std::vector{by_use.front()});
          ASSERT_EQ(by_use.size(), n_max);
          by_use.erase(by_use.begin());
        }
        slots.fill(slot, key);
        by_use.push_back(key);
      }
      ASSERT_EQ(slots.n_own(), by_use.size());
      ASSERT_LE(slots.bytes(), n_max * kRecord);
    }
  }
}

}  // namespace
}  // namespace minim
