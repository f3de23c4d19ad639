// Element-wise entries over 16-lane vectors. Included inside the anonymous namespace of a tier that
// has defined V16, I16, M16 and their operations (avx2.cpp lists them). Every function repeats
// scalar.cpp operation by operation.

inline V16 exp_of(V16 x) {
  x = min(max(x, set1(-87.0f)), set1(88.0f));
  const V16 magic = set1(12582912.0f);
  const V16 t = fma(x, set1(1.44269504f), magic);
  const V16 n = sub(t, magic);
  V16 r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  V16 p = set1(kExpCoefficients[4]);
  p = fma(p, r, set1(kExpCoefficients[3]));
  p = fma(p, r, set1(kExpCoefficients[2]));
  p = fma(p, r, set1(kExpCoefficients[1]));
  p = fma(p, r, set1(kExpCoefficients[0]));
  p = fma(mul(r, r), p, r);
  p = add(p, set1(1.0f));
  return as_float(add(as_int(p), shift_left<23>(as_int(t))));
}

inline V16 sigmoid_of(V16 x) {
  const V16 one = set1(1.0f);
  return div(one, add(one, exp_of(negate(x))));
}

inline V16 to_bf16(V16 x) {
  const I16 bits = as_int(x);
  const I16 upper = set1_int(0xffff0000u);
  const I16 odd = bit_and(shift_right<16>(bits), set1_int(1));
  const I16 rounded = bit_and(add(add(bits, set1_int(0x7fff)), odd), upper);
  const I16 quiet = bit_or(bit_and(bits, upper), set1_int(0x00400000));
  const M16 is_nan = greater(bit_and(bits, set1_int(0x7fffffff)), set1_int(0x7f800000));
  return as_float(select(is_nan, quiet, rounded));
}

// Below 2^-6 the grid is 2^-9: adding 2^14 (whose last bit is 2^-9) lets the adder round to it,
// ties to even.
inline V16 to_e4m3(V16 x) {
  const I16 bits = as_int(x);
  const I16 size = bit_and(bits, set1_int(0x7fffffff));
  const I16 capped = select(greater(size, set1_int(0x43e00000)), set1_int(0x43e00000), size);
  const I16 odd = bit_and(shift_right<20>(capped), set1_int(1));
  const I16 normal = bit_and(add(add(capped, set1_int(0x7ffff)), odd), set1_int(0xfff00000u));
  const V16 step = set1(0x1p14f);
  const I16 small = as_int(sub(add(as_float(capped), step), step));
  const I16 rounded = select(greater(set1_int(0x3c800000), size), small, normal);
  const I16 with_sign = bit_or(rounded, bit_and(bits, set1_int(0x80000000u)));
  const M16 is_nan = greater(size, set1_int(0x7f800000));
  return as_float(select(is_nan, set1_int(0x7fc00000), with_sign));
}

// body(i, n) for whole vectors (n = 16), then for what is left.
template <typename Body>
inline void for_each_vector(size_t n, const Body& body) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, size_t{16});
  if (i < n) body(i, n - i);
}

inline V16 load_some(const float* p, size_t n) { return n == 16 ? load(p) : load_first(p, n); }
inline void store_some(float* p, V16 v, size_t n) {
  if (n == 16) {
    store(p, v);
  } else {
    store_first(p, v, n);
  }
}

void round_bf16(float* x, size_t n) noexcept {
  for_each_vector(n,
                  [=](size_t i, size_t m) { store_some(x + i, to_bf16(load_some(x + i, m)), m); });
}

void round_e4m3(float* x, size_t n) noexcept {
  for_each_vector(n,
                  [=](size_t i, size_t m) { store_some(x + i, to_e4m3(load_some(x + i, m)), m); });
}

void widen_bf16(const uint16_t* bits, size_t n, float* out) noexcept {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    store(out + i,
          as_float(shift_left<16>(widen_words(reinterpret_cast<const uint8_t*>(bits + i)))));
  }
  for (; i < n; ++i) out[i] = bf16_to_float(bits[i]);
}

// 1 / sqrt(mean of squares + eps); lane j sums the elements j mod 16.
inline float inverse_rms(const float* x, size_t n, float eps) {
  V16 squares = zero();
  for (size_t i = 0; i < n; i += 16) {
    const V16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  float sums[16];
  store(sums, squares);
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return 1.0f / __builtin_sqrtf(sums[0] / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* w1, size_t n, float eps, float* out) noexcept {
  const V16 r = set1(inverse_rms(x, n, eps));
  for (size_t i = 0; i < n; i += 16) {
    store(out + i, to_bf16(mul(mul(load(x + i), r), load(w1 + i))));
  }
}

void norm_rope(const float* x, const float* w1, float eps, const float* cos, const float* sin,
               size_t half, float* out) noexcept {
  const V16 r = set1(inverse_rms(x, kChannels, eps));
  for (size_t i = 0; i < kChannels; i += 16) {
    store(out + i, mul(mul(load(x + i), r), load(w1 + i)));
  }
  for (size_t i = 0; i < half; i += 16) {
    const V16 a = load(out + i), b = load(out + i + half), c = load(cos + i), s = load(sin + i);
    store(out + i, fma(a, c, negate(mul(b, s))));
    store(out + i + half, fma(b, c, mul(a, s)));
  }
}

void add_bf16(float* x, const float* y, size_t n) noexcept {
  for_each_vector(n, [=](size_t i, size_t m) {
    store_some(x + i, to_bf16(add(load_some(x + i, m), load_some(y + i, m))), m);
  });
}

void accumulate(float w, const float* y, float* acc, size_t n) noexcept {
  const V16 weight = set1(w);
  for_each_vector(n, [=](size_t i, size_t m) {
    store_some(acc + i, fma(weight, load_some(y + i, m), load_some(acc + i, m)), m);
  });
}

void swiglu(const float* g, const float* u, size_t n, float alpha, float limit,
            float* out) noexcept {
  const V16 top = set1(limit), bottom = set1(-limit), slope = set1(alpha), one = set1(1.0f);
  for_each_vector(n, [=](size_t i, size_t m) {
    const V16 gate = min(load_some(g + i, m), top);
    const V16 up = min(max(load_some(u + i, m), bottom), top);
    const V16 product = mul(mul(add(up, one), gate), sigmoid_of(mul(slope, gate)));
    store_some(out + i, to_bf16(product), m);
  });
}

void sigmoid(const float* x, size_t n, float* out) noexcept {
  for_each_vector(
      n, [=](size_t i, size_t m) { store_some(out + i, sigmoid_of(load_some(x + i, m)), m); });
}
