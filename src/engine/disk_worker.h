// The thread that does a store's reads and writes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/disk_store.h"

namespace minim {

class DiskWorker {
 public:
  struct Job {
    bool write = false;
    BlockKey key{};
    int block = -1;
    std::vector<std::span<uint8_t>> pieces;  // untouched by others until the job is reported
  };
  struct Report {
    Job job;
    bool ok = false;
    std::vector<BlockKey> dropped;  // keys that left the disk meanwhile
  };

  // From here on the store is the thread's.
  explicit DiskWorker(std::unique_ptr<DiskStore> store);
  // Does the writes that were queued, drops the reads.
  ~DiskWorker();

  // Reads go before writes: somebody waits for them.
  void push(Job job);
  // What finished since the last call; `wait`: at least one, if any was pushed and not yet taken.
  std::vector<Report> take(bool wait);
  // Fewer than `most` writes wait, and none has failed.
  bool takes_writes(size_t most) const;
  DiskStats stats() const;  // as of the last job that finished

 private:
  void run();

  const std::unique_ptr<DiskStore> store_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Job> reads_, writes_;
  std::vector<Report> reports_;
  size_t n_pending_ = 0;  // pushed and not yet taken
  bool stopping_ = false;
  DiskStats stats_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace minim
