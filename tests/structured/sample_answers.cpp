// Samples answers of the demo model under schemas, for a validator of somebody else to read
// (check_samples.py). The model is hot and knows nothing of JSON: whatever is valid about an answer
// comes from the grammar.
//
// Usage: sample_answers MODEL SCHEMAS N TEMPERATURE MAX_TOKENS [FIRST_SEED]
// SCHEMAS: JSON Lines {"id", "schema"}. Writes JSON Lines {"id", "seed", "text", "finish",
// "tokens", "forced"}; a last line on stderr says how long it took. Exit code 3: a build without
// grammars.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "apps/generation.h"
#include "apps/model_folder.h"
#include "apps/reply_rules.h"
#include "text/detokenizer.h"
#include "text/output_constraint.h"

namespace minim {
namespace {

struct Setup {
  std::unique_ptr<Tokenizer> tokenizer;  // stays where it is: the compiler refers to it
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Engine> engine;
  std::vector<int32_t> stops, prompt;
  std::unique_ptr<GrammarCompiler> compiler;
};

Result<Setup> set_up(const std::string& folder) {
  Result<Tokenizer> tokenizer = load_tokenizer(folder);
  if (!tokenizer) return tokenizer.error();
  Setup setup{
      std::make_unique<Tokenizer>(*std::move(tokenizer)), nullptr, nullptr, {}, {}, nullptr};
  Result<std::unique_ptr<Runtime>> runtime =
      Runtime::load({.model_dir = folder, .n_threads = 1, .context = 2048}, {});
  if (!runtime) return runtime.error();
  setup.runtime = *std::move(runtime);
  Result<TokenMask> mask = token_mask(setup.runtime->config(), setup.tokenizer.get());
  if (!mask) return mask.error();
  Result<std::unique_ptr<Engine>> engine =
      Engine::make(*setup.runtime, {.max_sequences = 1, .token_mask = *std::move(mask)});
  if (!engine) return engine.error();
  setup.engine = *std::move(engine);
  Result<std::vector<int32_t>> stops =
      stop_ids(setup.runtime->generation(), *setup.tokenizer, folder);
  if (!stops) return stops.error();
  setup.stops = *std::move(stops);
  setup.prompt = setup.tokenizer->encode("]~!b[]~b]user\nAnswer.[e~[\n]~b]ai\n</mm:think>", true);
  Result<std::unique_ptr<GrammarCompiler>> compiler =
      GrammarCompiler::create(*setup.tokenizer, setup.stops, {});
  if (!compiler) return compiler.error();
  setup.compiler = *std::move(compiler);
  return setup;
}

struct Wanted {
  int n = 0;
  double temperature = 1;
  int64_t max_tokens = 0;
  uint64_t first_seed = 0;
};

Result<Ok> sample_one(const Setup& setup, const Json& line, const Wanted& wanted, uint64_t seed) {
  GenerateRequest request;
  request.prompt = setup.prompt;
  request.sampling.temperature = wanted.temperature;
  request.sampling.seed = seed;
  request.stop_ids = setup.stops;
  request.max_tokens = wanted.max_tokens;
  request.rules = [&](int) -> Result<std::unique_ptr<TokenRules>> {
    ConstraintRequest form;
    form.mode = ThinkingMode::kDisabled;
    form.format = GrammarSpec{GrammarSpec::Kind::kJsonSchema, dump_json(line["schema"]), {}};
    form.stop_ids = setup.stops;
    Result<std::unique_ptr<OutputConstraint>> constraint =
        OutputConstraint::create(form, *setup.tokenizer, setup.compiler.get());
    if (!constraint) return constraint.error();
    return std::unique_ptr<TokenRules>(new ReplyRules(
        *setup.tokenizer, std::make_shared<const ReplyForm>(), *std::move(constraint)));
  };
  ProgressLine progress(false, nullptr);
  const InterruptWatch watch;
  Result<Generation> generation =
      generate(*setup.engine, std::move(request), progress, watch, [](int32_t) { return true; });
  if (!generation) return generation.error();
  std::vector<int32_t> tokens = generation->tokens;
  if (generation->finish == Finish::kStop) tokens.pop_back();
  fmt::print("{}\n", dump_json({{"id", line["id"]},
                                {"seed", seed},
                                {"text", decode(*setup.tokenizer, tokens, false)},
                                {"finish", finish_name(generation->finish)},
                                {"tokens", generation->tokens.size()},
                                {"forced", generation->forced_tokens}}));
  return Ok{};
}

int sample(const std::string& folder, const std::string& schemas, const Wanted& wanted) {
  Result<Setup> setup = set_up(folder);
  if (!setup) return fail(setup.error()), setup.error().code == Code::kUnsupported ? 3 : 1;
  const auto start = std::chrono::steady_clock::now();
  std::ifstream in(schemas);
  std::string text;
  while (std::getline(in, text)) {
    Result<Json> line = parse_json(text, schemas);
    if (!line) return fail(line.error());
    for (int i = 0; i < wanted.n; ++i) {
      const uint64_t seed = wanted.first_seed + static_cast<uint64_t>(i);
      Result<Ok> sampled = sample_one(*setup, *line, wanted, seed);
      if (!sampled) return fail(sampled.error());
    }
  }
  fmt::print(stderr, "{:.1f} seconds\n",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return finish_output();
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  return minim::sample(argv[1], argv[2],
                       {.n = std::atoi(argv[3]),
                        .temperature = std::atof(argv[4]),
                        .max_tokens = std::atoll(argv[5]),
                        .first_seed = argc > 6 ? std::strtoull(argv[6], nullptr, 10) : 0});
}
