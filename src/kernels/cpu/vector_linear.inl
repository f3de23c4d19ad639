// Linear layers over 16-row panels: one lane a row, one chain a lane. See vector_math.inl for what
// is expected.
//
// A tile holds kT tokens against one panel (or kP panels), so that a decoded weight serves kT
// products; a chain takes four cycles a step, so where one token leaves too few chains, independent
// blocks (kB) or panels (kP) run side by side. How many there are never changes a sum. Decoding:
//   nvfp4  a table look-up gives the signed byte 2 * E2M1; moved to the top of its dword, the
//   integer conversion gives
//          E2M1 * 2^25. Subnormals do not arise, so FTZ and DAZ cannot touch them.
//   mxfp8  the seven bits below the sign, shifted to a half float's place, are E4M3 * 2^-8 exactly;
//   the half conversion
//          ignores DAZ, so that subnormal codes survive.
// (Table look-ups of whole floats were half as fast; placing E4M3 bits straight into a float loses
// subnormals under DAZ.)
//
// More tokens than one tile has: MXFP8, whose half conversions cost as much as the products of a
// tile, is decoded once a block for all tiles (kKeepDecoded; 1.15 times as fast with 8 tokens, 1.4
// with 32). NVFP4 was slower so: its decoding runs beside the products, and short blocks pay for
// totals in memory. A tile of 8 lanes and 8 tokens was slower too: eight loads for eight products,
// of rows whose equal places in their pages compete for one set of the first-level cache.

// ---- formats without scales: kBf16, kF32

struct WeightPair {
  V16 odd, even;
};

template <PanelFormat kFormat>
inline WeightPair read_pair(const uint8_t* panel, size_t pair) {
  if constexpr (kFormat == PanelFormat::kBf16) {
    const I16 words = load_int(panel + pair * 64);
    return {as_float(bit_and(words, set1_int(0xffff0000u))), as_float(shift_left<16>(words))};
  } else {
    const auto* values = reinterpret_cast<const float*>(panel + pair * 128);
    return {load(values + 16), load(values)};
  }
}

// acc[p][t] = the chains of panel p (panels lie panel_stride bytes apart) and token t over n_in
// channels.
template <PanelFormat kFormat, int kP, int kT>
inline void unscaled_tile(const uint8_t* panel, size_t panel_stride, size_t n_in, const float* x,
                          size_t x_stride, V16 (&acc)[kP][kT]) {
  for (auto& row : acc) {
    for (V16& a : row) a = zero();
  }
  for (size_t i = 0; i < n_in / 2; ++i) {
    WeightPair w[kP];
    for (int p = 0; p < kP; ++p) {
      const uint8_t* own = panel + static_cast<size_t>(p) * panel_stride;
      if constexpr (kFormat == PanelFormat::kBf16) prefetch(own + i * 64 + kPrefetchBytes);
      w[p] = read_pair<kFormat>(own, i);
    }
    const float* at = x + 2 * i;
    for (int t = 0; t < kT; ++t) {
      const V16 odd = set1(at[static_cast<size_t>(t) * x_stride + 1]);
      for (int p = 0; p < kP; ++p) acc[p][t] = fma(w[p].odd, odd, acc[p][t]);
    }
    for (int t = 0; t < kT; ++t) {
      const V16 even = set1(at[static_cast<size_t>(t) * x_stride]);
      for (int p = 0; p < kP; ++p) acc[p][t] = fma(w[p].even, even, acc[p][t]);
    }
  }
  if (n_in % 2 == 0) return;
  for (int p = 0; p < kP; ++p) {
    const uint8_t* own = panel + static_cast<size_t>(p) * panel_stride;
    const V16 w = kFormat == PanelFormat::kBf16
                      ? as_float(shift_left<16>(load_int(own + n_in / 2 * 64)))
                      : load(reinterpret_cast<const float*>(own + (n_in - 1) * 64));
    for (int t = 0; t < kT; ++t) {
      acc[p][t] = fma(w, set1(x[static_cast<size_t>(t) * x_stride + n_in - 1]), acc[p][t]);
    }
  }
}

template <PanelFormat kFormat, int kP, int kT>
inline void unscaled_panels(const Panels& w, size_t panel, const float* x, size_t x_stride,
                            float* y, size_t y_stride) {
  const size_t stride = panel_bytes(kFormat, w.n_in);
  V16 acc[kP][kT];
  unscaled_tile<kFormat, kP, kT>(w.data + panel * stride, stride, w.n_in, x, x_stride, acc);
  for (int p = 0; p < kP; ++p) {
    for (int t = 0; t < kT; ++t) {
      store(y + static_cast<size_t>(t) * y_stride + (panel + static_cast<size_t>(p)) * kPanelRows,
            acc[p][t]);
    }
  }
}

// One token tile over all panels; few tokens take several panels at a time.
template <PanelFormat kFormat, int kT>
inline void unscaled_tokens(const Panels& w, const float* x, size_t x_stride, float* y,
                            size_t y_stride) {
  constexpr int kP = kT == 1 ? kGemvPanels : 1;
  size_t p = 0;
  for (; p + kP <= w.n_panels; p += kP)
    unscaled_panels<kFormat, kP, kT>(w, p, x, x_stride, y, y_stride);
  for (; p < w.n_panels; ++p) unscaled_panels<kFormat, 1, kT>(w, p, x, x_stride, y, y_stride);
}

// ---- kNvfp4

constexpr size_t kNvfp4GroupBytes = 576;

struct Nvfp4Constants {
  I16 table = repeat16({0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12});
  I16 nibbles = set1_int(0x0f0f0f0f);
  I16 top = set1_int(0xff000000u);
  // Byte 1 (2) of every dword to its top; the other bytes become zero.
  I16 byte1 = repeat16({-1, -1, -1, 1, -1, -1, -1, 5, -1, -1, -1, 9, -1, -1, -1, 13});
  I16 byte2 = repeat16({-1, -1, -1, 2, -1, -1, -1, 6, -1, -1, -1, 10, -1, -1, -1, 14});
};

// E2M1 * 2^25 of byte kByte of every dword of looked-up codes.
template <int kByte>
inline V16 nvfp4_weight(I16 codes, const Nvfp4Constants& c) {
  if constexpr (kByte == 0) return to_float(shift_left<24>(codes));
  if constexpr (kByte == 1) return to_float(shuffle_bytes(codes, c.byte1));
  if constexpr (kByte == 2) return to_float(shuffle_bytes(codes, c.byte2));
  return to_float(bit_and(codes, c.top));
}

template <int kByte, int kT>
inline void nvfp4_step(I16 codes, const Nvfp4Constants& c, const float* x, size_t x_stride,
                       V16 (&acc)[kT]) {
  const V16 w = nvfp4_weight<kByte>(codes, c);
  for (int t = 0; t < kT; ++t) {
    acc[t] = fma(w, set1(x[static_cast<size_t>(t) * x_stride + kByte]), acc[t]);
  }
}

// Four channels of a block: one nibble of each byte.
template <int kT>
inline void nvfp4_quarter(I16 packed, const Nvfp4Constants& c, const float* x, size_t x_stride,
                          V16 (&acc)[kT]) {
  const I16 codes = shuffle_bytes(c.table, bit_and(packed, c.nibbles));
  nvfp4_step<1>(codes, c, x, x_stride, acc);
  nvfp4_step<0>(codes, c, x, x_stride, acc);
  nvfp4_step<3>(codes, c, x, x_stride, acc);
  nvfp4_step<2>(codes, c, x, x_stride, acc);
}

// kB neighbouring blocks of 16 channels: chains side by side, then into the totals in order.
template <int kB, int kT>
inline void nvfp4_blocks(const uint8_t* codes, const uint8_t* scales, const Nvfp4Constants& c,
                         const float* x, size_t x_stride, V16 (&total)[kT]) {
  V16 acc[kB][kT];
  for (auto& row : acc) {
    for (V16& a : row) a = zero();
  }
  for (size_t half = 0; half < 2; ++half) {
    for (size_t b = 0; b < kB; ++b) {
      const I16 packed = load_int(codes + b * 128 + half * 64);
      nvfp4_quarter(packed, c, x + b * 16 + half * 8, x_stride, acc[b]);
    }
    for (size_t b = 0; b < kB; ++b) {
      const I16 packed = load_int(codes + b * 128 + half * 64);
      nvfp4_quarter(shift_right<4>(packed), c, x + b * 16 + half * 8 + 4, x_stride, acc[b]);
    }
  }
  for (int b = 0; b < kB; ++b) {
    const V16 scale = e4m3_scaled(widen_to_high(scales + b * 16));
    for (int t = 0; t < kT; ++t) total[t] = fma(scale, acc[b][t], total[t]);
  }
}

template <int kT>
inline void nvfp4_panel(const Panels& w, size_t panel, const float* x, size_t x_stride, float* y,
                        size_t y_stride) {
  constexpr int kB = kT == 1 ? 2 : 1;
  const Nvfp4Constants c;
  const uint8_t* group = w.data + panel * panel_bytes(PanelFormat::kNvfp4, w.n_in);
  V16 total[kT];
  for (V16& v : total) v = zero();
  size_t k = 0;
  for (; k + 64 <= w.n_in; k += 64, group += kNvfp4GroupBytes) {
    for (size_t line = 0; line < kNvfp4GroupBytes; line += 64)
      prefetch(group + kPrefetchBytes + line);
    for (size_t b = 0; b < 4; b += kB) {
      nvfp4_blocks<kB, kT>(group + b * 128, group + 512 + b * 16, c, x + k + b * 16, x_stride,
                           total);
    }
  }
  for (size_t b = 0; k < w.n_in; k += 16, ++b) {
    nvfp4_blocks<1, kT>(group + b * 128, group + 512 + b * 16, c, x + k, x_stride, total);
  }
  const V16 factor = set1(w.global * 0x1p-17f);
  for (int t = 0; t < kT; ++t) {
    store(y + static_cast<size_t>(t) * y_stride + panel * kPanelRows, mul(total[t], factor));
  }
}

// ---- kMxfp8

constexpr size_t kMxfp8GroupBytes = 2112;
constexpr size_t kKeptTokens = 32;  // that share one decoding

// 2^(e-127) of 16 scale bytes; 0 gives zero.
inline V16 e8m0_of(const uint8_t* bytes) { return as_float(shift_left<23>(widen_bytes(bytes))); }

// kB neighbouring blocks of 32 channels (16 pairs of 32 bytes). The decoded weights are left in
// `kept`, unless that is null, as a panel of kF32 has them.
template <int kB, int kT>
inline void mxfp8_blocks(const uint8_t* codes, const uint8_t* scales, const float* x,
                         size_t x_stride, V16* total, float* kept = nullptr) {
  V16 acc[kB][kT];
  for (auto& row : acc) {
    for (V16& a : row) a = zero();
  }
  for (size_t i = 0; i < 16; ++i) {
    for (int b = 0; b < kB; ++b) {
      const W16 words = load_words(codes + static_cast<size_t>(b) * 512 + i * 32);
      const V16 odd = e4m3_scaled(words), even = e4m3_scaled(low_byte_to_high(words));
      if (kept != nullptr) {
        store(kept + i * 32, even);
        store(kept + i * 32 + 16, odd);
      }
      const float* at = x + static_cast<size_t>(b) * 32 + 2 * i;
      for (int t = 0; t < kT; ++t)
        acc[b][t] = fma(odd, set1(at[static_cast<size_t>(t) * x_stride + 1]), acc[b][t]);
      for (int t = 0; t < kT; ++t)
        acc[b][t] = fma(even, set1(at[static_cast<size_t>(t) * x_stride]), acc[b][t]);
    }
  }
  for (int b = 0; b < kB; ++b) {
    const V16 scale = e8m0_of(scales + b * 16);
    for (int t = 0; t < kT; ++t) total[t] = fma(scale, acc[b][t], total[t]);
  }
}

// A kept block against the first kT of n tokens, or all if there are fewer.
template <int kT>
inline void mxfp8_kept(size_t n, const float* kept, V16 scale, const float* x, size_t x_stride,
                       V16* total) {
  if constexpr (kT > 0) {
    if (n < kT) return mxfp8_kept<kT - 1>(n, kept, scale, x, x_stride, total);
    V16 acc[1][kT];
    unscaled_tile<PanelFormat::kF32, 1, kT>(reinterpret_cast<const uint8_t*>(kept), 0, 32, x,
                                            x_stride, acc);
    for (int t = 0; t < kT; ++t) total[t] = fma(scale, acc[0][t], total[t]);
  }
}

// One panel against kTokenTile to kKeptTokens tokens: the first tile decodes a block and keeps it
// in the first-level cache, the others find it there.
inline void mxfp8_many(const Panels& w, const float* x, size_t x_stride, size_t n, float* y,
                       size_t y_stride) {
  const uint8_t* group = w.data;
  V16 total[kKeptTokens];
  alignas(64) float kept[32 * kPanelRows];
  for (size_t t = 0; t < n; ++t) total[t] = zero();
  for (size_t k = 0; k < w.n_in; k += 128, group += kMxfp8GroupBytes) {
    const size_t blocks = w.n_in - k < 128 ? (w.n_in - k) / 32 : 4;
    for (size_t b = 0; b < blocks; ++b) {
      for (size_t line = 0; line < 528; line += 64)
        prefetch(group + b * 528 + kPrefetchBytes + line);
      const uint8_t* scales = group + 2048 + b * 16;
      const float* at = x + k + b * 32;
      mxfp8_blocks<1, kTokenTile>(group + b * 512, scales, at, x_stride, total, kept);
      for (size_t t = kTokenTile; t < n; t += kTokenTile) {
        mxfp8_kept<kTokenTile>(n - t, kept, e8m0_of(scales), at + t * x_stride, x_stride,
                               total + t);
      }
    }
  }
  for (size_t t = 0; t < n; ++t) store(y + t * y_stride, mul(total[t], set1(0x1p8f)));
}

template <int kT>
inline void mxfp8_panel(const Panels& w, size_t panel, const float* x, size_t x_stride, float* y,
                        size_t y_stride) {
  constexpr int kB = kT == 1 ? 2 : 1;
  const uint8_t* group = w.data + panel * panel_bytes(PanelFormat::kMxfp8, w.n_in);
  V16 total[kT];
  for (V16& v : total) v = zero();
  for (size_t k = 0; k < w.n_in; k += 128, group += kMxfp8GroupBytes) {
    const size_t blocks = w.n_in - k < 128 ? (w.n_in - k) / 32 : 4;
    size_t b = 0;
    for (; b + kB <= blocks; b += kB) {
      for (size_t line = 0; line < kB * 528; line += 64)
        prefetch(group + b * 528 + kPrefetchBytes + line);
      mxfp8_blocks<kB, kT>(group + b * 512, group + 2048 + b * 16, x + k + b * 32, x_stride, total);
    }
    for (; b < blocks; ++b) {
      mxfp8_blocks<1, kT>(group + b * 512, group + 2048 + b * 16, x + k + b * 32, x_stride, total);
    }
  }
  for (int t = 0; t < kT; ++t) {
    store(y + static_cast<size_t>(t) * y_stride + panel * kPanelRows, mul(total[t], set1(0x1p8f)));
  }
}

// ---- all of them

template <int kT>
void linear_tokens(const Panels& w, const float* x, size_t x_stride, float* y, size_t y_stride) {
  if (w.format == PanelFormat::kBf16) {
    unscaled_tokens<PanelFormat::kBf16, kT>(w, x, x_stride, y, y_stride);
  } else if (w.format == PanelFormat::kF32) {
    unscaled_tokens<PanelFormat::kF32, kT>(w, x, x_stride, y, y_stride);
  } else {
    for (size_t p = 0; p < w.n_panels; ++p) {
      if (w.format == PanelFormat::kNvfp4) {
        nvfp4_panel<kT>(w, p, x, x_stride, y, y_stride);
      } else {
        mxfp8_panel<kT>(w, p, x, x_stride, y, y_stride);
      }
    }
  }
}

// The last n < kTokenTile tokens.
template <int kT>
inline void linear_rest(size_t n, const Panels& w, const float* x, size_t x_stride, float* y,
                        size_t y_stride) {
  if constexpr (kT > 0) {
    if (n == kT) {
      linear_tokens<kT>(w, x, x_stride, y, y_stride);
    } else {
      linear_rest<kT - 1>(n, w, x, x_stride, y, y_stride);
    }
  }
}

// Panels outermost: a panel is read from memory once and stays in the second-level cache for all
// token tiles.
void linear(const Panels& w, const float* x, size_t x_stride, size_t n_tokens, float* y,
            size_t y_stride) noexcept {
  if (n_tokens <= kTokenTile) return linear_rest<kTokenTile>(n_tokens, w, x, x_stride, y, y_stride);
  Panels one = w;
  one.n_panels = 1;
  for (size_t p = 0; p < w.n_panels; ++p, one.data += panel_bytes(w.format, w.n_in)) {
    size_t t = 0;
    while (kKeepDecoded && w.format == PanelFormat::kMxfp8 && n_tokens - t > kTokenTile) {
      const size_t n = n_tokens - t < kKeptTokens ? n_tokens - t : kKeptTokens;
      mxfp8_many(one, x + t * x_stride, x_stride, n, y + t * y_stride + p * kPanelRows, y_stride);
      t += n;
    }
    for (; t + kTokenTile <= n_tokens; t += kTokenTile) {
      linear_tokens<kTokenTile>(one, x + t * x_stride, x_stride, y + t * y_stride + p * kPanelRows,
                                y_stride);
    }
    linear_rest<kTokenTile - 1>(n_tokens - t, one, x + t * x_stride, x_stride,
                                y + t * y_stride + p * kPanelRows, y_stride);
  }
}
