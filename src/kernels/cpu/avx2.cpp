// The AVX2 tier: a 16-lane vector is two 256-bit registers. Needs AVX2, FMA and F16C.
//
// The algorithms are in the vector_*.inl files, written against the types and operations below,
// which avx512.cpp defines in its own way. Everything but the table has internal linkage: a
// function that the linker could merge with a copy compiled for another tier would run that tier's
// instructions on machines that lack them (scripts/isa_sealed.sh checks).
#include <immintrin.h>

#include "base/formats.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace minim {
namespace {

constexpr size_t kChannels = 128;
constexpr size_t kTokens = 128;
constexpr size_t kTokenTile = 4;     // 16 rows x 4 tokens: 8 accumulators of 16 registers
constexpr bool kKeepDecoded = true;  // MXFP8 weights, for the tiles after the first
constexpr int kGemvPanels = 2;       // chains side by side when there is one token
constexpr size_t kPrefetchBytes =
    6144;  // ahead of the read; 4 to 9 KB measured alike, bursts were worse
constexpr size_t kPackDwords = 8;

struct V16 {  // floats
  __m256 lo, hi;
};
struct I16 {  // dwords
  __m256i lo, hi;
};
struct M16 {  // all ones where true
  __m256i lo, hi;
};
using W16 = __m256i;  // words

inline void prefetch(const uint8_t* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// ---- floats ----

inline V16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline V16 set1(float v) {
  const __m256 all = _mm256_set1_ps(v);
  return {all, all};
}
inline V16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, V16 v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline V16 add(V16 a, V16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline V16 sub(V16 a, V16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline V16 mul(V16 a, V16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline V16 div(V16 a, V16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline V16 fma(V16 a, V16 b, V16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// The instruction returns its second operand when neither is smaller or one is NaN: so x comes
// second.
inline V16 min(V16 x, V16 bound) {
  return {_mm256_min_ps(bound.lo, x.lo), _mm256_min_ps(bound.hi, x.hi)};
}
inline V16 max(V16 x, V16 bound) {
  return {_mm256_max_ps(bound.lo, x.lo), _mm256_max_ps(bound.hi, x.hi)};
}
inline V16 negate(V16 v) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(v.lo, sign), _mm256_xor_ps(v.hi, sign)};
}
inline V16 magnitude(V16 v) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, v.lo), _mm256_andnot_ps(sign, v.hi)};
}

// ---- dwords ----

inline I16 as_int(V16 v) { return {_mm256_castps_si256(v.lo), _mm256_castps_si256(v.hi)}; }
inline V16 as_float(I16 v) { return {_mm256_castsi256_ps(v.lo), _mm256_castsi256_ps(v.hi)}; }
inline V16 to_float(I16 v) { return {_mm256_cvtepi32_ps(v.lo), _mm256_cvtepi32_ps(v.hi)}; }
inline I16 set1_int(uint32_t v) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(v));
  return {all, all};
}
inline I16 load_int(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline void store_int(uint8_t* p, I16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.hi);
}
inline I16 add(I16 a, I16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
inline I16 bit_and(I16 a, I16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
inline I16 bit_or(I16 a, I16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
inline I16 bit_xor(I16 a, I16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int kBits>
inline I16 shift_left(I16 v) {
  return {_mm256_slli_epi32(v.lo, kBits), _mm256_slli_epi32(v.hi, kBits)};
}
template <int kBits>
inline I16 shift_right(I16 v) {
  return {_mm256_srli_epi32(v.lo, kBits), _mm256_srli_epi32(v.hi, kBits)};
}
inline I16 shuffle_bytes(I16 v, I16 index) {
  return {_mm256_shuffle_epi8(v.lo, index.lo), _mm256_shuffle_epi8(v.hi, index.hi)};
}
inline I16 repeat16(const int8_t (&bytes)[16]) {
  const __m256i all =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  return {all, all};
}
inline I16 lane_numbers() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
          _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}

// ---- masks ----

inline M16 greater(I16 a, I16 b) {  // signed
  return {_mm256_cmpgt_epi32(a.lo, b.lo), _mm256_cmpgt_epi32(a.hi, b.hi)};
}
inline M16 equal(I16 a, I16 b) {
  return {_mm256_cmpeq_epi32(a.lo, b.lo), _mm256_cmpeq_epi32(a.hi, b.hi)};
}
inline I16 select(M16 m, I16 yes, I16 no) {
  return {_mm256_blendv_epi8(no.lo, yes.lo, m.lo), _mm256_blendv_epi8(no.hi, yes.hi, m.hi)};
}
inline V16 select(M16 m, V16 yes, V16 no) { return as_float(select(m, as_int(yes), as_int(no))); }

// The first n of 16 lanes, the others zero and untouched in memory.
inline V16 load_first(const float* p, size_t n) {
  const M16 m = greater(set1_int(static_cast<uint32_t>(n)), lane_numbers());
  return {_mm256_maskload_ps(p, m.lo),
          n > 8 ? _mm256_maskload_ps(p + 8, m.hi) : _mm256_setzero_ps()};
}
inline void store_first(float* p, V16 v, size_t n) {
  const M16 m = greater(set1_int(static_cast<uint32_t>(n)), lane_numbers());
  _mm256_maskstore_ps(p, m.lo, v.lo);
  if (n > 8) _mm256_maskstore_ps(p + 8, m.hi, v.hi);
}

// ---- narrower elements ----

inline __m128i load_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline W16 load_words(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline I16 widen_words(const uint8_t* p) {
  return {_mm256_cvtepu16_epi32(load_bytes(p)), _mm256_cvtepu16_epi32(load_bytes(p + 16))};
}
inline I16 widen_bytes(const uint8_t* p) {
  const __m128i bytes = load_bytes(p);
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
// 16 bytes to the upper halves of words.
inline W16 widen_to_high(const uint8_t* p) {
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(load_bytes(p)), 8);
}
inline W16 low_byte_to_high(W16 v) { return _mm256_slli_epi16(v, 8); }
// The E4M3 code in the upper half of each word, times 2^-8: as a half float it has the same bits
// one place lower.
inline V16 e4m3_scaled(W16 v) {
  const __m256i half =
      _mm256_and_si256(_mm256_srai_epi16(v, 1), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
// 2 * E2M1 of 16 codes, low nibble first.
inline V16 doubled_e2m1(const uint8_t* p) {
  const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i codes =
      _mm_and_si128(_mm_unpacklo_epi8(packed, _mm_srli_epi16(packed, 4)), _mm_set1_epi8(15));
  const __m128i values = _mm_shuffle_epi8(table, codes);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(values, values)))};
}
// The low words of all lanes, then the high words.
inline void store_split_words(uint8_t* p, I16 v) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  const __m256i low =
      _mm256_packus_epi32(_mm256_and_si256(v.lo, mask), _mm256_and_si256(v.hi, mask));
  const __m256i high =
      _mm256_packus_epi32(_mm256_srli_epi32(v.lo, 16), _mm256_srli_epi32(v.hi, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(low, 0xd8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), _mm256_permute4x64_epi64(high, 0xd8));
}

// Byte 0 of all lanes, then byte 1, 2 and 3.
inline void store_split_bytes(uint8_t* p, I16 v) {
  const __m256i by_byte = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i a = _mm256_shuffle_epi8(v.lo, by_byte), b = _mm256_shuffle_epi8(v.hi, by_byte);
  // Dword i of each half: byte i of its four lanes; lanes 0-3 and 4-7 in a, 8-11 and 12-15 in b.
  const __m256i swap = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i first = _mm256_permutevar8x32_epi32(a, swap);
  const __m256i second = _mm256_permutevar8x32_epi32(b, swap);
  const __m256i even = _mm256_unpacklo_epi64(first, second);
  const __m256i odd = _mm256_unpackhi_epi64(first, second);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32),
                      _mm256_permute2x128_si256(even, odd, 0x31));
}

// An 8 x 8 transposition of dwords: in[r] = row r, out[c] = column c.
inline void transpose8(const __m256i (&in)[8], __m256i (&out)[8]) {
  __m256i pairs[8], quads[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(in[i], in[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    out[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

// Eight dwords at `offset` of each of 16 rows, as eight columns of 16 lanes.
inline void transpose_dwords(const uint8_t* const (&rows)[16], size_t offset,
                             I16 (&columns)[kPackDwords]) {
  __m256i in[8], upper[8], lower[8];
  for (int r = 0; r < 8; ++r) in[r] = load_words(rows[r] + offset);
  transpose8(in, upper);
  for (int r = 0; r < 8; ++r) in[r] = load_words(rows[r + 8] + offset);
  transpose8(in, lower);
  for (int c = 0; c < 8; ++c) columns[c] = {upper[c], lower[c]};
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

const Kernels kAvx2Kernels = {
    .name = "avx2",
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
