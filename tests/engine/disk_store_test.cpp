#include "engine/disk_store.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "kv_blocks.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using testing::flip;
using testing::KvBlocks;
using testing::numbered_key;
using testing::TempDir;

class DiskStoreTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kStored = 20;

  std::string dir() const { return (dir_ / "cache").string(); }
  std::filesystem::path index() const { return std::filesystem::path(dir()) / "index.sqlite"; }
  uint64_t record() const { return record_bytes_for(blocks_.block_bytes()); }
  // Without a budget that matters: all kStored records lie in three segments of seven.
  std::unique_ptr<DiskStore> open(uint64_t n_records = 7 * 16, uint32_t scope = 1000) {
    Result<std::unique_ptr<DiskStore>> store =
        DiskStore::open({.dir = dir(),
                         .bytes = n_records * record(),
                         .scope = numbered_key(scope),
                         .block_bytes = blocks_.block_bytes()});
    CHECK(static_cast<bool>(store), "%s", store.error().message.c_str());
    return std::move(*store);
  }
  bool write(DiskStore& store, uint32_t n) {
    blocks_.fill(0, numbered_key(n));
    return store.write(numbered_key(n), blocks_.pieces(0));
  }
  void write_all() {
    const auto store = open();
    for (uint32_t n = 0; n < kStored; ++n) ASSERT_TRUE(write(*store, n));
  }
  // Right bytes or a miss.
  bool read(DiskStore& store, uint32_t n) {
    blocks_.clear(1);
    const bool ok = store.read(numbered_key(n), blocks_.pieces(1));
    if (ok) {
      EXPECT_TRUE(blocks_.holds(1, numbered_key(n))) << "wrong bytes for " << n;
    }
    return ok;
  }
  uint32_t count(DiskStore& store) {
    uint32_t found = 0;
    for (uint32_t n = 0; n < kStored; ++n) found += read(store, n);
    return found;
  }
  // What is lost is written again, and then everything is there for good: no damage is found twice.
  void expect_recovers() {
    {
      const auto store = open();
      for (uint32_t n = 0; n < kStored; ++n) EXPECT_TRUE(read(*store, n) || write(*store, n));
      EXPECT_EQ(count(*store), kStored);
    }
    const auto store = open();
    EXPECT_EQ(count(*store), kStored);
    EXPECT_EQ(store->stats().damaged, 0u);
    EXPECT_EQ(store->stats().trouble, "");
  }

  TempDir dir_;
  KvBlocks blocks_;
};

TEST_F(DiskStoreTest, T_k6_AMissingOrEmptyIndexIsMadeAgainFromTheSegments) {
  write_all();
  std::filesystem::remove(index());
  {
    const auto store = open();
    EXPECT_EQ(count(*store), kStored);
    EXPECT_EQ(store->stats().trouble, "");
  }
  testing::write_bytes(index(), "");
  EXPECT_EQ(count(*open()), kStored);
  EXPECT_EQ(open()->stats().damaged, 0u);
}

TEST_F(DiskStoreTest, T_k6_AnIndexOfSomethingElseIsMadeAgainAndSaidSo) {
  write_all();
  testing::write_bytes(index(), std::string(5000, 'x'));
  {
    const auto store = open();
    EXPECT_EQ(count(*store), kStored);
    EXPECT_NE(store->stats().trouble.find(dir()), std::string::npos);
    EXPECT_NE(store->stats().trouble.find("not a database"), std::string::npos)
        << store->stats().trouble;
    EXPECT_FALSE(store->stats().read_only);
  }
  EXPECT_EQ(open()->stats().trouble, "");
}

TEST_F(DiskStoreTest, TheOrderOfWritingSurvivesALostIndex) {
  write_all();
  std::filesystem::remove(index());
  const auto store = open(kStored + 1);
  for (uint32_t n = 100; n < 103; ++n) EXPECT_TRUE(write(*store, n));
  EXPECT_FALSE(read(*store, 0));
  EXPECT_FALSE(read(*store, 1));
  EXPECT_TRUE(read(*store, 2));
}

TEST_F(DiskStoreTest, T_k6_AnIndexDamagedAnywhereGivesRightBytesOrMisses) {
  write_all();
  const std::string whole = *read_file(index().string());
  std::mt19937 random(5);
  uint32_t found = 0;
  constexpr uint32_t kRounds = 40;
  for (uint32_t round = 0; round < kRounds; ++round) {
    testing::write_bytes(index(), whole);
    // The header and the first page of rows are where it matters most.
    const size_t at = round < 20 ? round * 5 : random() % whole.size();
    if (round % 10 == 9) {
      std::filesystem::resize_file(index(), at);
    } else {
      for (int i = 0; i < 3; ++i) flip(index(), std::min(at + random() % 64, whole.size() - 1));
    }
    found += count(*open());
    const auto again = open();
    EXPECT_EQ(again->stats().trouble, "") << round << ": repaired the first time";
    for (uint32_t n = 0; n < kStored; ++n) {
      EXPECT_TRUE(read(*again, n) || write(*again, n)) << again->stats().trouble;
    }
  }
  EXPECT_GT(found, kStored * kRounds / 2) << "most damage is noticed, and repaired";
  testing::write_bytes(index(), whole);
  expect_recovers();
}

TEST_F(DiskStoreTest, T_k6_ASegmentCutAnywhereLosesOnlyWhatIsBehind) {
  write_all();
  const auto path = testing::segments_in(dir()).at(0);
  for (uint64_t bytes = 7 * record(); bytes > record() / 2; bytes -= record() / 3) {
    std::filesystem::resize_file(path, bytes);
    const auto store = open();
    // Padding is missed by nobody.
    const uint64_t whole = bytes / record();
    const uint64_t found = count(*store);
    EXPECT_EQ(found, kStored - 7 + whole) << bytes;
  }
  expect_recovers();
}

TEST_F(DiskStoreTest, T_k6_ADamagedRecordIsDroppedAndWrittenAgain) {
  write_all();
  const auto paths = testing::segments_in(dir());
  ASSERT_EQ(paths.size(), 3u);
  for (const auto& path : paths) {
    for (const uint64_t at :
         {uint64_t{9}, record() + 40, 2 * record() + 4096, 3 * record() + 5000}) {
      flip(path, at);
    }
  }
  {
    const auto store = open();
    EXPECT_EQ(store->keys().size(), kStored);
    EXPECT_EQ(count(*store), kStored - 12);
    EXPECT_EQ(store->stats().damaged, 12u);
    EXPECT_EQ(store->take_dropped().size(), 12u);
    EXPECT_EQ(store->keys().size(), kStored - 12);
  }
  expect_recovers();
}

TEST_F(DiskStoreTest, T_k6_ARecordThatIsNotTheOneTheIndexNamesIsAMiss) {
  write_all();
  const auto path = testing::segments_in(dir()).at(0);
  const std::string bytes = *read_file(path.string());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.write(bytes.data() + record(), static_cast<std::streamsize>(record()));
  file.close();
  {
    const auto store = open();
    EXPECT_FALSE(read(*store, 0));
    EXPECT_TRUE(read(*store, 1));
    EXPECT_EQ(store->stats().damaged, 1u);
  }
  expect_recovers();
}

TEST_F(DiskStoreTest, T_k6_ARecordOfAnotherScopeUnderTheSameKeyIsAMiss) {
  write_all();
  const std::string foreign = *read_file(testing::segments_in(dir()).at(0).string());
  std::filesystem::remove_all(dir());
  {
    const auto store = open(7 * 16, 1001);
    ASSERT_TRUE(write(*store, 0));
  }
  testing::write_bytes(testing::segments_in(dir()).at(0), foreign);
  const auto store = open(7 * 16, 1001);
  EXPECT_EQ(store->keys().size(), 1u);
  EXPECT_FALSE(read(*store, 0));
  EXPECT_EQ(store->stats().damaged, 1u);
}

TEST_F(DiskStoreTest, T_k6_EmptyAndForeignSegmentsAreUsedOrLeftAlone) {
  write_all();
  const auto paths = testing::segments_in(dir());
  testing::write_bytes(paths[0], "");
  testing::write_bytes(paths[1], std::string(7 * record(), 'x'));
  const std::filesystem::path other = std::filesystem::path(dir()) / "segment-1-8192.kv",
                              notes = std::filesystem::path(dir()) / "notes.txt",
                              twin = std::filesystem::path(dir()) / "segment-000000-999424.kv";
  testing::write_bytes(other, "mine");
  testing::write_bytes(notes, "mine too");
  testing::write_bytes(twin, "a second file of a number");
  EXPECT_EQ(count(*open()), kStored - 14);
  EXPECT_FALSE(std::filesystem::exists(twin));
  expect_recovers();
  EXPECT_EQ(*read_file(other.string()), "mine");
  EXPECT_EQ(*read_file(notes.string()), "mine too");
}

TEST_F(DiskStoreTest, AVanishedSegmentIsAMiss) {
  write_all();
  const auto store = open();
  std::filesystem::remove(testing::segments_in(dir()).at(1));
  EXPECT_EQ(count(*store), kStored - 7);
  EXPECT_EQ(store->stats().damaged, 7u);
  EXPECT_FALSE(store->stats().read_only);
}

TEST_F(DiskStoreTest, RecordsOfAnotherVersionAreNotRead) {
  write_all();
  for (const auto& path : testing::segments_in(dir())) {
    for (uint64_t slot = 0; slot < 7; ++slot) {
      if (slot * record() < std::filesystem::file_size(path)) flip(path, slot * record() + 8);
    }
  }
  std::filesystem::remove(index());
  EXPECT_EQ(count(*open()), 0u);
  expect_recovers();
}

TEST_F(DiskStoreTest, OnlyTheOwnerMayReadWhatIsCached) {
  write_all();
  using std::filesystem::perms;
  const perms others = perms::group_all | perms::others_all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir())) {
    EXPECT_EQ(entry.status().permissions() & others, perms::none) << entry.path();
  }
  EXPECT_EQ(std::filesystem::status(dir()).permissions() & others, perms::none);
}

}  // namespace
}  // namespace minim
