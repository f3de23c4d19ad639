// Records as bytes. A record is trusted only as far as its two checksums say: XXH3-128 of the
// header, which holds one of the payload. So a write needs no order and no fsync: whatever part of
// it a crash leaves is not a record. The checksums find accidents, not forgers; who can write the
// directory can already make the program answer anything. CRC-32 lost: at a million records its
// misses are no longer negligible, and XXH3 is faster.
//
//   header page   128 bytes below, zeros up to 4,096
//   payload       the block's pieces in order, zeros or what was there before up to a whole page
#include "engine/segment_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace minim {
namespace {

constexpr size_t kPage = 4096;
constexpr std::array<char, 8> kMagic = {'m', 'i', 'n', 'i', 'm', 'K', 'V', '\n'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxSegmentId = 999'999'999'999;
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 40;
constexpr size_t kMaxPieces = 512;  // of one system call; the system's limit is 1024

// In the byte order of the only processors that this runs on.
static_assert(std::endian::native == std::endian::little);
struct StoredHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_bytes;
  BlockKey key;
  Sha256::Digest scope;
  uint64_t payload_bytes;
  uint64_t used;
  uint64_t payload_hash[2];
  uint64_t header_hash[2];  // of all above
};
static_assert(sizeof(StoredHeader) == 128);

void hash_header(const StoredHeader& header, uint64_t hash[2]) {
  const XXH128_hash_t value = XXH3_128bits(&header, offsetof(StoredHeader, header_hash));
  hash[0] = value.low64;
  hash[1] = value.high64;
}

void hash_payload(BlockPieces pieces, uint64_t hash[2]) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  CHECK(state != nullptr, "no memory");
  XXH3_128bits_reset(state.get());
  for (const std::span<uint8_t> piece : pieces) {
    XXH3_128bits_update(state.get(), piece.data(), piece.size());
  }
  const XXH128_hash_t value = XXH3_128bits_digest(state.get());
  hash[0] = value.low64;
  hash[1] = value.high64;
}

std::vector<iovec> io_vector(BlockPieces pieces) {
  std::vector<iovec> parts;
  parts.reserve(pieces.size() + 1);
  for (const std::span<uint8_t> piece : pieces) {
    if (!piece.empty()) parts.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
  }
  return parts;
}

// Calls preadv or pwritev until all parts are done. 0, or the error; EIO where a file ends early.
template <typename Call>
int transfer(Call call, int fd, std::span<iovec> parts, uint64_t offset) {
  while (!parts.empty()) {
    const auto n = static_cast<int>(std::min(parts.size(), kMaxPieces));
    ssize_t done = call(fd, parts.data(), n, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : ENODATA;
    offset += static_cast<uint64_t>(done);
    while (!parts.empty() && static_cast<size_t>(done) >= parts[0].iov_len) {
      done -= static_cast<ssize_t>(parts[0].iov_len);
      parts = parts.subspan(1);
    }
    if (done > 0) {
      parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + done;
      parts[0].iov_len -= static_cast<size_t>(done);
    }
  }
  return 0;
}

size_t total_bytes(BlockPieces pieces) {
  size_t bytes = 0;
  for (const std::span<uint8_t> piece : pieces) bytes += piece.size();
  return bytes;
}

std::optional<uint64_t> parse_number(std::string_view text, uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

}  // namespace

uint64_t record_bytes_for(size_t payload_bytes) {
  return kPage + (payload_bytes + kPage - 1) / kPage * kPage;
}

std::string segment_file_name(const SegmentName& name) {
  return fmt::format("segment-{:06}-{}.kv", name.id, name.record_bytes);
}

std::optional<SegmentName> parse_segment_name(std::string_view file_name) {
  constexpr std::string_view kBegin = "segment-", kEnd = ".kv";
  if (!file_name.starts_with(kBegin) || !file_name.ends_with(kEnd)) return std::nullopt;
  const std::string_view numbers =
      file_name.substr(kBegin.size(), file_name.size() - kBegin.size() - kEnd.size());
  const size_t dash = std::min(numbers.find('-'), numbers.size() - 1);
  const auto id = parse_number(numbers.substr(0, dash), kMaxSegmentId);
  const auto bytes = parse_number(numbers.substr(dash + 1), kMaxRecordBytes);
  if (!id || !bytes || *bytes < kMinRecordBytes || *bytes % kPage != 0) return std::nullopt;
  const SegmentName name{.id = *id, .record_bytes = *bytes};
  if (segment_file_name(name) != file_name) return std::nullopt;
  return name;
}

Result<SegmentFile> SegmentFile::open(int dir_fd, const SegmentName& name, Mode mode) {
  // Not blocking: what only looks like a segment may be a pipe.
  const int flags =
      (mode == Mode::kRead ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  SegmentFile file(openat(dir_fd, segment_file_name(name).c_str(), flags, 0600), name);
  if (file.fd_ < 0) {
    Error error = file.io_error("open", errno);
    if (errno == ENOENT) error.code = Code::kNotFound;
    return error;
  }
  struct stat status;
  if (fstat(file.fd_, &status) != 0) return file.io_error("look at", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kIo, fmt::format("{} is not a plain file", segment_file_name(name))};
  }
  return file;
}

SegmentFile::SegmentFile(SegmentFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(other.name_) {}

SegmentFile::~SegmentFile() {
  if (fd_ >= 0) close(fd_);
}

Result<uint64_t> SegmentFile::file_bytes() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) return io_error("look at", errno);
  return static_cast<uint64_t>(status.st_size);
}

Result<RecordHeader> SegmentFile::read_header(uint64_t slot) const {
  StoredHeader stored;
  iovec part{.iov_base = &stored, .iov_len = sizeof stored};
  const int error = transfer(preadv, fd_, {&part, 1}, slot * name_.record_bytes);
  if (error == ENODATA) return damaged(slot, "the file ends before its header does");
  if (error != 0) return io_error("read", error);
  uint64_t hash[2];
  hash_header(stored, hash);
  if (stored.magic != kMagic || stored.version != kVersion ||
      stored.header_bytes != sizeof stored) {
    return damaged(slot, "no record of this version");
  }
  if (hash[0] != stored.header_hash[0] || hash[1] != stored.header_hash[1]) {
    return damaged(slot, "its header's checksum is another");
  }
  if (stored.payload_bytes == 0 || stored.payload_bytes > name_.record_bytes - kPage) {
    return damaged(slot, "its payload does not fit");
  }
  return RecordHeader{.key = stored.key,
                      .scope = stored.scope,
                      .payload_bytes = stored.payload_bytes,
                      .used = stored.used,
                      .payload_hash = {stored.payload_hash[0], stored.payload_hash[1]}};
}

Result<Ok> SegmentFile::read_payload(uint64_t slot, const RecordHeader& header,
                                     BlockPieces pieces) const {
  CHECK(total_bytes(pieces) == header.payload_bytes);
  std::vector<iovec> parts = io_vector(pieces);
  const int error = transfer(preadv, fd_, parts, slot * name_.record_bytes + kPage);
  if (error == ENODATA) return damaged(slot, "the file ends before its payload does");
  if (error != 0) return io_error("read", error);
  uint64_t hash[2];
  hash_payload(pieces, hash);
  if (hash[0] != header.payload_hash[0] || hash[1] != header.payload_hash[1]) {
    return damaged(slot, "its payload's checksum is another");
  }
  return Ok{};
}

Result<Ok> SegmentFile::write(uint64_t slot, RecordHeader header, BlockPieces pieces) {
  header.payload_bytes = total_bytes(pieces);
  CHECK(record_bytes_for(header.payload_bytes) == name_.record_bytes);
  hash_payload(pieces, header.payload_hash);
  StoredHeader stored{.magic = kMagic,
                      .version = kVersion,
                      .header_bytes = sizeof stored,
                      .key = header.key,
                      .scope = header.scope,
                      .payload_bytes = header.payload_bytes,
                      .used = header.used,
                      .payload_hash = {header.payload_hash[0], header.payload_hash[1]},
                      .header_hash = {}};
  hash_header(stored, stored.header_hash);
  std::array<uint8_t, kPage> page{};
  std::memcpy(page.data(), &stored, sizeof stored);

  const uint64_t begin = slot * name_.record_bytes, end = begin + name_.record_bytes;
  std::vector<iovec> parts = io_vector(pieces);
  parts.insert(parts.begin(), {.iov_base = page.data(), .iov_len = page.size()});
  if (int error = transfer(pwritev, fd_, parts, begin); error != 0) return io_error("write", error);
  // The last page is whole, so that a file's size counts its records.
  const Result<uint64_t> size = file_bytes();
  if (!size) return size.error();
  if (*size < end && ftruncate(fd_, static_cast<off_t>(end)) != 0) return io_error("extend", errno);
  return Ok{};
}

void SegmentFile::cut(uint64_t bytes) {
  const Result<uint64_t> size = file_bytes();
  if (size && *size > bytes && ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return;
}

Error SegmentFile::io_error(const char* doing, int error) const {
  return Error{Code::kIo, fmt::format("cannot {} {}: {}", doing, segment_file_name(name_),
                                      std::strerror(error))};
}

Error SegmentFile::damaged(uint64_t slot, const char* what) const {
  return Error{Code::kInvalid,
               fmt::format("record {} of {}: {}", slot, segment_file_name(name_), what)};
}

}  // namespace minim
