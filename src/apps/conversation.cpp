// The text side is loaded and the prompt rendered before the weights, so that a mistake in either
// is told in a moment and not after minutes of loading.
#include "apps/conversation.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "apps/answer_display.h"
#include "apps/cache_flags.h"
#include "apps/model_folder.h"
#include "apps/output_json.h"
#include "apps/reply_rules.h"
#include "engine/memory_budget.h"
#include "text/prompt.h"

namespace minim {
namespace {

// The template reads {"type": "function", "function": {...}}; bare functions are wrapped.
Json template_tools(const Json& tools) {
  Json out = Json::array();
  for (const Json& tool : tools) {
    if (tool.contains("function")) {
      out.push_back(tool);
      continue;
    }
    Json function = Json::object();
    for (const auto& [key, value] : tool.items()) {
      if (key != "type") function[key == "input_schema" ? "parameters" : key] = value;
    }
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Result<Ok> load_tools(const std::string& path, TextSide& text) {
  Result<Json> json = read_json_file(path);
  if (!json) return json.error();
  Result<OfferedTools> tools = read_tools(*json, path);
  if (!tools) return tools.error();
  text.tools = std::move(tools->for_template);
  text.tool_set = std::move(tools->set);
  return Ok{};
}

}  // namespace

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

Result<OfferedTools> read_tools(const Json& tools, const std::string& where) {
  Result<ToolSet> set = ToolSet::parse(tools);
  if (!set) return Error{set.error().code, fmt::format("{}: {}", where, set.error().message)};
  OfferedTools out{.for_template = set->empty() ? Json() : template_tools(tools), .set = nullptr};
  out.set = std::make_shared<const ToolSet>(*std::move(set));
  return out;
}

Result<TextSide> load_text_side(const Arguments& arguments) {
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return folder.error();
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return tokenizer.error();
  TextSide text{.folder = *folder,
                .tokenizer = *std::move(tokenizer),
                .chat_template = std::nullopt,
                .tools = {},
                .tool_set = nullptr,
                .form = {}};
  text.mode = thinking_flag(arguments);
  if (arguments.given("tools")) {
    Result<Ok> tools = load_tools(arguments.text("tools"), text);
    if (!tools) return tools.error();
  }
  if (!arguments.on("raw")) {
    Result<ChatTemplate> chat_template = load_chat_template(*folder);
    if (!chat_template) return chat_template.error();
    text.chat_template = *std::move(chat_template);
  }
  return text;
}

Result<std::vector<TokenId>> render_prompt(const TextSide& text, const Json& messages,
                                           const TurnMemory* memory) {
  return render_prompt(text, messages, text.mode, text.tools, memory);
}

Result<std::vector<TokenId>> render_prompt(const TextSide& text, const Json& messages,
                                           ThinkingMode mode, const Json& tools,
                                           const TurnMemory* memory) {
  Json variables{{"messages", messages}, {"add_generation_prompt", true}};
  if (mode != ThinkingMode::kUnset) {
    variables["thinking_mode"] = std::string(thinking_mode_name(mode));
  }
  if (!tools.is_null()) variables["tools"] = tools;
  ChatTemplate::Options options;
  options.memory = memory;
  Result<std::vector<PromptSegment>> segments = text.chat_template->render(variables, options);
  if (!segments) return segments.error();
  return encode_prompt(text.tokenizer, *segments);
}

Result<Ok> read_form(TextSide& text, const Arguments& arguments) {
  std::vector<TokenId> stops;
  if (wants_stop_ids(arguments)) {
    Result<GenerationDefaults> generation = load_generation_defaults(text.folder);
    if (!generation) return generation.error();
    Result<std::vector<TokenId>> found = stop_ids(*generation, text.tokenizer, text.folder);
    if (!found) return found.error();
    stops = *std::move(found);
  }
  Result<AnswerForm> form =
      read_answer_form(arguments, text.tokenizer, text.tool_set, text.mode, std::move(stops));
  if (!form) return form.error();
  text.form = *std::move(form);
  return Ok{};
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
  options.kv_bytes = cache_size_flag(arguments);
  Result<std::unique_ptr<Runtime>> runtime = load_runtime(options, arguments.on("quiet"), &watch);
  if (!runtime) return runtime.error();
  answerer.runtime = *std::move(runtime);
  Result<TokenMask> mask = token_mask(answerer.runtime->config(), &text.tokenizer);
  if (!mask) return mask.error();
  EngineOptions engine_options{.max_sequences = 1, .token_mask = *std::move(mask)};
  Result<KvTierOptions> tiers = tier_flags(arguments);
  if (!tiers) return tiers.error();
  engine_options.tiers = *std::move(tiers);
  Result<std::unique_ptr<Engine>> engine =
      Engine::make(*answerer.runtime, std::move(engine_options));
  if (!engine) return engine.error();
  answerer.engine = *std::move(engine);
  Result<SamplingParams> sampling = sampling_of(arguments, answerer.runtime->generation());
  if (!sampling) return sampling.error();
  answerer.sampling = *sampling;
  answerer.max_tokens = arguments.integer("max-tokens", 0);
  answerer.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answerer;
}

Result<Answer> answer(const TextSide& text, const Answerer& answerer,
                      const std::vector<TokenId>& prompt, bool silent, bool quiet,
                      const InterruptWatch& watch) {
  const auto form = std::make_shared<const ReplyForm>(
      ReplyForm{.raw = !text.chat_template, .tools = text.tool_set, .mode = text.mode});
  GenerateRequest request;
  request.prompt = prompt;
  request.sampling = answerer.sampling;
  request.stop_ids = answerer.stops;
  request.max_tokens = answerer.max_tokens;
  request.rules = [&](int) -> Result<std::unique_ptr<TokenRules>> {
    Result<std::unique_ptr<OutputConstraint>> constraint = text.form.begin(text.tokenizer);
    if (!constraint) return constraint.error();
    if (*constraint == nullptr) return std::unique_ptr<TokenRules>();
    return std::unique_ptr<TokenRules>(
        new ReplyRules(text.tokenizer, form, *std::move(constraint)));
  };
  ProgressLine progress(!quiet, &watch);
  ReplyText reader(text.tokenizer, form);
  AnswerDisplay display(silent);
  ParsedOutput output;
  const auto take = [&](const std::vector<OutputEvent>& events) {
    bool read = true;
    for (const OutputEvent& event : events) {
      output.add(event);
      read = read && display.show(event);
    }
    return read;
  };
  Result<Generation> generation = generate(*answerer.engine, std::move(request), progress, watch,
                                           [&](int32_t token) { return take(reader.push(token)); });
  take(reader.finish(finish_name(generation ? generation->finish : Finish::kCancelled)));
  display.end();
  if (!generation) return generation.error();
  return Answer{*std::move(generation), std::move(output)};
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
  const ParsedOutput& output = answer.output;
  return Json{{"text", output.content.value_or("")},
              {"reasoning", output.reasoning ? Json(*output.reasoning) : Json()},
              {"tool_calls", calls_json(output)},
              {"tokens", generation.tokens},
              {"finish_reason", output.finish},
              {"seed", answerer.sampling.seed},
              {"usage",
               {{"prompt_tokens", n_prompt},
                {"cached_tokens", generation.cached_tokens},
                {"completion_tokens", generation.tokens.size()},
                {"forced_tokens", generation.forced_tokens},
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
