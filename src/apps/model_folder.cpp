#include "apps/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/json.h"

namespace minim {
namespace {

KvFormat kv_format(const std::string& name) {
  return name == "bf16"       ? KvFormat::kBf16
         : name == "fp8_e4m3" ? KvFormat::kFp8E4m3
                              : KvFormat::kNvfp4;
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

std::vector<int32_t> stop_ids(const Runtime& runtime, const Tokenizer& tokenizer,
                              const std::string& folder) {
  if (!runtime.generation().stop_ids.empty()) return runtime.generation().stop_ids;
  // Either the literal itself or an object that holds it.
  Result<Json> config = read_json_file(folder + "/tokenizer_config.json");
  if (!config || !config->is_object() || !config->contains("eos_token")) return {};
  const Json& eos = (*config)["eos_token"];
  const Json& literal = eos.is_object() && eos.contains("content") ? eos["content"] : eos;
  if (!literal.is_string()) return {};
  const auto id = tokenizer.find_added(literal.get_ref<const std::string&>());
  return id ? std::vector<int32_t>{*id} : std::vector<int32_t>{};
}

}  // namespace minim
