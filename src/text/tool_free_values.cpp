// Elements in general, and those of tools that are not strict: names are held to, values are not.
// A value is text or children; children have the names that the schema gives them, and what no
// schema describes is text, since a grammar without names could not pair tags.
#include "text/tool_values.h"
#include "text/value_text.h"

namespace minim {

GrammarExpr ToolRules::marker(std::string_view tag) const {
  GrammarExpr ns;
  ns.kind = GrammarExpr::Kind::kToken;
  ns.tokens = {ns_};
  return sequence_expr({std::move(ns), text_expr(tag)});
}

GrammarExpr ToolRules::element(std::string_view name, GrammarExpr inside) const {
  const std::string tag = std::string(name) + ">";
  return sequence_expr({marker("<" + tag), std::move(inside), marker("</" + tag)});
}

GrammarExpr ToolRules::any_text() { return repeat_expr(chars_expr(CharSet::all()), 0, -1); }

bool ToolRules::is_tag_name(std::string_view name) {
  constexpr size_t kLongest = 1000;  // of what the parser holds back for a tag
  constexpr std::string_view kInvoke = "invoke";
  if (is_markup_space(name) || name.size() > kLongest || name.front() == '/') return false;
  if (name.find_first_of("<>\r\n") != std::string_view::npos || name == "tool_call") return false;
  return !name.starts_with(kInvoke) || name.size() == kInvoke.size() ||
         kMarkupSpace.find(name[kInvoke.size()]) == std::string_view::npos;
}

GrammarExpr ToolRules::shared(GrammarExpr expr) {
  using Kind = GrammarExpr::Kind;
  if (expr.kind == Kind::kText || expr.kind == Kind::kRule || expr.nothing()) return expr;
  rules_.push_back(std::move(expr));
  return rule_expr(rules_.size() - 1);
}

size_t ToolRules::append(std::vector<GrammarExpr> rules) {
  const size_t by = rules_.size();
  for (GrammarExpr& rule : rules) {
    move_rules(rule, by);
    rules_.push_back(std::move(rule));
  }
  return by;
}

GrammarExpr FreeValues::parameters() {
  if (root_ != nullptr && root_->is_object()) {
    const auto says = reader_.read(root_, root_);
    if (!says->objects.empty()) {
      GrammarExpr declared = named(*says->objects[0], 1);
      if (!declared.nothing()) return repeat_expr(std::move(declared), 0, -1);
    }
  }
  // Nothing is declared. Opening and closing tag need not agree, since a grammar cannot pair them;
  // the parser closes what is left open.
  const CharSet inside{{'A', 'Z'}, {'a', 'z'}, {'0', '9'}, {'_', '_'}, {'-', '-'}, {'.', '.'}};
  const GrammarExpr name = rules_->shared(repeat_expr(chars_expr(inside), 1, 64));
  const GrammarExpr end = text_expr(">");
  return repeat_expr(sequence_expr({rules_->marker("<"), name, end, ToolRules::any_text(),
                                    rules_->marker("</"), name, end}),
                     0, -1);
}

GrammarExpr FreeValues::named(const Json& object_schema, int depth) {
  const auto properties = object_schema.find("properties");
  if (properties == object_schema.end() || !properties->is_object()) return choice_expr({});
  std::vector<GrammarExpr> cases;
  for (const auto& [name, schema] : properties->items()) {
    if (!ToolRules::is_tag_name(name)) continue;
    cases.push_back(rules_->element(name, value(&schema, depth)));
  }
  return choice_expr(std::move(cases));
}

GrammarExpr FreeValues::value(const Json* schema, int depth) {
  const auto key = std::make_pair(schema, depth);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const auto says = reader_.read(schema, root_);
  std::vector<GrammarExpr> cases{ToolRules::any_text()};
  if (depth < kNestedElements && says->may_have_children()) {
    if (!says->arrays.empty()) {
      const Json* item = SchemaReader::item(*says->arrays[0], 0);
      cases.push_back(repeat_expr(rules_->element("item", value(item, depth + 1)), 1, -1));
    }
    for (const Json* object : says->objects) {
      GrammarExpr children = named(*object, depth + 1);
      if (!children.nothing()) cases.push_back(repeat_expr(std::move(children), 1, -1));
    }
  }
  GrammarExpr expr = rules_->shared(choice_expr(std::move(cases)));
  known_.emplace(key, expr);
  return expr;
}

}  // namespace minim
