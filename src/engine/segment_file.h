// Files of fixed-size records, one block of the cache each: what the disk level is made of.
//
// A record is a header page and the block's bytes, both in whole pages, so that all payloads are
// aligned for whoever wants to read them past the page cache. The size of a file's records is in
// its name: a torn first record does not make the others unreadable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/block_key.h"

namespace minim {

// Memory of a block, piece by piece.
using BlockPieces = std::span<const std::span<uint8_t>>;

// Bytes that a record of such a payload takes in its file.
uint64_t record_bytes_for(size_t payload_bytes);
// The smallest there can be.
inline constexpr uint64_t kMinRecordBytes = 8192;

// "segment-000012-5640192.kv": number and record size. parse takes what the first gives and no
// other spelling.
struct SegmentName {
  uint64_t id = 0;
  uint64_t record_bytes = 0;
  bool operator==(const SegmentName&) const = default;
};
std::string segment_file_name(const SegmentName& name);
std::optional<SegmentName> parse_segment_name(std::string_view file_name);

struct RecordHeader {
  BlockKey key{};
  Sha256::Digest scope{};      // digest of BlockKeyScope::cache
  uint64_t payload_bytes = 0;  // of the block
  uint64_t used = 0;           // counts writes: the larger is the younger
  uint64_t payload_hash[2]{};  // XXH3-128, low half first
};

class SegmentFile {
 public:
  // Of the directory `dir_fd`. kNotFound / kIo: no such file, not a plain file, the system's
  // reason. For reading, or made if necessary for reading and writing.
  enum class Mode : uint8_t { kRead, kWrite };
  static Result<SegmentFile> open(int dir_fd, const SegmentName& name, Mode mode);
  SegmentFile(SegmentFile&& other) noexcept;
  SegmentFile& operator=(SegmentFile&&) = delete;
  ~SegmentFile();

  Result<uint64_t> file_bytes() const;
  // kInvalid: there is no whole header of a record that fits here (never written, torn, damaged, of
  // another version). kIo: the system's reason.
  Result<RecordHeader> read_header(uint64_t slot) const;
  // Reads a payload into pieces that together have its size. kInvalid: not the bytes that were
  // written; the pieces then hold anything.
  Result<Ok> read_payload(uint64_t slot, const RecordHeader& header, BlockPieces pieces) const;
  // Writes a record; fills in payload_bytes and payload_hash. kIo: the system's reason; the slot
  // then holds anything but a record that can be read.
  Result<Ok> write(uint64_t slot, RecordHeader header, BlockPieces pieces);
  // Gives back what lies behind the first `bytes`; nothing is reported.
  void cut(uint64_t bytes);

 private:
  SegmentFile(int fd, const SegmentName& name) : fd_(fd), name_(name) {}
  Error io_error(const char* doing, int error) const;
  Error damaged(uint64_t slot, const char* what) const;

  int fd_;
  SegmentName name_;
};

}  // namespace minim
