// minim score: log-probabilities of given tokens, as JSON Lines.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"
#include "apps/scorer.h"

namespace minim {
namespace {

struct Input {
  std::string id;  // JSON, empty when there is none
  std::vector<int32_t> tokens;
};

// Shortest decimal that reads back as the same float32; null for what has no finite logarithm.
std::string number(double value) {
  const float single = static_cast<float>(value);
  return std::isfinite(single) ? fmt::format("{}", single) : "null";
}

std::string top_list(std::span<const double> log_probabilities, int k) {
  std::string out = "[";
  for (const int32_t id : top_ids(log_probabilities, k)) {
    const double value = log_probabilities[static_cast<size_t>(id)];
    if (!std::isfinite(value)) break;  // ids without a token come last
    out += fmt::format("{}{{\"token\":{},\"logprob\":{}}}", out.size() > 1 ? "," : "", id,
                       number(value));
  }
  return out + "]";
}

template <typename Range>
std::string list(const Range& items) {
  std::string out = "[";
  for (const auto& item : items) out += fmt::format("{}{}", out.size() > 1 ? "," : "", item);
  return out + "]";
}

// Per layer the chosen experts, and per layer and group the blocks that were read.
std::string trace_members(const Trace& trace, int row) {
  std::vector<std::string> experts, blocks;
  for (const std::vector<LayerTrace>& layer : trace.layers) {
    const LayerTrace& seen = layer[static_cast<size_t>(row)];
    experts.push_back(seen.experts.empty() ? "null" : list(seen.experts));
    std::vector<std::string> groups;
    for (const std::vector<int32_t>& group : seen.blocks) groups.push_back(list(group));
    blocks.push_back(groups.empty() ? "null" : list(groups));
  }
  return fmt::format(",\"experts\":{},\"blocks\":{}", list(experts), list(blocks));
}

// Where sequences come from: one from the flags, or a file of them.
class Inputs {
 public:
  static Result<Inputs> open(const Arguments& arguments, const Tokenizer* tokenizer, int vocab);
  Result<std::optional<Input>> next();
  // The longest sequence, when all are known (a stream is read as it comes).
  size_t longest() const;

 private:
  Result<std::optional<Input>> read_line();

  std::vector<Input> ready_;
  size_t next_ = 0;
  std::optional<JsonLines> lines_;
  int vocab_ = 0;
};

Result<Inputs> Inputs::open(const Arguments& arguments, const Tokenizer* tokenizer, int vocab) {
  Inputs inputs;
  inputs.vocab_ = vocab;
  if (arguments.given("tokens")) {
    Result<std::vector<int32_t>> tokens = parse_token_list(arguments.text("tokens"), vocab);
    if (!tokens) return tokens.error();
    inputs.ready_.push_back({"", *std::move(tokens)});
  } else if (arguments.given("tokens-file")) {
    const std::string& path = arguments.text("tokens-file");
    Result<JsonLines> lines = JsonLines::open(path);
    if (!lines) return lines.error();
    inputs.lines_ = *std::move(lines);
    if (path == "-") return inputs;
    constexpr size_t kMostTokens = size_t{1} << 28;  // kept in memory, and read from a pipe perhaps
    for (size_t n_tokens = 0;;) {
      Result<std::optional<Input>> input = inputs.read_line();
      if (!input) return input.error();
      if (!input->has_value()) break;
      n_tokens += (*input)->tokens.size();
      if (n_tokens > kMostTokens) {
        return Error{Code::kExhausted,
                     fmt::format("{} has more than {} tokens in all; as standard input it may have "
                                 "any number",
                                 path, kMostTokens)};
      }
      inputs.ready_.push_back(**std::move(input));
    }
    inputs.lines_.reset();
  } else {
    std::string text = arguments.text("text");
    if (arguments.given("file")) {
      Result<std::string> read = read_input(arguments.text("file"));
      if (!read) return read.error();
      text = *std::move(read);
    }
    std::vector<int32_t> tokens = tokenizer->encode(text, arguments.on("parse-special"));
    if (tokens.empty())
      return Error{Code::kInvalid, "the text is empty: there is nothing to score"};
    inputs.ready_.push_back({"", std::move(tokens)});
  }
  return inputs;
}

Result<std::optional<Input>> Inputs::read_line() {
  Result<std::optional<JsonLine>> line = lines_->next();
  if (!line) return line.error();
  if (!line->has_value()) return std::optional<Input>();
  const JsonLine& object = **line;
  Result<Ok> known = check_keys(object, {"id", "tokens"});
  if (!known) return known.error();
  Result<std::vector<int32_t>> tokens = tokens_member(object, "tokens", vocab_, false);
  if (!tokens) return tokens.error();
  std::string id = object.value.contains("id") ? dump_json(object.value["id"]) : std::string();
  return std::optional<Input>(Input{std::move(id), *std::move(tokens)});
}

Result<std::optional<Input>> Inputs::next() {
  if (next_ < ready_.size()) return std::optional<Input>(ready_[next_++]);
  if (lines_) return read_line();
  return std::optional<Input>();
}

size_t Inputs::longest() const {
  size_t longest = 0;
  for (const Input& input : ready_) longest = std::max(longest, input.tokens.size());
  return longest;
}

// Scores one sequence and prints it.
Result<Ok> score_one(Scorer& scorer, const Input& input, int k, bool quiet,
                     const InterruptWatch& watch) {
  const std::string prefix = input.id.empty() ? "{" : fmt::format("{{\"id\":{},", input.id);
  ProgressLine progress(!quiet && !stdout_is_terminal(), &watch);
  const ProgressSink sink = progress.sink();
  double sum = 0;
  bool writable = true;
  const auto on_position = [&](const ScoredPosition& position) {
    const bool first = position.log_probabilities.empty();
    const double value =
        first ? 0 : position.log_probabilities[static_cast<size_t>(position.token)];
    sum += value;
    std::string line = fmt::format("{}\"index\":{},\"token\":{},\"logprob\":{}", prefix,
                                   position.index, position.token, first ? "null" : number(value));
    if (k > 0) line += ",\"top\":" + (first ? "null" : top_list(position.log_probabilities, k));
    if (position.trace != nullptr) line += trace_members(*position.trace, position.trace_row);
    writable = writable && write_out(line + "}\n");
  };
  Result<std::span<const double>> next = scorer.score(
      input.tokens,
      [&](size_t done) { return sink.report("scoring", done, input.tokens.size()) && writable; },
      on_position);
  progress.clear();
  if (!next) return next.error();
  const size_t scored = input.tokens.size() - 1;
  const double mean = scored == 0 ? 0 : sum / static_cast<double>(scored);
  write_out(fmt::format("{}\"next\":{}}}\n", prefix, top_list(*next, std::max(k, 1))));
  write_out(fmt::format("{}\"summary\":{{\"tokens\":{},\"logprob\":{},\"perplexity\":{}}}}}\n",
                        prefix, input.tokens.size(), number(sum), number(std::exp(-mean))));
  flush_out();
  return Ok{};
}

int score_all(Inputs& inputs, Runtime& runtime, TokenMask mask, const Arguments& arguments) {
  Scorer scorer(runtime, std::move(mask), arguments.on("trace"));
  const int k = static_cast<int>(arguments.integer("top", 0));
  while (true) {
    Result<std::optional<Input>> input = inputs.next();
    if (!input) return fail(input.error());
    if (!input->has_value()) return finish_output();
    if ((*input)->tokens.size() > static_cast<size_t>(runtime.context())) {
      return fail({Code::kExhausted,
                   fmt::format("a sequence has {} tokens, the context {}; a larger --context holds "
                               "it",
                               (*input)->tokens.size(), runtime.context())});
    }
    InterruptWatch watch;  // not while the next input is waited for
    Result<Ok> scored = score_one(scorer, **input, k, arguments.on("quiet"), watch);
    if (!scored) return fail(scored.error());
  }
}

}  // namespace

int score_command(const Arguments& arguments) {
  int sources = 0;
  for (const char* source : {"tokens", "tokens-file", "text", "file"}) {
    sources += arguments.given(source) ? 1 : 0;
  }
  if (sources != 1) {
    return usage_error(
        fmt::format("{} inputs are given; one of --tokens, --tokens-file, --text and "
                    "--file is wanted",
                    sources));
  }
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<RuntimeOptions> options = runtime_options(arguments, *folder);
  if (!options) return fail(options.error());
  Result<Config> config = load_config(*folder);
  if (!config) return fail(config.error());
  std::optional<Tokenizer> tokenizer;
  const bool wants_text = arguments.given("text") || arguments.given("file");
  if (wants_text || has_tokenizer(*folder)) {
    Result<Tokenizer> loaded = load_tokenizer(*folder);
    if (!loaded) return fail(loaded.error());
    tokenizer = *std::move(loaded);
  }
  Result<TokenMask> mask = token_mask(*config, tokenizer ? &*tokenizer : nullptr);
  if (!mask) return fail(mask.error());
  Result<Inputs> inputs = Inputs::open(arguments, tokenizer ? &*tokenizer : nullptr, config->vocab);
  if (!inputs) return fail(inputs.error());
  Result<Ok> fits = fit_context(*options, inputs->longest(), 0);
  if (!fits) return fail(fits.error());
  std::unique_ptr<Runtime> runtime;
  {
    InterruptWatch watch;
    Result<std::unique_ptr<Runtime>> loaded = load_runtime(*options, arguments.on("quiet"), &watch);
    if (!loaded) return fail(loaded.error());
    runtime = *std::move(loaded);
  }
  return score_all(*inputs, *runtime, *std::move(mask), arguments);
}

}  // namespace minim
