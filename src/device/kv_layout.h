// The bytes of the cache.
//
// A block is 128 consecutive tokens of one sequence in every layer: the unit of allocation, prefix
// sharing, MSA selection and spill. A block has three lanes a layer: K and V (n_kv_heads heads
// each) and, in MSA layers, one index key head. One head of one lane of one layer is a *tile*: 128
// vectors of 128 channels.
//
//   tile of K or V, token-major      bf16      [128 tokens][128] uint16 32,768 B
//                                    fp8_e4m3  [128 tokens][128] codes 16,384 B nvfp4     [128
//                                    tokens][64] code bytes, [128][8] scales      9,216 B
//   tile of index keys: the 128 keys as a 128 x 128 weight matrix in panel layout (kernels/panel.h)
//   of the same size: scoring wants one key a lane, so a panel holds 16 keys, channel by channel.
//
// Attention keeps one head's vector in one run because an insert is then one run and one token is
// 72 bytes anywhere; the transposed form for K and V was not needed, since attention puts heads,
// not keys, into lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace minim {

inline constexpr int kBlockTokens = 128;
inline constexpr int kHeadDim = 128;  // of q, k, v and of index q and k: fixed by the family
inline constexpr int kNoBlock = -1;

enum class KvFormat : uint8_t { kBf16, kFp8E4m3, kNvfp4 };

// "bf16", "fp8_e4m3", "nvfp4": as flags and configs spell them.
constexpr const char* kv_format_name(KvFormat format) {
  return format == KvFormat::kBf16 ? "bf16" : format == KvFormat::kFp8E4m3 ? "fp8_e4m3" : "nvfp4";
}

// Formats of the lanes. K and V always share one.
struct KvFormats {
  KvFormat main = KvFormat::kBf16;
  KvFormat index = KvFormat::kBf16;
  bool operator==(const KvFormats&) const = default;
};

// Bytes of one cached 128-vector: 256, 128 or 72.
constexpr size_t kv_vector_bytes(KvFormat format) {
  return format == KvFormat::kBf16 ? 256 : format == KvFormat::kFp8E4m3 ? 128 : 72;
}
constexpr size_t kv_tile_bytes(KvFormat format) { return kBlockTokens * kv_vector_bytes(format); }

// Which of the two physical orders the pool uses. Results do not depend on it.
enum class KvOrder : uint8_t {
  kBlockOuter,  // all layers of one block in one run: a block is one read (default)
  kLayerOuter,  // all blocks of one layer in one run
};

// Where a tile lies: pool + block * block_stride + layer * layer_stride + tile offset.
struct KvLayout {
  KvFormats formats;
  KvOrder order = KvOrder::kBlockOuter;
  int n_kv_heads = 0;
  std::vector<bool> has_index;       // per layer
  std::vector<size_t> layer_offset;  // of a layer inside a block (block-outer)
  size_t block_bytes = 0;            // all layers of one block

  size_t k_tile(int head) const { return static_cast<size_t>(head) * kv_tile_bytes(formats.main); }
  size_t v_tile(int head) const { return k_tile(n_kv_heads + head); }
  size_t index_tile() const { return k_tile(2 * n_kv_heads); }
  size_t layer_bytes(int layer) const {
    return k_tile(2 * n_kv_heads) +
           (has_index[static_cast<size_t>(layer)] ? kv_tile_bytes(formats.index) : 0);
  }
  // Offset of a layer's part of a block in a pool of n_blocks.
  size_t offset(int layer, int block, int n_blocks) const {
    const size_t i = static_cast<size_t>(layer);
    return order == KvOrder::kBlockOuter
               ? static_cast<size_t>(block) * block_bytes + layer_offset[i]
               : static_cast<size_t>(n_blocks) * layer_offset[i] +
                     static_cast<size_t>(block) * layer_bytes(layer);
  }
};

inline KvLayout make_kv_layout(KvFormats formats, int n_kv_heads, std::vector<bool> has_index,
                               KvOrder order = KvOrder::kBlockOuter) {
  KvLayout layout{.formats = formats,
                  .order = order,
                  .n_kv_heads = n_kv_heads,
                  .has_index = static_cast<std::vector<bool>&&>(has_index),
                  .layer_offset = {},
                  .block_bytes = 0};
  for (size_t i = 0; i < layout.has_index.size(); ++i) {
    layout.layer_offset.push_back(layout.block_bytes);
    layout.block_bytes += layout.layer_bytes(static_cast<int>(i));
  }
  return layout;
}

}  // namespace minim
