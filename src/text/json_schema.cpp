// From nodes to rules: one rule a node, and helper rules for objects with optional properties.
//
// An object is written in the order of its properties. The first one that is present has no comma,
// so each property that may be first begins an alternative of its own, and what may follow it is a
// rule that they share: the size stays linear. Leaves that look alike are one rule, since the
// library makes its masks rule by rule. In the end what has no text at all is cut off: optional
// properties and alternatives that nothing satisfies.
#include "text/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "text/json_schema_nodes.h"
#include "text/json_spelling.h"
#include "text/regex_grammar.h"

namespace minim {
namespace {

constexpr size_t kMaxRules = 200'000;

// Up to this length a bounded string may hold escapes. A mask costs time for every place where a
// repetition of a choice can stand (200 ms at length 100, with 200,000 tokens); a repetition of one
// class of characters is counted, in 0.1 ms, so that is what longer ones are.
constexpr int64_t kEscapedLength = 4;

class Writer {
 public:
  explicit Writer(const SchemaNodes& schema) : nodes_(schema.nodes) {}

  Result<NamedGrammar> write() {
    make_rules();
    if (error_) return *error_;
    const SchemaNode* empty_leaf = nullptr;
    for (size_t i = 0; i < nodes_.size() && empty_leaf == nullptr; ++i) {
      if (is_leaf(nodes_[i]) && rules_[i].nothing()) empty_leaf = &nodes_[i];
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < rules_.size(); ++i) {
      names.push_back(i < nodes_.size()
                          ? fmt::format("the schema at {}", dump_json(Json(nodes_[i].place)))
                          : "a part of the schema");
    }
    NamedGrammar grammar{{std::move(rules_)}, std::move(names)};
    prune(grammar.grammar, grammar.names);
    if (!grammar.grammar.rules[0].nothing()) return grammar;
    return unsatisfiable(empty_leaf);
  }

  Result<JsonRules> write_parts() {
    arrays_.assign(nodes_.size(), choice_expr({}));
    objects_.assign(nodes_.size(), choice_expr({}));
    make_rules();
    if (error_) return *error_;
    return JsonRules{std::move(rules_), std::move(arrays_), std::move(objects_)};
  }

 private:
  void make_rules() {
    rules_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (is_leaf(nodes_[i])) rules_[i] = interned(leaf(nodes_[i]));
    }
    for (size_t i = 0; i < nodes_.size() && !error_; ++i) {
      if (!is_leaf(nodes_[i])) rules_[i] = branch(nodes_[i]);
      if (rules_.size() > kMaxRules) fail("", nodes_[i], "the schema is too large");
    }
  }

  static bool is_leaf(const SchemaNode& node) {
    return !node.choice && (node.values || (node.written & (kArrayType | kObjectType)) == 0);
  }

  static Error unsatisfiable(const SchemaNode* leaf) {
    if (leaf == nullptr) {
      return schema_error(Code::kInvalid, "$ref", "",
                          "no value of finite size satisfies the whole");
    }
    const char* keyword = leaf->values ? "enum" : leaf->types == 0 ? "type" : "minimum";
    if (!leaf->values && leaf->types == kStringType)
      keyword = leaf->pattern ? "pattern" : "minLength";
    return schema_error(Code::kInvalid, keyword, leaf->place,
                        "no value satisfies it together with the keywords beside it");
  }

  void fail(std::string_view keyword, const SchemaNode& node, const std::string& why) {
    if (!error_) error_ = schema_error(Code::kUnsupported, keyword, node.place, why);
  }

  size_t add_rule(GrammarExpr expr) {
    rules_.push_back(std::move(expr));
    return rules_.size() - 1;
  }

  // A rule that all equal expressions share; short texts stay as they are.
  GrammarExpr interned(GrammarExpr expr) {
    if (expr.kind == GrammarExpr::Kind::kText || expr.kind == GrammarExpr::Kind::kRule ||
        expr.nothing()) {
      return expr;
    }
    const std::string text = print_ebnf({{expr}});
    const auto [found, added] = shared_.try_emplace(text, rules_.size());
    if (added) add_rule(std::move(expr));
    return rule_expr(found->second);
  }

  GrammarExpr ref(size_t node) const {
    if (!is_leaf(nodes_[node])) return rule_expr(node);
    return rules_[node];
  }

  GrammarExpr leaf(const SchemaNode& node) {
    if (node.values) {
      std::vector<GrammarExpr> texts;
      for (const Json* value : *node.values) texts.push_back(text_expr(spaced_json(*value)));
      return choice_expr(std::move(texts));
    }
    std::vector<GrammarExpr> cases;
    if ((node.written & kNullType) != 0) cases.push_back(text_expr("null"));
    if ((node.written & kBooleanType) != 0) {
      cases.push_back(text_expr("true"));
      cases.push_back(text_expr("false"));
    }
    if ((node.written & kFractionType) != 0) {
      cases.push_back(interned(numbers_in(node.range)));
    } else if ((node.written & kIntegerType) != 0) {
      cases.push_back(interned(integers_in(node.range)));
    }
    if ((node.written & kStringType) != 0) cases.push_back(interned(string(node)));
    return choice_expr(std::move(cases));
  }

  GrammarExpr quoted(GrammarExpr inside) {
    return sequence_expr({text_expr("\""), std::move(inside), text_expr("\"")});
  }

  GrammarExpr rest_of_string() {
    if (!string_rest_) {
      string_rest_ = add_rule(text_expr(""));
      rules_[*string_rest_] = rest_of_json_string(*string_rest_);
    }
    return rule_expr(*string_rest_);
  }

  GrammarExpr string(const SchemaNode& node) {
    if (node.max_length >= 0 && node.min_length > node.max_length) return choice_expr({});
    if (!node.pattern && !node.format) {
      const bool small = std::max(node.min_length, node.max_length) <= kEscapedLength;
      const GrammarExpr one = small ? any_json_char() : raw_json_char();
      if (node.max_length < 0) {
        return sequence_expr({text_expr("\""), repeat_expr(one, node.min_length, node.min_length),
                              rest_of_string()});
      }
      return quoted(repeat_expr(one, node.min_length, node.max_length));
    }
    if (node.pattern && node.format) {
      fail("format", node, "beside \"pattern\" it is not supported");
      return choice_expr({});
    }
    Result<GrammarExpr> plain =
        node.pattern ? regex_search(*node.pattern) : regex_whole(*format_pattern(*node.format));
    if (!plain) {
      fail("pattern", node, plain.error().message);
      return choice_expr({});
    }
    Result<GrammarExpr> fitting = with_length(*std::move(plain), node.min_length, node.max_length);
    if (!fitting) {
      fail(node.max_length >= 0 ? "maxLength" : "minLength", node,
           fmt::format("beside this \"{}\" it is not supported: {}",
                       node.pattern ? "pattern" : "format", fitting.error().message));
      return choice_expr({});
    }
    return quoted(inside_json_string(*fitting));
  }

  GrammarExpr branch(const SchemaNode& node) {
    std::vector<GrammarExpr> cases;
    if (node.choice) {
      for (const size_t one : node.alternatives) cases.push_back(ref(one));
      return choice_expr(std::move(cases));
    }
    cases.push_back(leaf(node));
    if ((node.written & kArrayType) != 0) cases.push_back(part(array(node), arrays_, node));
    if ((node.written & kObjectType) != 0) cases.push_back(part(object(node), objects_, node));
    return choice_expr(std::move(cases));
  }

  // Remembers the expression of one type of a node, as a rule, where that is wanted.
  GrammarExpr part(GrammarExpr expr, std::vector<GrammarExpr>& parts, const SchemaNode& node) {
    if (parts.empty()) return expr;
    GrammarExpr& kept = parts[static_cast<size_t>(&node - nodes_.data())];
    kept = expr.nothing() ? std::move(expr) : rule_expr(add_rule(std::move(expr)));
    return kept;
  }

  static GrammarExpr comma() { return text_expr(", "); }

  GrammarExpr array(const SchemaNode& node) {
    const auto n_prefix = static_cast<int64_t>(node.prefix.size());
    int64_t most = node.max_items;
    if (!node.items) most = most < 0 ? n_prefix : std::min(most, n_prefix);
    if (most >= 0 && node.min_items > most) return choice_expr({});
    const int64_t n = most < 0 ? n_prefix : std::min(n_prefix, most);
    const auto item = [&] { return node.items ? ref(*node.items) : choice_expr({}); };
    // From the back: what stands behind i elements.
    GrammarExpr rest = repeat_expr(sequence_expr({comma(), item()}),
                                   std::max<int64_t>(node.min_items - std::max<int64_t>(n, 1), 0),
                                   most < 0 ? -1 : most - std::max<int64_t>(n, 1));
    if (n == 0) {
      rest = most == 0 ? choice_expr({}) : sequence_expr({item(), std::move(rest)});
    }
    for (int64_t i = n; i-- > 0;) {
      rest = sequence_expr({i > 0 ? comma() : text_expr(""),
                            ref(node.prefix[static_cast<size_t>(i)]), std::move(rest)});
      if (i > 0 && i >= node.min_items) rest = repeat_expr(std::move(rest), 0, 1);
      if (i > 0 && n > 4) rest = rule_expr(add_rule(std::move(rest)));
    }
    if (node.min_items == 0) rest = choice_expr({text_expr(""), std::move(rest)});
    return sequence_expr({text_expr("["), std::move(rest), text_expr("]")});
  }

  bool open_to_others(const SchemaNode& node) const {
    if (!node.additional) return false;
    const SchemaNode& others = nodes_[*node.additional];
    return others.choice || others.types != 0;
  }

  // How many other properties may follow; false if the counts cannot be kept.
  bool property_counts(const SchemaNode& node, int64_t n_required, int64_t& most, bool& not_empty) {
    const auto n = static_cast<int64_t>(node.properties.size());
    most = -1;
    if (node.max_properties >= 0 && (open_to_others(node) || node.max_properties < n)) {
      if (n > 0) {
        fail("maxProperties", node, "beside optional \"properties\" it is not supported");
        return false;
      }
      most = node.max_properties;
    }
    not_empty = node.min_properties == 1 && n_required == 0;
    if (node.min_properties > n_required && !not_empty) {
      fail("minProperties", node,
           "above 1 and the number of required properties it is not supported");
      return false;
    }
    return true;
  }

  GrammarExpr object(const SchemaNode& node) {
    const auto required = [](const SchemaProperty& property) { return property.required; };
    const auto n_required = std::count_if(node.properties.begin(), node.properties.end(), required);
    int64_t most = -1;
    bool not_empty = false;
    if (!property_counts(node, n_required, most, not_empty)) return choice_expr({});
    if (most >= 0 && node.min_properties > most) return choice_expr({});

    GrammarExpr other = choice_expr({});
    if (node.additional && most != 0) {
      std::vector<std::string> names;
      for (const SchemaProperty& property : node.properties) names.push_back(property.name);
      other = sequence_expr({name_outside(names), text_expr(": "), ref(*node.additional)});
    }
    const auto others = [&](int64_t max) {
      return repeat_expr(sequence_expr({comma(), other}), 0, max);
    };
    const auto pair = [&](const SchemaProperty& property) {
      return sequence_expr({json_string_of(property.name), text_expr(": "), ref(property.node)});
    };
    const auto first_required =
        static_cast<size_t>(std::find_if(node.properties.begin(), node.properties.end(), required) -
                            node.properties.begin());
    std::vector<GrammarExpr> cases;
    if (n_required == 0) {
      if (!not_empty) cases.push_back(text_expr(""));
      cases.push_back(sequence_expr({other, others(most < 0 ? -1 : most - 1)}));
    }
    GrammarExpr rest = others(-1);  // behind property i
    for (size_t i = node.properties.size(); i-- > 0;) {
      const SchemaProperty& property = node.properties[i];
      if (i <= first_required) {
        if (rest.kind != GrammarExpr::Kind::kText) rest = rule_expr(add_rule(std::move(rest)));
        cases.push_back(sequence_expr({pair(property), rest}));
      }
      rest = sequence_expr(
          {repeat_expr(sequence_expr({comma(), pair(property)}), property.required ? 1 : 0, 1),
           std::move(rest)});
    }
    return sequence_expr({text_expr("{"), choice_expr(std::move(cases)), text_expr("}")});
  }

  GrammarExpr name_outside(const std::vector<std::string>& names) {
    std::string key;
    for (const std::string& name : names) key += fmt::format("{}:{}", name.size(), name);
    const auto found = names_.find(key);
    if (found != names_.end()) return rule_expr(found->second);
    GrammarExpr expr = other_name(names, rules_);
    return rule_expr(names_[key] = add_rule(std::move(expr)));
  }

  const std::vector<SchemaNode>& nodes_;
  std::vector<GrammarExpr> rules_;
  std::vector<GrammarExpr> arrays_, objects_;  // of nodes, for write_parts()
  std::unordered_map<std::string, size_t> shared_;
  std::unordered_map<std::string, size_t> names_;
  std::optional<size_t> string_rest_;
  std::optional<Error> error_;
};

}  // namespace

Result<NamedGrammar> json_schema_grammar(const Json& schema, int max_depth) {
  Result<SchemaNodes> nodes = read_schema(schema, max_depth);
  if (!nodes) return nodes.error();
  if (Result<Ok> disjoint = check_disjoint(*nodes); !disjoint) return disjoint.error();
  return Writer(*nodes).write();
}

Result<JsonRules> json_rules(const SchemaNodes& schema) { return Writer(schema).write_parts(); }

Result<Ok> check_json_schema(const Json& schema, int max_depth) {
  Result<NamedGrammar> grammar = json_schema_grammar(schema, max_depth);
  if (!grammar) return grammar.error();
  return Ok{};
}

}  // namespace minim
