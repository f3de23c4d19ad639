// The reference device against the golden vectors.
//
// Unrounded (`--numerics reference`) it must give the `exact` modes within what their storage as
// float32 allows: that tests the meaning of every checkpoint form and every rule. With the rounding
// points of `exact` it is held twice: loosely to the golden bf16 modes, which round in other places
// (tests/golden/model/README.md), and tightly to rounding_points.safetensors, which the golden
// NumPy model made with this contract's points (expert outputs unrounded, P in bf16 where attention
// reads the cache directly, q not in E4M3 there) and with swiglu_alpha and rms_norm_eps as the
// float32 that a Config holds: logits of the last four rows, named
// checkpoint.length.format.attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device/ref/cache.h"
#include "support/golden_model.h"
#include "support/golden_page.h"
#include "support/model_fixture.h"

namespace minim::testing {
namespace {

// A double engine differs by the order of its sums and by the float32 storage of the golden
// values: 1e-5 is the limit that the golden README states for it.
constexpr double kUnroundedLogits = 1e-5;
constexpr GoldenLimits kUnrounded{1e-4, 1e-4, 1e-3, 1e-5, 1e-4};
// The same arithmetic on the same bf16 values: only a sum that lies within 1e-16 of a rounding
// boundary may differ.
constexpr double kSameRounding = 1e-6;

constexpr KvFormats kBf16{KvFormat::kBf16, KvFormat::kBf16};
constexpr KvFormats kFp8{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3};
constexpr KvFormats kNvfp4{KvFormat::kNvfp4, KvFormat::kNvfp4};

struct Case {
  std::string checkpoint;
  std::string mode;       // prefix of the golden tensors
  std::string tolerance;  // key of tolerance_rel_l2; empty: unrounded
  KvFormats formats;
  AttentionMode attention = AttentionMode::kDirect;
  bool long_prompts = false;  // those of more than 1,000 tokens, else the others
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.checkpoint << "/" << c.mode; }

class GoldenReference : public ::testing::TestWithParam<Case> {
 protected:
  static bool rounded() { return !GetParam().tolerance.empty(); }

  static void run_prompt(const Json& prompt) {
    const Case& c = GetParam();
    const StFile golden = open_prompt(c.checkpoint, prompt);
    const auto tokens = golden.get<int32_t>("input_ids");
    LoadOptions options;
    options.formats = c.formats;
    options.max_rows = static_cast<int>(tokens.size());
    LoadedModel loaded =
        load_model(golden_model_path(c.checkpoint), ref_factory(rounded(), c.attention), options);
    ASSERT_NE(loaded.model, nullptr);
    SequenceRunner runner(loaded);
    Trace trace{.keep_hidden = true, .layers = {}, .hidden = {}};
    const auto want = golden.get<float>(c.mode + ".logits");
    const int keep = static_cast<int>(golden.shape(c.mode + ".logits")[0]);
    const auto got = runner.run(tokens, options.max_rows, keep, &trace);
    ASSERT_EQ(got.size(), want.size());
    if (rounded()) {
      EXPECT_LE(relative_l2(got, want), prompt["tolerance_rel_l2"][c.tolerance].get<double>());
      return;
    }
    EXPECT_LE(relative_l2(got, want), kUnroundedLogits);
    expect_golden_hidden(golden, c.mode, trace, kUnrounded);
    expect_golden_blocks(golden, c.mode, trace, kUnrounded);
    expect_golden_routing(golden, c.mode, trace, kUnrounded);
    const size_t decided = expect_golden_chain(
        golden, c.mode, runner, {got.end() - loaded.config.vocab, got.end()}, kUnrounded);
    EXPECT_EQ(decided, 24u) << "every step of a chain is above the margin";
  }
};

TEST_P(GoldenReference, LogitsHiddenBlocksRoutingAndChainAgree) {
  size_t n_prompts = 0;
  for (const Json& prompt : golden_prompts(GetParam().checkpoint)) {
    const int length = prompt["length"];
    if ((length > 1000) != GetParam().long_prompts) continue;
    if (rounded() && length > 200) continue;  // the tight vectors cover longer ones
    SCOPED_TRACE(prompt["file"].get<std::string>());
    run_prompt(prompt);
    ++n_prompts;
  }
  EXPECT_GE(n_prompts, 2u);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* checkpoint, const char* mode, const char* tolerance,
                       KvFormats formats, AttentionMode attention, bool long_prompts = false) {
    all.push_back({checkpoint, mode, tolerance, formats, attention, long_prompts});
  };
  for (const char* name :
       {"m3-bf16", "m3-mxfp8", "m3-nvfp4", "m3-ct-nvfp4", "m3-native", "m3-text", "m3-vl"}) {
    add(name, "exact", "", kBf16, AttentionMode::kDirect);
    add(name, "bf16", "bf16_vs_bf16", kBf16, AttentionMode::kDirect);
  }
  for (const char* name : {"m31-nvfp4", "m31-release"}) {
    add(name, "exact", "", kBf16, AttentionMode::kDirect);
    add(name, "exact_kv4plain", "", kNvfp4, AttentionMode::kDirect);
    add(name, "exact_kv4", "", kNvfp4, AttentionMode::kGpu);
    add(name, "bf16_kv4plain", "bf16_kv4plain_vs_bf16_kv4plain", kNvfp4, AttentionMode::kDirect);
    add(name, "bf16", "bf16_vs_bf16", kNvfp4, AttentionMode::kGpu);
  }
  add("m31-nvfp4", "exact", "", kBf16, AttentionMode::kDirect, true);
  add("m31-nvfp4", "exact_kv4plain", "", kNvfp4, AttentionMode::kDirect, true);
  add("m31-nvfp4", "exact_kv4", "", kNvfp4, AttentionMode::kGpu, true);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenReference, ::testing::ValuesIn(cases()),
                         [](const auto& instance) {
                           const Case& c = instance.param;
                           std::string name = c.checkpoint + "_" + c.mode;
                           if (c.long_prompts) name += "_long";
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- the rounding points of `exact` ----

KvFormats formats_named(const std::string& name) {
  return name == "bf16" ? kBf16 : name == "fp8_e4m3" ? kFp8 : kNvfp4;
}

std::vector<std::string> split_at_dots(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

TEST(ReferenceRounding, IsAtThePointsOfTheContract) {
  const StFile golden = StFile::open(golden_model_path("golden/rounding_points.safetensors"));
  size_t n_cases = 0;
  for (const auto& item : golden.header.items()) {
    if (item.key() == "__metadata__") continue;
    SCOPED_TRACE(item.key());
    const auto parts = split_at_dots(item.key());  // checkpoint, length, format, attention
    ASSERT_EQ(parts.size(), 4u);
    const StFile prompt = StFile::open(
        golden_model_path("golden/" + parts[0] + "/prompt-" + parts[1] + ".safetensors"));
    LoadOptions options;
    options.formats = formats_named(parts[2]);
    const AttentionMode attention =
        parts[3] == "gpu" ? AttentionMode::kGpu : AttentionMode::kDirect;
    LoadedModel loaded =
        load_model(golden_model_path(parts[0]), ref_factory(true, attention), options);
    ASSERT_NE(loaded.model, nullptr);
    SequenceRunner runner(loaded);
    const auto got = runner.run(prompt.get<int32_t>("input_ids"), options.max_rows, 4);
    EXPECT_LE(relative_l2(got, golden.get<float>(item.key())), kSameRounding);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 9u);
}

// ---- the bytes of the cache ----

// Our bytes of a layer from a golden page: codes of all heads, scales of all heads, for K, then for
// V with swizzled scales; then the index page.
std::vector<uint8_t> bytes_of_page(const StFile& golden, const std::string& prefix,
                                   const KvLayout& layout, int layer) {
  constexpr size_t kCodes = 128 * 64, kScales = 128 * 8;
  const auto main = golden.get<uint8_t>(prefix + ".main");
  const auto index = golden.get<uint8_t>(prefix + ".index");
  const auto v_linear = golden.get<uint8_t>(prefix + ".v_scales_linear");
  const size_t heads = static_cast<size_t>(layout.n_kv_heads);
  EXPECT_EQ(main.size(), 2 * heads * (kCodes + kScales));
  const auto v_swizzled = swizzle_v_scales(v_linear);
  EXPECT_TRUE(std::equal(v_swizzled.rbegin(), v_swizzled.rend(), main.rbegin()));

  std::vector<uint8_t> bytes(layout.layer_bytes(layer));
  const uint8_t* k = main.data();
  const uint8_t* v = k + heads * (kCodes + kScales);
  for (size_t head = 0; head < heads; ++head) {
    uint8_t* k_tile = bytes.data() + layout.k_tile(static_cast<int>(head));
    uint8_t* v_tile = bytes.data() + layout.v_tile(static_cast<int>(head));
    std::copy_n(k + head * kCodes, kCodes, k_tile);
    std::copy_n(k + heads * kCodes + head * kScales, kScales, k_tile + kCodes);
    std::copy_n(v + head * kCodes, kCodes, v_tile);
    std::copy_n(v_linear.data() + head * kScales, kScales, v_tile + kCodes);
  }
  uint8_t* tile = bytes.data() + layout.index_tile();
  for (size_t i = 0; i < 128 * 128; ++i) {
    const size_t key = i / 128, channel = i % 128;
    const auto at = ref::panel_address(KvFormat::kNvfp4, key, channel);
    const uint32_t code = (index[i / 2] >> (i % 2 * 4)) & 15u;
    tile[at.byte] = static_cast<uint8_t>(tile[at.byte] | code << (at.high_nibble ? 4 : 0));
    tile[at.scale] = index[kCodes + key * 8 + channel / 16];
  }
  return bytes;
}

void expect_first_page(const std::string& checkpoint, const std::string& file, KvOrder order) {
  const StFile golden =
      StFile::open(golden_model_path("golden/" + checkpoint + "/" + file + ".safetensors"));
  LoadOptions options;
  options.order = order;
  options.formats = kNvfp4;
  LoadedModel loaded = load_model(golden_model_path(checkpoint), ref_factory(true), options);
  ASSERT_NE(loaded.model, nullptr);
  SequenceRunner runner(loaded, {5, 2});
  runner.run(golden.get<int32_t>("input_ids"), options.max_rows, 0);
  const auto got = loaded.device->block_bytes(0, 5);
  const auto want = bytes_of_page(golden, "bf16.page0.0", loaded.layout, 0);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << checkpoint;
}

TEST(ReferenceCache, TheFirstPageOfLayerZeroIsTheGoldenOneInBothOrders) {
  for (const KvOrder order : {KvOrder::kBlockOuter, KvOrder::kLayerOuter}) {
    expect_first_page("m31-nvfp4", "prompt-00128", order);
    expect_first_page("m31-release", "prompt-00129", order);
  }
}

// ---- chunks ----

TEST(ReferenceChunks, NeverChangeABit) {
  const StFile golden =
      StFile::open(golden_model_path("golden/m31-release/prompt-00600.safetensors"));
  const auto tokens = golden.get<int32_t>("input_ids");
  LoadOptions options;
  options.formats = kNvfp4;
  options.max_rows = 600;
  LoadedModel whole_model =
      load_model(golden_model_path("m31-release"), ref_factory(true), options);
  ASSERT_NE(whole_model.model, nullptr);
  SequenceRunner whole(whole_model);
  const auto want = whole.run(tokens, 600, 4);
  for (const int chunk : {7, 128, 500}) {
    options.order = chunk == 128 ? KvOrder::kLayerOuter : KvOrder::kBlockOuter;
    LoadedModel loaded = load_model(golden_model_path("m31-release"), ref_factory(true), options);
    ASSERT_NE(loaded.model, nullptr);
    SequenceRunner runner(loaded, {9, 3, 17, 0, 8});
    EXPECT_EQ(runner.run(tokens, chunk, 4), want) << "chunks of " << chunk;
  }
}

TEST(ReferenceChunks, DecodingTokenByTokenEqualsPrefill) {
  const StFile golden = StFile::open(golden_model_path("golden/m3-text/prompt-00129.safetensors"));
  const auto tokens = golden.get<int32_t>("input_ids");
  LoadedModel loaded = load_model(golden_model_path("m3-text"), ref_factory(false));
  ASSERT_NE(loaded.model, nullptr);
  SequenceRunner whole(loaded, {0, 1}), single(loaded, {2, 3});
  EXPECT_EQ(single.run(tokens, 1, 129), whole.run(tokens, 129, 129));
}

}  // namespace
}  // namespace minim::testing
