// The AVX-512 tier: a 16-lane vector is one 512-bit register. Needs AVX512F, BW, VL and DQ (and
// what AVX2 needs).
//
// Same algorithms, same chains, half the instructions: plain fp32 fused multiply-adds, so the bits
// are the scalar tier's by IEEE arithmetic. (vdpbf16ps would double the rate, but whether it
// flushes results that round up to the smallest normal as FMA does is not established.)
//
// Built a second time for the tests with MINIM_EMULATED_AVX512: then the intrinsics are plain C++
// and the table has another name, so that this file's logic is checked on machines without the
// instructions.
#ifdef MINIM_EMULATED_AVX512
#include "kernels/avx512_emulated.h"
#else
#include <immintrin.h>
#endif

#include "base/formats.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace minim {

#ifdef MINIM_EMULATED_AVX512
#define kAvx512Kernels kEmulatedAvx512Kernels
extern const Kernels kEmulatedAvx512Kernels;
#endif

namespace {

constexpr size_t kChannels = 128;
constexpr size_t kTokens = 128;
constexpr size_t kTokenTile = 8;          // 16 rows x 8 tokens: 8 accumulators of 32 registers
constexpr bool kKeepDecoded = false;      // the tile is twice as large; not measured
constexpr int kGemvPanels = 2;            // chains side by side when there is one token
constexpr size_t kPrefetchBytes = 18432;  // ahead of the read
constexpr size_t kPackDwords = 16;

using V16 = __m512;  // floats
struct I16 {         // dwords
  __m512i v;
};
using M16 = __mmask16;
using W16 = __m256i;  // words

inline void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// ---- floats ----

inline V16 zero() { return _mm512_setzero_ps(); }
inline V16 set1(float v) { return _mm512_set1_ps(v); }
inline V16 load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V16 v) { _mm512_storeu_ps(p, v); }
inline V16 add(V16 a, V16 b) { return _mm512_add_ps(a, b); }
inline V16 sub(V16 a, V16 b) { return _mm512_sub_ps(a, b); }
inline V16 mul(V16 a, V16 b) { return _mm512_mul_ps(a, b); }
inline V16 div(V16 a, V16 b) { return _mm512_div_ps(a, b); }
inline V16 fma(V16 a, V16 b, V16 c) { return _mm512_fmadd_ps(a, b, c); }
// The instruction returns its second operand when neither is smaller or one is NaN: so x comes
// second.
inline V16 min(V16 x, V16 bound) { return _mm512_min_ps(bound, x); }
inline V16 max(V16 x, V16 bound) { return _mm512_max_ps(bound, x); }

// ---- dwords ----

inline I16 as_int(V16 v) { return {_mm512_castps_si512(v)}; }
inline V16 as_float(I16 v) { return _mm512_castsi512_ps(v.v); }
inline V16 to_float(I16 v) { return _mm512_cvtepi32_ps(v.v); }
inline I16 set1_int(uint32_t v) { return {_mm512_set1_epi32(static_cast<int>(v))}; }
inline I16 load_int(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store_int(uint8_t* p, I16 v) { _mm512_storeu_si512(p, v.v); }
inline I16 add(I16 a, I16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I16 bit_and(I16 a, I16 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I16 bit_or(I16 a, I16 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I16 bit_xor(I16 a, I16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
inline I16 shift_left(I16 v) {
  return {_mm512_slli_epi32(v.v, kBits)};
}
template <int kBits>
inline I16 shift_right(I16 v) {
  return {_mm512_srli_epi32(v.v, kBits)};
}
inline I16 shuffle_bytes(I16 v, I16 index) { return {_mm512_shuffle_epi8(v.v, index.v)}; }
inline I16 repeat16(const int8_t (&bytes)[16]) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)))};
}
inline I16 lane_numbers() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
inline V16 negate(V16 v) { return as_float(bit_xor(as_int(v), set1_int(0x80000000u))); }
inline V16 magnitude(V16 v) { return as_float(bit_and(as_int(v), set1_int(0x7fffffff))); }

// ---- masks ----

inline M16 greater(I16 a, I16 b) { return _mm512_cmpgt_epi32_mask(a.v, b.v); }  // signed
inline M16 equal(I16 a, I16 b) { return _mm512_cmpeq_epi32_mask(a.v, b.v); }
inline I16 select(M16 m, I16 yes, I16 no) { return {_mm512_mask_blend_epi32(m, no.v, yes.v)}; }
inline V16 select(M16 m, V16 yes, V16 no) { return _mm512_mask_blend_ps(m, no, yes); }

// The first n of 16 lanes, the others zero and untouched in memory.
inline M16 first_lanes(size_t n) { return static_cast<M16>((1u << n) - 1u); }
inline V16 load_first(const float* p, size_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
inline void store_first(float* p, V16 v, size_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

// ---- narrower elements ----

inline __m128i load_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline W16 load_words(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline I16 widen_words(const uint8_t* p) { return {_mm512_cvtepu16_epi32(load_words(p))}; }
inline I16 widen_bytes(const uint8_t* p) { return {_mm512_cvtepu8_epi32(load_bytes(p))}; }
// 16 bytes to the upper halves of words.
inline W16 widen_to_high(const uint8_t* p) {
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(load_bytes(p)), 8);
}
inline W16 low_byte_to_high(W16 v) { return _mm256_slli_epi16(v, 8); }
// The E4M3 code in the upper half of each word, times 2^-8: as a half float it has the same bits
// one place lower.
inline V16 e4m3_scaled(W16 v) {
  const __m256i keep = _mm256_set1_epi16(static_cast<short>(0xbf80));
  return _mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(v, 1), keep));
}
// 2 * E2M1 of 16 codes, low nibble first.
inline V16 doubled_e2m1(const uint8_t* p) {
  const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i codes =
      _mm_and_si128(_mm_unpacklo_epi8(packed, _mm_srli_epi16(packed, 4)), _mm_set1_epi8(15));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_shuffle_epi8(table, codes)));
}
// The low words of all lanes, then the high words.
inline void store_split_words(uint8_t* p, I16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32),
                      _mm512_cvtepi32_epi16(shift_right<16>(v).v));
}

// Byte 0 of all lanes, then byte 1, 2 and 3.
inline void store_split_bytes(uint8_t* p, I16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm512_cvtepi32_epi8(shift_right<8>(v).v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 32), _mm512_cvtepi32_epi8(shift_right<16>(v).v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 48), _mm512_cvtepi32_epi8(shift_right<24>(v).v));
}

// Sixteen dwords at `offset` of each of 16 rows, as sixteen columns of 16 lanes. A 128-bit quarter
// of a row goes through 4 x 4 transpositions of its neighbours; the quarters of four such blocks
// are then gathered into columns.
inline void transpose_dwords(const uint8_t* const (&rows)[16], size_t offset,
                             I16 (&columns)[kPackDwords]) {
  __m512i blocks[16];  // blocks[4 i + j]: quarter q holds column 4 q + j of rows 4 i .. 4 i + 3
  for (int i = 0; i < 16; i += 4) {
    __m512i in[4];
    for (int r = 0; r < 4; ++r) in[r] = _mm512_loadu_si512(rows[i + r] + offset);
    const __m512i low01 = _mm512_unpacklo_epi32(in[0], in[1]),
                  high01 = _mm512_unpackhi_epi32(in[0], in[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(in[2], in[3]),
                  high23 = _mm512_unpackhi_epi32(in[2], in[3]);
    blocks[i] = _mm512_unpacklo_epi64(low01, low23);
    blocks[i + 1] = _mm512_unpackhi_epi64(low01, low23);
    blocks[i + 2] = _mm512_unpacklo_epi64(high01, high23);
    blocks[i + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
  for (int j = 0; j < 4; ++j) {
    const __m512i even01 =
        _mm512_shuffle_i32x4(blocks[j], blocks[4 + j], 0x88);  // quarters 0, 2 of both
    const __m512i odd01 = _mm512_shuffle_i32x4(blocks[j], blocks[4 + j], 0xdd);  // quarters 1, 3
    const __m512i even23 = _mm512_shuffle_i32x4(blocks[8 + j], blocks[12 + j], 0x88);
    const __m512i odd23 = _mm512_shuffle_i32x4(blocks[8 + j], blocks[12 + j], 0xdd);
    columns[j].v = _mm512_shuffle_i32x4(even01, even23, 0x88);
    columns[4 + j].v = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
    columns[8 + j].v = _mm512_shuffle_i32x4(even01, even23, 0xdd);
    columns[12 + j].v = _mm512_shuffle_i32x4(odd01, odd23, 0xdd);
  }
}

// Each builds on those before it.
// clang-format off
#include "kernels/cpu/store.inl"
#include "kernels/cpu/vector_math.inl"
#include "kernels/cpu/vector_linear.inl"
#include "kernels/cpu/vector_cache.inl"
#include "kernels/cpu/vector_attend.inl"
#include "kernels/cpu/vector_pack.inl"
// clang-format on

}  // namespace

const Kernels kAvx512Kernels = {
    .name = "avx512",
    .linear = linear,
    .round_bf16 = round_bf16,
    .round_e4m3 = round_e4m3,
    .widen_bf16 = widen_bf16,
    .rms_norm = rms_norm,
    .norm_rope = norm_rope,
    .add_bf16 = add_bf16,
    .accumulate = accumulate,
    .swiglu = swiglu,
    .sigmoid = sigmoid,
    .store_vector = store_vector,
    .store_index = store_index,
    .load_vectors = load_vectors,
    .index_scores = index_scores,
    .attend_block = attend_block,
    .merge_partial = merge_partial,
    .pack_panel = pack_panel,
};

}  // namespace minim
