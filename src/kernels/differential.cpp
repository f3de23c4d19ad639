// Inputs are drawn small and odd: sizes around multiples of 16, padding filled with junk, strides
// larger than rows. Weights and cache tiles are random bytes, which covers every code and every
// scale.
#include "kernels/differential.h"

#include <bit>
#include <cstring>

#include "base/formats.h"

namespace minim {
namespace {

constexpr size_t kChannels = 128;

// Panels want 64-byte alignment.
class AlignedBytes {
 public:
  explicit AlignedBytes(const std::vector<uint8_t>& bytes)
      : lines_(bytes.size() / sizeof(Line) + 1) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  uint8_t* data() { return lines_.data()->bytes; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::vector<Line> lines_;
};

bool same_linear(const Kernels& a, const Kernels& b, Draw& draw) {
  constexpr PanelFormat kFormats[] = {PanelFormat::kBf16, PanelFormat::kF32, PanelFormat::kNvfp4,
                                      PanelFormat::kMxfp8};
  Panels w;
  w.format = kFormats[draw.between(0, 3)];
  const size_t unit = w.format == PanelFormat::kNvfp4   ? 16
                      : w.format == PanelFormat::kMxfp8 ? 32
                                                        : 1;
  w.n_in = unit == 1 ? draw.between(1, 70) : unit * draw.between(1, 9);
  w.n_panels = draw.between(1, 3);
  w.global = draw.wide_value(false);
  const size_t size = w.n_panels * panel_bytes(w.format, w.n_in);
  std::vector<uint8_t> bytes = draw.bytes(size);
  if (w.format == PanelFormat::kBf16 || w.format == PanelFormat::kF32) {
    // Random bits would be NaN too often to say much about sums; a chain holds one NaN payload at
    // most.
    const bool narrow = w.format == PanelFormat::kBf16;
    for (size_t i = 0; i < size; i += narrow ? 2 : 4) {
      const float v = narrow ? draw.value(false) : draw.wide_value(false);
      const uint32_t stored = std::bit_cast<uint32_t>(v) >> (narrow ? 16 : 0);
      std::memcpy(&bytes[i], &stored, narrow ? 2 : 4);
    }
  }
  AlignedBytes data(bytes);
  w.data = data.data();
  const size_t n_tokens = draw.between(1, 9), rows = w.n_panels * kPanelRows;
  const size_t x_stride = w.n_in + draw.between(0, 5), y_stride = rows + draw.between(0, 3);
  const std::vector<float> x = draw.values(n_tokens * x_stride, draw.between(0, 3) == 0);
  std::vector<float> ya(n_tokens * y_stride, -1.0f), yb = ya;
  a.linear(w, x.data(), x_stride, n_tokens, ya.data(), y_stride);
  b.linear(w, x.data(), x_stride, n_tokens, yb.data(), y_stride);
  return same_floats(ya, yb);
}

// Entries that change one array in place, or fill one from others.
template <typename Call>
bool same_result(const Kernels& a, const Kernels& b, const std::vector<float>& start,
                 const Call& call) {
  std::vector<float> ra = start, rb = start;
  call(a, ra.data());
  call(b, rb.data());
  return same_floats(ra, rb);
}

bool same_round_bf16(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> x = draw.values(draw.between(1, 70), true, true);
  return same_result(a, b, x, [&](const Kernels& t, float* out) { t.round_bf16(out, x.size()); });
}

bool same_round_e4m3(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> x = draw.values(draw.between(1, 70), true, true);
  return same_result(a, b, x, [&](const Kernels& t, float* out) { t.round_e4m3(out, x.size()); });
}

bool same_widen(const Kernels& a, const Kernels& b, Draw& draw) {
  std::vector<uint16_t> bits(draw.between(1, 70));
  for (uint16_t& v : bits) v = static_cast<uint16_t>(draw.bits());
  return same_result(a, b, std::vector<float>(bits.size() + 1), [&](const Kernels& t, float* out) {
    t.widen_bf16(bits.data(), bits.size(), out);
  });
}

bool same_rms_norm(const Kernels& a, const Kernels& b, Draw& draw) {
  const size_t n = 16 * draw.between(1, 20);
  const std::vector<float> x = draw.values(n, draw.between(0, 7) == 0), w = draw.values(n, false);
  return same_result(a, b, x, [&](const Kernels& t, float* out) {
    t.rms_norm(x.data(), w.data(), n, 1e-6f, out);
  });
}

bool same_norm_rope(const Kernels& a, const Kernels& b, Draw& draw) {
  const size_t half = 16 * draw.between(0, 4);
  const std::vector<float> x = draw.values(kChannels, draw.between(0, 7) == 0);
  const std::vector<float> w = draw.values(kChannels, false);
  const std::vector<float> cos = draw.values(half + 1, false, true),
                           sin = draw.values(half + 1, false, true);
  const bool in_place = draw.between(0, 1) == 0;
  return same_result(a, b, x, [&](const Kernels& t, float* out) {
    t.norm_rope(in_place ? out : x.data(), w.data(), 1e-6f, cos.data(), sin.data(), half, out);
  });
}

bool same_add(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> x = draw.values(draw.between(1, 70), true),
                           y = draw.values(x.size(), true);
  return same_result(a, b, x,
                     [&](const Kernels& t, float* out) { t.add_bf16(out, y.data(), x.size()); });
}

bool same_accumulate(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> x = draw.values(draw.between(1, 70), true, true);
  const std::vector<float> y = draw.values(x.size(), true, true);
  const float w = draw.wide_value(true);
  return same_result(
      a, b, x, [&](const Kernels& t, float* out) { t.accumulate(w, y.data(), out, x.size()); });
}

bool same_swiglu(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> g = draw.values(draw.between(1, 70), true),
                           u = draw.values(g.size(), true);
  return same_result(a, b, g, [&](const Kernels& t, float* out) {
    t.swiglu(g.data(), u.data(), g.size(), 1.702f, 7.0f, out);
  });
}

bool same_sigmoid(const Kernels& a, const Kernels& b, Draw& draw) {
  const std::vector<float> x = draw.values(draw.between(1, 70), true, true);
  return same_result(a, b, x,
                     [&](const Kernels& t, float* out) { t.sigmoid(x.data(), x.size(), out); });
}

// ---- the cache ----

constexpr size_t tile_bytes(TileFormat format) {
  return kChannels * (format == TileFormat::kBf16      ? 256
                      : format == TileFormat::kFp8E4m3 ? 128
                                                       : 72);
}

TileFormat draw_format(Draw& draw) { return static_cast<TileFormat>(draw.between(0, 2)); }
AttentionMode draw_mode(Draw& draw) { return static_cast<AttentionMode>(draw.between(0, 1)); }

std::vector<uint8_t> draw_tile(TileFormat format, Draw& draw) {
  std::vector<uint8_t> tile = draw.bytes(tile_bytes(format));
  if (format == TileFormat::kBf16 && draw.between(0, 3) != 0) {
    for (size_t i = 1; i < tile.size(); i += 2)
      tile[i] = (tile[i] & 0x83u) | 0x3cu;  // ordinary exponents
  }
  return tile;
}

template <bool kIndex>
bool same_store(const Kernels& a, const Kernels& b, Draw& draw) {
  const TileFormat format = draw_format(draw);
  const std::vector<float> x = draw.values(kChannels, format != TileFormat::kNvfp4, true);
  const size_t token = draw.between(0, kChannels - 1);
  const std::vector<uint8_t> before = draw.bytes(tile_bytes(format));
  AlignedBytes ta(before), tb(before);
  const auto store = kIndex ? &Kernels::store_index : &Kernels::store_vector;
  (a.*store)(format, x.data(), token, ta.data());
  (b.*store)(format, x.data(), token, tb.data());
  return std::memcmp(ta.data(), tb.data(), tile_bytes(format)) == 0;
}

bool same_load(const Kernels& a, const Kernels& b, Draw& draw) {
  const TileFormat format = draw_format(draw);
  const AttentionMode mode = draw_mode(draw);
  AlignedBytes tile(draw_tile(format, draw));
  const size_t n = draw.between(1, 9);
  return same_result(
      a, b, std::vector<float>(n * kChannels + 1, 3.0f),
      [&](const Kernels& t, float* out) { t.load_vectors(format, mode, tile.data(), n, out); });
}

bool same_index_scores(const Kernels& a, const Kernels& b, Draw& draw) {
  const TileFormat format = draw_format(draw);
  const AttentionMode mode = draw_mode(draw);
  AlignedBytes tile(draw_tile(format, draw));
  const size_t n_rows = draw.between(1, 6), limit = draw.between(1, 4) == 1 ? 128 : 40;
  const std::vector<float> q = draw.values(n_rows * kChannels, draw.between(0, 7) == 0);
  std::vector<int32_t> n_visible(n_rows);
  for (int32_t& n : n_visible) n = static_cast<int32_t>(draw.between(1, limit));
  return same_result(a, b, std::vector<float>(n_rows + 1, 3.0f), [&](const Kernels& t, float* out) {
    t.index_scores(format, mode, tile.data(), q.data(), n_rows, n_visible.data(), out);
  });
}

// ---- attention ----

constexpr size_t kPartialFloats = sizeof(AttentionPartial) / sizeof(float);

bool same_attend(const Kernels& a, const Kernels& b, Draw& draw) {
  const AttentionMode mode = draw_mode(draw);
  const size_t limit = draw.between(1, 21);
  const bool ragged = draw.between(0, 1) == 0, any = draw.between(0, 7) == 0;
  int32_t n_visible[kLanes];
  size_t n_keys = 0;
  for (int32_t& n : n_visible) {
    n = static_cast<int32_t>(ragged ? draw.between(0, limit) : limit);
    n_keys = static_cast<size_t>(n) > n_keys ? static_cast<size_t>(n) : n_keys;
  }
  const std::vector<float> q = draw.values(kChannels * kLanes, any);
  const std::vector<float> k = draw.values(n_keys * kChannels, any),
                           v = draw.values(n_keys * kChannels, any);
  return same_result(a, b, std::vector<float>(kPartialFloats), [&](const Kernels& t, float* out) {
    AttentionPartial partial;
    t.attend_block(q.data(), k.data(), v.data(), n_keys, n_visible, mode, &partial);
    std::memcpy(out, &partial, sizeof(partial));
  });
}

bool same_merge(const Kernels& a, const Kernels& b, Draw& draw) {
  const size_t first = draw.between(0, kLanes - 1), n = draw.between(1, kLanes - first);
  AttentionPartial partial;
  const std::vector<float> drawn = draw.values(kPartialFloats, false, true);
  std::memcpy(&partial, drawn.data(), sizeof(partial));
  std::vector<float> state = draw.values(n * (kChannels + 2), false, true);
  for (size_t l = 0; l < n; ++l) {
    if (draw.between(0, 3) == 0) state[l] = std::bit_cast<float>(0xff800000u);
  }
  return same_result(a, b, state, [&](const Kernels& t, float* s) {
    t.merge_partial(partial, first, n, s, s + n, s + 2 * n);
  });
}

bool same_pack(const Kernels& a, const Kernels& b, Draw& draw) {
  PackSource s;
  s.format = static_cast<PanelFormat>(draw.between(0, 4));
  const size_t unit = s.format == PanelFormat::kNvfp4   ? 16
                      : s.format == PanelFormat::kMxfp8 ? 32
                                                        : 1;
  s.n_in = unit == 1 ? draw.between(1, 70) : unit * draw.between(1, 9);
  s.n_out = draw.between(1, 40);
  const size_t row = s.format == PanelFormat::kF32     ? 4 * s.n_in
                     : s.format == PanelFormat::kBf16  ? 2 * s.n_in
                     : s.format == PanelFormat::kNvfp4 ? s.n_in / 2
                                                       : s.n_in;
  const std::vector<uint8_t> values = draw.bytes(s.n_out * row),
                             scales = draw.bytes(s.n_out * s.n_in);
  s.values = values.data();
  s.scales = scales.data();
  const size_t size = panel_bytes(s.format, s.n_in);
  AlignedBytes pa(std::vector<uint8_t>(size + 1, 0x5a)), pb(std::vector<uint8_t>(size + 1, 0x5a));
  const size_t panel = draw.between(0, (s.n_out - 1) / kPanelRows);
  a.pack_panel(s, panel, pa.data());
  b.pack_panel(s, panel, pb.data());
  return std::memcmp(pa.data(), pb.data(), size + 1) == 0;
}

constexpr DifferentialCase kCases[] = {
    {"linear", same_linear},
    {"round_bf16", same_round_bf16},
    {"round_e4m3", same_round_e4m3},
    {"widen_bf16", same_widen},
    {"rms_norm", same_rms_norm},
    {"norm_rope", same_norm_rope},
    {"add_bf16", same_add},
    {"accumulate", same_accumulate},
    {"swiglu", same_swiglu},
    {"sigmoid", same_sigmoid},
    {"store_vector", same_store<false>},
    {"store_index", same_store<true>},
    {"load_vectors", same_load},
    {"index_scores", same_index_scores},
    {"attend_block", same_attend},
    {"merge_partial", same_merge},
    {"pack_panel", same_pack},
};

}  // namespace

Draw::Draw(uint64_t seed, std::span<const uint8_t> bytes) : state_(seed), bytes_(bytes) {
  for (const uint8_t byte : bytes) state_ = (state_ ^ byte) * 0x100000001b3u;
}

uint64_t Draw::next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t Draw::bits() {
  if (bytes_.size() < 4) return static_cast<uint32_t>(next() >> 32);
  uint32_t value = 0;
  std::memcpy(&value, bytes_.data(), 4);
  bytes_ = bytes_.subspan(4);
  return value;
}

float Draw::wide_value(bool any) {
  const uint32_t kind = bits() % 32, random = bits();
  const uint32_t sign = random & 0x80000000u, mantissa = random & 0x007fffffu;
  const auto with_exponent = [&](uint32_t e) {
    return std::bit_cast<float>(sign | (e << 23) | mantissa);
  };
  switch (kind) {
    case 0:
      return std::bit_cast<float>(sign);  // +-0
    case 1:
      return with_exponent(0);  // denormal
    case 2:
      return with_exponent(1 + random % 3);  // just above
    case 3:
      return any ? std::bit_cast<float>(sign | 0x7f7fffffu) : with_exponent(140);  // largest finite
    case 4:
      return any ? std::bit_cast<float>(sign | 0x7f800000u) : with_exponent(100);  // infinity
    case 5:
      return any ? std::bit_cast<float>(0x7fc00000u) : with_exponent(90);  // NaN
    case 6:
      return with_exponent(1 + (random >> 8) % 254 / (any ? 1 : 2));  // any size
    case 7:
      return std::bit_cast<float>((sign | 0x3f000000u | (mantissa & 0x7f0000u)) |
                                  0x8000u);  // tie in bf16
    case 8:
      return static_cast<float>(static_cast<int32_t>(random % 1800) - 900) *
             0.001953125f;  // E4M3 grid, ties
    default:
      return with_exponent(118 + (random >> 24) % 12);
  }
}

float Draw::value(bool any) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(wide_value(any)) & 0xffff0000u);
}

std::vector<float> Draw::values(size_t n, bool any, bool wide) {
  std::vector<float> out(n);
  for (float& v : out) v = wide ? wide_value(any) : value(any);
  return out;
}

std::vector<uint8_t> Draw::bytes(size_t n) {
  std::vector<uint8_t> out(n);
  for (size_t i = 0; i < n; i += 4) {
    const uint32_t random = bits();
    std::memcpy(&out[i], &random, n - i < 4 ? n - i : 4);
  }
  return out;
}

bool same_floats(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = std::bit_cast<uint32_t>(a[i]), y = std::bit_cast<uint32_t>(b[i]);
    const bool both_nan = (x & 0x7fffffffu) > 0x7f800000u && (y & 0x7fffffffu) > 0x7f800000u;
    if (x != y && !both_nan) return false;
  }
  return true;
}

std::span<const DifferentialCase> differential_cases() { return kCases; }

}  // namespace minim
