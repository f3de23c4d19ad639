// The table of inner loops: one row of function pointers per instruction-set tier.
//
// Every entry runs on one thread, on raw pointers, allocates nothing and cannot fail: shapes were
// checked at load and space at admission. The scalar tier *defines* each result; the others give
// the same bits, whatever the values (tests compare with memcmp). Callers have FTZ and DAZ set
// (base/fp_env.h), rounding to nearest. The one exception: where a result is NaN, its sign and
// payload are not defined (processors take them from whichever operand comes first). NaN in
// activations have zero low bits, as bf16 has; such NaN stay NaN through every entry.
//
// Activations are float arrays. Between operations they hold bf16 values (`round_bf16` says where);
// `fma` is the fused multiply-add with one rounding; "pair order" is k ascending in pairs with the
// odd element of a pair first:
//     for i = 0, 1, ...: acc = fma(w[2i+1], x[2i+1], acc); acc = fma(w[2i], x[2i], acc)
// An odd last element is a pair whose odd half is absent. min(x, b) is b < x ? b : x and max(x, b)
// is b > x ? b : x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/panel.h"

namespace minim {

// exp(x) of every tier and every use (degree 6, max error 1 ulp; never exp of a masked score):
//   x = min(max(x, -87), 88); t = fma(x, 1.44269504f, 12582912.f); n = t - 12582912.f
//   r = fma(n, -0.693359375f, x); r = fma(n, 2.12194440e-4f, r)
//   p = c0 + c1 r + ... + c4 r^4 by Horner with fma; p = fma(r*r, p, r); p = p + 1
//   bits(p) += bits(t) << 23
static constexpr float kExpCoefficients[5] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f,
                                              0x1.123a2p-7f, 0x1.6a23dp-10f};  // c0 .. c4

// One (row, head) pair is a lane; a lane tile is 16 of them that attend to the same block.
inline constexpr size_t kLanes = 16;

// How cached tiles are read and probabilities rounded.
enum class AttentionMode : uint8_t {
  kDirect,  // K, V, index keys exactly; P rounded to bf16
  kGpu,  // K, V, index keys re-rounded to E4M3; P * 448 rounded to E4M3 (the denominator sums the
         // unrounded P * 448)
};

enum class TileFormat : uint8_t { kBf16, kFp8E4m3, kNvfp4 };  // of cached vectors, as KvFormat

// Result of one block for 16 lanes, channel-major so that a lane is a lane everywhere.
struct AttentionPartial {
  float max[kLanes];          // largest scaled score of the visible keys
  float denominator[kLanes];  // sum of p
  float value[128][kLanes];   // sum of p * v
};

struct Kernels {
  const char* name;  // "scalar", "avx2", "avx512"

  // y[t * y_stride + r] = <w_r, x_t> for all 16 * n_panels rows r, tokens t < n_tokens; not
  // rounded. x [n_tokens, n_in] with stride x_stride (floats holding bf16 values); y rows are
  // 16 * n_panels long.
  //   kBf16, kF32: one chain over k in pair order.
  //   kNvfp4: per 16 k a chain from 0 in pair order over (E2M1 * 2^25);
  //     total = fma(E4M3 scale * 2^-8, chain, total), blocks ascending; at the end
  //     total * (global * 2^-17). The powers of two keep every intermediate normal.
  //   kMxfp8: per 32 k a chain from 0 in pair order over (E4M3 * 2^-8);
  //     total = fma(2^(e-127), chain, total) with e = 0 counting as zero; at the end total * 2^8.
  //   kFp8: not a weight format; not accepted here.
  // Codes that loaders refuse are defined all the same: E4M3 0x7f and 0xff count as +-480, E8M0
  // 255 as infinity. E2M1 code 8 (-0) counts as +0.
  void (*linear)(const Panels& w, const float* x, size_t x_stride, size_t n_tokens, float* y,
                 size_t y_stride) noexcept;

  // x[i] = bf16(x[i]) / x[i] = E4M3(x[i]) (saturating), as floats; n any.
  void (*round_bf16)(float* x, size_t n) noexcept;
  void (*round_e4m3)(float* x, size_t n) noexcept;
  // out[i] = float(bf16 bits).
  void (*widen_bf16)(const uint16_t* bits, size_t n, float* out) noexcept;

  // out[i] = bf16((x[i] * r) * w1[i]), r = 1 / sqrt(s / n + eps); w1 = 1 + weight (fp32).
  // s: 16 partial sums (i mod 16), each p = fma(x, x, p), then p[j] += p[j+8] for j < 8, and so on
  // with 4, 2 and 1. n % 16 == 0.
  void (*rms_norm)(const float* x, const float* w1, size_t n, float eps, float* out) noexcept;

  // One head of 128 channels: the norm above without its rounding, then RoPE on channels
  // 0 .. 2*half-1 (half % 16 == 0), a = y[i], b = y[i + half]:
  //   out[i] = fma(a, cos[i], -(b * sin[i])); out[i + half] = fma(b, cos[i], a * sin[i])
  // Not rounded. x and out may be the same array.
  void (*norm_rope)(const float* x, const float* w1, float eps, const float* cos, const float* sin,
                    size_t half, float* out) noexcept;

  // x[i] = bf16(x[i] + y[i]).
  void (*add_bf16)(float* x, const float* y, size_t n) noexcept;
  // acc[i] = fma(w, y[i], acc[i]).
  void (*accumulate)(float w, const float* y, float* acc, size_t n) noexcept;
  // out[i] = bf16(((u' + 1) * g') * (1 / (1 + exp(-(alpha * g'))))),
  // g' = min(g, limit), u' = min(max(u, -limit), limit).
  void (*swiglu)(const float* g, const float* u, size_t n, float alpha, float limit,
                 float* out) noexcept;
  // out[i] = 1 / (1 + exp(-x[i])).
  void (*sigmoid)(const float* x, size_t n, float* out) noexcept;

  // Writes one vector of 128 floats as token `token` of a K or V tile / of an index tile
  // (device/kv_layout.h). bf16: round to nearest even; fp8: saturating E4M3; nvfp4: base/formats.h
  // nvfp4_kv_encode. Touches no other token.
  void (*store_vector)(TileFormat format, const float* x, size_t token, uint8_t* tile) noexcept;
  void (*store_index)(TileFormat format, const float* x, size_t token, uint8_t* tile) noexcept;

  // Tokens 0 .. n_tokens-1 of a K or V tile as floats: out [n_tokens, 128]. kGpu re-rounds nvfp4
  // values to E4M3 (bf16 tiles too; fp8 has nothing to round). A scale byte 0 reads as zeros, the
  // sign bit of a scale is ignored, E2M1 code 8 (-0) counts as +0.
  void (*load_vectors)(TileFormat format, AttentionMode mode, const uint8_t* tile, size_t n_tokens,
                       float* out) noexcept;

  // Block maxima of index scores: out[m] = max over keys j < n_visible[m] of score(q_m, key_j),
  // q [n_rows, 128]; a score is one chain over the 128 channels in pair order (no scale); NaN
  // counts as -inf, and a maximum of zero is +0. 1 <= n_visible[m] <= 128. Keys at and behind
  // max(n_visible) may hold any bytes.
  void (*index_scores)(TileFormat format, AttentionMode mode, const uint8_t* tile, const float* q,
                       size_t n_rows, const int32_t* n_visible, float* out) noexcept;

  // Attention of 16 lanes to one block.
  //   q [128, 16] channel-major; k, v [n_keys, 128] from load_vectors, n_keys = max(n_visible);
  //   n_visible[lane] in 0..128 (0: an idle lane; its outputs are zeros, whatever its q holds).
  //   s_j = (one chain over the channels in pair order) * 128^-1/2 (0x1.6a09e6p-4f);
  //   m = max of the visible s_j (NaN never wins); p_j = exp(s_j - m) (kGpu: * 448);
  //   denominator: 8 partial sums over the visible keys (j mod 8, ascending), then
  //     ((0+4)+(2+6)) + ((1+5)+(3+7));
  //   P = bf16(p) (kGpu: E4M3(p)); value_d = one chain over the visible keys in pair order (pairs
  //     by key index; an invisible key takes no step).
  // A lane's result depends on that lane alone.
  void (*attend_block)(const float* q, const float* k, const float* v, size_t n_keys,
                       const int32_t* n_visible, AttentionMode mode,
                       AttentionPartial* out) noexcept;

  // Merges lanes [first_lane, first_lane + n_lanes) of a partial into a running state:
  //   M' = max(M, m) + 0 (the sum clears denormals, which a maximum may or may not keep);
  //   a = exp(M - M'), b = exp(m - M'); value = fma(b, v, a * value); the denominator likewise.
  //   The first partial of a lane is copied (state max = -inf marks it).
  // State lane l, channel d is at state_value[d * n_lanes + l]; state_max, state_denominator
  // [n_lanes].
  void (*merge_partial)(const AttentionPartial& partial, size_t first_lane, size_t n_lanes,
                        float* state_max, float* state_denominator, float* state_value) noexcept;

  // Repacks rows [16 p, 16 p + 16) of a row-major matrix into panel p; see PackSource.
  void (*pack_panel)(const struct PackSource& source, size_t panel, uint8_t* out) noexcept;
};

// A row-major matrix as checkpoints store it. Not owned.
struct PackSource {
  PanelFormat format = PanelFormat::kBf16;  // of the panels to make; the stored form follows:
  size_t n_out = 0, n_in = 0;
  // values: kBf16 uint16 [n_out, n_in]; kF32 float [n_out, n_in]; kFp8 and kMxfp8 E4M3
  //   [n_out, n_in]; kNvfp4 [n_out, n_in / 2], low nibble = even column.
  // scales: kMxfp8 E8M0 [n_out, n_in / 32]; kNvfp4 E4M3 [n_out, n_in / 16].
  const uint8_t* values = nullptr;
  const uint8_t* scales = nullptr;
};

// All tiers that were built and that this machine can run, slowest first ("scalar" is always
// there).
std::span<const Kernels* const> available_kernels();

// "auto": the last available tier that passes the self-test (below); `rejected` names a tier that
// did not. Any other name must be an available tier: kInvalid for an unknown word, kUnsupported for
// one that this machine lacks.
struct KernelChoice {
  const Kernels* kernels = nullptr;
  std::string_view rejected;  // tier that failed its self-test, empty when none did
};
Result<KernelChoice> choose_kernels(std::string_view name);

// Compares every entry of a tier with scalar, bit for bit, on seeded inputs that include denormals,
// zeros of both signs and ties. Returns the name of the first entry that differs, empty when all
// agree. `rounds` = 1 takes a few milliseconds.
std::string_view self_test(const Kernels& tier, int rounds);

}  // namespace minim
