// The frame of a block of calls; what stands in the elements is tool_values.h's. The markers are
// tokens of the grammar, as the parser knows them by id: their characters alone would be text.
#include "text/tool_grammar.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "text/output_parser.h"
#include "text/tool_values.h"
#include "text/value_text.h"

namespace minim {
namespace {

Error of_tool(const Tool& tool, const Error& error) {
  return {error.code, fmt::format("tool {}: {}", dump_json(Json(tool.name)), error.message)};
}

// The template writes the name in double quotes, and the parser trims it.
bool is_writable(std::string_view name) {
  constexpr size_t kLongest = 900;
  return !name.empty() && name.size() <= kLongest &&
         name.find_first_of("\"\r\n") == std::string_view::npos && trim_markup_space(name) == name;
}

Result<GrammarExpr> parameters_of(ToolRules& rules, const Tool& tool) {
  if (!tool.strict) {
    return FreeValues(rules, tool.parameters.is_null() ? nullptr : &tool.parameters).parameters();
  }
  if (tool.parameters.is_null()) return text_expr("");
  Result<StrictValues> values = StrictValues::create(rules, tool.parameters);
  if (!values) return values.error();
  return values->parameters();
}

Result<GrammarExpr> call_of(ToolRules& rules, const Tool& tool) {
  if (!is_writable(tool.name)) {
    return Error{Code::kUnsupported, "the name cannot be written in a call"};
  }
  Result<GrammarExpr> parameters = parameters_of(rules, tool);
  if (!parameters) return parameters.error();
  return sequence_expr({rules.marker(fmt::format("<invoke name=\"{}\">", tool.name)),
                        *std::move(parameters), rules.marker("</invoke>"), text_expr("\n")});
}

// <tool_call> is a token of its own where the vocabulary has one: so the template's text is read.
GrammarExpr block_tag(const Tokenizer& tokenizer, std::string_view literal) {
  const std::optional<TokenId> id = tokenizer.find_added(literal);
  if (!id) return text_expr(literal);
  GrammarExpr expr;
  expr.kind = GrammarExpr::Kind::kToken;
  expr.tokens = {*id};
  return expr;
}

}  // namespace

Result<GrammarSpec> tool_call_grammar(std::span<const Tool* const> tools, bool parallel,
                                      const Tokenizer& tokenizer) {
  const std::optional<TokenId> ns = MarkerIds::of(tokenizer).ns;
  CHECK(ns.has_value() && !tools.empty());
  ToolRules rules(*ns);
  std::vector<GrammarExpr> calls;
  for (const Tool* tool : tools) {
    Result<GrammarExpr> call = call_of(rules, *tool);
    if (!call) return of_tool(*tool, call.error());
    calls.push_back(*std::move(call));
  }
  GrammarExpr any_call = choice_expr(std::move(calls));
  if (parallel) any_call = repeat_expr(rules.shared(std::move(any_call)), 1, -1);
  GrammarRules grammar{rules.take()};
  grammar.rules[0] =
      sequence_expr({rules.marker(""), block_tag(tokenizer, "<tool_call>"), text_expr("\n"),
                     std::move(any_call), rules.marker(""), block_tag(tokenizer, "</tool_call>")});
  std::vector<std::string> names(grammar.rules.size());
  prune(grammar, names);
  if (grammar.rules[0].nothing()) {
    return Error{Code::kInvalid, "no call of these tools can be written"};
  }
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kTokenEbnf;
  spec.text = print_ebnf(grammar);
  return spec;
}

}  // namespace minim
