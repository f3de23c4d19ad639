// The intrinsics that kernels/cpu/avx512.cpp uses, spelled in plain C++ after their definitions in
// the Intel manual: each is a loop over elements. Included there instead of <immintrin.h> when the
// tests build that file a second time. Loops over floats obey MXCSR (FTZ, DAZ) like the
// instructions; built with -mfma, so that std::fma is one, too.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace minim {
namespace {

struct __m128i {
  uint8_t b[16];
};
struct __m256i {
  uint16_t w[16];
};
struct __m512 {
  float f[16];
};
struct __m512i {
  uint32_t d[16];
};
using __mmask16 = uint16_t;

enum { _MM_HINT_T0 };
inline void _mm_prefetch(const char*, int) {}

template <typename To, typename From>
inline To emu_read(const From* p) {
  To v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

// ---- 128 bits ----

inline __m128i _mm_loadu_si128(const __m128i* p) { return emu_read<__m128i>(p); }
inline void _mm_storeu_si128(__m128i* p, __m128i v) { std::memcpy(p, &v, sizeof v); }
inline __m128i _mm_loadl_epi64(const __m128i* p) {
  __m128i v = {};
  std::memcpy(v.b, p, 8);
  return v;
}
inline __m128i _mm_setr_epi8(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j,
                             int k, int l, int m, int n, int o, int p) {
  const int all[16] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
  __m128i v;
  for (int q = 0; q < 16; ++q) v.b[q] = static_cast<uint8_t>(all[q]);
  return v;
}
inline __m128i _mm_set1_epi8(int value) {
  __m128i v;
  for (uint8_t& x : v.b) x = static_cast<uint8_t>(value);
  return v;
}
inline __m128i _mm_and_si128(__m128i x, __m128i y) {
  for (int i = 0; i < 16; ++i) x.b[i] &= y.b[i];
  return x;
}
inline __m128i _mm_srli_epi16(__m128i x, int count) {
  for (int i = 0; i < 16; i += 2) {
    const auto word = static_cast<uint16_t>((x.b[i] | x.b[i + 1] << 8) >> count);
    x.b[i] = static_cast<uint8_t>(word);
    x.b[i + 1] = static_cast<uint8_t>(word >> 8);
  }
  return x;
}
inline __m128i _mm_unpacklo_epi8(__m128i x, __m128i y) {
  __m128i v;
  for (int i = 0; i < 8; ++i) {
    v.b[2 * i] = x.b[i];
    v.b[2 * i + 1] = y.b[i];
  }
  return v;
}
inline __m128i _mm_shuffle_epi8(__m128i x, __m128i index) {
  __m128i v;
  for (int i = 0; i < 16; ++i) v.b[i] = index.b[i] & 0x80 ? uint8_t{0} : x.b[index.b[i] & 15];
  return v;
}

// ---- 256 bits: sixteen words ----

inline __m256i _mm256_loadu_si256(const __m256i* p) { return emu_read<__m256i>(p); }
inline void _mm256_storeu_si256(__m256i* p, __m256i v) { std::memcpy(p, &v, sizeof(v)); }
inline __m256i _mm256_set1_epi16(short value) {
  __m256i v;
  for (uint16_t& x : v.w) x = static_cast<uint16_t>(value);
  return v;
}
inline __m256i _mm256_and_si256(__m256i x, __m256i y) {
  for (int i = 0; i < 16; ++i) x.w[i] &= y.w[i];
  return x;
}
inline __m256i _mm256_slli_epi16(__m256i x, int count) {
  for (uint16_t& w : x.w) w = static_cast<uint16_t>(w << count);
  return x;
}
inline __m256i _mm256_srai_epi16(__m256i x, int count) {
  for (uint16_t& w : x.w) w = static_cast<uint16_t>(static_cast<int16_t>(w) >> count);
  return x;
}
inline __m256i _mm256_cvtepu8_epi16(__m128i x) {
  __m256i v;
  for (int i = 0; i < 16; ++i) v.w[i] = x.b[i];
  return v;
}

// ---- 512 bits: sixteen floats or dwords ----

template <typename Op>
inline __m512 emu_floats(const Op& op) {
  __m512 v;
  for (int i = 0; i < 16; ++i) v.f[i] = op(i);
  return v;
}
template <typename Op>
inline __m512i emu_dwords(const Op& op) {
  __m512i v;
  for (int i = 0; i < 16; ++i) v.d[i] = static_cast<uint32_t>(op(i));
  return v;
}

inline __m512 _mm512_setzero_ps() { return {}; }
inline __m512 _mm512_set1_ps(float v) {
  return emu_floats([=](int) { return v; });
}
inline __m512 _mm512_loadu_ps(const float* p) { return emu_read<__m512>(p); }
inline void _mm512_storeu_ps(float* p, __m512 v) { std::memcpy(p, &v, sizeof(v)); }
inline __m512 _mm512_maskz_loadu_ps(__mmask16 m, const float* p) {
  return emu_floats([=](int i) { return m >> i & 1 ? p[i] : 0.0f; });
}
inline void _mm512_mask_storeu_ps(float* p, __mmask16 m, __m512 v) {
  for (int i = 0; i < 16; ++i) {
    if (m >> i & 1) p[i] = v.f[i];
  }
}
inline __m512 _mm512_add_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] + y.f[i]; });
}
inline __m512 _mm512_sub_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] - y.f[i]; });
}
inline __m512 _mm512_mul_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] * y.f[i]; });
}
inline __m512 _mm512_div_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] / y.f[i]; });
}
inline __m512 _mm512_fmadd_ps(__m512 x, __m512 y, __m512 z) {
  return emu_floats([&](int i) { return std::fma(x.f[i], y.f[i], z.f[i]); });
}
inline __m512 _mm512_min_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] < y.f[i] ? x.f[i] : y.f[i]; });
}
inline __m512 _mm512_max_ps(__m512 x, __m512 y) {
  return emu_floats([&](int i) { return x.f[i] > y.f[i] ? x.f[i] : y.f[i]; });
}
inline __m512 _mm512_mask_blend_ps(__mmask16 m, __m512 x, __m512 y) {
  return emu_floats([&](int i) { return m >> i & 1 ? y.f[i] : x.f[i]; });
}
inline __m512i _mm512_castps_si512(__m512 v) { return std::bit_cast<__m512i>(v); }
inline __m512 _mm512_castsi512_ps(__m512i v) { return std::bit_cast<__m512>(v); }
inline __m512 _mm512_cvtepi32_ps(__m512i v) {
  return emu_floats([&](int i) { return static_cast<float>(static_cast<int32_t>(v.d[i])); });
}
// Half floats become floats exactly, subnormals too, whatever DAZ says.
inline __m512 _mm512_cvtph_ps(__m256i h) {
  return emu_floats([&](int i) {
    const uint32_t sign = static_cast<uint32_t>(h.w[i] & 0x8000u) << 16;
    const uint32_t exponent = (h.w[i] >> 10) & 31u, mantissa = h.w[i] & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  });
}

inline __m512i _mm512_set1_epi32(int v) {
  return emu_dwords([=](int) { return v; });
}
inline __m512i _mm512_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int i,
                                 int j, int k, int l, int m, int n, int o, int p) {
  const int all[16] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
  return emu_dwords([&](int q) { return all[q]; });
}
inline __m512i _mm512_loadu_si512(const void* p) { return emu_read<__m512i>(p); }
inline void _mm512_storeu_si512(void* p, __m512i v) { std::memcpy(p, &v, sizeof(v)); }
inline __m512i _mm512_add_epi32(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return x.d[i] + y.d[i]; });
}
inline __m512i _mm512_and_si512(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return x.d[i] & y.d[i]; });
}
inline __m512i _mm512_or_si512(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return x.d[i] | y.d[i]; });
}
inline __m512i _mm512_xor_si512(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return x.d[i] ^ y.d[i]; });
}
inline __m512i _mm512_slli_epi32(__m512i x, int count) {
  return emu_dwords([&](int i) { return x.d[i] << count; });
}
inline __m512i _mm512_srli_epi32(__m512i x, int count) {
  return emu_dwords([&](int i) { return x.d[i] >> count; });
}
inline __mmask16 _mm512_cmpgt_epi32_mask(__m512i x, __m512i y) {
  unsigned m = 0;
  for (int i = 0; i < 16; ++i)
    m |= static_cast<unsigned>(static_cast<int32_t>(x.d[i]) > static_cast<int32_t>(y.d[i])) << i;
  return static_cast<__mmask16>(m);
}
inline __mmask16 _mm512_cmpeq_epi32_mask(__m512i x, __m512i y) {
  unsigned m = 0;
  for (int i = 0; i < 16; ++i) m |= static_cast<unsigned>(x.d[i] == y.d[i]) << i;
  return static_cast<__mmask16>(m);
}
inline __m512i _mm512_mask_blend_epi32(__mmask16 m, __m512i x, __m512i y) {
  return emu_dwords([&](int i) { return m >> i & 1 ? y.d[i] : x.d[i]; });
}
// Within each 128-bit quarter.
inline __m512i _mm512_shuffle_epi8(__m512i x, __m512i index) {
  __m128i quarters[4], order[4];
  std::memcpy(quarters, &x, sizeof(x));
  std::memcpy(order, &index, sizeof(index));
  for (int q = 0; q < 4; ++q) quarters[q] = _mm_shuffle_epi8(quarters[q], order[q]);
  return emu_read<__m512i>(quarters);
}
inline __m512i _mm512_broadcast_i32x4(__m128i v) {
  const __m128i quarters[4] = {v, v, v, v};
  return emu_read<__m512i>(quarters);
}
inline __m512i _mm512_cvtepu16_epi32(__m256i v) {
  return emu_dwords([&](int i) { return v.w[i]; });
}
inline __m512i _mm512_cvtepu8_epi32(__m128i v) {
  return emu_dwords([&](int i) { return v.b[i]; });
}
inline __m512i _mm512_cvtepi8_epi32(__m128i v) {
  return emu_dwords([&](int i) { return static_cast<int8_t>(v.b[i]); });
}
inline __m256i _mm512_cvtepi32_epi16(__m512i v) {
  __m256i out;
  for (int i = 0; i < 16; ++i) out.w[i] = static_cast<uint16_t>(v.d[i]);
  return out;
}
inline __m128i _mm512_cvtepi32_epi8(__m512i v) {
  __m128i out = {};
  for (int i = 0; i < 16; ++i) out.b[i] = static_cast<uint8_t>(v.d[i]);
  return out;
}
inline __m512i _mm512_unpacklo_epi32(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return (i % 2 == 0 ? x : y).d[i / 4 * 4 + i % 4 / 2]; });
}
inline __m512i _mm512_unpackhi_epi32(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return (i % 2 == 0 ? x : y).d[i / 4 * 4 + 2 + i % 4 / 2]; });
}
inline __m512i _mm512_unpacklo_epi64(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return (i % 4 < 2 ? x : y).d[i / 4 * 4 + i % 2]; });
}
inline __m512i _mm512_unpackhi_epi64(__m512i x, __m512i y) {
  return emu_dwords([&](int i) { return (i % 4 < 2 ? x : y).d[i / 4 * 4 + 2 + i % 2]; });
}
inline __m512i _mm512_shuffle_i32x4(__m512i x, __m512i y, int control) {
  return emu_dwords(
      [&](int i) { return (i < 8 ? x : y).d[(control >> (i / 4 * 2) & 3) * 4 + i % 4]; });
}

}  // namespace
}  // namespace minim
