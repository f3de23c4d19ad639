// The text side is loaded and the prompt rendered before the weights, so that a mistake in either
// is told in a moment and not after minutes of loading.
#include "apps/conversation.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "apps/model_folder.h"
#include "engine/memory_budget.h"
#include "text/prompt.h"

namespace minim {
namespace {

// Thinking dimmed on a terminal, left out in a pipe.
class Display {
 public:
  explicit Display(bool silent)
      : silent_(silent), colour_(use_colour()), terminal_(stdout_is_terminal()) {}

  bool show(const AnswerStream::Piece& piece) {
    if (silent_ || (piece.reasoning && !terminal_)) return true;
    std::string out;
    if (piece.reasoning != dimmed_) {
      out += colour_ ? (piece.reasoning ? "\x1b[2m" : "\x1b[0m") : "";
      if (!at_line_start_) out += '\n';
      dimmed_ = piece.reasoning;
    }
    out += piece.text;
    at_line_start_ = out.back() == '\n';
    return write_out(out) && flush_out();
  }

  void end() {
    if (silent_) return;
    if (colour_ && dimmed_) write_out("\x1b[0m");
    if (!at_line_start_) write_out("\n");
    flush_out();
  }

 private:
  bool silent_, colour_, terminal_;
  bool dimmed_ = false, at_line_start_ = true;
};

Result<SamplingParams> sampling_of(const Arguments& arguments, const GenerationDefaults& model) {
  constexpr double kTemperature = 1.0, kTopP = 0.95;  // of the family's generation_config.json
  SamplingParams params;
  params.temperature =
      arguments.on("greedy")
          ? 0.0
          : arguments.number("temperature", model.temperature.value_or(kTemperature));
  params.top_k = static_cast<int>(arguments.integer("top-k", model.top_k.value_or(0)));
  params.top_p = arguments.number("top-p", model.top_p.value_or(kTopP));
  params.min_p = arguments.number("min-p", params.min_p);
  params.repetition_penalty = arguments.number("repetition-penalty", params.repetition_penalty);
  params.presence_penalty = arguments.number("presence-penalty", params.presence_penalty);
  params.frequency_penalty = arguments.number("frequency-penalty", params.frequency_penalty);
  params.seed = static_cast<uint64_t>(arguments.integer("seed", 0));
  Result<Ok> checked = check_sampling(params);
  if (!checked) return checked.error();
  return params;
}

}  // namespace

Result<TextSide> load_text_side(const Arguments& arguments) {
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return folder.error();
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return tokenizer.error();
  TextSide text{*folder, *std::move(tokenizer), std::nullopt};
  if (!arguments.on("raw")) {
    Result<ChatTemplate> chat_template = load_chat_template(*folder);
    if (!chat_template) return chat_template.error();
    text.chat_template = *std::move(chat_template);
  }
  return text;
}

Result<std::vector<TokenId>> render_prompt(const TextSide& text, const Json& messages,
                                           const Arguments& arguments) {
  Json variables{{"messages", messages}, {"add_generation_prompt", true}};
  if (arguments.given("thinking")) variables["thinking_mode"] = arguments.text("thinking");
  Result<std::vector<PromptSegment>> segments = text.chat_template->render(variables, {});
  if (!segments) return segments.error();
  return encode_prompt(text.tokenizer, *segments);
}

Result<Answerer> load_answerer(const TextSide& text, RuntimeOptions options,
                               const Arguments& arguments, const InterruptWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  Answerer answerer;
  // Small files first: what is wrong with them is told before minutes of loading.
  Result<GenerationDefaults> defaults = load_generation_defaults(options.model_dir);
  if (!defaults) return defaults.error();
  Result<std::vector<int32_t>> stops = stop_ids(*defaults, text.tokenizer, text.folder);
  if (!stops) return stops.error();
  answerer.stops = *std::move(stops);
  Result<std::unique_ptr<Runtime>> runtime = load_runtime(options, arguments.on("quiet"), &watch);
  if (!runtime) return runtime.error();
  answerer.runtime = *std::move(runtime);
  Result<TokenMask> mask = token_mask(answerer.runtime->config(), &text.tokenizer);
  if (!mask) return mask.error();
  answerer.mask = *std::move(mask);
  Result<SamplingParams> sampling = sampling_of(arguments, answerer.runtime->generation());
  if (!sampling) return sampling.error();
  answerer.sampling = *sampling;
  answerer.max_tokens = arguments.integer("max-tokens", 0);
  answerer.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answerer;
}

Result<Answer> answer(const TextSide& text, const Answerer& answerer, Sequence& sequence,
                      const std::vector<TokenId>& prompt, bool silent, bool quiet,
                      const InterruptWatch& watch) {
  const GenerationRequest request{.prompt = prompt,
                                  .sampling = answerer.sampling,
                                  .stop_ids = answerer.stops,
                                  .max_tokens = answerer.max_tokens};
  ProgressLine progress(!quiet, &watch);
  AnswerStream stream(text.tokenizer, prompt);
  Display display(silent);
  Result<Generation> generation = generate(sequence, *answerer.runtime, answerer.mask, request,
                                           progress, watch, [&](int32_t token) {
                                             const auto piece = stream.push(token);
                                             return !piece || display.show(*piece);
                                           });
  if (const auto rest = stream.finish()) display.show(*rest);
  display.end();
  if (!generation) return generation.error();
  return Answer{*std::move(generation), stream.text(), stream.reasoning()};
}

std::string summary(const Generation& generation, const Runtime& runtime) {
  return fmt::format(
      "{} prompt tokens ({} cached) at {:.1f} tok/s, {} generated at {:.1f} tok/s, {}, "
      "{}, {} thread{}",
      generation.prompt_tokens, generation.cached_tokens, generation.prefill_rate(),
      generation.tokens.size(), generation.decode_rate(), format_bytes(peak_memory()),
      runtime.isa(), runtime.n_threads(), runtime.n_threads() == 1 ? "" : "s");
}

Json answer_json(const Answer& answer, const Answerer& answerer) {
  const Generation& generation = answer.generation;
  const size_t n_prompt = static_cast<size_t>(generation.prompt_tokens);
  return Json{{"text", answer.text},
              {"reasoning", answer.reasoning.empty() ? Json(nullptr) : Json(answer.reasoning)},
              {"tool_calls", Json::array()},
              {"tokens", generation.tokens},
              {"finish_reason", finish_name(generation.finish)},
              {"seed", answerer.sampling.seed},
              {"usage",
               {{"prompt_tokens", n_prompt},
                {"cached_tokens", generation.cached_tokens},
                {"completion_tokens", generation.tokens.size()},
                {"total_tokens", n_prompt + generation.tokens.size()}}},
              {"timings",
               {{"load_seconds", answerer.load_seconds},
                {"prefill_seconds", generation.prefill_seconds},
                {"prefill_tok_per_s", generation.prefill_rate()},
                {"decode_seconds", generation.decode_seconds},
                {"decode_tok_per_s", generation.decode_rate()}}},
              {"machine",
               {{"isa", std::string(answerer.runtime->isa())},
                {"threads", answerer.runtime->n_threads()},
                {"peak_memory_bytes", peak_memory()}}}};
}

}  // namespace minim
