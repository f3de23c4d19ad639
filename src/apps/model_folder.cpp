#include "apps/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "base/json_fields.h"

namespace minim {
namespace {

KvFormat kv_format(const std::string& name) {
  return name == "bf16"       ? KvFormat::kBf16
         : name == "fp8_e4m3" ? KvFormat::kFp8E4m3
                              : KvFormat::kNvfp4;
}

// What a checkpoint holds beyond what is understood may be what its answers depend on.
void warn_of_unknown(const std::vector<std::string>& tensors) {
  constexpr size_t kShown = 3;
  if (tensors.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(tensors.size(), kShown); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", in_quotes(tensors[i]));
  }
  warn(fmt::format(
      "{} tensor{} of this checkpoint {} not understood and left out: {}{}; minim "
      "doctor lists them",
      tensors.size(), tensors.size() == 1 ? "" : "s", tensors.size() == 1 ? "is" : "are", names,
      tensors.size() > kShown ? ", ..." : ""));
}

std::optional<KvFormat> kv_flag(const Arguments& arguments, const char* name) {
  const std::string& value = arguments.text(name);
  if (value.empty() || value == "auto") return std::nullopt;
  return kv_format(value);
}

}  // namespace

Result<std::string> model_folder(const Arguments& arguments) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (arguments.given("model")) {
    const std::string& folder = arguments.text("model");
    if (fs::is_directory(folder, error)) return folder;
    return Error{Code::kNotFound, fmt::format("no model folder {}: {}", folder,
                                              fs::exists(folder, error) ? "it is not a folder"
                                                                        : "it does not exist")};
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = (program / "../models/demo").lexically_normal();
  const fs::path installed = (program / "../share/minim/models/demo").lexically_normal();
  for (const fs::path& folder : {beside, installed}) {
    if (fs::exists(folder / "config.json", error)) return folder.string();
  }
  return Error{
      Code::kNotFound,
      fmt::format("no model: the demo model is neither in {} nor in {}; name a folder with "
                  "--model or MINIM_MODEL",
                  beside.string(), installed.string())};
}

bool has_tokenizer(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + "/tokenizer.json", error);
}

Result<Tokenizer> load_tokenizer(const std::string& folder) {
  return Tokenizer::load(folder + "/tokenizer.json");
}

Result<RuntimeOptions> runtime_options(const Arguments& arguments, const std::string& folder) {
  const std::string& numerics = arguments.text("numerics");
  if (numerics == "fast") {
    return Error{Code::kUnsupported,
                 "--numerics fast is not available in this version; exact is the default"};
  }
  RuntimeOptions options;
  options.model_dir = folder;
  if (arguments.given("isa")) options.isa = arguments.text("isa");
  options.n_threads = static_cast<int>(arguments.integer("threads", 0));
  options.kv = kv_flag(arguments, "kv-dtype");
  options.index = kv_flag(arguments, "index-dtype");
  options.attention =
      arguments.text("attention") == "gpu" ? AttentionMode::kGpu : AttentionMode::kDirect;
  options.numerics = numerics == "reference" ? Numerics::kReference : Numerics::kExact;
  options.context = static_cast<int>(arguments.integer("context", options.context));
  options.chunk = static_cast<int>(arguments.integer("chunk", options.chunk));
  return options;
}

Result<Ok> fit_context(RuntimeOptions& options, size_t n_prompt, size_t n_answer) {
  constexpr size_t kUsual = 4096;
  Result<Config> config = load_config(options.model_dir);
  if (!config) return config.error();
  const size_t most = static_cast<size_t>(config->max_positions);
  const bool fixed = options.context > 0;
  if (!fixed) {
    options.context = static_cast<int>(std::min(most, std::max(kUsual, n_prompt + n_answer)));
  }
  if (n_prompt <= static_cast<size_t>(options.context)) return Ok{};
  return Error{
      Code::kExhausted,
      fmt::format("the prompt has {} tokens, the context {}; {}", n_prompt, options.context,
                  fixed && n_prompt <= most ? "a larger --context holds it"
                                            : "this model has no more positions")};
}

Result<std::unique_ptr<Runtime>> load_runtime(const RuntimeOptions& options, bool quiet,
                                              const InterruptWatch* watch) {
  ProgressLine progress(!quiet, watch);
  Result<std::unique_ptr<Runtime>> runtime = Runtime::load(options, progress.sink());
  progress.clear();
  if (runtime && !(*runtime)->rejected_isa().empty()) {
    warn(
        fmt::format("the self-test of {} failed on this machine, {} is used instead; minim doctor "
                    "tells more",
                    (*runtime)->rejected_isa(), (*runtime)->isa()));
  }
  if (runtime) warn_of_unknown((*runtime)->unknown_tensors());
  return runtime;
}

Result<TokenMask> token_mask(const Config& config, const Tokenizer* tokenizer) {
  TokenMask mask(static_cast<size_t>(config.vocab), 1);
  if (tokenizer == nullptr) return mask;
  if (tokenizer->n_ids() > config.vocab) {
    return Error{Code::kInvalid,
                 fmt::format("tokenizer.json has ids up to {}, the model only {} rows "
                             "(vocab_size): they do not belong together",
                             tokenizer->n_ids() - 1, config.vocab)};
  }
  for (size_t id = 0; id < mask.size(); ++id) {
    mask[id] = tokenizer->has_token(static_cast<TokenId>(id)) ? 1 : 0;
  }
  return mask;
}

Result<std::vector<int32_t>> stop_ids(const GenerationDefaults& defaults,
                                      const Tokenizer& tokenizer, const std::string& folder) {
  if (!defaults.stop_ids.empty()) return defaults.stop_ids;
  const std::string path = folder + "/tokenizer_config.json";
  Result<std::optional<std::string>> text = read_plain_file(path);
  if (!text) return text.error();
  if (!text->has_value()) return std::vector<int32_t>{};
  Result<Json> config = parse_json(**text, path);
  if (!config) return config.error();
  if (!config->is_object()) return Error{Code::kInvalid, path + ": found no JSON object"};
  const auto eos = config->find("eos_token");
  if (eos == config->end() || eos->is_null()) return std::vector<int32_t>{};
  // Either the literal itself or an object that holds it.
  const Json& literal = eos->is_object() && eos->contains("content") ? (*eos)["content"] : *eos;
  const std::optional<TokenId> id =
      literal.is_string() ? tokenizer.find_added(literal.get_ref<const std::string&>())
                          : std::nullopt;
  if (id) return std::vector<int32_t>{*id};
  return Error{Code::kInvalid, fmt::format("{}: eos_token is {}, wanted: an added token of "
                                           "tokenizer.json; without one no answer would end",
                                           path, describe_json(SortedJson(literal)))};
}

}  // namespace minim
