// The paged cache of the reference device: real bytes where lanes are rounded, doubles where not.
#pragma once

#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "device/kv_layout.h"
#include "device/ref/matrix.h"

namespace minim::ref {

enum class Lane : uint8_t { kKey, kValue, kIndexKey };

// One head of one lane of one layer of one block: 128 vectors of 128 channels.
struct TileName {
  int layer = 0, block = 0;
  Lane lane = Lane::kKey;
  int head = 0;  // 0 for index keys
};

// Where channel `channel` of key `key` lies in an index tile (panel layout, kernels/panel.h).
struct PanelAddress {
  size_t byte = 0;           // offset of the element's byte, for bf16 of its low byte
  bool high_nibble = false;  // nvfp4
  size_t scale = 0;          // nvfp4: offset of its scale byte
};
PanelAddress panel_address(KvFormat format, size_t key, size_t channel);

class Cache {
 public:
  // keep_exact: bf16 lanes are not rounded but kept as doubles. reread_e4m3: nvfp4 values are
  // rounded to E4M3 when read.
  static Result<Cache> make(const KvLayout& layout, int n_blocks, bool keep_exact,
                            bool reread_e4m3);

  // Writes 128 channels as token `token` of a tile, in the tile's format.
  void store(const TileName& name, size_t token, const double* x);

  // Tokens 0 .. n_tokens-1 of a tile into `out`: [n_tokens, 128], or transposed [128, n_tokens]
  // for values, whose sums run over tokens. `out` has room for 128 x 128 and is reshaped.
  void load(const TileName& name, size_t n_tokens, Matrix* out) const;

  // Empty when a lane of the layer is kept as doubles.
  std::span<uint8_t> block_bytes(int layer, int block);

 private:
  bool exact(Lane lane) const { return keep_exact_ && format(lane) == KvFormat::kBf16; }
  KvFormat format(Lane lane) const {
    return lane == Lane::kIndexKey ? layout_.formats.index : layout_.formats.main;
  }
  uint8_t* tile_bytes(const TileName& name) const;
  double* tile_doubles(const TileName& name) const;

  KvLayout layout_;
  int n_blocks_ = 0;
  bool keep_exact_ = false, reread_e4m3_ = false;
  AlignedBuffer bytes_;    // in KvLayout order
  AlignedBuffer doubles_;  // [block][layer][K heads, V heads, index][token][channel], keep_exact
};

}  // namespace minim::ref
