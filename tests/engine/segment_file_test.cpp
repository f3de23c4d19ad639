#include "engine/segment_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "kv_blocks.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using testing::KvBlocks;
using testing::numbered_key;
using testing::TempDir;

class Segment : public ::testing::Test {
 protected:
  Segment() : dir_fd_(open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY)) {
    name_ = {.id = 3, .record_bytes = record_bytes_for(blocks_.block_bytes())};
  }
  ~Segment() override { close(dir_fd_); }

  std::filesystem::path path() const { return dir_ / segment_file_name(name_); }
  SegmentFile segment(SegmentFile::Mode mode = SegmentFile::Mode::kRead) {
    Result<SegmentFile> file = SegmentFile::open(dir_fd_, name_, mode);
    CHECK(static_cast<bool>(file));
    return std::move(*file);
  }
  RecordHeader header(uint32_t n) {
    return {.key = numbered_key(n),
            .scope = numbered_key(1000),
            .payload_bytes = 0,
            .used = n,
            .payload_hash = {}};
  }
  void write(uint64_t slot, uint32_t n) {
    blocks_.fill(0, numbered_key(n));
    const Result<Ok> written =
        segment(SegmentFile::Mode::kWrite).write(slot, header(n), blocks_.pieces(0));
    ASSERT_TRUE(written) << written.error().message;
  }
  // The key in a slot whose record is whole, else nothing; bytes must then be those of the key.
  std::optional<BlockKey> read(uint64_t slot) {
    const SegmentFile file = segment();
    const Result<RecordHeader> found = file.read_header(slot);
    if (!found || found->payload_bytes != blocks_.block_bytes()) return std::nullopt;
    blocks_.clear(1);
    if (!file.read_payload(slot, *found, blocks_.pieces(1))) return std::nullopt;
    EXPECT_TRUE(blocks_.holds(1, found->key));
    EXPECT_EQ(found->scope, numbered_key(1000));
    return found->key;
  }

  TempDir dir_;
  int dir_fd_;
  KvBlocks blocks_;
  SegmentName name_;
};

TEST(SegmentName, OnlyItsOwnSpellingIsRead) {
  for (const SegmentName& name : {SegmentName{.id = 0, .record_bytes = 8192},
                                  SegmentName{.id = 12345678, .record_bytes = 5640192}}) {
    EXPECT_EQ(parse_segment_name(segment_file_name(name)), name);
  }
  EXPECT_EQ(segment_file_name({.id = 12, .record_bytes = 5640192}), "segment-000012-5640192.kv");
  for (const char* other :
       {"", "segment-", ".kv", "segment-.kv", "segment-000001.kv", "segment-000001-.kv",
        "segment--8192.kv", "segment-1-8192.kv", "segment-0000001-8192.kv",
        "segment-000001-08192.kv", "segment-000001-8192.kv~", "segment-000001-8193.kv",
        "segment-000001-4096.kv", "segment-000001-0.kv", "segment--00001-8192.kv",
        "segment-000001-8192-8192.kv", "segment-99999999999999999999-8192.kv",
        "segment-000001-18446744073709547520.kv"}) {
    EXPECT_EQ(parse_segment_name(other), std::nullopt) << other;
  }
}

TEST_F(Segment, RecordsComeBackFromAnySlot) {
  write(0, 10);
  write(2, 12);
  EXPECT_EQ(std::filesystem::file_size(path()), 3 * name_.record_bytes);
  EXPECT_EQ(read(0), numbered_key(10));
  EXPECT_EQ(read(1), std::nullopt) << "a hole is no record";
  EXPECT_EQ(read(2), numbered_key(12));
  EXPECT_EQ(read(3), std::nullopt);
  write(0, 11);
  EXPECT_EQ(read(0), numbered_key(11));
  EXPECT_EQ(read(2), numbered_key(12));
}

TEST_F(Segment, ManyPiecesAreOneRecord) {
  blocks_ = KvBlocks(2, std::vector<size_t>(3000, 3));
  name_.record_bytes = record_bytes_for(blocks_.block_bytes());
  write(1, 5);
  EXPECT_EQ(read(1), numbered_key(5));
}

TEST_F(Segment, T_k6_AFileThatIsCutAnywhereHasNoRecordThere) {
  write(0, 1);
  // Behind the payload there is only padding.
  const size_t end = 4096 + blocks_.block_bytes();
  for (size_t bytes = name_.record_bytes; bytes-- > 0;
       bytes -= std::min<size_t>(bytes, bytes % 7)) {
    std::filesystem::resize_file(path(), bytes);
    EXPECT_EQ(read(0).has_value(), bytes >= end) << bytes;
  }
}

TEST_F(Segment, T_k6_AFlippedBitIsFound) {
  write(0, 1);
  const size_t end = 4096 + blocks_.block_bytes();
  for (size_t at = 0; at < name_.record_bytes; at += at < 200 || at > end - 10 ? 1 : 37) {
    testing::flip(path(), at);
    const bool matters = at < 128 || (at >= 4096 && at < end);
    EXPECT_EQ(read(0).has_value(), !matters) << at;
    testing::flip(path(), at);
  }
  EXPECT_EQ(read(0), numbered_key(1));
}

TEST_F(Segment, T_k6_ZerosAndForeignBytesAreNoRecords) {
  testing::write_bytes(path(), std::string(3 * name_.record_bytes, '\0'));
  EXPECT_EQ(read(0), std::nullopt);
  testing::write_bytes(path(), std::string(3 * name_.record_bytes, 'x'));
  EXPECT_EQ(read(1), std::nullopt);
  testing::write_bytes(path(), "");
  EXPECT_EQ(read(0), std::nullopt);
}

// Checksums do not help against a header that was written properly by another program.
TEST_F(Segment, T_k6_HeadersOfAnotherFormOrSizeAreNoRecords) {
  write(0, 1);
  std::string header(128, '\0');
  const auto patched = [&](size_t at, char byte) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.read(header.data(), 128);
    std::string changed = header;
    changed[at] = byte;
    const XXH128_hash_t hash = XXH3_128bits(changed.data(), 112);
    std::memcpy(changed.data() + 112, &hash, sizeof hash);
    file.seekp(0);
    file.write(changed.data(), 128);
    file.close();
    const bool found = read(0).has_value();
    std::fstream again(path(), std::ios::in | std::ios::out | std::ios::binary);
    again.write(header.data(), 128);
    return found;
  };
  EXPECT_TRUE(patched(88, 9)) << "a sequence number is not looked at";
  EXPECT_FALSE(patched(0, 'M')) << "magic";
  EXPECT_FALSE(patched(8, 2)) << "version";
  EXPECT_FALSE(patched(12, 64)) << "header bytes";
  EXPECT_FALSE(patched(87, 1)) << "2^56 bytes of payload";
  EXPECT_FALSE(patched(96, header[96] ^ 1)) << "the payload's checksum";
}

TEST_F(Segment, WhatIsNoPlainFileIsRefused) {
  const Result<SegmentFile> absent = SegmentFile::open(dir_fd_, name_, SegmentFile::Mode::kRead);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_FALSE(SegmentFile::open(dir_fd_, name_, SegmentFile::Mode::kRead));
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_FALSE(SegmentFile::open(dir_fd_, name_, SegmentFile::Mode::kRead));
  std::filesystem::remove(path());
  std::filesystem::create_symlink("/dev/zero", path());
  EXPECT_FALSE(SegmentFile::open(dir_fd_, name_, SegmentFile::Mode::kRead));
}

TEST_F(Segment, CuttingGivesBackWhatLiesBehind) {
  write(0, 1);
  write(1, 2);
  segment(SegmentFile::Mode::kWrite).cut(name_.record_bytes);
  EXPECT_EQ(std::filesystem::file_size(path()), name_.record_bytes);
  EXPECT_EQ(read(0), numbered_key(1));
}

}  // namespace
}  // namespace minim
