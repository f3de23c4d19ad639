// Arbitrary bytes as a segment, as an index, as a record header with a right checksum, or as
// changes to a directory that was written properly: opening never fails for what is in the files,
// and what is read is what was written, or nothing.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "engine/disk_store.h"

namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 300;
constexpr uint64_t kRecordBytes = 8192;
constexpr size_t kHeaderBytes = 128, kHashAt = 112;
constexpr int kRecords = 3;

class Directory {
 public:
  Directory() {
    const fs::path memory = "/dev/shm";  // no disk to wait for, where there is one
    std::string name =
        ((fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "kv-fuzz-XXXXXX")
            .string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path segment() const { return path / "segment-000000-8192.kv"; }
  fs::path index() const { return path / "index.sqlite"; }
  void empty() const {
    for (const auto& entry : fs::directory_iterator(path)) fs::remove_all(entry.path());
  }
  fs::path path;
};

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

minim::BlockKey key_of(int n) { return minim::Sha256::of(std::string(1, static_cast<char>(n))); }

std::vector<uint8_t> bytes_of(int n) {
  std::vector<uint8_t> bytes(kBlockBytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i * 7 + static_cast<size_t>(n) * 31);
  }
  return bytes;
}

std::unique_ptr<minim::DiskStore> open(const Directory& directory) {
  auto store = minim::DiskStore::open({.dir = directory.path.string(),
                                       .bytes = 4 * kRecordBytes,
                                       .scope = minim::Sha256::of("scope"),
                                       .block_bytes = kBlockBytes});
  if (!store) std::abort();
  return std::move(*store);
}

bool write(minim::DiskStore& store, int n) {
  std::vector<uint8_t> bytes = bytes_of(n);
  const std::span<uint8_t> piece(bytes);
  return store.write(key_of(n), {&piece, 1});
}

bool read(minim::DiskStore& store, const minim::BlockKey& key, const std::vector<uint8_t>* wanted) {
  std::vector<uint8_t> bytes(kBlockBytes);
  const std::span<uint8_t> piece(bytes);
  const bool ok = store.read(key, {&piece, 1});
  if (ok && wanted != nullptr && bytes != *wanted) std::abort();
  return ok;
}

// Everything that is there is read; then the level works as if nothing had been.
void use(const Directory& directory, bool forged) {
  {
    const auto store = open(directory);
    for (int n = 0; n < kRecords; ++n) {
      const std::vector<uint8_t> wanted = bytes_of(n);
      read(*store, key_of(n), forged ? nullptr : &wanted);
    }
    for (const minim::BlockKey& key : store->keys()) read(*store, key, nullptr);
    for (int n = 10; n < 16; ++n) {
      const std::vector<uint8_t> wanted = bytes_of(n);
      if (!write(*store, n) || !read(*store, key_of(n), &wanted)) {
        if (store->stats().trouble.empty()) std::abort();
      }
    }
    if (store->stats().trouble.find('\n') != std::string::npos) std::abort();
  }
  const auto store = open(directory);
  if (store->stats().bytes > 5 * kRecordBytes) std::abort();
}

void change(const fs::path& path, std::string_view edits) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const uint64_t size = fs::file_size(path);
  for (; edits.size() >= 3; edits.remove_prefix(3)) {
    uint16_t at = 0;
    std::memcpy(&at, edits.data(), sizeof at);
    file.seekp(static_cast<std::streamoff>(at % size));
    file.put(edits[2]);
  }
}

// Segment headers, each with a checksum that agrees, so that their fields are looked at.
std::string headers(std::string_view bytes) {
  std::string file(kRecords * kRecordBytes, '\0');
  for (size_t i = 0; i < kRecords; ++i) {
    char* record = file.data() + i * kRecordBytes;
    const size_t n = std::min(bytes.size(), kHashAt);
    std::memcpy(record, bytes.data(), n);
    bytes.remove_prefix(n);
    const XXH128_hash_t hash = XXH3_128bits(record, kHashAt);
    std::memcpy(record + kHashAt, &hash, sizeof hash);
    static_assert(kHashAt + sizeof hash == kHeaderBytes);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const Directory directory;
  directory.empty();
  const int mode = data[0] % 5;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (mode == 0) write_file(directory.segment(), input);
  if (mode == 1) write_file(directory.segment(), headers(input));
  if (mode >= 2) {
    const auto store = open(directory);
    for (int n = 0; n < kRecords; ++n) {
      if (!write(*store, n)) std::abort();
    }
  }
  if (mode == 2) write_file(directory.index(), input);
  if (mode == 3) change(directory.index(), input);
  if (mode == 4) change(directory.segment(), input);
  use(directory, mode == 0 || mode == 1);
  return 0;
}
