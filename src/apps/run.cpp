// minim run: one prompt, a chat, or a batch.
#include <fmt/format.h>

#include <optional>

#include "apps/batch.h"
#include "apps/cache_flags.h"
#include "apps/conversation.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"

namespace minim {
namespace {

// Where the prompt comes from; nullopt: a chat. The error is one of usage.
Result<std::optional<std::string>> prompt_source(const Arguments& arguments) {
  const bool word = !arguments.words().empty();
  if (word && arguments.given("file")) {
    return Error{Code::kInvalid, "a prompt and --file are both given; one of them is wanted"};
  }
  if (arguments.on("raw") && arguments.given("system")) {
    return Error{Code::kInvalid, "--system is a part of the chat template, which --raw leaves out"};
  }
  if (arguments.on("raw") && arguments.given("tools")) {
    return Error{Code::kInvalid, "--tools is a part of the chat template, which --raw leaves out"};
  }
  if (arguments.given("file")) return std::optional(arguments.text("file"));
  if (word && arguments.words()[0] != "-") return std::optional<std::string>("");
  if (word || !stdin_is_terminal()) return std::optional<std::string>("-");
  if (arguments.on("json") || arguments.on("raw")) {
    return Error{Code::kInvalid, fmt::format("--{} wants a prompt: an argument, --file or a pipe",
                                             arguments.on("json") ? "json" : "raw")};
  }
  return std::optional<std::string>();
}

Json opening(const Arguments& arguments) {
  Json messages = Json::array();
  if (arguments.given("system")) {
    messages.push_back({{"role", "system"}, {"content", arguments.text("system")}});
  }
  return messages;
}

// `source` is a file, "-", or empty for the argument.
Result<std::vector<TokenId>> read_prompt(const TextSide& text, const std::string& source,
                                         const Arguments& arguments) {
  std::string content;
  if (source.empty()) {
    content = arguments.words()[0];
  } else {
    Result<std::string> read = read_input(source);
    if (!read) return read.error();
    content = *std::move(read);
    // The line break that ends a file or an echo is no part of a message; raw text stays as it is.
    while (!arguments.on("raw") && !content.empty() && content.back() == '\n') content.pop_back();
  }
  if (content.empty())
    return Error{Code::kInvalid, "the prompt is empty: there is nothing to answer"};
  if (arguments.on("raw")) return text.tokenizer.encode(content, true);
  Json messages = opening(arguments);
  messages.push_back({{"role", "user"}, {"content", content}});
  return render_prompt(text, messages, nullptr);
}

int answer_once(const TextSide& text, const std::string& source, RuntimeOptions options,
                const Arguments& arguments) {
  constexpr size_t kUsualAnswer = 1024;
  Result<std::vector<TokenId>> prompt = read_prompt(text, source, arguments);
  if (!prompt) return fail(prompt.error());
  const size_t n_answer = static_cast<size_t>(arguments.integer("max-tokens", kUsualAnswer));
  Result<Ok> fits = fit_context(options, prompt->size(), n_answer);
  if (!fits) return fail(fits.error());
  InterruptWatch watch;  // not before: while the prompt is read, a signal simply ends the program
  Result<Answerer> answerer = load_answerer(text, options, arguments, watch);
  if (!answerer) return fail(answerer.error());
  const bool json = arguments.on("json");
  Result<Answer> result = answer(text, *answerer, *prompt, json, arguments.on("quiet"), watch);
  if (!result) return fail(result.error());
  warn_of_trouble(*answerer->engine);
  if (json) write_out(dump_json(answer_json(*result, *answerer)) + "\n");
  const int code = finish_output();
  if (code != kDone) return code;
  if (!arguments.on("quiet")) warn(summary(result->generation, *answerer->runtime));
  return result->generation.finish == Finish::kCancelled ? interrupted_code() : kDone;
}

}  // namespace

int run_command(const Arguments& arguments) {
  Result<Ok> batch = check_batch_flags(arguments);
  if (!batch) return usage_error(batch.error().message);
  Result<Ok> flags = check_form_flags(arguments);
  if (!flags) return usage_error(flags.error().message);
  const Result<KvTierOptions> tiers = tier_flags(arguments);
  if (!tiers) return usage_error(tiers.error().message);
  if (arguments.given("batch")) return batch_command(arguments);
  Result<std::optional<std::string>> source = prompt_source(arguments);
  if (!source) return usage_error(source.error().message);
  Result<TextSide> text = load_text_side(arguments);
  if (!text) return fail(text.error());
  Result<Ok> form = read_form(*text, arguments);
  if (!form) return fail(form.error());
  Result<RuntimeOptions> options = runtime_options(arguments, text->folder);
  if (!options) return fail(options.error());
  if (source->has_value()) return answer_once(*text, **source, *options, arguments);

  std::optional<Answerer> answerer;
  {
    InterruptWatch watch;
    Result<Answerer> loaded = load_answerer(*text, *options, arguments, watch);
    if (!loaded) return fail(loaded.error());
    answerer = *std::move(loaded);
  }
  return chat(*text, *answerer, arguments);
}

}  // namespace minim
