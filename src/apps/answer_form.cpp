// Each flag becomes a field of the request that text/output_constraint.h takes; what the fields
// mean together is decided there, where a server will ask the same.
#include "apps/answer_form.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "apps/json_lines.h"

namespace minim {
namespace {

constexpr std::array<const char*, 6> kFormats = {"json-schema", "json-schema-text", "json-object",
                                                 "regex",       "choice",           "grammar"};

// The format's flag; empty when there is none.
std::string_view format_flag(const Arguments& arguments) {
  for (const char* name : kFormats) {
    if (arguments.given(name) && !arguments.text(name).empty()) return name;
  }
  return {};
}

Error of_flag(std::string_view flag, const Error& error) {
  return {error.code, fmt::format("--{}: {}", flag, error.message)};
}

Result<std::vector<std::string>> choices_of(const std::string& text) {
  const Result<Json> list = parse_json(text, "--choice");
  std::vector<std::string> choices;
  if (list && list->is_array()) {
    for (const Json& choice : *list) {
      if (choice.is_string()) choices.push_back(choice.get<std::string>());
    }
  }
  if (!choices.empty() && choices.size() == list->size()) return choices;
  return Error{Code::kInvalid,
               "--choice: wanted: a JSON list of strings, such as [\"yes\", \"no\"]"};
}

Result<GrammarSpec> format_of(const Arguments& arguments, std::string_view flag) {
  using Kind = GrammarSpec::Kind;
  const std::string& value = arguments.text(flag);
  GrammarSpec spec;
  if (flag == "json-object") return spec;
  if (flag == "choice") {
    Result<std::vector<std::string>> choices = choices_of(value);
    if (!choices) return choices.error();
    spec.kind = Kind::kChoice;
    spec.choices = *std::move(choices);
    return spec;
  }
  spec.kind = flag == "regex" ? Kind::kRegex : flag == "grammar" ? Kind::kEbnf : Kind::kJsonSchema;
  spec.text = value;
  if (flag == "json-schema" || flag == "grammar") {
    Result<std::string> text = read_input(value);
    if (!text) return text.error();
    spec.text = *std::move(text);
  }
  return spec;
}

ToolChoice choice_of(const Arguments& arguments) {
  ToolChoice choice;
  const std::string& word = arguments.text("tool-choice");
  if (word == "none") {
    choice.kind = ToolChoice::Kind::kNone;
  } else if (word == "required") {
    choice.kind = ToolChoice::Kind::kRequired;
  } else if (!word.empty() && word != "auto") {
    choice.kind = ToolChoice::Kind::kNamed;
    choice.name = word;
  }
  return choice;
}

}  // namespace

ThinkingMode thinking_flag(const Arguments& arguments) {
  const std::optional<ThinkingMode> mode = arguments.given("effort")
                                               ? mode_of_effort(arguments.text("effort"))
                                               : parse_thinking_mode(arguments.text("thinking"));
  return mode.value_or(ThinkingMode::kUnset);
}

bool wants_stop_ids(const Arguments& arguments) {
  return !format_flag(arguments).empty() || arguments.given("tools");
}

Result<Ok> check_form_flags(const Arguments& arguments) {
  if (arguments.given("effort") && arguments.given("thinking")) {
    return Error{Code::kInvalid, "--thinking and --effort say the same; one of them is wanted"};
  }
  std::string_view format;
  for (const char* name : kFormats) {
    if (!arguments.given(name) || arguments.text(name).empty()) continue;
    if (!format.empty()) {
      return Error{
          Code::kInvalid,
          fmt::format("--{} and --{} are both given; an answer has one format", format, name)};
    }
    format = name;
  }
  const ToolChoice choice = choice_of(arguments);
  if (arguments.given("tool-choice") && !arguments.given("tools")) {
    return Error{Code::kInvalid, "--tool-choice wants --tools"};
  }
  if (!format.empty() &&
      (choice.kind == ToolChoice::Kind::kRequired || choice.kind == ToolChoice::Kind::kNamed)) {
    return Error{Code::kInvalid,
                 fmt::format("--{} asks for a text and --tool-choice {} for a call; an answer "
                             "cannot be both",
                             format, arguments.text("tool-choice"))};
  }
  return Ok{};
}

Result<std::unique_ptr<OutputConstraint>> AnswerForm::begin(const Tokenizer& tokenizer) const {
  return OutputConstraint::create(request, tokenizer, compiler.get());
}

Result<AnswerForm> read_answer_form(const Arguments& arguments, const Tokenizer& tokenizer,
                                    std::shared_ptr<const ToolSet> tools, ThinkingMode mode,
                                    std::vector<TokenId> stop_ids) {
  AnswerForm form;
  form.request.mode = mode;
  form.request.tools = std::move(tools);
  form.request.choice = choice_of(arguments);
  form.request.stop_ids = std::move(stop_ids);
  if (arguments.given("thinking-budget")) {
    form.request.thinking_budget = arguments.integer("thinking-budget", 0);
  }
  const std::string_view flag = format_flag(arguments);
  if (!flag.empty()) {
    Result<GrammarSpec> format = format_of(arguments, flag);
    if (!format) return format.error();
    form.request.format = *std::move(format);
  }
  // The flag that made a grammar necessary, to whom errors belong.
  const std::string_view source = !flag.empty()                    ? flag
                                  : arguments.given("tool-choice") ? "tool-choice"
                                                                   : "tools";
  if (OutputConstraint::needs_grammar(form.request)) {
    Result<std::unique_ptr<GrammarCompiler>> compiler =
        GrammarCompiler::create(tokenizer, form.request.stop_ids, {});
    if (!compiler) return of_flag(source, compiler.error());
    form.compiler = *std::move(compiler);
  }
  Result<std::unique_ptr<OutputConstraint>> tried = form.begin(tokenizer);
  if (!tried) return of_flag(source, tried.error());
  return form;
}

}  // namespace minim
