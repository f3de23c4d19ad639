// Puts the two levels behind one face and keeps what the engine thread may know without asking the
// disk: which keys are there. That set runs behind the disk by what poll() has not reported yet, so
// a key in it may just have gone (a miss), never the other way round. A block that both levels hold
// comes from memory. Copies to and from memory happen at once, on the engine's thread: a block is a
// millisecond, less than handing it to another thread and back would be worth.
#include "engine/kv_tiers.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "engine/disk_store.h"
#include "engine/disk_worker.h"
#include "engine/host_store.h"
#include "engine/memory_budget.h"

namespace minim {
namespace {

// Blocks that wait to be written stay in the pool, so this many at most.
constexpr size_t kMaxQueuedWrites = 64;

Error too_small(const char* level, uint64_t bytes, uint64_t wanted) {
  return Error{
      Code::kExhausted,
      fmt::format("the {} level of the cache is to have {} ({}), wanted at least one block "
                  "of {} ({} bytes); a larger --kv-{}-gb holds one",
                  level, format_bytes(bytes), bytes, format_bytes(wanted), wanted, level)};
}

class TwoTiers final : public KvTiers {
 public:
  TwoTiers(size_t block_bytes, BlockMemory memory)
      : block_bytes_(block_bytes), memory_(std::move(memory)) {}

  Result<Ok> open_host(uint64_t bytes);
  Result<Ok> open_disk(DiskStoreOptions options);

  bool holds(const BlockKey& key) const override;
  void fetch(const BlockKey& key, int32_t into) override;
  bool store(const BlockKey& key, int32_t block) override;
  void evicting(const BlockKey& key, int32_t block) override;
  void poll(std::vector<Done>& done, bool wait) override;
  Stats stats() const override;

 private:
  std::vector<std::span<uint8_t>> pieces(int32_t block) const;
  void accept(DiskWorker::Report& report, std::vector<Done>& done);

  size_t block_bytes_;
  BlockMemory memory_;
  std::optional<HostStore> host_;
  std::unordered_set<BlockKey, BlockKeyHash> on_disk_, being_written_;
  std::vector<Done> ready_;  // done at once, to be reported by the next poll
  std::unique_ptr<DiskWorker> worker_;
};

Result<Ok> TwoTiers::open_host(uint64_t bytes) {
  if (bytes < block_bytes_) return too_small("memory", bytes, block_bytes_);
  Result<HostStore> host = HostStore::make(bytes, block_bytes_);
  if (!host) {
    return Error{Code::kExhausted, fmt::format("no memory for the host level of the cache, which "
                                               "is to have {}; a smaller --kv-host-gb needs less",
                                               format_bytes(bytes))};
  }
  host_.emplace(std::move(*host));
  return Ok{};
}

Result<Ok> TwoTiers::open_disk(DiskStoreOptions options) {
  const uint64_t record = record_bytes_for(options.block_bytes);
  if (options.bytes < record) return too_small("disk", options.bytes, record);
  Result<std::unique_ptr<DiskStore>> store = DiskStore::open(std::move(options));
  if (!store) return store.error();
  for (const BlockKey& key : (*store)->keys()) on_disk_.insert(key);
  worker_ = std::make_unique<DiskWorker>(std::move(*store));
  return Ok{};
}

bool TwoTiers::holds(const BlockKey& key) const {
  return (host_ && host_->contains(key)) || on_disk_.count(key) > 0;
}

void TwoTiers::fetch(const BlockKey& key, int32_t into) {
  const std::vector<std::span<uint8_t>> to = pieces(into);
  if (host_ && host_->get(key, to)) {
    ready_.push_back({.kind = Done::Kind::kFetched, .key = key, .block = into, .ok = true});
  } else if (on_disk_.count(key) > 0) {
    worker_->push({.write = false, .key = key, .block = into, .pieces = to});
  } else {
    ready_.push_back({.kind = Done::Kind::kFetched, .key = key, .block = into, .ok = false});
  }
}

bool TwoTiers::store(const BlockKey& key, int32_t block) {
  if (worker_ == nullptr || on_disk_.count(key) > 0 || being_written_.count(key) > 0 ||
      !worker_->takes_writes(kMaxQueuedWrites)) {
    return false;
  }
  worker_->push({.write = true, .key = key, .block = block, .pieces = pieces(block)});
  being_written_.insert(key);
  return true;
}

void TwoTiers::evicting(const BlockKey& key, int32_t block) {
  if (host_) host_->put(key, pieces(block));
}

void TwoTiers::poll(std::vector<Done>& done, bool wait) {
  const bool any = !ready_.empty();
  done.insert(done.end(), ready_.begin(), ready_.end());
  ready_.clear();
  if (worker_ == nullptr) return;
  for (DiskWorker::Report& report : worker_->take(wait && !any)) accept(report, done);
}

void TwoTiers::accept(DiskWorker::Report& report, std::vector<Done>& done) {
  const DiskWorker::Job& job = report.job;
  for (const BlockKey& key : report.dropped) on_disk_.erase(key);
  if (job.write) {
    being_written_.erase(job.key);
    if (report.ok) on_disk_.insert(job.key);
  } else if (!report.ok) {
    on_disk_.erase(job.key);
  }
  done.push_back({.kind = job.write ? Done::Kind::kStored : Done::Kind::kFetched,
                  .key = job.key,
                  .block = job.block,
                  .ok = report.ok});
}

KvTiers::Stats TwoTiers::stats() const {
  Stats stats;
  if (host_) {
    stats.host_blocks = host_->n_blocks();
    stats.host_hits = host_->hits();
    stats.host_evictions = host_->evictions();
  }
  if (worker_ != nullptr) {
    DiskStats disk = worker_->stats();
    stats.disk_blocks = disk.blocks;
    stats.disk_hits = disk.hits;
    stats.disk_evictions = disk.evictions;
    stats.disk_bytes = disk.bytes;
    stats.stored = disk.stored;
    stats.store_failures = disk.store_failures;
    stats.damaged = disk.damaged;
    stats.trouble = std::move(disk.trouble);
  }
  return stats;
}

std::vector<std::span<uint8_t>> TwoTiers::pieces(int32_t block) const {
  std::vector<std::span<uint8_t>> pieces = memory_(block);
  size_t bytes = 0;
  for (const std::span<uint8_t> piece : pieces) bytes += piece.size();
  CHECK(bytes == block_bytes_, "block %d has %zu bytes, not %zu", block, bytes, block_bytes_);
  return pieces;
}

}  // namespace

Result<std::unique_ptr<KvTiers>> KvTiers::open(const KvTierOptions& options,
                                               const std::string& scope, size_t block_bytes,
                                               BlockMemory memory) {
  CHECK(block_bytes > 0);
  auto tiers = std::make_unique<TwoTiers>(block_bytes, std::move(memory));
  if (options.host_bytes > 0) {
    if (Result<Ok> host = tiers->open_host(options.host_bytes); !host) return host.error();
  }
  if (!options.disk_dir.empty()) {
    DiskStoreOptions disk{.dir = options.disk_dir,
                          .bytes = options.disk_bytes,
                          .scope = Sha256::of(scope),
                          .block_bytes = block_bytes};
    if (Result<Ok> opened = tiers->open_disk(std::move(disk)); !opened) return opened.error();
  }
  return std::unique_ptr<KvTiers>(std::move(tiers));
}

}  // namespace minim
