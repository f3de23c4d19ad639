#include "apps/examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/model_folder.h"
#include "model/checkpoint.h"
#include "model/weights.h"
#include "text/chat_template.h"

namespace minim {
namespace {

void examine_weights(const RuntimeOptions& options, Examination& found) {
  Result<Checkpoint> checkpoint = Checkpoint::open(options.model_dir);
  if (!checkpoint) {
    found.problems.push_back(checkpoint.error().message);
    return;
  }
  if (!found.config) return;
  CheckpointReport report = inspect_checkpoint(*checkpoint, *found.config);
  found.problems.insert(found.problems.end(), std::make_move_iterator(report.problems.begin()),
                        std::make_move_iterator(report.problems.end()));
  found.notes.insert(found.notes.end(), std::make_move_iterator(report.notes.begin()),
                     std::make_move_iterator(report.notes.end()));
  found.unknown = std::move(report.unknown);
  found.weights_bytes = report.text_bytes;
  found.vision_bytes = report.vision_bytes;
}

void examine_cache(const RuntimeOptions& options, Examination& found) {
  constexpr int kUsualContext = 4096;
  const Config& config = *found.config;
  found.formats = config.kv;
  if (options.kv) found.formats.main = *options.kv;
  if (options.index) found.formats.index = *options.index;
  for (const LayerKind& layer : config.layers) {
    const size_t main =
        static_cast<size_t>(config.n_kv_heads) * kv_vector_bytes(found.formats.main);
    found.kv.k += main;
    found.kv.v += main;
    if (layer.sparse_attention) found.kv.index += kv_vector_bytes(found.formats.index);
  }
  found.context =
      options.context > 0 ? options.context : std::min(config.max_positions, kUsualContext);
  if (found.context > config.max_positions) {
    found.problems.push_back(
        fmt::format("a context of {} positions was asked for, this model has "
                    "{} (max_position_embeddings)",
                    found.context, config.max_positions));
  }
  const size_t n_blocks = (static_cast<size_t>(found.context) - 1) / kBlockTokens + 1;
  found.cache_bytes = n_blocks * kBlockTokens * found.kv.total();
}

void examine_text(const RuntimeOptions& options, Examination& found) {
  if (!has_tokenizer(options.model_dir)) {
    found.notes.push_back(
        "no tokenizer.json: score --tokens works, run and everything else with text does not");
  } else if (Result<Tokenizer> tokenizer = load_tokenizer(options.model_dir); !tokenizer) {
    found.problems.push_back(tokenizer.error().message);
  } else if (found.config) {
    Result<TokenMask> mask = token_mask(*found.config, &*tokenizer);
    if (!mask) found.problems.push_back(mask.error().message);
    const Result<GenerationDefaults> defaults = load_generation_defaults(options.model_dir);
    if (defaults) {
      const auto stops = stop_ids(*defaults, *tokenizer, options.model_dir);
      if (!stops) found.problems.push_back(stops.error().message);
    }
  }
  Result<ChatTemplate> chat_template = load_chat_template(options.model_dir);
  if (chat_template) return;
  const bool absent = chat_template.error().code == Code::kNotFound;
  (absent ? found.notes : found.problems)
      .push_back(chat_template.error().message + (absent ? " (run --raw works without)" : ""));
}

}  // namespace

Examination examine_model(const RuntimeOptions& options) {
  Examination found;
  Result<Config> config = load_config(options.model_dir);
  if (config) {
    found.config = *std::move(config);
  } else {
    found.problems.push_back(config.error().message);
  }
  Result<GenerationDefaults> generation = load_generation_defaults(options.model_dir);
  if (!generation) found.problems.push_back(generation.error().message);
  examine_weights(options, found);
  if (found.config) examine_cache(options, found);
  examine_text(options, found);
  return found;
}

}  // namespace minim
