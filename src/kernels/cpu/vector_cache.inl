// Reading cached vectors, and index scores. See vector_math.inl for what is expected.

// E4M3 codes in the high bytes of words, as floats; 0x7f and 0xff are NaN.
inline V16 e4m3_of(W16 words) {
  const V16 number = mul(e4m3_scaled(words), set1(0x1p8f));
  const V16 nan = as_float(set1_int(0x7fc00000));
  const M16 is_nan = greater(as_int(magnitude(number)), as_int(set1(448.0f)));
  return select(is_nan, nan, number);
}

// ---- K and V tiles

template <bool kRound>
inline void load_bf16(const uint8_t* tile, size_t n, float* out) {
  for (size_t i = 0; i < n; i += 16) {
    const V16 v = as_float(shift_left<16>(widen_words(tile + 2 * i)));
    store(out + i, kRound ? to_e4m3(v) : v);
  }
}

inline void load_fp8(const uint8_t* tile, size_t n, float* out) {
  for (size_t i = 0; i < n; i += 16) store(out + i, e4m3_of(widen_to_high(tile + i)));
}

template <bool kRound>
inline void load_nvfp4(const uint8_t* tile, size_t n_tokens, float* out) {
  constexpr size_t kGroups = kChannels / kNvfp4Group;
  const uint8_t* scales = tile + kTokens * kChannels / 2;
  for (size_t token = 0; token < n_tokens; ++token) {
    for (size_t g = 0; g < kGroups; ++g) {
      const size_t group = token * kGroups + g;
      const float scale =
          e4m3_to_float(scales[group] & 0x7fu) * 0.5f;  // exact; the codes are doubled
      const V16 v = mul(doubled_e2m1(tile + group * 8), set1(scale));
      store(out + group * kNvfp4Group, kRound ? to_e4m3(v) : v);
    }
  }
}

void load_vectors(TileFormat format, AttentionMode mode, const uint8_t* tile, size_t n_tokens,
                  float* out) noexcept {
  const bool round = mode == AttentionMode::kGpu;
  const size_t n = n_tokens * kChannels;
  switch (format) {
    case TileFormat::kBf16:
      return round ? load_bf16<true>(tile, n, out) : load_bf16<false>(tile, n, out);
    case TileFormat::kFp8E4m3:
      return load_fp8(tile, n, out);
    case TileFormat::kNvfp4:
      return round ? load_nvfp4<true>(tile, n_tokens, out) : load_nvfp4<false>(tile, n_tokens, out);
  }
}

// ---- index scores

// One panel of 16 index keys as a kF32 panel.
inline void unpack_bf16(const uint8_t* panel, bool round, float* out) {
  for (size_t i = 0; i < kChannels / 2; ++i) {
    const WeightPair w = read_pair<PanelFormat::kBf16>(panel, i);
    store(out + i * 32, round ? to_e4m3(w.even) : w.even);
    store(out + i * 32 + 16, round ? to_e4m3(w.odd) : w.odd);
  }
}

inline void unpack_fp8(const uint8_t* panel, float* out) {
  for (size_t i = 0; i < kChannels / 2; ++i) {
    const W16 words = load_words(panel + i * 32);
    store(out + i * 32, e4m3_of(low_byte_to_high(words)));
    store(out + i * 32 + 16, e4m3_of(words));
  }
}

template <bool kRound, int kByte>
inline void unpack_nvfp4_step(I16 codes, const Nvfp4Constants& c, V16 scale, float* out) {
  const V16 v = mul(nvfp4_weight<kByte>(codes, c), scale);
  store(out + kByte * 16, kRound ? to_e4m3(v) : v);
}

template <bool kRound>
inline void unpack_nvfp4_part(I16 packed, const Nvfp4Constants& c, V16 scale, float* out) {
  const I16 codes = shuffle_bytes(c.table, bit_and(packed, c.nibbles));
  unpack_nvfp4_step<kRound, 0>(codes, c, scale, out);
  unpack_nvfp4_step<kRound, 1>(codes, c, scale, out);
  unpack_nvfp4_step<kRound, 2>(codes, c, scale, out);
  unpack_nvfp4_step<kRound, 3>(codes, c, scale, out);
}

template <bool kRound>
inline void unpack_nvfp4(const uint8_t* panel, float* out) {
  const Nvfp4Constants c;
  for (size_t block = 0; block < kChannels / kNvfp4Group; ++block, out += kNvfp4Group * 16) {
    const uint8_t* group = panel + block / 4 * kNvfp4GroupBytes;
    // The codes carry 2^25: exact all the way, for the product has at most six significant bits.
    const V16 scale =
        mul(magnitude(e4m3_of(widen_to_high(group + 512 + block % 4 * 16))), set1(0x1p-25f));
    for (size_t half = 0; half < 2; ++half) {
      const I16 packed = load_int(group + block % 4 * 128 + half * 64);
      unpack_nvfp4_part<kRound>(packed, c, scale, out + half * 128);
      unpack_nvfp4_part<kRound>(shift_right<4>(packed), c, scale, out + half * 128 + 64);
    }
  }
}

inline void unpack_keys(TileFormat format, bool round, const uint8_t* panel, float* out) {
  switch (format) {
    case TileFormat::kBf16:
      return unpack_bf16(panel, round, out);
    case TileFormat::kFp8E4m3:
      return unpack_fp8(panel, out);
    case TileFormat::kNvfp4:
      return round ? unpack_nvfp4<true>(panel, out) : unpack_nvfp4<false>(panel, out);
  }
}

constexpr size_t index_panel_bytes(TileFormat format) {
  return panel_bytes(format == TileFormat::kBf16      ? PanelFormat::kBf16
                     : format == TileFormat::kFp8E4m3 ? PanelFormat::kFp8
                                                      : PanelFormat::kNvfp4,
                     kChannels);
}

constexpr size_t kRowTile = 8;  // rows that share the decoding of a panel

// Lane l keeps the best score of the keys l, 16 + l, ...; NaN never wins.
template <int kP, int kT>
inline void keep_best(const V16 (&scores)[kP][kT], size_t first_panel, const int32_t* n_visible,
                      V16* best) {
  for (int p = 0; p < kP; ++p) {
    const int32_t first_key =
        static_cast<int32_t>((first_panel + static_cast<size_t>(p)) * kPanelRows);
    for (int t = 0; t < kT; ++t) {
      const M16 visible =
          greater(set1_int(static_cast<uint32_t>(n_visible[t] - first_key)), lane_numbers());
      best[t] = max(best[t], select(visible, scores[p][t], set1(-__builtin_inff())));
    }
  }
}

// kT rows against n_panels panels, kP at a time.
template <PanelFormat kFormat, int kP, int kT>
inline void score_rows(const uint8_t* keys, size_t n_panels, size_t first_panel, const float* q,
                       const int32_t* n_visible, V16* best) {
  const size_t stride = panel_bytes(kFormat, kChannels);
  size_t p = 0;
  for (; p + kP <= n_panels; p += kP) {
    V16 scores[kP][kT];
    unscaled_tile<kFormat, kP, kT>(keys + p * stride, stride, kChannels, q, kChannels, scores);
    keep_best(scores, first_panel + p, n_visible, best);
  }
  for (; p < n_panels; ++p) {
    V16 scores[1][kT];
    unscaled_tile<kFormat, 1, kT>(keys + p * stride, stride, kChannels, q, kChannels, scores);
    keep_best(scores, first_panel + p, n_visible, best);
  }
}

inline float largest_of(V16 v) {
  float lanes[16];
  store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < 16; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best + 0.0f;  // a zero of either sign becomes +0, so the order of comparison does not show
}

// At most kRows rows. bf16 keys are decoded on the fly, the others once into a buffer in the
// first-level cache, two panels at a time: a single row then has four chains on its way.
inline void score_row_tile(TileFormat format, bool round, const uint8_t* tile, const float* q,
                           size_t n_rows, const int32_t* n_visible, size_t n_panels, float* out) {
  V16 best[kRowTile];
  for (V16& b : best) b = set1(-__builtin_inff());
  const bool direct = format == TileFormat::kBf16 && !round;
  const size_t stride = index_panel_bytes(format);
  constexpr size_t kBuffered = 2;
  alignas(64) float buffer[kBuffered][kChannels * 16];
  const auto* floats = reinterpret_cast<const uint8_t*>(buffer);
  for (size_t p = 0; p < n_panels;) {
    const size_t left = n_panels - p, n = direct ? left : left < kBuffered ? left : kBuffered;
    const uint8_t* keys = tile + p * stride;
    for (size_t i = 0; i < n && !direct; ++i) {
      // Decoding is too long for the processor to look past it, so the panels after these are asked
      // for now.
      for (size_t line = 0; line < stride; line += 64) {
        prefetch(keys + (i + kBuffered) * stride + line);
      }
      unpack_keys(format, round, keys + i * stride, buffer[i]);
    }
    size_t m = 0;
    for (; m + 4 <= n_rows; m += 4) {
      const float* rows = q + m * kChannels;
      direct ? score_rows<PanelFormat::kBf16, 1, 4>(keys, n, p, rows, n_visible + m, best + m)
             : score_rows<PanelFormat::kF32, 1, 4>(floats, n, p, rows, n_visible + m, best + m);
    }
    for (; m < n_rows; ++m) {
      const float* row = q + m * kChannels;
      direct ? score_rows<PanelFormat::kBf16, 4, 1>(keys, n, p, row, n_visible + m, best + m)
             : score_rows<PanelFormat::kF32, 2, 1>(floats, n, p, row, n_visible + m, best + m);
    }
    p += n;
  }
  for (size_t m = 0; m < n_rows; ++m) out[m] = largest_of(best[m]);
}

void index_scores(TileFormat format, AttentionMode mode, const uint8_t* tile, const float* q,
                  size_t n_rows, const int32_t* n_visible, float* out) noexcept {
  for (size_t m = 0; m < n_rows; m += kRowTile) {
    const size_t n = n_rows - m < kRowTile ? n_rows - m : kRowTile;
    int32_t n_keys = 0;
    for (size_t i = 0; i < n; ++i) n_keys = n_visible[m + i] > n_keys ? n_visible[m + i] : n_keys;
    const size_t n_panels = (static_cast<size_t>(n_keys) + kPanelRows - 1) / kPanelRows;
    score_row_tile(format, mode == AttentionMode::kGpu, tile, q + m * kChannels, n, n_visible + m,
                   n_panels, out + m);
  }
}
