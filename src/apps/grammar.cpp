// minim grammar: which texts a schema, a regular expression, a list or a grammar allows.
//
// One compiler serves all lines, without stop ids: a text is accepted when a reply may be it and
// end there. A grammar that cannot be enforced is an answer of its own ("refused"), not a failure.
#include "text/grammar.h"

#include <fmt/format.h>

#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"

namespace minim {
namespace {

constexpr const char* kKinds[] = {"schema", "regex", "choice", "ebnf"};

Result<std::vector<std::string>> texts_member(const JsonLine& line, const char* key) {
  const auto found = line.value.find(key);
  std::vector<std::string> texts;
  bool sound = found != line.value.end() && found->is_array();
  if (sound) {
    for (const Json& text : *found) {
      sound = sound && text.is_string();
      if (sound) texts.push_back(text.get<std::string>());
    }
  }
  if (sound) return texts;
  return Error{Code::kInvalid, fmt::format("{}: \"{}\" is {}, wanted: a list of texts", line.where,
                                           key, found == line.value.end() ? "missing" : "not one")};
}

Result<GrammarSpec> spec_of(const JsonLine& line) {
  const char* kind = nullptr;
  for (const char* name : kKinds) {
    if (!line.value.contains(name)) continue;
    if (kind != nullptr) {
      return Error{Code::kInvalid,
                   fmt::format("{}: \"{}\" and \"{}\" are both given; one is wanted", line.where,
                               kind, name)};
    }
    kind = name;
  }
  if (kind == nullptr) {
    return Error{Code::kInvalid, fmt::format("{}: none of \"schema\", \"regex\", \"choice\", "
                                             "\"ebnf\" is given; one is wanted",
                                             line.where)};
  }
  GrammarSpec spec;
  const std::string_view name = kind;
  if (name == "schema") {
    spec.kind = GrammarSpec::Kind::kJsonSchema;
    spec.text = dump_json(line.value["schema"]);
  } else if (name == "choice") {
    spec.kind = GrammarSpec::Kind::kChoice;
    Result<std::vector<std::string>> choices = texts_member(line, "choice");
    if (!choices) return choices.error();
    spec.choices = *std::move(choices);
  } else {
    spec.kind = name == "regex" ? GrammarSpec::Kind::kRegex : GrammarSpec::Kind::kEbnf;
    Result<std::string> text = string_member(line, kind);
    if (!text) return text.error();
    spec.text = *std::move(text);
  }
  return spec;
}

Json answer(GrammarCompiler& compiler, const GrammarSpec& spec,
            const std::vector<std::string>& texts) {
  Result<std::shared_ptr<const CompiledGrammar>> grammar = compiler.compile(spec);
  if (!grammar) return Json{{"refused", grammar.error().message}};
  Json accepts = Json::array();
  for (const std::string& text : texts) {
    GrammarMatcher matcher(*grammar);
    accepts.push_back(matcher.accept_text(text) && matcher.may_end());
  }
  return Json{{"accepts", std::move(accepts)}};
}

}  // namespace

int grammar_command(const Arguments& arguments) {
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return fail(tokenizer.error());
  Result<std::unique_ptr<GrammarCompiler>> compiler =
      GrammarCompiler::create(*tokenizer, {}, GrammarCompiler::Limits());
  if (!compiler && GrammarCompiler::available()) return fail(compiler.error());
  Result<JsonLines> lines = JsonLines::open(arguments.given("file") ? arguments.text("file") : "-");
  if (!lines) return fail(lines.error());
  while (true) {
    Result<std::optional<JsonLine>> line = lines->next();
    if (!line) return fail(line.error());
    if (!line->has_value()) return finish_output();
    Result<Ok> known = check_keys(**line, {"schema", "regex", "choice", "ebnf", "texts"});
    if (!known) return fail(known.error());
    Result<GrammarSpec> spec = spec_of(**line);
    if (!spec) return fail(spec.error());
    Result<std::vector<std::string>> texts = texts_member(**line, "texts");
    if (!texts) return fail(texts.error());
    const Json object =
        compiler ? answer(**compiler, *spec, *texts) : Json{{"refused", compiler.error().message}};
    if (!write_out(dump_json(object) + "\n") || !flush_out()) break;
  }
  return finish_output();
}

}  // namespace minim
