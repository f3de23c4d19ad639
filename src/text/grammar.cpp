// From what a caller asks for to a compiled grammar: limits, the front end of its kind, the
// measures of grammar_rules.h, then the library, with a cache around all of it.
#include "text/grammar.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "text/ebnf_grammar.h"
#include "text/grammar_cache.h"
#include "text/grammar_engine.h"
#include "text/json_schema.h"
#include "text/regex_grammar.h"
#include "text/utf8.h"

namespace minim {
namespace {

const char* kind_name(GrammarSpec::Kind kind) {
  switch (kind) {
    case GrammarSpec::Kind::kJsonSchema:
      return "schema";
    case GrammarSpec::Kind::kJsonObject:
      return "JSON object";
    case GrammarSpec::Kind::kRegex:
      return "regex";
    case GrammarSpec::Kind::kChoice:
      return "choice";
    case GrammarSpec::Kind::kEbnf:
    case GrammarSpec::Kind::kTokenEbnf:
      return "grammar";
  }
  return "grammar";
}

// Different specs give different keys: every part is behind its length.
std::string key_of(const GrammarSpec& spec) {
  std::string key =
      fmt::format("{} {}:{}", static_cast<int>(spec.kind), spec.text.size(), spec.text);
  for (const std::string& choice : spec.choices) {
    key += fmt::format("{}:{}", choice.size(), choice);
  }
  return sha256_hex(key);
}

Result<NamedGrammar> choice_grammar(const std::vector<std::string>& choices) {
  std::vector<GrammarExpr> parts;
  for (const std::string& choice : choices) parts.push_back(text_expr(choice));
  if (parts.empty()) return Error{Code::kInvalid, "an empty list; wanted: at least one text"};
  return NamedGrammar{{{choice_expr(std::move(parts))}}, {"the list"}};
}

Result<NamedGrammar> regex_grammar(const std::string& pattern) {
  Result<GrammarExpr> expr = regex_whole(pattern);
  if (!expr) return expr.error();
  return NamedGrammar{{{*std::move(expr)}}, {"the expression"}};
}

class CachingCompiler final : public GrammarCompiler {
 public:
  CachingCompiler(const Tokenizer& tokenizer, std::unique_ptr<GrammarEngine> engine,
                  const Limits& limits)
      : tokenizer_(tokenizer),
        engine_(std::move(engine)),
        limits_(limits),
        cache_(limits.cache_bytes) {}

  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) override {
    if (Result<Ok> sound = check_text(spec); !sound) return named(spec, sound.error());
    return cache_.get(key_of(spec), [&]() -> Result<std::shared_ptr<const CompiledGrammar>> {
      Result<NamedGrammar> grammar = front_end(spec);
      if (!grammar) return named(spec, grammar.error());
      Result<Ok> sound = check_grammar(*grammar);
      if (!sound) return named(spec, sound.error());
      Result<std::shared_ptr<const CompiledGrammar>> compiled =
          engine_->compile(print_ebnf(grammar->grammar));
      if (!compiled) return named(spec, compiled.error());
      return compiled;
    });
  }

 private:
  static Error named(const GrammarSpec& spec, Error error) {
    error.message = fmt::format("{}: {}", kind_name(spec.kind), error.message);
    return error;
  }

  Result<Ok> check_text(const GrammarSpec& spec) const {
    size_t bytes = spec.text.size();
    bool sound = valid_utf8(spec.text);
    for (const std::string& choice : spec.choices) {
      bytes += choice.size();
      sound = sound && valid_utf8(choice);
    }
    if (bytes > limits_.max_bytes) {
      return Error{Code::kInvalid,
                   fmt::format("{} bytes; at most {} are taken", bytes, limits_.max_bytes)};
    }
    if (!sound) return Error{Code::kInvalid, "not UTF-8"};
    return Ok{};
  }

  Result<NamedGrammar> front_end(const GrammarSpec& spec) const {
    switch (spec.kind) {
      case GrammarSpec::Kind::kJsonSchema:
        return schema_grammar(spec.text);
      case GrammarSpec::Kind::kJsonObject:
        return schema_grammar(R"({"type": "object"})");
      case GrammarSpec::Kind::kRegex:
        return regex_grammar(spec.text);
      case GrammarSpec::Kind::kChoice:
        return choice_grammar(spec.choices);
      case GrammarSpec::Kind::kEbnf:
        return parse_ebnf(spec.text, false, tokenizer_.n_ids());
      case GrammarSpec::Kind::kTokenEbnf:
        return parse_ebnf(spec.text, true, tokenizer_.n_ids());
    }
    return Error{Code::kInvalid, "unknown kind"};
  }

  Result<NamedGrammar> schema_grammar(const std::string& text) const {
    Result<Json> schema = parse_json(text, "the text");
    if (!schema) return schema.error();
    return json_schema_grammar(*schema, limits_.max_depth);
  }

  Result<Ok> check_grammar(const NamedGrammar& grammar) const {
    const GrammarCost cost = cost_of(grammar.grammar);
    if (cost.positions > limits_.max_positions) {
      return Error{Code::kUnsupported,
                   fmt::format("too large: {} positions after repetitions are written out; at most "
                               "{} are taken (smaller counts and shorter lists need less)",
                               cost.positions, limits_.max_positions)};
    }
    if (cost.rules > limits_.max_rules) {
      return Error{Code::kUnsupported, fmt::format("too large: {} rules; at most {} are taken",
                                                   cost.rules, limits_.max_rules)};
    }
    return check_rules(grammar.grammar, grammar.names);
  }

  const Tokenizer& tokenizer_;
  const std::unique_ptr<GrammarEngine> engine_;
  const Limits limits_;
  GrammarCache cache_;
};

}  // namespace

bool GrammarCompiler::available() { return GrammarEngine::available(); }

Result<std::unique_ptr<GrammarCompiler>> GrammarCompiler::create(const Tokenizer& tokenizer,
                                                                 std::span<const TokenId> stop_ids,
                                                                 const Limits& limits) {
  Result<std::unique_ptr<GrammarEngine>> engine = GrammarEngine::create(tokenizer, stop_ids);
  if (!engine) return engine.error();
  return std::unique_ptr<GrammarCompiler>(
      std::make_unique<CachingCompiler>(tokenizer, *std::move(engine), limits));
}

}  // namespace minim
