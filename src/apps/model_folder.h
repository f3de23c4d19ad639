// From flags to a loaded model: which folder, which options, and the text side that goes with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/console.h"
#include "base/result.h"
#include "engine/runtime.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace minim {

// --model, or the demo model beside the program. kNotFound says where it was looked for.
Result<std::string> model_folder(const Arguments& arguments);

Result<Tokenizer> load_tokenizer(const std::string& folder);
// The folder has a tokenizer.json.
bool has_tokenizer(const std::string& folder);

// The common flags; kUnsupported for --numerics fast.
Result<RuntimeOptions> runtime_options(const Arguments& arguments, const std::string& folder);

// Sizes a context that no flag fixes to the input: room for n_prompt and n_answer tokens, at least
// 4096, at most what the model has. kExhausted when the prompt alone does not fit (both counts in
// the message), before any weight is read.
Result<Ok> fit_context(RuntimeOptions& options, size_t n_prompt, size_t n_answer);

// Loads with a progress line, and tells the user when a tier failed its self-test or when tensors
// are left out because nobody understands them.
Result<std::unique_ptr<Runtime>> load_runtime(const RuntimeOptions& options, bool quiet,
                                              const InterruptWatch* watch);

// Ids that may be sampled or scored: those with a token; all without a tokenizer. kInvalid when the
// tokenizer has ids that the model has no rows for.
Result<TokenMask> token_mask(const Config& config, const Tokenizer* tokenizer);

// Those of generation_config.json or config.json, else eos_token of tokenizer_config.json; none
// when neither says. An error when that file is needed and broken: an answer without an end is no
// fallback.
Result<std::vector<int32_t>> stop_ids(const GenerationDefaults& defaults,
                                      const Tokenizer& tokenizer, const std::string& folder);

}  // namespace minim
