// The definition of every kernel: what these loops give, bit for bit, is what a kernel is.
//
// Nothing here is clever, so that each function can be read against its contract in kernels.h.
// Built with -mfma: std::fma is then one instruction, which obeys the FTZ and DAZ that callers set
// (a library fma need not). The compiler may vectorise, but never reorders or fuses
// (-ffp-contract=off).
//
// Two choices that make every input defined, whatever bytes a weight or a cache block holds:
// linear() reads the two NaN codes of E4M3 as +-480, the value that their bits spell, and E2M1's -0
// as +0. Loaders refuse such scales and codes.
#include <cmath>
#include <limits>

#include "base/formats.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace minim {
namespace {

constexpr size_t kChannels = 128;
constexpr size_t kTokens = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kScoreScale = 0x1.6a09e6p-4f;  // 128^-1/2

#include "kernels/cpu/store.inl"

float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }

// These two pass a NaN in x on, and of two equal values (zeros) keep x.
float max_of(float x, float bound) { return bound > x ? bound : x; }
float min_of(float x, float bound) { return bound < x ? bound : x; }

float exp_of(float x) {
  x = min_of(max_of(x, -87.0f), 88.0f);
  const float t = std::fma(x, 1.44269504f, 12582912.0f);
  const float n = t - 12582912.0f;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = kExpCoefficients[4];
  for (int i = 3; i >= 0; --i) p = std::fma(p, r, kExpCoefficients[i]);
  p = std::fma(r * r, p, r);
  p = p + 1.0f;
  return float_of(bits_of(p) + (bits_of(t) << 23));
}

float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

// ---- linear

// One chain in pair order over n products, continuing acc.
float chain(const float* w, const float* x, size_t n, float acc) {
  for (size_t i = 0; i + 1 < n; i += 2) {
    acc = std::fma(w[i + 1], x[i + 1], acc);
    acc = std::fma(w[i], x[i], acc);
  }
  if (n % 2 != 0) acc = std::fma(w[n - 1], x[n - 1], acc);
  return acc;
}

uint16_t read_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }

uint8_t fp8_code(const uint8_t* pairs, size_t row, size_t k) {
  return pairs[k / 2 * 32 + row * 2 + k % 2];
}

uint8_t e2m1_code(const uint8_t* panel, size_t row, size_t k) {
  const CodePlace place = code_place(row, k);
  return (panel[place.byte] >> place.shift) & 15u;
}

uint8_t nvfp4_scale(const uint8_t* panel, size_t row, size_t k) {
  return panel[k / 64 * 576 + 512 + k % 64 / 16 * 16 + row];
}

// E4M3 without its NaN codes.
float e4m3_number(uint8_t code) {
  if ((code & 0x7fu) == 0x7fu) return code == 0x7f ? 480.0f : -480.0f;
  return e4m3_to_float(code);
}

float e2m1_number(uint8_t code) { return e2m1_to_float(code) + 0.0f; }  // -0 becomes +0

float dot_unscaled(const Panels& w, const uint8_t* panel, size_t row, const float* x) {
  float total = 0.0f;
  for (size_t k = 0; k < w.n_in; k += 2) {
    const size_t n = w.n_in - k < 2 ? 1 : 2;
    float weights[2] = {};
    for (size_t i = 0; i < n; ++i) {
      if (w.format == PanelFormat::kF32) {
        __builtin_memcpy(&weights[i], panel + (k + i) * 64 + row * 4, 4);
      } else {
        weights[i] = bf16_to_float(read_u16(panel + k / 2 * 64 + row * 4 + i * 2));
      }
    }
    total = chain(weights, x + k, n, total);
  }
  return total;
}

float dot_nvfp4(const Panels& w, const uint8_t* panel, size_t row, const float* x) {
  float total = 0.0f;
  for (size_t k = 0; k < w.n_in; k += kNvfp4Group) {
    float weights[kNvfp4Group];
    for (size_t i = 0; i < kNvfp4Group; ++i) {
      weights[i] = e2m1_number(e2m1_code(panel, row, k + i)) * 0x1p25f;
    }
    const float block = chain(weights, x + k, kNvfp4Group, 0.0f);
    total = std::fma(e4m3_number(nvfp4_scale(panel, row, k)) * 0x1p-8f, block, total);
  }
  return total * (w.global * 0x1p-17f);
}

float dot_mxfp8(const Panels& w, const uint8_t* panel, size_t row, const float* x) {
  float total = 0.0f;
  for (size_t k = 0; k < w.n_in; k += kMxfp8Group) {
    const uint8_t* group = panel + k / 128 * 2112;
    float weights[kMxfp8Group];
    for (size_t i = 0; i < kMxfp8Group; ++i) {
      weights[i] = e4m3_number(fp8_code(group, row, k % 128 + i)) * 0x1p-8f;
    }
    const float block = chain(weights, x + k, kMxfp8Group, 0.0f);
    const uint32_t exponent = group[2048 + k % 128 / kMxfp8Group * 16 + row];
    total = std::fma(float_of(exponent << 23), block, total);
  }
  return total * 0x1p8f;
}

void linear(const Panels& w, const float* x, size_t x_stride, size_t n_tokens, float* y,
            size_t y_stride) noexcept {
  for (size_t p = 0; p < w.n_panels; ++p) {
    const uint8_t* panel = w.data + p * panel_bytes(w.format, w.n_in);
    for (size_t t = 0; t < n_tokens; ++t) {
      for (size_t row = 0; row < kPanelRows; ++row) {
        const float* token = x + t * x_stride;
        y[t * y_stride + p * kPanelRows + row] =
            w.format == PanelFormat::kNvfp4   ? dot_nvfp4(w, panel, row, token)
            : w.format == PanelFormat::kMxfp8 ? dot_mxfp8(w, panel, row, token)
                                              : dot_unscaled(w, panel, row, token);
      }
    }
  }
}

// ---- element by element

void round_bf16(float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] = round_to_bf16(x[i]);
}

void round_e4m3(float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] = round_to_e4m3(x[i]);
}

void widen_bf16(const uint16_t* bits, size_t n, float* out) noexcept {
  for (size_t i = 0; i < n; ++i) out[i] = bf16_to_float(bits[i]);
}

// 1 / sqrt(mean of squares + eps).
float inverse_rms(const float* x, size_t n, float eps) {
  float sums[16] = {};
  for (size_t i = 0; i < n; ++i) sums[i % 16] = std::fma(x[i], x[i], sums[i % 16]);
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return 1.0f / std::sqrt(sums[0] / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* w1, size_t n, float eps, float* out) noexcept {
  const float r = inverse_rms(x, n, eps);
  for (size_t i = 0; i < n; ++i) out[i] = round_to_bf16((x[i] * r) * w1[i]);
}

void norm_rope(const float* x, const float* w1, float eps, const float* cos, const float* sin,
               size_t half, float* out) noexcept {
  const float r = inverse_rms(x, kChannels, eps);
  for (size_t i = 0; i < kChannels; ++i) out[i] = (x[i] * r) * w1[i];
  for (size_t i = 0; i < half; ++i) {
    const float a = out[i], b = out[i + half];
    out[i] = std::fma(a, cos[i], -(b * sin[i]));
    out[i + half] = std::fma(b, cos[i], a * sin[i]);
  }
}

void add_bf16(float* x, const float* y, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] = round_to_bf16(x[i] + y[i]);
}

void accumulate(float w, const float* y, float* acc, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) acc[i] = std::fma(w, y[i], acc[i]);
}

void swiglu(const float* g, const float* u, size_t n, float alpha, float limit,
            float* out) noexcept {
  for (size_t i = 0; i < n; ++i) {
    const float gate = min_of(g[i], limit);
    const float up = min_of(max_of(u[i], -limit), limit);
    out[i] = round_to_bf16(((up + 1.0f) * gate) * sigmoid_of(alpha * gate));
  }
}

void sigmoid(const float* x, size_t n, float* out) noexcept {
  for (size_t i = 0; i < n; ++i) out[i] = sigmoid_of(x[i]);
}

// ---- the cache

float nvfp4_number(uint8_t code, uint8_t scale, AttentionMode mode) {
  const float value = e2m1_number(code) * e4m3_to_float(scale & 0x7fu);
  return mode == AttentionMode::kGpu ? round_to_e4m3(value) : value;
}

void load_vectors(TileFormat format, AttentionMode mode, const uint8_t* tile, size_t n_tokens,
                  float* out) noexcept {
  for (size_t i = 0; i < n_tokens * kChannels; ++i) {
    if (format == TileFormat::kBf16) {
      out[i] = bf16_to_float(read_u16(tile + 2 * i));
      if (mode == AttentionMode::kGpu) out[i] = round_to_e4m3(out[i]);
    } else if (format == TileFormat::kFp8E4m3) {
      out[i] = e4m3_to_float(tile[i]);
    } else {
      const uint8_t code = (tile[i / 2] >> (i % 2 * 4)) & 15u;
      out[i] = nvfp4_number(code, tile[kTokens * kChannels / 2 + i / kNvfp4Group], mode);
    }
  }
}

// Channel k of index key `key`.
float index_value(TileFormat format, AttentionMode mode, const uint8_t* tile, size_t key,
                  size_t k) {
  const size_t p = key / kPanelRows, row = key % kPanelRows;
  if (format == TileFormat::kBf16) {
    const uint8_t* panel = tile + p * panel_bytes(PanelFormat::kBf16, kChannels);
    const float value = bf16_to_float(read_u16(panel + k / 2 * 64 + row * 4 + k % 2 * 2));
    return mode == AttentionMode::kGpu ? round_to_e4m3(value) : value;
  }
  if (format == TileFormat::kFp8E4m3) {
    const uint8_t* panel = tile + p * panel_bytes(PanelFormat::kFp8, kChannels);
    return e4m3_to_float(fp8_code(panel, row, k));
  }
  const uint8_t* panel = tile + p * panel_bytes(PanelFormat::kNvfp4, kChannels);
  return nvfp4_number(e2m1_code(panel, row, k), nvfp4_scale(panel, row, k), mode);
}

void index_scores(TileFormat format, AttentionMode mode, const uint8_t* tile, const float* q,
                  size_t n_rows, const int32_t* n_visible, float* out) noexcept {
  int32_t n_keys = 0;
  for (size_t m = 0; m < n_rows; ++m) {
    out[m] = -kInfinity;
    n_keys = n_visible[m] > n_keys ? n_visible[m] : n_keys;
  }
  for (int32_t j = 0; j < n_keys; ++j) {
    float key[kChannels];
    for (size_t k = 0; k < kChannels; ++k) {
      key[k] = index_value(format, mode, tile, static_cast<size_t>(j), k);
    }
    for (size_t m = 0; m < n_rows; ++m) {
      if (j >= n_visible[m]) continue;
      const float score = chain(key, q + m * kChannels, kChannels, 0.0f);
      if (score > out[m]) out[m] = score;
    }
  }
  for (size_t m = 0; m < n_rows; ++m) out[m] += 0.0f;
}

// ---- attention

void attend_lane(const float* q, const float* k, const float* v, size_t n_keys, AttentionMode mode,
                 size_t lane, AttentionPartial* out) {
  float own_q[kChannels], p[kTokens];
  for (size_t d = 0; d < kChannels; ++d) own_q[d] = q[d * kLanes + lane];
  float largest = -kInfinity;
  for (size_t j = 0; j < n_keys; ++j) {
    p[j] = chain(k + j * kChannels, own_q, kChannels, 0.0f) * kScoreScale;
    if (p[j] > largest) largest = p[j];
  }
  float sums[8] = {};
  for (size_t j = 0; j < n_keys; ++j) {
    p[j] = exp_of(p[j] - largest);
    if (mode == AttentionMode::kGpu) p[j] *= kE4m3Max;
    sums[j % 8] += p[j];
    p[j] = mode == AttentionMode::kGpu ? round_to_e4m3(p[j]) : round_to_bf16(p[j]);
  }
  out->max[lane] = n_keys == 0 ? 0.0f : largest;
  out->denominator[lane] =
      ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  for (size_t d = 0; d < kChannels; ++d) {
    float column[kTokens];
    for (size_t j = 0; j < n_keys; ++j) column[j] = v[j * kChannels + d];
    out->value[d][lane] = chain(column, p, n_keys, 0.0f);
  }
}

void attend_block(const float* q, const float* k, const float* v, size_t, const int32_t* n_visible,
                  AttentionMode mode, AttentionPartial* out) noexcept {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    attend_lane(q, k, v, static_cast<size_t>(n_visible[lane]), mode, lane, out);
  }
}

void merge_partial(const AttentionPartial& partial, size_t first_lane, size_t n_lanes,
                   float* state_max, float* state_denominator, float* state_value) noexcept {
  for (size_t l = 0; l < n_lanes; ++l) {
    const size_t lane = first_lane + l;
    const float old_max = state_max[l], new_max = partial.max[lane];
    const bool first = old_max == -kInfinity;
    const float merged = (new_max > old_max ? new_max : old_max) + 0.0f;
    const float a = exp_of(old_max - merged), b = exp_of(new_max - merged);
    const auto merge = [&](float old_value, float new_value) {
      return first ? new_value : std::fma(b, new_value, a * old_value);
    };
    state_max[l] = first ? new_max : merged;
    state_denominator[l] = merge(state_denominator[l], partial.denominator[lane]);
    for (size_t d = 0; d < kChannels; ++d) {
      float& value = state_value[d * n_lanes + l];
      value = merge(value, partial.value[d][lane]);
    }
  }
}

// ---- packing

// Byte `index` of row `row` of a row-major matrix, zero outside of it.
uint8_t byte_at(const uint8_t* values, size_t n_out, size_t row_bytes, size_t row, size_t index) {
  return row < n_out && index < row_bytes ? values[row * row_bytes + index] : uint8_t{0};
}

void pack_panel(const PackSource& s, size_t panel, uint8_t* out) noexcept {
  const size_t size = panel_bytes(s.format, s.n_in);
  for (size_t i = 0; i < size; ++i) out[i] = 0;
  for (size_t r = 0; r < kPanelRows; ++r) {
    const size_t row = panel * kPanelRows + r;
    const auto value = [&](size_t row_bytes, size_t index) {
      return byte_at(s.values, s.n_out, row_bytes, row, index);
    };
    const auto scale = [&](size_t row_bytes, size_t index) {
      return byte_at(s.scales, s.n_out, row_bytes, row, index);
    };
    for (size_t k = 0; k < s.n_in; ++k) {
      switch (s.format) {
        case PanelFormat::kBf16:
          for (size_t b = 0; b < 2; ++b) {
            out[k / 2 * 64 + r * 4 + k % 2 * 2 + b] = value(2 * s.n_in, 2 * k + b);
          }
          break;
        case PanelFormat::kF32:
          for (size_t b = 0; b < 4; ++b) out[k * 64 + r * 4 + b] = value(4 * s.n_in, 4 * k + b);
          break;
        case PanelFormat::kFp8:
          out[k / 2 * 32 + r * 2 + k % 2] = value(s.n_in, k);
          break;
        case PanelFormat::kMxfp8: {
          uint8_t* group = out + k / 128 * 2112;
          group[k % 128 / 2 * 32 + r * 2 + k % 2] = value(s.n_in, k);
          group[2048 + k % 128 / 32 * 16 + r] = scale(s.n_in / 32, k / 32);
          break;
        }
        case PanelFormat::kNvfp4: {
          const CodePlace place = code_place(r, k);
          const unsigned code = (value(s.n_in / 2, k / 2) >> (k % 2 * 4)) & 15u;
          out[place.byte] = static_cast<uint8_t>(out[place.byte] | (code << place.shift));
          out[k / 64 * 576 + 512 + k % 64 / 16 * 16 + r] = scale(s.n_in / 16, k / 16);
          break;
        }
      }
    }
  }
}

}  // namespace

const Kernels kScalarKernels = {
    .name = "scalar",
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
