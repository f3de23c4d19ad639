// Panel layout: how a weight matrix (and a tile of index keys) lies in memory for every
// instruction-set tier.
//
// A panel is 16 consecutive output rows; one lane of a vector is one row, so every dot product is
// one chain that never leaves its lane, and the order of its sum is the same whatever the vector
// width. Panels lie one after the other, each contiguous along k, so that a thread reads one
// stream. A panel starts on a multiple of 64 bytes; rows beyond n_out and channels beyond n_in are
// zero bytes that kernels may read but that never reach a result.
//
//   kBf16   per pair of k: 16 dwords, lane r = (w[r][2i] low half, w[r][2i+1] high half) 64 B a
//   pair kF32    per k: 16 floats 64 B a k kFp8    per pair of k: 16 words, lane r = (w[r][2i] low
//   byte, w[r][2i+1] high byte), no scales      32 B a pair kMxfp8  per 128 k: 64 pairs as kFp8,
//   then 4 x 16 scale bytes (E8M0; group-major, lane = row)     2,112 B kNvfp4  per 64 k: four
//   128-byte blocks of codes (one per 16 k), then 4 x 16 scale bytes (E4M3)      576 B
//           a 128-byte block: two halves of 16 dwords; lane r, byte b: half 0 holds k = b (low
//           nibble) and 4 + b (high nibble), half 1 holds k = 8 + b and 12 + b
//
// The last group of kMxfp8 (128 k) and kNvfp4 (64 k) may be partly used: n_in need only be a
// multiple of 32 and 16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minim {

inline constexpr size_t kPanelRows = 16;

enum class PanelFormat : uint8_t { kBf16, kF32, kFp8, kMxfp8, kNvfp4 };

// Bytes of one panel with n_in channels.
constexpr size_t panel_bytes(PanelFormat format, size_t n_in) {
  switch (format) {
    case PanelFormat::kBf16:
      return (n_in + 1) / 2 * 64;
    case PanelFormat::kF32:
      return n_in * 64;
    case PanelFormat::kFp8:
      return ((n_in + 1) / 2 * 32 + 63) / 64 * 64;
    case PanelFormat::kMxfp8:
      return (n_in + 127) / 128 * 2112;
    case PanelFormat::kNvfp4:
      return (n_in + 63) / 64 * 576;
  }
  return 0;
}

// A run of panels in panel layout. Not owned.
struct Panels {
  PanelFormat format = PanelFormat::kBf16;
  size_t n_in = 0;
  size_t n_panels = 0;
  const uint8_t* data = nullptr;  // n_panels * panel_bytes(format, n_in), 64-byte aligned
  float global = 1.0f;            // kNvfp4: the tensor's outer scale as a multiplier
};

}  // namespace minim
