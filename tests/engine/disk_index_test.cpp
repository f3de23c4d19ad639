#include "engine/disk_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "kv_blocks.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using testing::numbered_key;
using testing::TempDir;

class Index : public ::testing::Test {
 protected:
  std::string path() const { return (dir_ / "index.sqlite").string(); }
  Result<DiskIndex> open() {
    rows_.clear();
    Result<DiskIndex> index = DiskIndex::open(path(), rows_);
    std::sort(rows_.begin(), rows_.end(),
              [](const IndexRow& a, const IndexRow& b) { return a.slot < b.slot; });
    return index;
  }
  DiskIndex opened() {
    Result<DiskIndex> index = open();
    CHECK(static_cast<bool>(index), "%s", index.error().message.c_str());
    return std::move(*index);
  }
  static IndexRow row(uint64_t segment, uint32_t slot, uint64_t used) {
    return {.slot = {.segment = segment, .slot = slot},
            .key = numbered_key(slot),
            .scope = numbered_key(static_cast<uint32_t>(1000 + segment)),
            .used = used};
  }
  void patch(size_t at, std::string_view bytes) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  TempDir dir_;
  std::vector<IndexRow> rows_;
};

TEST_F(Index, RowsAreThoseThatWerePutAndNotTakenAway) {
  {
    DiskIndex index = opened();
    EXPECT_TRUE(rows_.empty());
    EXPECT_TRUE(index.insert_all(std::vector{row(0, 0, 1), row(0, 1, 2), row(7, 0, 3)}));
    EXPECT_TRUE(index.insert(row(9, 4'000'000'000, 4)));
    EXPECT_TRUE(index.insert(row(9, 1, 5)));
    EXPECT_TRUE(index.insert(row(9, 1, 6))) << "the newer row of a slot";
    EXPECT_TRUE(index.touch({.segment = 0, .slot = 1}, uint64_t{1} << 62));
    EXPECT_TRUE(index.erase({.segment = 0, .slot = 0}));
    EXPECT_TRUE(index.erase({.segment = 5, .slot = 5})) << "nothing there, nothing to do";
    EXPECT_TRUE(index.erase_segment(7));
  }
  opened();
  ASSERT_EQ(rows_.size(), 3u);
  const std::vector<IndexRow> wanted = {row(0, 1, uint64_t{1} << 62), row(9, 1, 6),
                                        row(9, 4'000'000'000, 4)};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(rows_[i].slot, wanted[i].slot);
    EXPECT_EQ(rows_[i].key, wanted[i].key);
    EXPECT_EQ(rows_[i].scope, wanted[i].scope);
    EXPECT_EQ(rows_[i].used, wanted[i].used);
  }
}

TEST_F(Index, RemovingLeavesNothingAndIsNoErrorTwice) {
  opened();
  EXPECT_TRUE(DiskIndex::remove(path()));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  EXPECT_TRUE(DiskIndex::remove(path()));
  std::filesystem::create_directory(path());
  const Result<Ok> removed = DiskIndex::remove(path());
  ASSERT_FALSE(removed);
  EXPECT_NE(removed.error().message.find(path()), std::string::npos);
}

// Pages that reading the rows does not touch: found when it opens, not by the first write.
TEST_F(Index, DamageThatOnlyWritingWouldMeetIsFound) {
  ASSERT_TRUE(opened().insert_all(std::vector{row(0, 0, 1), row(0, 1, 2)}));
  patch(32, std::string("\0\0\0\x02\0\0\0\x01", 8));  // the list of free pages names a used one
  const Result<DiskIndex> index = open();
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().message.find('\n'), std::string::npos);
}

TEST_F(Index, OtherTablesAreAnotherVersion) {
  ASSERT_TRUE(opened().insert_all(std::vector{row(0, 0, 1)}));
  std::string bytes(4096, '\0');
  std::ifstream(path(), std::ios::binary).read(bytes.data(), 4096);
  const size_t at = bytes.find("used INTEGER");
  ASSERT_NE(at, std::string::npos);
  patch(at, "last");
  const Result<DiskIndex> index = open();
  ASSERT_FALSE(index);
  EXPECT_NE(index.error().message.find("other tables"), std::string::npos) << index.error().message;
  EXPECT_TRUE(rows_.empty());
}

}  // namespace
}  // namespace minim
