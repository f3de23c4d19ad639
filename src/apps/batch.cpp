// The loop of a batch: a window of lines is with the engine, the oldest of them is waited for and
// written. The window is what bounds memory, whatever the file's length; it is some times wider
// than what runs at once, so that a long answer at its head does not leave the engine without work.
// Writing in order of completion lost: whoever reads the file, and whoever continues it, wants the
// order of the input.
#include "apps/batch.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "apps/batch_fields.h"
#include "apps/batch_line.h"
#include "apps/batch_output.h"
#include "apps/cache_flags.h"
#include "apps/model_folder.h"
#include "apps/output_json.h"
#include "engine/engine.h"
#include "engine/memory_budget.h"

namespace minim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kParallel = 16;
constexpr size_t kWindows = 4;  // of what runs at once

// Everything that is known before a weight is read.
struct Plan {
  TextSide text;
  BatchDefaults defaults;
  RuntimeOptions runtime;
  KvTierOptions tiers = {};
  int parallel = kParallel;
  size_t n_lines = 0;  // 0: unknown
};

struct Totals {
  size_t answered = 0, errors = 0, before = 0;
  size_t prompt = 0, cached = 0, generated = 0;
};

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kExhausted:
      return "exhausted";
    case Code::kIo:
      return "io";
    case Code::kCancelled:
      return "cancelled";
    case Code::kBusy:
      return "busy";
  }
  return "";
}

Json error_json(const Json& id, const std::string& code, const std::string& message) {
  return Json{{"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

// Infinity is no JSON: null, as score writes it.
Json logprob_json(float value) { return std::isfinite(value) ? Json(value) : Json(); }

Json logprobs_json(const TokenLogprobs& logprobs) {
  Json top = Json::array();
  for (const auto& [id, value] : logprobs.top) {
    top.push_back({{"token", id}, {"logprob", logprob_json(value)}});
  }
  return Json{{"token", logprobs.token},
              {"logprob", logprob_json(logprobs.logprob)},
              {"top", std::move(top)}};
}

double rate(int n, double seconds) { return n > 0 && seconds > 0 ? n / seconds : 0; }

Json usage_json(const Usage& usage) {
  return Json{{"prompt_tokens", usage.prompt_tokens},
              {"cached_tokens", usage.cached_tokens},
              {"completion_tokens", usage.generated_tokens},
              {"forced_tokens", usage.forced_tokens},
              {"total_tokens", usage.prompt_tokens + usage.generated_tokens}};
}

Json timings_json(const Usage& usage) {
  return Json{
      {"queue_seconds", usage.queue_seconds},
      {"prefill_seconds", usage.prefill_seconds},
      {"prefill_tok_per_s", rate(usage.prompt_tokens - usage.cached_tokens, usage.prefill_seconds)},
      {"decode_seconds", usage.decode_seconds},
      {"decode_tok_per_s", rate(usage.generated_tokens - 1, usage.decode_seconds)}};
}

// A line between the input and its answer.
struct Flight {
  Json id;
  std::string where;
  std::optional<Ticket> ticket;  // none: `error` is the answer
  Json error;
  std::shared_ptr<const ReplyForm> form;
  uint64_t seed = 0;
  bool logprobs = false, prompt_logprobs = false;
};

// Takes a request's events until the last one. An interrupt is the error kCancelled.
class Collector {
 public:
  Collector(const Tokenizer& tokenizer, const Flight& flight)
      : flight_(flight), text_(tokenizer, flight.form) {}

  Result<Json> collect(Ticket& ticket, const InterruptWatch& watch) {
    while (!ticket.done()) {
      if (watch.interrupted()) return Error{Code::kCancelled, "interrupted"};
      std::optional<TokenEvent> event = ticket.next(std::chrono::milliseconds(100));
      if (event) take(*event);
    }
    if (last_.finish == Finish::kError) {
      return error_json(flight_.id, "failed", flight_.where + ": " + last_.error);
    }
    for (const OutputEvent& event : text_.finish(finish_name(last_.finish))) output_.add(event);
    return answer();
  }
  const Usage& usage() const { return last_.usage; }

 private:
  void take(TokenEvent& event) {
    switch (event.kind) {
      case TokenEvent::Kind::kStarted:
        for (const TokenLogprobs& row : event.prompt_logprobs) {
          prompt_logprobs_.push_back(logprobs_json(row));
        }
        return;
      case TokenEvent::Kind::kToken:
        tokens_.push_back(event.token);
        for (const OutputEvent& piece : text_.push(event.token)) output_.add(piece);
        if (event.logprobs) logprobs_.push_back(logprobs_json(*event.logprobs));
        return;
      case TokenEvent::Kind::kFinished:
        last_ = std::move(event);
        return;
    }
  }

  Json answer() const {
    Json out{{"id", flight_.id},
             {"text", output_.content.value_or("")},
             {"reasoning", output_.reasoning ? Json(*output_.reasoning) : Json()},
             {"tool_calls", calls_json(output_)},
             {"tokens", tokens_},
             {"finish_reason", output_.finish},
             {"seed", flight_.seed}};
    if (flight_.logprobs) out["logprobs"] = logprobs_;
    if (flight_.prompt_logprobs) out["prompt_logprobs"] = prompt_logprobs_;
    out["usage"] = usage_json(last_.usage);
    out["timings"] = timings_json(last_.usage);
    return out;
  }

  const Flight& flight_;
  ReplyText text_;
  ParsedOutput output_;
  std::vector<int32_t> tokens_;
  Json logprobs_ = Json::array();
  Json prompt_logprobs_ = Json::array({nullptr});  // the first token has none
  TokenEvent last_;
};

class Batch {
 public:
  Batch(const Plan& plan, Engine& engine, BatchInput& input, BatchOutput& output, Totals& totals,
        const InterruptWatch& watch, bool quiet)
      : plan_(plan),
        engine_(engine),
        input_(input),
        output_(output),
        totals_(totals),
        watch_(watch),
        reader_(plan.text, plan.defaults),
        progress_(!quiet, &watch) {}

  // `first` was read already.
  Result<Ok> run(BatchItem first) {
    const ProgressSink sink = progress_.sink();
    launch(std::move(first));
    while (true) {
      Result<Ok> filled = fill();
      if (!filled) return filled;
      if (flights_.empty()) return Ok{};
      Result<Json> answer = land(flights_.front());
      if (!answer) return answer.error();
      Result<Ok> written = output_.write(*answer);
      if (!written) return written;
      totals_.errors += answer->contains("error");
      ++totals_.answered;
      flights_.pop_front();
      sink.report("answering", totals_.before + totals_.answered, plan_.n_lines);
    }
  }

 private:
  Result<Ok> fill() {
    const size_t window = kWindows * static_cast<size_t>(plan_.parallel);
    while (!at_end_ && flights_.size() < window) {
      if (watch_.interrupted()) return Error{Code::kCancelled, "interrupted"};
      // Whoever writes the next line may be waiting for the answer to this one.
      if (!flights_.empty() && !input_.ready()) return Ok{};
      Result<std::optional<BatchItem>> item = input_.next();
      if (!item) return item.error();
      at_end_ = !item->has_value();
      if (!at_end_) launch(**std::move(item));
    }
    return Ok{};
  }

  void launch(BatchItem item) {
    flights_.push_back({.id = item.id(), .where = {}, .ticket = {}, .error = {}, .form = {}});
    Flight& flight = flights_.back();
    Result<Ok> begun = item.line ? begin(*item.line, flight) : Result<Ok>(item.line.error());
    if (begun) return;
    flight.error = error_json(flight.id, code_name(begun.error().code), begun.error().message);
  }

  Result<Ok> begin(const JsonLine& json, Flight& flight) {
    flight.where = json.where;
    Result<BatchLine> line = reader_.read(json);
    if (!line) return line.error();
    Result<Ok> ruled = reader_.add_rules(*line);
    if (!ruled) return ruled;
    flight.form = line->form;
    flight.seed = line->request.sampling.seed;
    flight.logprobs = line->request.logprobs >= 0;
    flight.prompt_logprobs = line->request.prompt_logprobs >= 0;
    Result<Ticket> ticket = engine_.submit(std::move(line->request));
    if (!ticket) {
      return Error{ticket.error().code, json.where + ": " + ticket.error().message};
    }
    flight.ticket = *std::move(ticket);
    return Ok{};
  }

  Result<Json> land(Flight& flight) {
    if (!flight.ticket) return std::move(flight.error);
    Collector collector(plan_.text.tokenizer, flight);
    Result<Json> answer = collector.collect(*flight.ticket, watch_);
    const Usage& usage = collector.usage();
    totals_.prompt += static_cast<size_t>(usage.prompt_tokens);
    totals_.cached += static_cast<size_t>(usage.cached_tokens);
    totals_.generated += static_cast<size_t>(usage.generated_tokens);
    return answer;
  }

  const Plan& plan_;
  Engine& engine_;
  BatchInput& input_;
  BatchOutput& output_;
  Totals& totals_;
  const InterruptWatch& watch_;
  BatchReader reader_;
  ProgressLine progress_;
  std::deque<Flight> flights_;  // dropping one cancels it
  bool at_end_ = false;
};

Result<Plan> make_plan(const Arguments& arguments) {
  Result<TextSide> text = load_text_side(arguments);
  if (!text) return text.error();
  Result<RuntimeOptions> options = runtime_options(arguments, text->folder);
  if (!options) return options.error();
  Plan plan{.text = *std::move(text), .defaults = {}, .runtime = *std::move(options)};
  plan.parallel = static_cast<int>(arguments.integer("parallel", kParallel));
  plan.runtime.kv_bytes = cache_size_flag(arguments);
  Result<KvTierOptions> tiers = tier_flags(arguments);
  if (!tiers) return tiers.error();
  plan.tiers = *std::move(tiers);
  Result<Config> config = load_config(plan.runtime.model_dir);
  if (!config) return config.error();
  Result<GenerationDefaults> model = load_generation_defaults(plan.runtime.model_dir);
  if (!model) return model.error();
  Result<std::vector<TokenId>> stops = stop_ids(*model, plan.text.tokenizer, plan.text.folder);
  if (!stops) return stops.error();
  Result<SamplingParams> sampling = sampling_of(arguments, *model);
  if (!sampling) return sampling.error();
  plan.defaults = {.sampling = *std::move(sampling),
                   .stop_ids = *std::move(stops),
                   .max_tokens = arguments.integer("max-tokens", 0),
                   .opening = Json::array(),
                   .vocab = config->vocab};
  if (arguments.given("system")) {
    plan.defaults.opening.push_back({{"role", "system"}, {"content", arguments.text("system")}});
  }
  return plan;
}

// Counts the lines, and finds the context that the longest of them needs. Of a pipe nothing is
// known beforehand.
Result<Ok> survey(const Arguments& arguments, Plan& plan, bool rereadable) {
  constexpr size_t kUsualAnswer = 1024;
  size_t longest_prompt = 0, longest = 0;
  if (rereadable) {
    Result<BatchInput> lines = BatchInput::open(arguments.text("batch"));
    if (!lines) return lines.error();
    const BatchReader reader(plan.text, plan.defaults);
    while (true) {
      Result<std::optional<BatchItem>> item = lines->next();
      if (!item) return item.error();
      if (!item->has_value()) break;
      ++plan.n_lines;
      if (arguments.given("context") || !(*item)->line) continue;
      const Result<BatchLine> line = reader.read(*(*item)->line);
      if (!line) continue;
      const size_t prompt = line->request.prompt.size();
      const size_t answer = static_cast<size_t>(line->request.max_tokens);
      longest_prompt = std::max(longest_prompt, prompt);
      longest = std::max(longest, prompt + (answer == 0 ? kUsualAnswer : answer));
    }
  }
  Result<Config> config = load_config(plan.runtime.model_dir);
  if (!config) return config.error();
  // A prompt beyond what the model has is its own line's error.
  const size_t fits = std::min(longest, static_cast<size_t>(config->max_positions));
  return fit_context(plan.runtime, 0, fits);
}

// Room for a whole context of each of those that run at once, if that is a small part of memory;
// else for what memory holds.
Result<Ok> size_cache(Plan& plan) {
  Result<Config> config = load_config(plan.runtime.model_dir);
  if (!config) return config.error();
  KvFormats formats = config->kv;
  if (plan.runtime.kv) formats.main = *plan.runtime.kv;
  if (plan.runtime.index) formats.index = *plan.runtime.index;
  std::vector<bool> has_index;
  for (const LayerKind& kind : config->layers) has_index.push_back(kind.sparse_attention);
  const KvLayout layout = make_kv_layout(formats, config->n_kv_heads, std::move(has_index));
  const uint64_t blocks = static_cast<uint64_t>(plan.runtime.context - 1) / kBlockTokens + 1;
  const uint64_t doubles = plan.runtime.numerics == Numerics::kReference ? 4 : 1;
  const uint64_t wanted =
      blocks * static_cast<uint64_t>(plan.parallel) * layout.block_bytes * doubles;
  constexpr uint64_t kSmallPart = 8;
  if (!plan.runtime.kv_bytes) {
    plan.runtime.kv_bytes =
        wanted < read_memory_budget().available / kSmallPart ? wanted : kAllMemory;
  }
  plan.runtime.extra_rows = plan.parallel;
  return Ok{};
}

void report(const Totals& totals, double seconds) {
  warn(fmt::format(
      "{} lines answered{}, {} with an error; {} prompt tokens ({} cached), {} generated in {:.1f} "
      "s: {:.1f} tok/s",
      totals.before + totals.answered,
      totals.before == 0 ? "" : fmt::format(" ({} of them before)", totals.before), totals.errors,
      totals.prompt, totals.cached, totals.generated, seconds,
      rate(static_cast<int>(totals.generated), seconds)));
}

// Loads the model and answers what is left.
Result<Ok> answer_all(Plan& plan, BatchInput& input, BatchItem first, BatchOutput& output,
                      Totals& totals, bool quiet) {
  Result<Ok> sized = size_cache(plan);
  if (!sized) return sized;
  InterruptWatch watch;  // not before: until here a signal simply ends the program
  Result<std::unique_ptr<Runtime>> runtime = load_runtime(plan.runtime, quiet, &watch);
  if (!runtime) return runtime.error();
  Result<TokenMask> mask = token_mask((*runtime)->config(), &plan.text.tokenizer);
  if (!mask) return mask.error();
  EngineOptions options;
  options.max_sequences = plan.parallel;
  options.max_queue = static_cast<int>(kWindows) * plan.parallel;
  options.token_mask = *std::move(mask);
  options.tiers = plan.tiers;
  if (!quiet) warn(cache_line(**runtime));
  Result<std::unique_ptr<Engine>> engine = Engine::make(**runtime, std::move(options));
  if (!engine) return engine.error();
  Result<Ok> started = (*engine)->start();
  if (!started) return started;
  const Clock::time_point start = Clock::now();
  Result<Ok> done =
      Batch(plan, **engine, input, output, totals, watch, quiet).run(std::move(first));
  warn_of_trouble(**engine);
  if (!quiet) report(totals, std::chrono::duration<double>(Clock::now() - start).count());
  return done;
}

}  // namespace

Result<Ok> check_batch_flags(const Arguments& arguments) {
  if (!arguments.given("batch")) {
    for (const char* name : {"output", "parallel"}) {
      if (arguments.given(name)) {
        return Error{Code::kInvalid, fmt::format("--{} wants --batch", name)};
      }
    }
    return Ok{};
  }
  if (!arguments.words().empty() || arguments.given("file")) {
    return Error{Code::kInvalid, "--batch brings its own prompts; leave out PROMPT and --file"};
  }
  if (arguments.on("raw") && (arguments.given("system") || arguments.given("tools"))) {
    return Error{Code::kInvalid,
                 "--system and --tools are parts of the chat template, which --raw leaves out"};
  }
  return Ok{};
}

int batch_command(const Arguments& arguments) {
  Result<Plan> plan = make_plan(arguments);
  if (!plan) return fail(plan.error());
  Result<Ok> form = read_form(plan->text, arguments);
  if (!form) return fail(form.error());
  Result<BatchInput> input = BatchInput::open(arguments.text("batch"));
  if (!input) return fail(input.error());
  Result<BatchOutput> output = BatchOutput::open(arguments.text("output"));
  if (!output) return fail(output.error());
  const Result<BatchProgress> before = output->resume(*input);
  if (!before) return fail(before.error());
  Totals totals;
  totals.before = before->lines;
  totals.errors = before->errors;
  Result<std::optional<BatchItem>> first = input->next();
  if (!first) return fail(first.error());
  if (first->has_value()) {
    Result<Ok> surveyed = survey(arguments, *plan, input->rereadable());
    if (!surveyed) return fail(surveyed.error());
    const Result<Ok> done =
        answer_all(*plan, *input, **std::move(first), *output, totals, arguments.on("quiet"));
    if (!done) return fail(done.error());
  }
  if (totals.errors == 0) return finish_output();
  return fail(
      {Code::kInvalid, fmt::format("{} of {} lines have no answer; their \"error\" says why",
                                   totals.errors, totals.before + totals.answered)});
}

}  // namespace minim
