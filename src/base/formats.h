// The number formats of the model family: exact decoding and correctly rounded encoding of single
// values.
//
// Everything here is plain data and `static` functions on integers where it matters: this header is
// compiled into every instruction-set tier, and nothing of it may be merged by the linker into one
// shared copy (see docs/dispatch.md). All rounding is done on bits, so results do not depend on the
// FTZ/DAZ state of the calling thread.
//
// Sources of the rules: OCP Microscaling Formats 1.0 (E2M1, E8M0, MXFP8); OCP FP8 (E4M3FN); NVFP4
// as in ModelOpt and compressed-tensors; the KV writer is the M3.1 insert rule (one scale per 16
// values, floor 2^-9, never -0).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace minim {

inline constexpr size_t kNvfp4Group = 16;  // values that share one E4M3 scale
inline constexpr size_t kMxfp8Group = 32;  // values that share one E8M0 scale
inline constexpr float kE4m3Max = 448.0f;

// ---- bf16: the upper half of a float32

static inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
static inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float round_to_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

// ---- E4M3FN: sign, 4 exponent bits (bias 7), 3 mantissa bits; largest 448, no infinity,
// NaN = 0x7f / 0xff

static inline float e4m3_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal: mantissa * 2^-9, normalised by hand so that no denormal float is ever formed.
  const uint32_t shift =
      static_cast<uint32_t>(std::countl_zero(mantissa)) - 28u;  // leading bit to position 3
  return std::bit_cast<float>(sign | ((121u - shift) << 23) | (((mantissa << shift) & 7u) << 20));
}

// Round to nearest, ties to even, saturating at +-448 (infinities too); the sign of zero is kept;
// NaN gives 0x7f.
static inline uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e00000u) return sign | 0x7e;  // >= 448
  if (magnitude >= 0x3c800000u) {                    // >= 2^-6: drop 20 mantissa bits
    const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
  }
  // Subnormal: multiples of 2^-9. Shift the 24-bit significand to that grid and round on integers.
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 117)
    return sign;  // below 2^-10: rounds to zero (2^-10 itself ties to even, handled below)
  const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t drop =
      141u - exponent;  // 2^(exponent-127) = significand * 2^(exponent-150); grid 2^-9
  const uint32_t kept = significand >> drop;
  const uint32_t rest = significand & ((1u << drop) - 1u);
  const uint32_t half = 1u << (drop - 1u);
  return static_cast<uint8_t>(sign |
                              (kept + ((rest > half || (rest == half && (kept & 1u))) ? 1u : 0u)));
}

static inline float round_to_e4m3(float value) { return e4m3_to_float(float_to_e4m3(value)); }

// ---- E8M0: a power of two, 2^(code - 127)

// Code 0 counts as zero (2^-127 is a float32 denormal, which workers read as zero anyway); 255 is
// NaN and is refused when a checkpoint is loaded.
static inline float e8m0_to_float(uint8_t code) {
  if (code == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// ---- E2M1: sign and one of eight magnitudes

static constexpr float kE2m1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

static inline float e2m1_to_float(uint8_t code) { return kE2m1Values[code & 15u]; }

// Round to nearest, ties to the even code, saturating at +-6; the sign is kept, also of zero (code
// 8 is -0). Number: float or double.
template <typename Number>
static inline uint8_t to_e2m1(Number value) {
  const Number a = std::fabs(value);
  const int magnitude = (a > Number(0.25)) + (a >= Number(0.75)) + (a > Number(1.25)) +
                        (a >= Number(1.75)) + (a > Number(2.5)) + (a >= Number(3.5)) +
                        (a > Number(5.0));
  return static_cast<uint8_t>(magnitude | (std::signbit(value) ? 8 : 0));
}

static inline uint8_t float_to_e2m1(float value) { return to_e2m1(value); }

// ---- NVFP4 cache values: 16 values, 8 bytes of codes (low nibble = even value), one E4M3 scale,
// no outer scale

// The M3.1 insert rule. `values` are 16 finite float32. Returns the scale byte (1..0x7e).
static inline uint8_t nvfp4_kv_encode(const float* values, uint8_t* codes) {
  float largest = 0.0f;
  for (size_t i = 0; i < kNvfp4Group; ++i) largest = std::fmax(largest, std::fabs(values[i]));
  const float wanted = std::fmin(std::fmax(largest / 6.0f, 1.0f / 512.0f), kE4m3Max);
  const uint8_t scale_code = float_to_e4m3(wanted);
  const float s = e4m3_to_float(scale_code);
  for (size_t i = 0; i < kNvfp4Group; i += 2) {
    uint8_t pair = 0;
    for (size_t j = 0; j < 2; ++j) {
      const float a = std::fabs(values[i + j]);
      const int magnitude = (a > 0.25f * s) + (a >= 0.75f * s) + (a > 1.25f * s) +
                            (a >= 1.75f * s) + (a > 2.5f * s) + (a >= 3.5f * s) + (a > 5.0f * s);
      const int sign = (magnitude != 0 && values[i + j] < 0.0f) ? 8 : 0;
      pair = static_cast<uint8_t>(pair | ((magnitude | sign) << (4 * j)));
    }
    codes[i / 2] = pair;
  }
  return scale_code;
}

// The exact product (at most 6 significant bits). A scale byte of 0 reads as zero whatever the code
// is.
static inline float nvfp4_kv_value(uint8_t code, uint8_t scale_code) {
  return e2m1_to_float(code) * e4m3_to_float(scale_code & 0x7fu);
}

// The `gpu` reading: the product rounded once more to E4M3.
static inline float nvfp4_kv_value_gpu(uint8_t code, uint8_t scale_code) {
  return round_to_e4m3(nvfp4_kv_value(code, scale_code));
}

// ---- MXFP8 and two-level NVFP4 quantisers (activations and test data; weights come with their
// scales)

// The value as a double, denormals included whatever DAZ says.
static inline double widen_exactly(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) != 0) return static_cast<double>(value);
  const double magnitude = static_cast<double>(bits & 0x7fffffu) * 0x1p-149;
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

static inline double largest_magnitude(const float* values, size_t n) {
  double largest = 0.0;
  for (size_t i = 0; i < n; ++i) largest = std::fmax(largest, std::fabs(widen_exactly(values[i])));
  return largest;
}

// Exponent: the smallest e in [-127, 127] with amax <= 448 * 2^e; a block of zeros gets -127.
// Returns the E8M0 code.
static inline uint8_t mxfp8_encode(const float* values, uint8_t* codes) {
  const double largest = largest_magnitude(values, kMxfp8Group);
  int exponent = -127;
  if (largest > 0.0) {
    int binary = 0;
    const double fraction = std::frexp(largest / 448.0, &binary);
    exponent = fraction == 0.5 ? binary - 1 : binary;
    exponent = exponent < -127 ? -127 : exponent > 127 ? 127 : exponent;
  }
  for (size_t i = 0; i < kMxfp8Group; ++i) {
    const double scaled = std::ldexp(widen_exactly(values[i]), -exponent);
    codes[i] = float_to_e4m3(static_cast<float>(std::fmin(std::fmax(scaled, -448.0), 448.0)));
  }
  return static_cast<uint8_t>(exponent + 127);
}

// s = E4M3(clamp(amax / (6 g), 2^-9, 448)), 1.0 for a block of zeros; code = E2M1(x / (s g)).
// Returns the scale byte.
static inline uint8_t nvfp4_encode(const float* values, double global, uint8_t* codes) {
  const double largest = largest_magnitude(values, kNvfp4Group);
  const double wanted = std::fmin(std::fmax(largest / (6.0 * global), 1.0 / 512.0), 448.0);
  const uint8_t scale_code = float_to_e4m3(largest > 0.0 ? static_cast<float>(wanted) : 1.0f);
  const double step = static_cast<double>(e4m3_to_float(scale_code)) * global;
  for (size_t i = 0; i < kNvfp4Group; i += 2) {
    const uint8_t low = to_e2m1(widen_exactly(values[i]) / step);
    const uint8_t high = to_e2m1(widen_exactly(values[i + 1]) / step);
    codes[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
  return scale_code;
}

}  // namespace minim
