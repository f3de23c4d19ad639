// The paged cache: bytes exactly as every device lays them out, read and written one value at a
// time.
//
// The device under test packs and unpacks whole vectors with shuffles; here each (token, channel)
// has an address and a formula, so that the two can only agree if the layout is as documented.
// Token-major tiles keep a vector in one run; an index tile is the 128 keys as a weight matrix in
// panel layout. Lanes that must not be rounded live as doubles in a second pool of the same shape;
// memory is committed when first touched, so the pool that a lane does not use costs none.
#include "device/ref/cache.h"

#include <algorithm>
#include <utility>

#include "base/formats.h"

namespace minim::ref {
namespace {

constexpr size_t kTileElements = static_cast<size_t>(kBlockTokens) * kHeadDim;

// Addresses of a K or V tile: codes of all tokens, then (nvfp4) the scales of all tokens.
PanelAddress token_major_address(KvFormat format, size_t token, size_t channel) {
  const size_t i = token * kHeadDim + channel;
  switch (format) {
    case KvFormat::kBf16:
      return {.byte = 2 * i};
    case KvFormat::kFp8E4m3:
      return {.byte = i};
    case KvFormat::kNvfp4:
      return {
          .byte = i / 2, .high_nibble = i % 2 == 1, .scale = kTileElements / 2 + i / kNvfp4Group};
  }
  return {};
}

PanelAddress address(Lane lane, KvFormat format, size_t token, size_t channel) {
  return lane == Lane::kIndexKey ? panel_address(format, token, channel)
                                 : token_major_address(format, token, channel);
}

double read_element(KvFormat format, bool reread_e4m3, const uint8_t* tile,
                    const PanelAddress& at) {
  switch (format) {
    case KvFormat::kBf16: {
      const uint32_t low = tile[at.byte], high = tile[at.byte + 1];
      return bf16_to_float(static_cast<uint16_t>(low | high << 8));
    }
    case KvFormat::kFp8E4m3:
      return e4m3_to_float(tile[at.byte]);
    case KvFormat::kNvfp4: {
      const uint8_t code = (tile[at.byte] >> (at.high_nibble ? 4 : 0)) & 15u;
      return reread_e4m3 ? nvfp4_kv_value_gpu(code, tile[at.scale])
                         : nvfp4_kv_value(code, tile[at.scale]);
    }
  }
  return 0;
}

void write_nibble(uint8_t code, const PanelAddress& at, uint8_t* tile) {
  const unsigned shift = at.high_nibble ? 4 : 0;
  tile[at.byte] = static_cast<uint8_t>((tile[at.byte] & ~(15u << shift)) | (code << shift));
}

}  // namespace

PanelAddress panel_address(KvFormat format, size_t key, size_t channel) {
  const size_t panel = key / 16, lane = key % 16;
  switch (format) {
    case KvFormat::kBf16:  // per pair of channels 16 dwords
      return {.byte = panel * 4096 + channel / 2 * 64 + lane * 4 + channel % 2 * 2};
    case KvFormat::kFp8E4m3:  // per pair of channels 16 words
      return {.byte = panel * 2048 + channel / 2 * 32 + lane * 2 + channel % 2};
    case KvFormat::kNvfp4: {  // per 64 channels four blocks of codes, then four rows of scales
      const size_t group = panel * 1152 + channel / 64 * 576;
      const size_t block = channel % 64 / 16, k = channel % 16;
      return {.byte = group + block * 128 + k / 8 * 64 + lane * 4 + k % 4,
              .high_nibble = k % 8 >= 4,
              .scale = group + 512 + block * 16 + lane};
    }
  }
  return {};
}

Result<Cache> Cache::make(const KvLayout& layout, int n_blocks, bool keep_exact, bool reread_e4m3) {
  Cache cache;
  cache.layout_ = layout;
  cache.n_blocks_ = n_blocks;
  cache.keep_exact_ = keep_exact;
  cache.reread_e4m3_ = reread_e4m3;
  Result<AlignedBuffer> bytes =
      AlignedBuffer::make(static_cast<size_t>(n_blocks) * layout.block_bytes);
  if (!bytes) return bytes.error();
  cache.bytes_ = *std::move(bytes);
  if (keep_exact) {
    const size_t tiles = static_cast<size_t>(n_blocks) * layout.has_index.size() *
                         static_cast<size_t>(2 * layout.n_kv_heads + 1);
    Result<AlignedBuffer> doubles = AlignedBuffer::make(tiles * kTileElements * sizeof(double));
    if (!doubles) return doubles.error();
    cache.doubles_ = *std::move(doubles);
  }
  return cache;
}

uint8_t* Cache::tile_bytes(const TileName& name) const {
  const size_t tile = name.lane == Lane::kKey     ? layout_.k_tile(name.head)
                      : name.lane == Lane::kValue ? layout_.v_tile(name.head)
                                                  : layout_.index_tile();
  return bytes_.data() + layout_.offset(name.layer, name.block, n_blocks_) + tile;
}

double* Cache::tile_doubles(const TileName& name) const {
  const size_t heads = static_cast<size_t>(layout_.n_kv_heads);
  const size_t tile = name.lane == Lane::kIndexKey ? 2 * heads
                                                   : static_cast<size_t>(name.head) +
                                                         (name.lane == Lane::kValue ? heads : 0);
  const size_t layer =
      static_cast<size_t>(name.block) * layout_.has_index.size() + static_cast<size_t>(name.layer);
  return doubles_.as<double>() + (layer * (2 * heads + 1) + tile) * kTileElements;
}

void Cache::store(const TileName& name, size_t token, const double* x) {
  if (exact(name.lane)) {
    std::copy_n(x, kHeadDim, tile_doubles(name) + token * kHeadDim);
    return;
  }
  const KvFormat format = this->format(name.lane);
  uint8_t* tile = tile_bytes(name);
  for (size_t first = 0; first < kHeadDim; first += kNvfp4Group) {
    float values[kNvfp4Group];
    for (size_t i = 0; i < kNvfp4Group; ++i) values[i] = static_cast<float>(x[first + i]);
    uint8_t codes[kNvfp4Group / 2] = {};
    const uint8_t scale = format == KvFormat::kNvfp4 ? nvfp4_kv_encode(values, codes) : 0;
    for (size_t i = 0; i < kNvfp4Group; ++i) {
      const PanelAddress at = address(name.lane, format, token, first + i);
      if (format == KvFormat::kBf16) {
        const uint16_t bits = float_to_bf16(values[i]);
        tile[at.byte] = static_cast<uint8_t>(bits & 255u);
        tile[at.byte + 1] = static_cast<uint8_t>(bits >> 8);
      } else if (format == KvFormat::kFp8E4m3) {
        tile[at.byte] = float_to_e4m3(values[i]);
      } else {
        write_nibble((codes[i / 2] >> (i % 2 * 4)) & 15u, at, tile);
        tile[at.scale] = scale;
      }
    }
  }
}

void Cache::load(const TileName& name, size_t n_tokens, Matrix* out) const {
  const bool transposed = name.lane == Lane::kValue;
  out->n_out = transposed ? kHeadDim : n_tokens;
  out->n_in = transposed ? n_tokens : kHeadDim;
  const KvFormat format = this->format(name.lane);
  const double* doubles = exact(name.lane) ? tile_doubles(name) : nullptr;
  const uint8_t* bytes = tile_bytes(name);
  for (size_t token = 0; token < n_tokens; ++token) {
    for (size_t channel = 0; channel < kHeadDim; ++channel) {
      const double value = doubles != nullptr
                               ? doubles[token * kHeadDim + channel]
                               : read_element(format, reread_e4m3_, bytes,
                                              address(name.lane, format, token, channel));
      (transposed ? out->at(channel, token) : out->at(token, channel)) = value;
    }
  }
}

std::span<uint8_t> Cache::block_bytes(int layer, int block) {
  const bool has_index = layout_.has_index[static_cast<size_t>(layer)];
  if (exact(Lane::kKey) || (has_index && exact(Lane::kIndexKey))) return {};
  return {bytes_.data() + layout_.offset(layer, block, n_blocks_), layout_.layer_bytes(layer)};
}

}  // namespace minim::ref
