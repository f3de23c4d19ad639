// Cached vectors: writing, reading and index scores.
#include <algorithm>

#include "device/kv_layout.h"
#include "kernels/tier_fixture.h"

namespace minim {
namespace {

constexpr TileFormat kFormats[] = {TileFormat::kBf16, TileFormat::kFp8E4m3, TileFormat::kNvfp4};
constexpr AttentionMode kModes[] = {AttentionMode::kDirect, AttentionMode::kGpu};
constexpr size_t kChannels = 128, kTokens = 128;

size_t tile_bytes(TileFormat f) { return kv_tile_bytes(static_cast<KvFormat>(f)); }

// What a stored value reads as, by base/formats.h alone.
std::vector<float> expected_values(TileFormat format, AttentionMode mode, const float* x) {
  std::vector<float> out(kChannels);
  for (size_t g = 0; g < kChannels; g += kNvfp4Group) {
    uint8_t codes[8];
    const uint8_t scale = format == TileFormat::kNvfp4 ? nvfp4_kv_encode(x + g, codes) : uint8_t{0};
    for (size_t i = 0; i < kNvfp4Group; ++i) {
      float v = format == TileFormat::kBf16 ? round_to_bf16(x[g + i])
                : format == TileFormat::kFp8E4m3
                    ? round_to_e4m3(x[g + i])
                    : nvfp4_kv_value((codes[i / 2] >> (i % 2 * 4)) & 15u, scale);
      out[g + i] = mode == AttentionMode::kGpu ? round_to_e4m3(v) : v;
    }
  }
  return out;
}

class CacheMath : public TierTest {};
MINIM_ALL_TIERS(CacheMath);

TEST_P(CacheMath, StoredVectorsReadBackAsTheFormatSays) {
  for (const TileFormat format : kFormats) {
    Aligned tile(tile_bytes(format));
    std::vector<std::vector<float>> vectors;
    for (size_t t = 0; t < kTokens; ++t) {
      vectors.push_back(t % 2 == 0 ? ordinary(draw, kChannels)
                                   : draw.values(kChannels, false, true));
      tier().store_vector(format, vectors[t].data(), t, tile.data());
    }
    for (const AttentionMode mode : kModes) {
      std::vector<float> out(kTokens * kChannels);
      tier().load_vectors(format, mode, tile.data(), kTokens, out.data());
      for (size_t t = 0; t < kTokens; ++t) {
        EXPECT_TRUE(same_bits(std::span(out).subspan(t * kChannels, kChannels),
                              expected_values(format, mode, vectors[t].data())))
            << "format " << static_cast<int>(format) << " token " << t;
      }
    }
  }
}

TEST_P(CacheMath, StoringATokenTouchesNoOther) {
  for (const TileFormat format : kFormats) {
    for (const bool index : {false, true}) {
      const auto store = index ? tier().store_index : tier().store_vector;
      // A byte belongs to the token that can change it: write each token twice, with different
      // values, over all backgrounds.
      std::vector<int> owner(tile_bytes(format), -1);
      for (const uint8_t background : {uint8_t{0x00}, uint8_t{0xff}}) {
        for (size_t t = 0; t < kTokens; ++t) {
          Aligned tile(tile_bytes(format), background);
          store(format, draw.values(kChannels, false, true).data(), t, tile.data());
          const std::vector<uint8_t> bytes = tile.bytes();
          size_t changed = 0;
          for (size_t i = 0; i < bytes.size(); ++i) {
            if (bytes[i] == background) continue;
            ++changed;
            EXPECT_TRUE(owner[i] == -1 || owner[i] == static_cast<int>(t))
                << "byte " << i << " token " << t;
            owner[i] = static_cast<int>(t);
          }
          EXPECT_LE(changed, kv_vector_bytes(static_cast<KvFormat>(format)));
          EXPECT_GT(changed, 0u);
        }
      }
    }
  }
}

TEST_P(CacheMath, AnIndexTileIsThePanelsOfItsKeys) {
  // Storing 128 keys one by one gives what packing them as a 128 x 128 matrix gives.
  for (const TileFormat format : kFormats) {
    Aligned tile(tile_bytes(format));
    TestMatrix m{.format = format == TileFormat::kBf16      ? PanelFormat::kBf16
                           : format == TileFormat::kFp8E4m3 ? PanelFormat::kFp8
                                                            : PanelFormat::kNvfp4,
                 .n_out = kTokens,
                 .n_in = kChannels,
                 .values = {},
                 .scales = {},
                 .global = 1.0f};
    for (size_t t = 0; t < kTokens; ++t) {
      const std::vector<float> x = draw.values(kChannels, false, true);
      tier().store_index(format, x.data(), t, tile.data());
      for (size_t i = 0; i < kChannels; ++i) {
        if (format == TileFormat::kBf16) {
          const uint16_t bits = float_to_bf16(x[i]);
          m.values.push_back(static_cast<uint8_t>(bits));
          m.values.push_back(static_cast<uint8_t>(bits >> 8));
        } else if (format == TileFormat::kFp8E4m3) {
          m.values.push_back(float_to_e4m3(x[i]));
        } else if (i % 16 == 0) {
          uint8_t codes[8];
          m.scales.push_back(nvfp4_kv_encode(&x[i], codes));
          m.values.insert(m.values.end(), codes, codes + 8);
        }
      }
    }
    EXPECT_EQ(tile.bytes(), m.packed().bytes()) << "format " << static_cast<int>(format);
  }
}

TEST_P(CacheMath, IndexScoresAreTheBestOfTheVisibleKeys) {
  for (const TileFormat format : kFormats) {
    Aligned tile(tile_bytes(format));
    std::vector<std::vector<float>> keys;
    for (size_t t = 0; t < kTokens; ++t) {
      keys.push_back(
          expected_values(format, AttentionMode::kDirect, ordinary(draw, kChannels).data()));
      tier().store_index(format, keys[t].data(), t, tile.data());
      keys[t] = expected_values(format, AttentionMode::kDirect, keys[t].data());
    }
    const std::vector<float> q = ordinary(draw, 128 * kChannels);
    std::vector<int32_t> n_visible(128);
    for (size_t m = 0; m < 128; ++m) n_visible[m] = static_cast<int32_t>(m + 1);
    std::vector<float> out(128);
    tier().index_scores(format, AttentionMode::kDirect, tile.data(), q.data(), 128,
                        n_visible.data(), out.data());
    for (size_t m = 0; m < 128; ++m) {
      double best = -1e30, magnitude = 0;
      for (size_t j = 0; j <= m; ++j) {
        double score = 0;
        for (size_t i = 0; i < kChannels; ++i) {
          const double product =
              static_cast<double>(keys[j][i]) * static_cast<double>(q[m * kChannels + i]);
          score += product;
          magnitude = std::max(magnitude, std::fabs(product));
        }
        best = std::max(best, score);
      }
      EXPECT_NEAR(out[m], best, magnitude * 2e-5) << "row " << m;
    }
  }
}

TEST_P(CacheMath, IndexScoresIgnoreHiddenKeysAndNaN) {
  const std::vector<float> q = ordinary(draw, 5 * kChannels);
  for (const TileFormat format : kFormats) {
    for (const int32_t visible : {1, 15, 16, 17, 100}) {
      Aligned clean(tile_bytes(format), 0), poisoned(tile_bytes(format), 0x7f);
      for (size_t t = 0; t < static_cast<size_t>(visible); ++t) {
        const std::vector<float> key = ordinary(draw, kChannels);
        tier().store_index(format, key.data(), t, clean.data());
        tier().store_index(format, key.data(), t, poisoned.data());
      }
      const std::vector<int32_t> n_visible(5, visible);
      std::vector<float> a(5), b(5);
      tier().index_scores(format, AttentionMode::kDirect, clean.data(), q.data(), 5,
                          n_visible.data(), a.data());
      tier().index_scores(format, AttentionMode::kDirect, poisoned.data(), q.data(), 5,
                          n_visible.data(), b.data());
      EXPECT_TRUE(same_bits(a, b));
    }
  }
  // One NaN key among two: the other one counts. Only NaN keys: -inf. A zero score is +0.
  std::vector<float> key(kChannels, std::bit_cast<float>(0x7fc00000u));
  Aligned tile(tile_bytes(TileFormat::kBf16));
  tier().store_index(TileFormat::kBf16, key.data(), 0, tile.data());
  std::vector<float> ones(kChannels, 1.0f), minus(kChannels, -1.0f);
  tier().store_index(TileFormat::kBf16, minus.data(), 1, tile.data());
  const int32_t one = 1, two = 2, three = 3;
  float score = 0;
  tier().index_scores(TileFormat::kBf16, AttentionMode::kDirect, tile.data(), ones.data(), 1, &two,
                      &score);
  EXPECT_EQ(score, -128.0f);
  tier().index_scores(TileFormat::kBf16, AttentionMode::kDirect, tile.data(), ones.data(), 1, &one,
                      &score);
  EXPECT_EQ(score, -std::numeric_limits<float>::infinity());
  std::fill(key.begin(), key.end(), -0.0f);
  tier().store_index(TileFormat::kBf16, key.data(), 2, tile.data());
  tier().index_scores(TileFormat::kBf16, AttentionMode::kDirect, tile.data(), ones.data(), 1,
                      &three, &score);
  EXPECT_EQ(std::bit_cast<uint32_t>(score), 0u);
}

TEST_P(CacheMath, AScaleOfZeroReadsAsZeros) {
  Aligned tile(std::vector<uint8_t>(tile_bytes(TileFormat::kNvfp4), 0x77));
  std::fill_n(tile.data() + kTokens * 64, kTokens * 8, uint8_t{0});
  std::vector<float> out(kTokens * kChannels, 1.0f);
  tier().load_vectors(TileFormat::kNvfp4, AttentionMode::kDirect, tile.data(), kTokens, out.data());
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v == 0.0f; }));
}

class CacheTiers : public TierTest {};
MINIM_OTHER_TIERS(CacheTiers);

TEST_P(CacheTiers, ReadEveryByteLikeScalar) {
  for (const TileFormat format : kFormats) {
    for (const AttentionMode mode : kModes) {
      for (int round = 0; round < 4; ++round) {
        Aligned tile(draw.bytes(tile_bytes(format)));
        for (const size_t n : {1, 2, 7, 127, 128}) {
          std::vector<float> a(n * kChannels + 1, 9.0f), b = a;
          tier().load_vectors(format, mode, tile.data(), n, a.data());
          scalar().load_vectors(format, mode, tile.data(), n, b.data());
          EXPECT_TRUE(same_bits(a, b));
        }
      }
    }
  }
}

TEST_P(CacheTiers, IndexScoresEqualScalar) {
  for (const TileFormat format : kFormats) {
    for (const AttentionMode mode : kModes) {
      for (const size_t n_rows : {1, 2, 3, 4, 5, 7, 8, 9, 17}) {
        Aligned tile(draw.bytes(tile_bytes(format)));
        if (n_rows % 2 == 1) {  // ordinary keys; the others are random bytes
          for (size_t t = 0; t < kTokens; ++t) {
            scalar().store_index(format, ordinary(draw, kChannels).data(), t, tile.data());
          }
        }
        const std::vector<float> q = draw.values(n_rows * kChannels, false);
        std::vector<int32_t> n_visible(n_rows);
        for (int32_t& n : n_visible) n = static_cast<int32_t>(draw.between(1, 128));
        std::vector<float> a(n_rows + 1, 3.0f), b = a;
        tier().index_scores(format, mode, tile.data(), q.data(), n_rows, n_visible.data(),
                            a.data());
        scalar().index_scores(format, mode, tile.data(), q.data(), n_rows, n_visible.data(),
                              b.data());
        EXPECT_TRUE(same_bits(a, b));
        // Batch mates do not matter.
        float alone = 0;
        tier().index_scores(format, mode, tile.data(), q.data(), 1, n_visible.data(), &alone);
        EXPECT_TRUE(same_bits({&alone, 1}, {a.data(), 1}));
      }
    }
  }
}

TEST_P(CacheTiers, StoreTheBytesOfScalar) {
  for (const TileFormat format : kFormats) {
    for (size_t t = 0; t < kTokens; ++t) {
      const std::vector<float> x = draw.values(kChannels, format != TileFormat::kNvfp4, true);
      Aligned a(tile_bytes(format), 0x3c), b(tile_bytes(format), 0x3c);
      tier().store_vector(format, x.data(), t, a.data());
      scalar().store_vector(format, x.data(), t, b.data());
      EXPECT_EQ(a.bytes(), b.bytes());
      tier().store_index(format, x.data(), t, a.data());
      scalar().store_index(format, x.data(), t, b.data());
      EXPECT_EQ(a.bytes(), b.bytes());
    }
  }
}

}  // namespace
}  // namespace minim
