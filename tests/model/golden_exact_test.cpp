// The cpu device in `exact` numerics against the golden bf16 modes: logits, hidden values, selected
// blocks, router picks, greedy chains and cache pages, each within the limit that
// tests/golden/model/README.md gives for it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "kernels/kernels.h"
#include "support/model_fixture.h"
#include "support/safetensors_file.h"

namespace minim::testing {
namespace {

struct Limits {
  double first8, mean_rms, block_margin, router_margin, chain_margin;
};
constexpr Limits kBf16Limits{0.06, 0.02, 1.0, 0.01, 0.3};
constexpr Limits kNvfp4Limits{0.35, 0.10, 3.0, 0.05, 1.5};

struct Case {
  std::string checkpoint;
  std::string mode;       // prefix of the golden tensors
  std::string tolerance;  // key of tolerance_rel_l2
  AttentionMode attention;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.checkpoint << "/" << c.mode; }

std::string data(const std::string& path) {
  return std::string(MINIM_TEST_DATA) + "/model/" + path;
}

class GoldenExact : public ::testing::TestWithParam<Case> {
 protected:
  bool nvfp4() const { return GetParam().checkpoint.starts_with("m31"); }
  const Limits& limits() const { return nvfp4() ? kNvfp4Limits : kBf16Limits; }
  std::string key(const std::string& name) const { return GetParam().mode + "." + name; }
};

// Where a decision (kept blocks, chosen experts) was a near-tie, rounding may take the other way,
// and from there on values are not comparable: the three checks below go layer by layer and stop at
// the first layer that parted.
bool same_blocks(const StFile& golden, const std::string& mode, const LayerTrace& row, size_t layer,
                 const Limits& limits) {
  const std::string name = mode + ".blocks." + std::to_string(layer);
  EXPECT_EQ(golden.has(name), !row.blocks.empty()) << name;
  if (row.blocks.empty() || !golden.has(name)) return true;
  const auto want = golden.get<int32_t>(name);
  const auto margin = golden.as_double(mode + ".block_margin." + std::to_string(layer));
  const size_t budget = golden.shape(name)[1];
  bool same = true;
  for (size_t g = 0; g < row.blocks.size(); ++g) {
    std::set<int32_t> wanted;
    for (size_t i = 0; i < budget; ++i) {
      if (want[g * budget + i] >= 0) wanted.insert(want[g * budget + i]);
    }
    const std::set<int32_t> got(row.blocks[g].begin(), row.blocks[g].end());
    EXPECT_EQ(got.size(), wanted.size()) << name;
    size_t missing = 0;
    for (const int32_t id : wanted) missing += got.count(id) == 0 ? 1 : 0;
    // Only the pair at the cut may swap.
    EXPECT_LE(missing, margin[g] > limits.block_margin ? 0u : 1u) << name << " group " << g;
    same = same && missing == 0;
  }
  return same;
}

bool same_routing(const StFile& golden, const std::string& mode, const LayerTrace& row,
                  size_t layer, const Limits& limits) {
  const std::string suffix = "." + std::to_string(layer);
  EXPECT_EQ(golden.has(mode + ".router_ids" + suffix), !row.experts.empty());
  if (row.experts.empty() || !golden.has(mode + ".router_ids" + suffix)) return true;
  const auto ids = golden.get<int32_t>(mode + ".router_ids" + suffix);
  const auto weights = golden.as_double(mode + ".router_weights" + suffix);
  const double margin = golden.as_double(mode + ".router_margin" + suffix)[0];
  bool same = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = std::find(row.experts.begin(), row.experts.end(), ids[i]);
    if (at == row.experts.end()) {
      EXPECT_LE(margin, limits.router_margin) << "layer " << layer << " lacks expert " << ids[i];
      same = false;
    }
  }
  for (size_t i = 0; same && i < ids.size(); ++i) {
    const auto at = std::find(row.experts.begin(), row.experts.end(), ids[i]);
    EXPECT_NEAR(
        static_cast<double>(row.expert_weights[static_cast<size_t>(at - row.experts.begin())]),
        weights[i], 4 * limits.router_margin)
        << "layer " << layer;
  }
  return same;
}

void expect_hidden(const StFile& golden, const std::string& mode, const std::vector<float>& row,
                   size_t i, const Limits& limits) {
  const double rms = golden.as_double(mode + ".hidden_rms")[i];
  double sum = 0, squares = 0;
  for (const float value : row) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double n = static_cast<double>(row.size());
  EXPECT_NEAR(sum / n, golden.as_double(mode + ".hidden_mean")[i], limits.mean_rms * rms);
  EXPECT_NEAR(std::sqrt(squares / n), rms, limits.mean_rms * rms);
  const auto first8 = golden.as_double(mode + ".hidden_first8");
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_NEAR(static_cast<double>(row[c]), first8[8 * i + c], limits.first8 * rms)
        << "hidden " << i << " channel " << c;
  }
}

// Returns the number of layers that were compared.
size_t expect_last_row(const StFile& golden, const std::string& mode, const Trace& trace,
                       const Limits& limits) {
  expect_hidden(golden, mode, trace.hidden[0].back(), 0, limits);
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    const LayerTrace& row = trace.layers[layer].back();
    if (!same_blocks(golden, mode, row, layer, limits)) return layer;
    if (!same_routing(golden, mode, row, layer, limits)) return layer;
    expect_hidden(golden, mode, trace.hidden[layer + 1].back(), layer + 1, limits);
  }
  return trace.layers.size();
}

// One vector of a K or V tile / of an index tile as 64 code bytes and 8 scale bytes in channel
// order.
using Nvfp4Vector = std::array<uint8_t, 72>;

Nvfp4Vector tile_vector(const uint8_t* tile, size_t token) {
  Nvfp4Vector out;
  std::copy_n(tile + token * 64, 64, out.begin());
  std::copy_n(tile + 128 * 64 + token * 8, 8, out.begin() + 64);
  return out;
}

Nvfp4Vector index_vector(const uint8_t* tile, size_t token) {
  const uint8_t* panel = tile + token / 16 * panel_bytes(PanelFormat::kNvfp4, 128);
  const size_t lane = token % 16;
  Nvfp4Vector out{};
  for (size_t channel = 0; channel < 128; ++channel) {
    const uint8_t* group = panel + channel / 64 * 576;
    const size_t in_block = channel % 16;
    const uint8_t byte =
        group[channel % 64 / 16 * 128 + in_block / 8 * 64 + lane * 4 + in_block % 4];
    const uint8_t code = (in_block % 8 < 4) ? byte & 15 : byte >> 4;
    out[channel / 2] = static_cast<uint8_t>(out[channel / 2] | code << (channel % 2 * 4));
    out[64 + channel / 16] = group[512 + channel % 64 / 16 * 16 + lane];
  }
  return out;
}

// Our block 0 of a layer in the golden order: K codes, K scales, V codes, V scales (linear), index
// codes, index scales.
std::vector<uint8_t> page_in_golden_order(const LoadedModel& loaded, int layer) {
  const auto bytes = loaded.device->block_bytes(layer, 0);
  const KvLayout& layout = loaded.layout;
  std::vector<uint8_t> codes, scales, page;
  const auto take = [&](const Nvfp4Vector& v) {
    codes.insert(codes.end(), v.begin(), v.begin() + 64);
    scales.insert(scales.end(), v.begin() + 64, v.end());
  };
  const auto flush = [&] {
    page.insert(page.end(), codes.begin(), codes.end());
    page.insert(page.end(), scales.begin(), scales.end());
    codes.clear();
    scales.clear();
  };
  for (const bool is_v : {false, true}) {
    for (int head = 0; head < layout.n_kv_heads; ++head) {
      const uint8_t* tile = bytes.data() + (is_v ? layout.v_tile(head) : layout.k_tile(head));
      for (size_t token = 0; token < 128; ++token) take(tile_vector(tile, token));
    }
    flush();
  }
  for (size_t token = 0; token < 128; ++token) {
    take(index_vector(bytes.data() + layout.index_tile(), token));
  }
  flush();
  return page;
}

void expect_page(const StFile& golden, const LoadedModel& loaded, int layer, double allowed) {
  const std::string prefix = "bf16.page0." + std::to_string(layer);
  if (!golden.has(prefix + ".main")) return;
  auto want = golden.get<uint8_t>(prefix + ".main");
  const auto v_scales = golden.get<uint8_t>(prefix + ".v_scales_linear");
  std::copy(v_scales.begin(), v_scales.end(), want.end() - static_cast<ptrdiff_t>(v_scales.size()));
  const auto index = golden.get<uint8_t>(prefix + ".index");
  want.insert(want.end(), index.begin(), index.end());
  const auto got = page_in_golden_order(loaded, layer);
  ASSERT_EQ(got.size(), want.size());
  size_t different = 0;
  for (size_t i = 0; i < want.size(); ++i) different += got[i] != want[i] ? 1 : 0;
  EXPECT_LE(static_cast<double>(different), allowed * static_cast<double>(want.size()))
      << "layer " << layer << ": " << different << " of " << want.size() << " bytes differ";
}

// The golden tokens are fed; where the margin is clear the best logit must be the golden one. One
// step in 24 may miss: routing of a decoded row can be a near-tie too, and the NumPy reference
// itself misses the same steps with float32 sums or with unrounded experts (m3-text 901 tokens step
// 1, m3-bf16 129 step 1, m3-ct-nvfp4 127 step 16). Step 0 belongs to the prompt.
void expect_chain(const StFile& golden, const std::string& mode, SequenceRunner& runner,
                  std::vector<float> logits, double limit) {
  const auto chain = golden.get<int32_t>(mode + ".chain");
  const auto margin = golden.as_double(mode + ".chain_margin");
  size_t missed = 0;
  for (size_t step = 0; step < chain.size(); ++step) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (margin[step] > limit && best != chain[step]) {
      EXPECT_NE(step, 0u) << "the prompt's own next token";
      ++missed;
    }
    logits = runner.run(std::span(&chain[step], 1), 1, 1);
  }
  EXPECT_LE(missed, 1u);
}

TEST_P(GoldenExact, LogitsHiddenBlocksRoutingChainAndPagesAreWithinTheLimits) {
  const Case& c = GetParam();
  Result<KernelChoice> choice = choose_kernels("auto");
  ASSERT_TRUE(choice);
  const Result<Json> index = read_json_file(data("golden/" + c.checkpoint + "/golden.json"));
  ASSERT_TRUE(index) << index.error().message;
  size_t n_prompts = 0, n_layers = 0, layers_compared = 0;
  for (const Json& prompt : (*index)["prompts"]) {
    const std::string file = prompt["file"];
    const std::string path = data("golden/" + c.checkpoint + "/" + file);
    if (prompt.contains("images") || !std::filesystem::exists(path)) continue;
    SCOPED_TRACE(c.checkpoint + "/" + file);
    const StFile golden = StFile::open(path);
    if (!golden.has(key("logits"))) continue;
    ++n_prompts;
    const auto tokens = golden.get<int32_t>("input_ids");
    const auto want = golden.get<float>(key("logits"));
    LoadedModel loaded =
        load_model(data(c.checkpoint), cpu_factory(choice->kernels, 2, c.attention));
    ASSERT_NE(loaded.model, nullptr);
    SequenceRunner runner(loaded);
    Trace trace{.keep_hidden = true, .layers = {}, .hidden = {}};
    const int keep = static_cast<int>(golden.shape(key("logits"))[0]);
    const auto got = runner.run(tokens, 512, keep, &trace);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LE(relative_l2(got, want), prompt["tolerance_rel_l2"][c.tolerance].get<double>());
    layers_compared += expect_last_row(golden, c.mode, trace, limits());
    n_layers += trace.layers.size();
    if (nvfp4() && tokens.size() >= kBlockTokens) {
      expect_page(golden, loaded, 0, 0.001);
      if (c.attention == AttentionMode::kGpu) expect_page(golden, loaded, 2, 0.4);
    }
    const std::vector<float> last(got.end() - loaded.config.vocab, got.end());
    expect_chain(golden, c.mode, runner, last, limits().chain_margin);
  }
  EXPECT_GE(n_prompts, 4u);
  EXPECT_GE(5 * layers_compared, 4 * n_layers) << "too many rows parted at a near-tie";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name :
       {"m3-bf16", "m3-mxfp8", "m3-nvfp4", "m3-ct-nvfp4", "m3-native", "m3-text", "m3-vl"}) {
    all.push_back({name, "bf16", "bf16_vs_bf16", AttentionMode::kDirect});
  }
  for (const char* name : {"m31-nvfp4", "m31-release"}) {
    all.push_back(
        {name, "bf16_kv4plain", "bf16_kv4plain_vs_bf16_kv4plain", AttentionMode::kDirect});
    all.push_back({name, "bf16", "bf16_vs_bf16", AttentionMode::kGpu});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenExact, ::testing::ValuesIn(cases()),
                         [](const auto& param) {
                           std::string name = param.param.checkpoint + "_" + param.param.mode;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace minim::testing
