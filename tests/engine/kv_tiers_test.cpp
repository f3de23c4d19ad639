#include "engine/kv_tiers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "engine/segment_file.h"
#include "kv_blocks.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using testing::KvBlocks;
using testing::numbered_key;
using testing::TempDir;
using Done = KvTiers::Done;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Tiers over a pool, and what an engine does with them, one operation at a time.
class Tiers {
 public:
  Tiers(const KvTierOptions& options, KvBlocks& blocks, const std::string& scope = "scope")
      : blocks_(blocks) {
    Result<std::unique_ptr<KvTiers>> opened =
        KvTiers::open(options, scope, blocks.block_bytes(), blocks.memory());
    CHECK(static_cast<bool>(opened), "%s", opened.error().message.c_str());
    tiers_ = std::move(*opened);
  }

  KvTiers& operator*() { return *tiers_; }
  KvTiers* operator->() { return tiers_.get(); }

  // Waits for one report, of this kind and key.
  bool wait(Done::Kind kind, const BlockKey& key) {
    std::vector<Done> done;
    tiers_->poll(done, true);
    EXPECT_EQ(done.size(), 1u);
    if (done.size() != 1) return false;
    EXPECT_EQ(done[0].kind, kind);
    EXPECT_EQ(done[0].key, key);
    EXPECT_EQ(done[0].block, 0);
    return done[0].ok;
  }
  bool store(uint32_t n) {
    blocks_.fill(0, numbered_key(n));
    if (!tiers_->store(numbered_key(n), 0)) return false;
    return wait(Done::Kind::kStored, numbered_key(n));
  }
  void evict(uint32_t n) {
    blocks_.fill(0, numbered_key(n));
    tiers_->evicting(numbered_key(n), 0);
  }
  // Right bytes or a miss, and nothing else.
  bool fetch(uint32_t n) {
    blocks_.clear(0);
    tiers_->fetch(numbered_key(n), 0);
    const bool ok = wait(Done::Kind::kFetched, numbered_key(n));
    if (ok) {
      EXPECT_TRUE(blocks_.holds(0, numbered_key(n))) << "wrong bytes for " << n;
    } else {
      EXPECT_FALSE(tiers_->holds(numbered_key(n)));
    }
    return ok;
  }

 private:
  KvBlocks& blocks_;
  std::unique_ptr<KvTiers> tiers_;
};

// What a child process finds out: 0, or a skip where the system does not let it.
constexpr int kNotAllowed = 77;
template <typename Check>
int in_child(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// In a name space of its own, so that nothing is left mounted.
bool mount_memory(const std::string& at, unsigned long flags, const char* options) {
  std::filesystem::create_directory(at);
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", at.c_str(), "tmpfs", flags, options) == 0;
}

class KvTiersTest : public ::testing::Test {
 protected:
  std::string dir() const { return (dir_ / "cache").string(); }
  uint64_t record() const { return record_bytes_for(blocks_.block_bytes()); }
  KvTierOptions disk(uint64_t n_records = 1000) const {
    return {.host_bytes = 0, .disk_dir = dir(), .disk_bytes = n_records * record()};
  }
  KvTierOptions host(uint64_t n_blocks) const {
    return {.host_bytes = n_blocks * blocks_.block_bytes(), .disk_dir = "", .disk_bytes = 0};
  }
  Result<std::unique_ptr<KvTiers>> open(const KvTierOptions& options) {
    return KvTiers::open(options, "scope", blocks_.block_bytes(), blocks_.memory());
  }

  TempDir dir_;
  KvBlocks blocks_;
};

TEST_F(KvTiersTest, WithoutLevelsNothingIsHeld) {
  Tiers tiers({}, blocks_);
  EXPECT_FALSE(tiers.store(1));
  tiers.evict(1);
  EXPECT_FALSE(tiers->holds(numbered_key(1)));
  EXPECT_FALSE(tiers.fetch(1));
  std::vector<Done> done;
  tiers->poll(done, true);
  EXPECT_TRUE(done.empty()) << "nothing to wait for";
}

TEST_F(KvTiersTest, T_k6_RandomPiecesComeBackFromMemoryAndDisk) {
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    std::vector<size_t> sizes(1 + random() % 70);
    for (size_t& size : sizes) size = random() % 3000;
    sizes[0] += 1;
    blocks_ = KvBlocks(4, sizes);
    KvTierOptions options = disk();
    options.disk_dir += std::to_string(round);
    for (const uint64_t n_host : {0, 3}) {
      options.host_bytes = n_host * blocks_.block_bytes();
      Tiers tiers(options, blocks_);
      for (uint32_t n = 0; n < 6; ++n) {
        EXPECT_EQ(tiers.store(n), n_host == 0) << "stored by the first round";
        tiers.evict(n);
      }
      for (uint32_t n = 0; n < 6; ++n) EXPECT_TRUE(tiers.fetch(n)) << n;
      EXPECT_EQ(tiers->stats().host_hits, n_host);
      EXPECT_EQ(tiers->stats().disk_hits, 6 - n_host);
    }
  }
}

TEST_F(KvTiersTest, T_k6_AnotherProcessFindsWhatOneHasStored) {
  {
    Tiers tiers(disk(), blocks_);
    for (uint32_t n = 0; n < 20; ++n) EXPECT_TRUE(tiers.store(n));
    EXPECT_EQ(tiers->stats().disk_blocks, 20u);
  }
  Tiers tiers(disk(), blocks_);
  for (uint32_t n = 0; n < 20; ++n) {
    EXPECT_TRUE(tiers->holds(numbered_key(n)));
    EXPECT_TRUE(tiers.fetch(n));
  }
  EXPECT_FALSE(tiers->holds(numbered_key(20)));
  EXPECT_EQ(tiers->stats().disk_blocks, 20u);
  EXPECT_EQ(tiers->stats().disk_hits, 20u);
  EXPECT_EQ(tiers->stats().damaged, 0u);
  EXPECT_EQ(tiers->stats().trouble, "");
}

TEST_F(KvTiersTest, MemoryKeepsTheMostRecentlyUsed) {
  Tiers tiers(host(3), blocks_);
  for (uint32_t n = 0; n < 3; ++n) tiers.evict(n);
  EXPECT_TRUE(tiers.fetch(0));
  tiers.evict(1);  // there already: only younger now
  tiers.evict(3);
  EXPECT_FALSE(tiers.fetch(2));
  for (const uint32_t n : {0, 1, 3}) EXPECT_TRUE(tiers.fetch(n));
  EXPECT_EQ(tiers->stats().host_blocks, 3u);
  EXPECT_EQ(tiers->stats().host_evictions, 1u);
}

// B24: the limit holds at every moment, not only when an allocation fails.
TEST_F(KvTiersTest, B24_MemoryGrowsWithUseAndStaysUnderItsLimit) {
  const auto resident = [] {
    std::ifstream in("/proc/self/statm");
    uint64_t total = 0, pages = 0;
    in >> total >> pages;
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  };
  blocks_ = KvBlocks(1, {kMiB / 2, 1, kMiB / 2});
  blocks_.fill(0, numbered_key(0));
  const uint64_t before = resident();
  Tiers tiers(host(64), blocks_);
  EXPECT_LT(resident(), before + 4 * kMiB) << "nothing is kept yet";
  for (uint32_t n = 0; n < 200; ++n) {
    tiers->evicting(numbered_key(n), 0);
    ASSERT_LT(resident(), before + 64 * kMiB * 110 / 100) << n;
  }
  EXPECT_GT(resident(), before + 60 * kMiB) << "or this measures nothing";
  EXPECT_EQ(tiers->stats().host_blocks, 64u);
  EXPECT_EQ(tiers->stats().host_evictions, 136u);
}

TEST_F(KvTiersTest, BudgetsBelowOneBlockAreRefusedWithBothNumbers) {
  KvTierOptions options = host(1);
  options.host_bytes -= 1;
  for (const KvTierOptions& small : {options, disk(0)}) {
    const auto opened = open(small);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kExhausted);
    EXPECT_NE(opened.error().message.find("at least one block"), std::string::npos);
  }
  EXPECT_TRUE(open(host(1)));
  EXPECT_TRUE(open(disk(1)));
}

TEST_F(KvTiersTest, TheDiskStaysWithinItsBudgetAndKeepsTheYoungest) {
  for (const uint64_t n_records : {1, 5, 40}) {
    std::filesystem::remove_all(dir());
    Tiers tiers(disk(n_records), blocks_);
    for (uint32_t n = 0; n < 100; ++n) {
      EXPECT_TRUE(tiers.store(n));
      // The first is used all the time and so stays, where there is room beside the newest.
      if (n_records > 1) {
        EXPECT_TRUE(tiers.fetch(0));
      }
      ASSERT_LE(testing::segment_bytes(dir()), n_records * record());
      ASSERT_EQ(testing::segment_bytes(dir()), tiers->stats().disk_bytes);
    }
    EXPECT_EQ(tiers->stats().disk_blocks, n_records);
    EXPECT_EQ(tiers->stats().disk_evictions, 100 - n_records);
    const uint64_t n_young = std::max<uint64_t>(n_records, 2) - 1;
    for (uint32_t n = 1; n < 100; ++n) {
      EXPECT_EQ(tiers->holds(numbered_key(n)), n >= 100 - n_young) << n;
    }
  }
}

TEST_F(KvTiersTest, UseIsRememberedOverARestart) {
  {
    Tiers tiers(disk(4), blocks_);
    for (uint32_t n = 0; n < 4; ++n) EXPECT_TRUE(tiers.store(n));
    EXPECT_TRUE(tiers.fetch(0));
  }
  Tiers tiers(disk(4), blocks_);
  EXPECT_TRUE(tiers.store(4));
  EXPECT_TRUE(tiers.fetch(0));
  EXPECT_FALSE(tiers.fetch(1));
}

TEST_F(KvTiersTest, ASmallerBudgetDropsTheOldestAtTheStart) {
  {
    Tiers tiers(disk(64), blocks_);
    for (uint32_t n = 0; n < 64; ++n) EXPECT_TRUE(tiers.store(n));
  }
  Tiers tiers(disk(20), blocks_);
  EXPECT_LE(testing::segment_bytes(dir()), 20 * record());
  EXPECT_GE(tiers->stats().disk_blocks, 16u) << "segments are a sixteenth of the budget";
  for (uint32_t n = 48; n < 64; ++n) EXPECT_TRUE(tiers.fetch(n));
  EXPECT_FALSE(tiers.fetch(0));
}

TEST_F(KvTiersTest, AnotherScopeFindsNothingAndLeavesTheRestUntilItIsOldest) {
  {
    Tiers tiers(disk(4), blocks_, "one");
    for (uint32_t n = 0; n < 4; ++n) EXPECT_TRUE(tiers.store(n));
  }
  {
    Tiers tiers(disk(4), blocks_, "two");
    EXPECT_FALSE(tiers.fetch(0));
    EXPECT_EQ(tiers->stats().disk_blocks, 0u);
    EXPECT_TRUE(tiers.store(0));  // the same key: only a test can do that
    EXPECT_TRUE(tiers.fetch(0));
  }
  Tiers tiers(disk(4), blocks_, "one");
  EXPECT_FALSE(tiers.fetch(0)) << "the oldest went for the other";
  for (uint32_t n = 1; n < 4; ++n) EXPECT_TRUE(tiers.fetch(n));
}

TEST_F(KvTiersTest, BlocksOfAnotherSizeGoWhenTheyAreTheOldest) {
  KvBlocks larger(2, {30000});
  const uint64_t bytes = 40 * record();
  const KvTierOptions options{.host_bytes = 0, .disk_dir = dir(), .disk_bytes = bytes};
  {
    Tiers tiers(options, blocks_, "small");
    for (uint32_t n = 0; n < 40; ++n) EXPECT_TRUE(tiers.store(n));
  }
  {
    Tiers tiers(options, larger, "large");
    EXPECT_FALSE(tiers.fetch(0));
    EXPECT_TRUE(tiers.store(100));
    EXPECT_TRUE(tiers.store(101));
    EXPECT_LE(testing::segment_bytes(dir()), bytes);
    EXPECT_TRUE(tiers.fetch(100));
  }
  {
    Tiers tiers(options, blocks_, "small");
    EXPECT_FALSE(tiers.fetch(0));
    EXPECT_TRUE(tiers.fetch(39)) << "the youngest are still there";
    for (uint32_t n = 50; n < 90; ++n) EXPECT_TRUE(tiers.store(n));
    for (uint32_t n = 50; n < 90; ++n) EXPECT_TRUE(tiers.fetch(n)) << n;
    EXPECT_LE(testing::segment_bytes(dir()), bytes);
  }
  Tiers tiers(options, larger, "large");
  EXPECT_FALSE(tiers.fetch(100));
}

TEST_F(KvTiersTest, ABlockIsStoredOnceAndTheQueueIsBounded) {
  blocks_ = KvBlocks(1, {kMiB});
  const auto opened = KvTiers::open({.host_bytes = 0, .disk_dir = dir(), .disk_bytes = 16 * kMiB},
                                    "scope", kMiB, [this](int32_t) { return blocks_.pieces(0); });
  ASSERT_TRUE(opened) << opened.error().message;
  KvTiers& tiers = **opened;
  // Far more than a disk can take meanwhile.
  constexpr int32_t kOffered = 5000;
  size_t accepted = 0;
  for (int32_t block = 0; block < kOffered; ++block) {
    const BlockKey key = numbered_key(static_cast<uint32_t>(block));
    if (!tiers.store(key, block)) continue;
    ++accepted;
    EXPECT_FALSE(tiers.store(key, block)) << "on its way";
  }
  EXPECT_GE(accepted, 64u);
  EXPECT_LT(accepted, 1000u);
  std::vector<Done> done;
  while (done.size() < accepted) tiers.poll(done, true);
  EXPECT_EQ(done.size(), accepted);
  for (const Done& report : done) EXPECT_TRUE(report.ok);
  EXPECT_FALSE(tiers.store(done.back().key, done.back().block)) << "held";
  tiers.poll(done, true);
  EXPECT_EQ(done.size(), accepted) << "nothing more to wait for";
}

TEST_F(KvTiersTest, QueuedWritesAreFinishedAtTheEnd) {
  constexpr int32_t kBlocks = 60;
  blocks_ = KvBlocks(kBlocks, {200000});
  for (int32_t block = 0; block < kBlocks; ++block) {
    blocks_.fill(block, numbered_key(static_cast<uint32_t>(block)));
  }
  {
    Tiers tiers(disk(), blocks_);
    for (int32_t block = 0; block < kBlocks; ++block) {
      EXPECT_TRUE(tiers->store(numbered_key(static_cast<uint32_t>(block)), block));
    }
  }
  Tiers tiers(disk(), blocks_);
  for (uint32_t n = 0; n < kBlocks; ++n) EXPECT_TRUE(tiers.fetch(n)) << n;
}

TEST_F(KvTiersTest, ADirectoryInUseIsRefusedWithTheNumberOfItsProcess) {
  int ready[2], finish[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(finish), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto opened = open(disk());
    const char ok = opened ? 'y' : 'n';
    char byte = 0;
    if (write(ready[1], &ok, 1) != 1 || read(finish[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  const auto second = open(disk());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_NE(second.error().message.find("process " + std::to_string(child)), std::string::npos)
      << second.error().message;
  ASSERT_EQ(write(finish[1], "x", 1), 1);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto first = open(disk());
  EXPECT_TRUE(first) << "the lock goes with its process";
  EXPECT_FALSE(open(disk())) << "and holds within one";
  for (const int fd : {ready[0], ready[1], finish[0], finish[1]}) close(fd);
}

TEST_F(KvTiersTest, WhereNoDirectoryCanBeItIsRefusedInOneLine) {
  testing::write_bytes(dir_ / "file", "x");
  const std::string in_place = (dir_ / "file").string();
  for (const std::string& path : {in_place, in_place + "/below", std::string("/proc/minim/cache"),
                                  std::string("/proc/self/cache"), std::string("/dev/full")}) {
    KvTierOptions options = disk();
    options.disk_dir = path;
    const auto opened = open(options);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, Code::kIo);
    EXPECT_NE(opened.error().message.find(path), std::string::npos) << opened.error().message;
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos);
  }
}

// A full disk, as a limit on the size of files: writes fail in the middle of a record.
TEST_F(KvTiersTest, AfterAFailedWriteWhatIsThereIsStillReadAndNothingFails) {
  const int result = in_child([this] {
    blocks_ = KvBlocks(2, {200000});
    KvTierOptions options = disk();
    Tiers tiers(options, blocks_);
    const rlimit limit{.rlim_cur = 3 * record() - 5000, .rlim_max = 3 * record() - 5000};
    // The signal's default would end the process; the thread that writes does not take it.
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    uint32_t n = 0;
    while (n < 20 && tiers.store(n)) ++n;
    const KvTiers::Stats stats = tiers->stats();
    EXPECT_EQ(n, 2u);
    EXPECT_EQ(stats.store_failures, 1u);
    EXPECT_NE(stats.trouble.find(dir()), std::string::npos) << stats.trouble;
    EXPECT_EQ(stats.trouble.find('\n'), std::string::npos);
    EXPECT_EQ(testing::segment_bytes(dir()), 2 * record()) << "the half record is given back";
    blocks_.fill(0, numbered_key(9));
    EXPECT_FALSE(tiers->store(numbered_key(9), 0)) << "not tried again";
    for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(tiers.fetch(i));
    EXPECT_FALSE(tiers.fetch(2));
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(KvTiersTest, AVanishedDirectoryIsAMissAndATrouble) {
  Tiers tiers(disk(), blocks_);
  EXPECT_TRUE(tiers.store(1));
  std::filesystem::remove_all(dir());
  EXPECT_FALSE(tiers.fetch(1));
  EXPECT_FALSE(tiers.store(2));
  EXPECT_NE(tiers->stats().trouble, "");
  EXPECT_FALSE(tiers.fetch(2));
}

TEST_F(KvTiersTest, OnAFullDiskWhatFitsIsKeptAndNothingFails) {
  const int result = in_child([this] {
    if (!mount_memory(dir(), 0, "size=2m")) return kNotAllowed;
    blocks_ = KvBlocks(1, {100000});
    uint32_t n = 0;
    {
      Tiers tiers(disk(), blocks_);
      while (n < 100 && tiers.store(n)) ++n;
      EXPECT_GT(n, 5u);
      EXPECT_LT(n, 21u);
      EXPECT_NE(tiers->stats().trouble.find("nothing more is written"), std::string::npos);
      for (uint32_t i = 0; i < n; ++i) EXPECT_TRUE(tiers.fetch(i)) << i;
    }
    Tiers tiers(disk(), blocks_);
    for (uint32_t i = 0; i < n; ++i) EXPECT_TRUE(tiers.fetch(i)) << i;
    return HasFailure() ? 1 : 0;
  });
  if (result == kNotAllowed) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(result, 0);
}

TEST_F(KvTiersTest, AFileSystemThatCannotBeWrittenIsRefused) {
  const int result = in_child([this] {
    if (!mount_memory(dir(), MS_RDONLY, "size=2m")) return kNotAllowed;
    const auto opened = open(disk());
    EXPECT_FALSE(opened);
    if (opened) return 1;
    EXPECT_EQ(opened.error().code, Code::kIo);
    EXPECT_NE(opened.error().message.find("Read-only"), std::string::npos)
        << opened.error().message;
    return HasFailure() ? 1 : 0;
  });
  if (result == kNotAllowed) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(result, 0);
}

// B23: a process that is killed at any moment leaves misses, never wrong bytes and never a
// directory that cannot be used.
TEST_F(KvTiersTest, T_k6_AKillAtAnyMomentLeavesOnlyMisses) {
  constexpr uint32_t kKeys = 60;
  blocks_ = KvBlocks(2, {1, 20000, 777});
  const KvTierOptions options = disk(24);  // slots are used again and again
  std::mt19937 random(3);
  int hits = 0;
  for (uint32_t round = 0; round < 40; ++round) {
    int opened[2];
    ASSERT_EQ(pipe(opened), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::mt19937 mine(round);
      Tiers tiers(options, blocks_);
      if (write(opened[1], "x", 1) != 1) _exit(1);
      while (true) tiers.store(static_cast<uint32_t>(mine() % kKeys));
    }
    // Some while they open, most while they write.
    char byte = 0;
    if (round % 4 != 3) {
      ASSERT_EQ(read(opened[0], &byte, 1), 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (const int fd : opened) close(fd);
    Tiers tiers(options, blocks_);
    EXPECT_EQ(tiers->stats().trouble, "");
    ASSERT_LE(testing::segment_bytes(dir()), options.disk_bytes);
    for (uint32_t n = 0; n < kKeys; ++n) {
      if (tiers->holds(numbered_key(n)) && tiers.fetch(n)) ++hits;
    }
  }
  RecordProperty("hits", hits);
  EXPECT_GT(hits, 200) << "or nothing was written before the kills";
}

}  // namespace
}  // namespace minim
