// What is on disk is a cache of a cache: every doubt is a miss. A slot that is used again loses its
// row in the index first, then gets its record, then its new row; a kill between any two leaves a
// slot that nobody looks into, and a row that is older than its record (the system may lose the
// newest rows with the power) is found out by the record's key and checksums. Files are opened for
// each block: at megabytes a block that costs nothing, and no number of segments exhausts the
// descriptors. A failed write ends writing: a full disk would otherwise fail again with every
// block.
#include "engine/disk_store.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace minim {
namespace {

constexpr std::string_view kIndexName = "index.sqlite";

}  // namespace

DiskStore::DiskStore(DiskStoreOptions options)
    : options_(std::move(options)),
      slots_(record_bytes_for(options_.block_bytes), options_.bytes) {}

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskStoreOptions options) {
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options)));
  Result<DiskLock> lock = DiskLock::take(store->options_.dir);
  if (!lock) return lock.error();
  store->lock_ = std::make_unique<DiskLock>(std::move(*lock));
  if (Result<Ok> loaded = store->load(); !loaded) {
    return Error{loaded.error().code, fmt::format("cannot use the cache directory {}: {}",
                                                  store->options_.dir, loaded.error().message)};
  }
  return store;
}

std::string DiskStore::index_path() const { return fmt::format("{}/{}", options_.dir, kIndexName); }

Result<Ok> DiskStore::load() {
  if (Result<Ok> listed = list_segments(); !listed) return listed;
  const bool has_index = faccessat(lock_->dir_fd(), kIndexName.data(), F_OK, 0) == 0;
  std::vector<IndexRow> rows;
  Result<DiskIndex> index =
      has_index ? DiskIndex::open(index_path(), rows) : Error{Code::kNotFound, "no index"};
  if (index && !rows.empty()) {
    index_ = std::make_unique<DiskIndex>(std::move(*index));
    accept(rows);
  } else {
    // An empty index beside segments is a lost one.
    if (!index && has_index) note(index.error().message + "; it is made again from the segments");
    index = Error{Code::kNotFound, "closed"};
    if (Result<Ok> rebuilt = rebuild(); !rebuilt) return rebuilt;
  }
  trim();
  return Ok{};
}

Result<Ok> DiskStore::list_segments() {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(options_.dir.c_str()), closedir);
  if (dir == nullptr) return Error{Code::kIo, std::strerror(errno)};
  std::vector<SegmentName> names;
  while (const dirent* entry = readdir(dir.get())) {
    if (const auto name = parse_segment_name(entry->d_name)) names.push_back(*name);
  }
  std::sort(names.begin(), names.end(), [](const SegmentName& a, const SegmentName& b) {
    return std::pair(a.id, a.record_bytes) < std::pair(b.id, b.record_bytes);
  });
  for (size_t i = 0; i < names.size(); ++i) {
    // Two of one number were not made here; the second would have no name in the index.
    if (i > 0 && names[i].id == names[i - 1].id) {
      unlinkat(lock_->dir_fd(), segment_file_name(names[i]).c_str(), 0);
      continue;
    }
    const Result<SegmentFile> file =
        SegmentFile::open(lock_->dir_fd(), names[i], SegmentFile::Mode::kRead);
    const Result<uint64_t> bytes = file ? file->file_bytes() : Result<uint64_t>(file.error());
    if (bytes) {
      slots_.add_segment(names[i], *bytes);
    } else {
      note(bytes.error().message);
    }
  }
  return Ok{};
}

void DiskStore::accept(const std::vector<IndexRow>& rows) {
  for (const IndexRow& row : rows) {
    const bool own = row.scope == options_.scope;
    if (slots_.put(row.slot, {.key = row.key, .own = own, .used = row.used})) continue;
    ++stats_.damaged;
    if (Result<Ok> erased = index_->erase(row.slot); !erased) stop_writing(erased.error());
  }
}

Result<Ok> DiskStore::rebuild() {
  if (Result<Ok> removed = DiskIndex::remove(index_path()); !removed) return removed;
  std::vector<IndexRow> rows;
  Result<DiskIndex> index = DiskIndex::open(index_path(), rows);
  if (!index) return index.error();
  index_ = std::make_unique<DiskIndex>(std::move(*index));
  for (const SegmentName& name : slots_.names()) scan_segment(name, rows);
  return index_->insert_all(rows);
}

void DiskStore::scan_segment(const SegmentName& name, std::vector<IndexRow>& rows) {
  const Result<SegmentFile> file =
      SegmentFile::open(lock_->dir_fd(), name, SegmentFile::Mode::kRead);
  if (!file) return note(file.error().message);
  for (uint32_t slot = 0; slot < slots_.n_slots(name.id); ++slot) {
    const Result<RecordHeader> header = file->read_header(slot);
    if (!header) {
      if (header.error().code == Code::kIo) note(header.error().message);
      continue;
    }
    const bool own = header->scope == options_.scope;
    const SlotId id{.segment = name.id, .slot = slot};
    if (slots_.put(id, {.key = header->key, .own = own, .used = header->used})) {
      rows.push_back(
          {.slot = id, .key = header->key, .scope = header->scope, .used = header->used});
    }
  }
}

void DiskStore::trim() {
  while (slots_.over_budget()) {
    if (Result<Ok> dropped = drop(slots_.next_to_go(true)); !dropped) {
      return stop_writing(dropped.error());
    }
  }
  dropped_.clear();
}

// Takes away a record or a segment; rows first, so that none ever names what is not there.
Result<Ok> DiskStore::drop(const DiskSlots::Victim& victim) {
  if (victim.slot) {
    const SlotId slot{.segment = victim.segment, .slot = *victim.slot};
    const DiskSlots::Record record = slots_.record(slot);
    if (record.own) dropped_.push_back(record.key);
    slots_.drop(slot);
    ++stats_.evictions;
    return index_->erase(slot);
  }
  const SegmentName name = slots_.name(victim.segment);
  const std::vector<BlockKey> keys = slots_.own_keys(victim.segment);
  dropped_.insert(dropped_.end(), keys.begin(), keys.end());
  stats_.evictions += slots_.n_records(victim.segment);
  slots_.drop_segment(victim.segment);
  if (Result<Ok> erased = index_->erase_segment(victim.segment); !erased) return erased;
  const std::string file = segment_file_name(name);
  if (unlinkat(lock_->dir_fd(), file.c_str(), 0) != 0 && errno != ENOENT) {
    return Error{Code::kIo, fmt::format("cannot remove {}: {}", file, std::strerror(errno))};
  }
  return Ok{};
}

Result<SlotId> DiskStore::make_room() {
  std::optional<SlotId> slot = slots_.free_slot();
  while (!slot) {
    if (Result<Ok> dropped = drop(slots_.next_to_go(false)); !dropped) return dropped.error();
    slot = slots_.free_slot();
  }
  return *slot;
}

bool DiskStore::read(const BlockKey& key, BlockPieces pieces) {
  const std::optional<SlotId> slot = slots_.find(key);
  if (!slot) return false;
  if (Result<Ok> read = read_record(*slot, key, pieces); !read) {
    drop_damaged(*slot, read.error());
    return false;
  }
  ++stats_.hits;
  const uint64_t used = slots_.touch(*slot);
  if (stats_.read_only) return true;
  if (Result<Ok> touched = index_->touch(*slot, used); !touched) stop_writing(touched.error());
  return true;
}

Result<Ok> DiskStore::read_record(SlotId slot, const BlockKey& key, BlockPieces pieces) const {
  const Result<SegmentFile> file =
      SegmentFile::open(lock_->dir_fd(), slots_.name(slot.segment), SegmentFile::Mode::kRead);
  if (!file) return file.error();
  const Result<RecordHeader> header = file->read_header(slot.slot);
  if (!header) return header.error();
  if (header->key != key || header->scope != options_.scope ||
      header->payload_bytes != options_.block_bytes) {
    return Error{Code::kInvalid, "another block is there"};
  }
  return file->read_payload(slot.slot, *header, pieces);
}

void DiskStore::drop_damaged(SlotId slot, const Error& why) {
  ++stats_.damaged;
  if (why.code == Code::kIo) note(why.message);
  dropped_.push_back(slots_.record(slot).key);
  slots_.drop(slot);
  if (stats_.read_only) return;
  if (Result<Ok> erased = index_->erase(slot); !erased) stop_writing(erased.error());
}

bool DiskStore::write(const BlockKey& key, BlockPieces pieces) {
  if (slots_.find(key)) return true;
  if (stats_.read_only) {
    ++stats_.store_failures;
    return false;
  }
  const Result<SlotId> slot = make_room();
  const Result<Ok> written = slot ? write_record(*slot, key, pieces) : Result<Ok>(slot.error());
  if (!written) {
    ++stats_.store_failures;
    stop_writing(written.error());
    return false;
  }
  slots_.fill(*slot, key);
  ++stats_.stored;
  return true;
}

Result<Ok> DiskStore::write_record(SlotId slot, const BlockKey& key, BlockPieces pieces) {
  Result<SegmentFile> file =
      SegmentFile::open(lock_->dir_fd(), slots_.name(slot.segment), SegmentFile::Mode::kWrite);
  if (!file) return file.error();
  const uint64_t used = slots_.next_used();
  const RecordHeader header{
      .key = key, .scope = options_.scope, .payload_bytes = 0, .used = used, .payload_hash = {}};
  if (Result<Ok> written = file->write(slot.slot, header, pieces); !written) {
    file->cut(slots_.file_bytes(slot.segment));
    return written;
  }
  return index_->insert({.slot = slot, .key = key, .scope = options_.scope, .used = used});
}

void DiskStore::stop_writing(const Error& why) {
  if (!stats_.read_only) note(why.message + "; nothing more is written");
  stats_.read_only = true;
}

void DiskStore::note(const std::string& trouble) {
  stats_.trouble = fmt::format("cache directory {}: {}", options_.dir, trouble);
}

std::vector<BlockKey> DiskStore::take_dropped() { return std::exchange(dropped_, {}); }

DiskStats DiskStore::stats() const {
  DiskStats stats = stats_;
  stats.blocks = slots_.n_own();
  stats.bytes = slots_.bytes();
  return stats;
}

}  // namespace minim
