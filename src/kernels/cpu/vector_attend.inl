// Attention of 16 lanes to one block, and merging. See vector_math.inl for what is expected.
//
// Lanes are (row, head) pairs, so a key's channel is one broadcast for all of them, and a lane's
// result cannot depend on its neighbours. Scores take four keys at a time and values four channels,
// so that the load of q[d] or p[j] serves four products. Keys that every lane sees take the plain
// path; behind them a key steps only in the lanes that see it. P * V walks the keys in runs of 32:
// rows of v lie 512 bytes apart, and more of them would evict each other from the first-level
// cache.

constexpr size_t kKeyRun = 32;
constexpr float kScoreScale = 0x1.6a09e6p-4f;  // 128^-1/2

template <int kN>
inline void score_keys(const float* q, const float* k, float* scores) {
  V16 acc[kN];
  for (V16& a : acc) a = zero();
  for (size_t d = 0; d < kChannels; d += 2) {
    const V16 odd = load(q + (d + 1) * kLanes), even = load(q + d * kLanes);
    for (int n = 0; n < kN; ++n)
      acc[n] = fma(set1(k[static_cast<size_t>(n) * kChannels + d + 1]), odd, acc[n]);
    for (int n = 0; n < kN; ++n)
      acc[n] = fma(set1(k[static_cast<size_t>(n) * kChannels + d]), even, acc[n]);
  }
  for (int n = 0; n < kN; ++n) store(scores + n * 16, mul(acc[n], set1(kScoreScale)));
}

struct Visibility {
  I16 limit;  // keys that a lane sees; an idle lane counts as seeing all, its results are cleared
              // at the end
  M16 idle;
  size_t common;  // keys that every lane sees, rounded down to a pair
};

inline Visibility visibility_of(const int32_t* n_visible, size_t n_keys) {
  int32_t limits[kLanes];
  size_t common = n_keys;
  for (size_t l = 0; l < kLanes; ++l) {
    const auto own = static_cast<size_t>(n_visible[l]);
    if (own != 0 && own < common) common = own;
    limits[l] = static_cast<int32_t>(own != 0 ? own : n_keys);
  }
  const I16 seen = load_int(reinterpret_cast<const uint8_t*>(n_visible));
  return {load_int(reinterpret_cast<const uint8_t*>(limits)), greater(set1_int(1), seen),
          common & ~size_t{1}};
}

inline M16 sees(const Visibility& v, size_t key) {
  return greater(v.limit, set1_int(static_cast<uint32_t>(key)));
}

inline V16 largest_score(const float* scores, size_t n_keys, const Visibility& v) {
  V16 best = set1(-__builtin_inff());
  for (size_t j = 0; j < v.common; ++j) best = max(best, load(scores + j * 16));
  for (size_t j = v.common; j < n_keys; ++j)
    best = select(sees(v, j), max(best, load(scores + j * 16)), best);
  return best;
}

// Scores become rounded probabilities; returns the denominator.
inline V16 probabilities(float* scores, size_t n_keys, const Visibility& v, V16 largest,
                         AttentionMode mode) {
  const bool gpu = mode == AttentionMode::kGpu;
  V16 sums[8];
  for (V16& s : sums) s = zero();
  for (size_t j = 0; j < n_keys; ++j) {
    V16 p = exp_of(sub(load(scores + j * 16), largest));
    if (gpu) p = mul(p, set1(kE4m3Max));
    V16& sum = sums[j % 8];
    sum = j < v.common ? add(sum, p) : select(sees(v, j), add(sum, p), sum);
    store(scores + j * 16, gpu ? to_e4m3(p) : to_bf16(p));
  }
  return add(add(add(sums[0], sums[4]), add(sums[2], sums[6])),
             add(add(sums[1], sums[5]), add(sums[3], sums[7])));
}

constexpr int kChannelTile = 4;

inline void value_step(V16 p, const float* v, V16 (&acc)[kChannelTile]) {
  for (int c = 0; c < kChannelTile; ++c) acc[c] = fma(set1(v[c]), p, acc[c]);
}

inline void masked_step(M16 seen, V16 p, const float* v, V16 (&acc)[kChannelTile]) {
  for (int c = 0; c < kChannelTile; ++c) acc[c] = select(seen, fma(set1(v[c]), p, acc[c]), acc[c]);
}

// Continues the chains of four channels over the keys [begin, end); begin is even.
inline void weigh_values(const float* p, const float* v, size_t begin, size_t end,
                         const Visibility& seen, V16 (&acc)[kChannelTile]) {
  size_t j = begin;
  for (; j + 2 <= end && j < seen.common; j += 2) {
    value_step(load(p + (j + 1) * 16), v + (j + 1) * kChannels, acc);
    value_step(load(p + j * 16), v + j * kChannels, acc);
  }
  for (; j < end; j += 2) {
    if (j + 1 < end)
      masked_step(sees(seen, j + 1), load(p + (j + 1) * 16), v + (j + 1) * kChannels, acc);
    masked_step(sees(seen, j), load(p + j * 16), v + j * kChannels, acc);
  }
}

void attend_block(const float* q, const float* k, const float* v, size_t n_keys,
                  const int32_t* n_visible, AttentionMode mode, AttentionPartial* out) noexcept {
  alignas(64) float scores[kTokens * 16];
  const Visibility seen = visibility_of(n_visible, n_keys);
  size_t j = 0;
  for (; j + 4 <= n_keys; j += 4) score_keys<4>(q, k + j * kChannels, scores + j * 16);
  for (; j < n_keys; ++j) score_keys<1>(q, k + j * kChannels, scores + j * 16);

  const V16 largest = largest_score(scores, n_keys, seen);
  const V16 denominator = probabilities(scores, n_keys, seen, largest, mode);
  store(out->max, select(seen.idle, zero(), largest));
  store(out->denominator, select(seen.idle, zero(), denominator));

  for (size_t d = 0; d < kChannels; ++d) store(out->value[d], zero());
  for (size_t begin = 0; begin < n_keys; begin += kKeyRun) {
    const size_t end = n_keys - begin < kKeyRun ? n_keys : begin + kKeyRun;
    for (size_t d = 0; d < kChannels; d += kChannelTile) {
      V16 acc[kChannelTile];
      for (int c = 0; c < kChannelTile; ++c) acc[c] = load(out->value[d + static_cast<size_t>(c)]);
      weigh_values(scores, v + d, begin, end, seen, acc);
      for (int c = 0; c < kChannelTile; ++c) store(out->value[d + static_cast<size_t>(c)], acc[c]);
    }
  }
  bool any_idle = false;
  for (size_t l = 0; l < kLanes; ++l) any_idle |= n_visible[l] == 0;
  if (!any_idle) return;
  for (size_t d = 0; d < kChannels; ++d)
    store(out->value[d], select(seen.idle, zero(), load(out->value[d])));
}

void merge_partial(const AttentionPartial& partial, size_t first_lane, size_t n_lanes,
                   float* state_max, float* state_denominator, float* state_value) noexcept {
  const V16 old_max = load_some(state_max, n_lanes),
            new_max = load_some(partial.max + first_lane, n_lanes);
  const M16 first = equal(as_int(old_max), set1_int(0xff800000u));
  const V16 merged = add(max(old_max, new_max), zero());
  const V16 a = exp_of(sub(old_max, merged)), b = exp_of(sub(new_max, merged));
  const auto merge = [&](float* state, const float* added) {
    const V16 new_value = load_some(added, n_lanes);
    store_some(state,
               select(first, new_value, fma(b, new_value, mul(a, load_some(state, n_lanes)))),
               n_lanes);
  };
  store_some(state_max, select(first, new_max, merged), n_lanes);
  merge(state_denominator, partial.denominator + first_lane);
  for (size_t d = 0; d < kChannels; ++d)
    merge(state_value + d * n_lanes, partial.value[d] + first_lane);
}
