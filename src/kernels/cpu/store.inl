// Writing one vector of 128 channels into a tile, for every tier: encoding is integer work on 128
// values per token and head, far from any limit, so one plain body serves all. Included inside each
// tier's anonymous namespace.

// Position of channel k of key `lane` in a panel of E2M1 codes (kernels/panel.h): byte, and whether
// it is the high nibble.
struct CodePlace {
  size_t byte;
  unsigned shift;
};

inline CodePlace code_place(size_t lane, size_t k) {
  const size_t group = k / 64, block = k % 64 / 16, half = k % 16 / 8;
  return {group * 576 + block * 128 + half * 64 + lane * 4 + k % 4,
          static_cast<unsigned>(k % 8 / 4 * 4)};
}

void store_vector(TileFormat format, const float* x, size_t token, uint8_t* tile) noexcept {
  if (format == TileFormat::kBf16) {
    for (size_t i = 0; i < kChannels; ++i) {
      const uint16_t bits = float_to_bf16(x[i]);
      __builtin_memcpy(tile + (token * kChannels + i) * 2, &bits, 2);
    }
  } else if (format == TileFormat::kFp8E4m3) {
    for (size_t i = 0; i < kChannels; ++i) tile[token * kChannels + i] = float_to_e4m3(x[i]);
  } else {
    uint8_t* scales = tile + kTokens * kChannels / 2 + token * (kChannels / kNvfp4Group);
    for (size_t i = 0; i < kChannels; i += kNvfp4Group) {
      scales[i / kNvfp4Group] = nvfp4_kv_encode(x + i, tile + token * (kChannels / 2) + i / 2);
    }
  }
}

void store_index(TileFormat format, const float* x, size_t token, uint8_t* tile) noexcept {
  const size_t panel = token / kPanelRows, lane = token % kPanelRows;
  if (format == TileFormat::kBf16) {
    uint8_t* out = tile + panel * panel_bytes(PanelFormat::kBf16, kChannels) + lane * 4;
    for (size_t i = 0; i < kChannels; ++i) {
      const uint16_t bits = float_to_bf16(x[i]);
      __builtin_memcpy(out + i / 2 * 64 + i % 2 * 2, &bits, 2);
    }
  } else if (format == TileFormat::kFp8E4m3) {
    uint8_t* out = tile + panel * panel_bytes(PanelFormat::kFp8, kChannels) + lane * 2;
    for (size_t i = 0; i < kChannels; ++i) out[i / 2 * 32 + i % 2] = float_to_e4m3(x[i]);
  } else {
    uint8_t* out = tile + panel * panel_bytes(PanelFormat::kNvfp4, kChannels);
    for (size_t i = 0; i < kChannels; i += kNvfp4Group) {
      uint8_t codes[kNvfp4Group / 2];
      const uint8_t scale = nvfp4_kv_encode(x + i, codes);
      out[i / 64 * 576 + 512 + i % 64 / 16 * 16 + lane] = scale;
      for (size_t j = 0; j < kNvfp4Group; ++j) {
        const CodePlace place = code_place(lane, i + j);
        const unsigned code = (codes[j / 2] >> (j % 2 * 4)) & 15u;
        out[place.byte] = static_cast<uint8_t>((out[place.byte] & (0xf0u >> place.shift)) |
                                               (code << place.shift));
      }
    }
  }
}
