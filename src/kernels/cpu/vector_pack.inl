// Repacking 16 rows of a row-major matrix into a panel. See vector_math.inl for what is expected.
//
// All formats are one transposition of dwords, 16 rows by kPackDwords columns at a time, with a
// twist: nvfp4 permutes the nibbles of a dword on the way, mxfp8 splits each dword into two words.
// A dword is 2 bf16, 1 float, 4 fp8 or 8 nvfp4 codes. What is left at the right edge is copied byte
// by byte: at most one step of every 16 rows.

struct PackRows {
  const uint8_t* row[kPanelRows];
  size_t n =
      0;  // rows that exist; the pointers behind them repeat the last, and its bytes are cleared
};

inline PackRows pack_rows(const uint8_t* values, size_t n_out, size_t row_bytes, size_t panel) {
  PackRows rows;
  const size_t first = panel * kPanelRows;
  rows.n = n_out - first < kPanelRows ? n_out - first : kPanelRows;
  for (size_t r = 0; r < kPanelRows; ++r) {
    rows.row[r] = values + (first + (r < rows.n ? r : rows.n - 1)) * row_bytes;
  }
  return rows;
}

// Lanes of rows that do not exist become zero.
inline I16 existing_rows(I16 v, const PackRows& rows) {
  if (rows.n == kPanelRows) return v;
  const M16 exists = greater(set1_int(static_cast<uint32_t>(rows.n)), lane_numbers());
  return select(exists, v, set1_int(0));
}

// Nibbles n0 .. n7 of a dword become n0 n4 n1 n5 n2 n6 n3 n7: a perfect shuffle, bytes first, then
// halves of bytes.
inline I16 shuffle_nibbles(I16 x) {
  I16 t = bit_and(bit_xor(x, shift_right<8>(x)), set1_int(0x0000ff00));
  x = bit_xor(x, bit_xor(t, shift_left<8>(t)));
  t = bit_and(bit_xor(x, shift_right<4>(x)), set1_int(0x00f000f0));
  return bit_xor(x, bit_xor(t, shift_left<4>(t)));
}

// Where dword column c of the rows goes, and how.
template <PanelFormat kFormat>
inline void put_dwords(I16 v, size_t c, uint8_t* out) {
  if constexpr (kFormat == PanelFormat::kBf16 || kFormat == PanelFormat::kF32) {
    store_int(out + c * 64, v);
  } else if constexpr (kFormat == PanelFormat::kNvfp4) {  // 8 dwords a group
    store_int(out + c / 8 * kNvfp4GroupBytes + c % 8 * 64, shuffle_nibbles(v));
  } else {  // two pairs; 32 dwords a group of kMxfp8
    const size_t at =
        kFormat == PanelFormat::kMxfp8 ? c / 32 * kMxfp8GroupBytes + c % 32 * 64 : c * 64;
    store_split_words(out + at, v);
  }
}

template <PanelFormat kFormat>
inline void pack_values(const PackRows& rows, size_t row_bytes, uint8_t* out) {
  const size_t whole = row_bytes / 4;
  size_t c = 0;
  for (; c + kPackDwords <= whole; c += kPackDwords) {
    I16 columns[kPackDwords];
    transpose_dwords(rows.row, c * 4, columns);
    for (size_t i = 0; i < kPackDwords; ++i)
      put_dwords<kFormat>(existing_rows(columns[i], rows), c + i, out);
  }
  for (; c * 4 < row_bytes; ++c) {
    uint8_t column[64] = {};
    const size_t n = row_bytes - c * 4 < 4 ? row_bytes - c * 4 : 4;
    for (size_t r = 0; r < rows.n; ++r) {
      for (size_t b = 0; b < n; ++b) column[r * 4 + b] = rows.row[r][c * 4 + b];
    }
    put_dwords<kFormat>(load_int(column), c, out);
  }
}

// The last group may be partly used, and lanes of missing rows get no scale: zeros first.
inline void clear_groups(const PackSource& s, size_t size, size_t group, uint8_t* out) {
  const size_t from = s.n_out % kPanelRows == 0 ? size - group : 0;
  __builtin_memset(out + from, 0, size - from);
}

// Scale bytes: n a row, four a group, group-major: dwords again, taken apart into bytes. (One byte
// at a time took half of the whole packing of nvfp4.)
inline void pack_scales(const PackRows& rows, size_t n, size_t group_bytes, uint8_t* out) {
  size_t group = 0;
  for (; (group + kPackDwords) * 4 <= n; group += kPackDwords) {
    I16 columns[kPackDwords];
    transpose_dwords(rows.row, group * 4, columns);
    for (size_t i = 0; i < kPackDwords; ++i)
      store_split_bytes(out + (group + i) * group_bytes, existing_rows(columns[i], rows));
  }
  for (size_t i = group * 4; i < n; ++i) {
    uint8_t* lanes = out + i / 4 * group_bytes + i % 4 * 16;
    for (size_t r = 0; r < rows.n; ++r) lanes[r] = rows.row[r][i];
  }
}

void pack_panel(const PackSource& s, size_t panel, uint8_t* out) noexcept {
  const size_t size = panel_bytes(s.format, s.n_in);
  const auto rows_of = [&](const uint8_t* values, size_t row_bytes) {
    return pack_rows(values, s.n_out, row_bytes, panel);
  };
  const auto values = [&](size_t row_bytes) { return rows_of(s.values, row_bytes); };
  switch (s.format) {
    case PanelFormat::kBf16:
      return pack_values<PanelFormat::kBf16>(values(s.n_in * 2), s.n_in * 2, out);
    case PanelFormat::kF32:
      return pack_values<PanelFormat::kF32>(values(s.n_in * 4), s.n_in * 4, out);
    case PanelFormat::kFp8:
      clear_groups(s, size, 64, out);
      return pack_values<PanelFormat::kFp8>(values(s.n_in), s.n_in, out);
    case PanelFormat::kMxfp8:
      clear_groups(s, size, kMxfp8GroupBytes, out);
      pack_values<PanelFormat::kMxfp8>(values(s.n_in), s.n_in, out);
      return pack_scales(rows_of(s.scales, s.n_in / 32), s.n_in / 32, kMxfp8GroupBytes, out + 2048);
    case PanelFormat::kNvfp4:
      clear_groups(s, size, kNvfp4GroupBytes, out);
      pack_values<PanelFormat::kNvfp4>(values(s.n_in / 2), s.n_in / 2, out);
      return pack_scales(rows_of(s.scales, s.n_in / 16), s.n_in / 16, kNvfp4GroupBytes, out + 512);
  }
}
