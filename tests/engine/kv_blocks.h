// A pool's memory as the tiers see it: blocks in pieces of odd sizes, each with bytes that follow
// from a key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/block_key.h"

namespace minim::testing {

inline BlockKey numbered_key(uint32_t n) {
  return Sha256::of(std::string("key ") + std::to_string(n));
}

class KvBlocks {
 public:
  explicit KvBlocks(int n_blocks = 8, std::vector<size_t> pieces = {1, 700, 0, 4096, 33})
      : pieces_(std::move(pieces)) {
    for (const size_t bytes : pieces_) block_bytes_ += bytes;
    memory_.resize(static_cast<size_t>(n_blocks) * block_bytes_);
  }

  size_t block_bytes() const { return block_bytes_; }

  // Piece p of all blocks lies together, as in layer-outer order.
  std::vector<std::span<uint8_t>> pieces(int32_t block) {
    std::vector<std::span<uint8_t>> found;
    uint8_t* all = memory_.data();
    const size_t n_blocks = memory_.size() / block_bytes_;
    for (const size_t bytes : pieces_) {
      found.push_back({all + static_cast<size_t>(block) * bytes, bytes});
      all += n_blocks * bytes;
    }
    return found;
  }
  auto memory() {
    return [this](int32_t block) { return pieces(block); };
  }

  void fill(int32_t block, const BlockKey& key) {
    visit(block, key, [](uint8_t& byte, uint8_t wanted) { byte = wanted; });
  }
  void clear(int32_t block) {
    for (const std::span<uint8_t> piece : pieces(block)) {
      for (uint8_t& byte : piece) byte = 0xEE;
    }
  }
  bool holds(int32_t block, const BlockKey& key) {
    bool same = true;
    visit(block, key, [&same](uint8_t& byte, uint8_t wanted) { same = same && byte == wanted; });
    return same;
  }

 private:
  template <typename Each>
  void visit(int32_t block, const BlockKey& key, Each each) {
    std::seed_seq seed(key.begin(), key.end());
    std::minstd_rand random(seed);
    for (const std::span<uint8_t> piece : pieces(block)) {
      for (uint8_t& byte : piece) each(byte, static_cast<uint8_t>(random() >> 8));
    }
  }

  std::vector<size_t> pieces_;
  size_t block_bytes_ = 0;
  std::vector<uint8_t> memory_;
};

// Flips a bit of a byte of a file, in place (writing files anew makes some file systems wait for
// the disk).
inline void flip(const std::filesystem::path& path, size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1 << at % 8));
  file.close();
  CHECK(file.good(), "cannot change %s", path.c_str());
}

// Paths of the segments of a directory, sorted.
inline std::vector<std::filesystem::path> segments_in(const std::string& dir) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".kv") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline uint64_t segment_bytes(const std::string& dir) {
  uint64_t bytes = 0;
  for (const auto& path : segments_in(dir)) bytes += std::filesystem::file_size(path);
  return bytes;
}

}  // namespace minim::testing
