// What may stand in the elements of a call, as grammar expressions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar_rules.h"
#include "text/json_schema_nodes.h"
#include "text/value_schema.h"

namespace minim {

// The tags of the markup, and the rules of all tools' values.
class ToolRules {
 public:
  explicit ToolRules(TokenId ns) : ns_(ns) {}

  // NS<name>inside NS</name>, with `attributes` behind the opening name.
  GrammarExpr element(std::string_view name, GrammarExpr inside) const;
  GrammarExpr marker(std::string_view tag) const;  // NS and the text of a tag
  // Any text, without added tokens.
  static GrammarExpr any_text();
  // A name that can be written as a tag: docs/output.md, T5.
  static bool is_tag_name(std::string_view name);

  // The expression as a rule; texts and rules stay what they are.
  GrammarExpr shared(GrammarExpr expr);
  // Appends rules, whose references among each other move along; returns by how much.
  size_t append(std::vector<GrammarExpr> rules);
  std::vector<GrammarExpr> take() { return std::move(rules_); }

 private:
  TokenId ns_;
  std::vector<GrammarExpr> rules_{GrammarExpr()};  // rule 0 is the whole, set at the end
};

// The parameters of a strict tool: what OutputParser reads back satisfies the schema. Elements nest
// as the template nests them, down to kNestedElements; where the parser could not tell what they
// mean (several object schemas, undeclared names), and deeper, the value is JSON text.
class StrictValues {
 public:
  static constexpr int kNestedElements = 12;
  // Of JSON text: deeper than what people send, and below the 128 that the parser takes as JSON.
  static constexpr size_t kJsonLevels = 32;

  // `parameters` must outlive the object.
  static Result<StrictValues> create(ToolRules& rules, const Json& parameters);
  // What stands between the tags of the call. kUnsupported with keyword and place.
  Result<GrammarExpr> parameters();

 private:
  StrictValues(ToolRules& rules, const Json& root) : rules_(&rules), root_(&root) {}

  using Plain = std::vector<const SchemaNode*>;
  struct View;  // one element: the schema's nodes, and what the parser makes of the same schema

  Plain plain_nodes(size_t node) const;
  size_t index_of(const SchemaNode& node) const {
    return static_cast<size_t>(&node - schema_.nodes.data());
  }
  bool open_to_others(const SchemaNode& node) const;  // undeclared properties may be there
  GrammarExpr value(size_t node, const Json* schema, int depth);
  GrammarExpr make_value(size_t node, const Json* schema, int depth);
  void add_values(const View& view, const SchemaNode& node, std::vector<GrammarExpr>& cases);
  void add_scalars(const View& view, const SchemaNode& node, std::vector<GrammarExpr>& cases);
  GrammarExpr string(const View& view, const SchemaNode& node);
  GrammarExpr plain_string(const SchemaNode& node);
  GrammarExpr array(const View& view, const SchemaNode& node);
  GrammarExpr items(const View& view, const SchemaNode& node);
  GrammarExpr object(const View& view, const SchemaNode& node);
  // The properties in order; with not_empty at least one of them.
  GrammarExpr properties(const Json* container, const SchemaNode& node, int depth, bool not_empty);
  void fail(std::string_view keyword, const SchemaNode& node, const std::string& why);

  ToolRules* rules_;
  const Json* root_;
  SchemaReader reader_;
  SchemaNodes schema_;
  JsonRules json_;
  std::map<std::tuple<size_t, const Json*, int>, GrammarExpr> known_;
  std::optional<Error> error_;
};

// The parameters of a tool that is not strict: declared names if there are any, any order, any text
// or children as the schema names them.
class FreeValues {
 public:
  static constexpr int kNestedElements = 6;

  // `parameters`: nullptr for none; must outlive the object.
  FreeValues(ToolRules& rules, const Json* parameters) : rules_(&rules), root_(parameters) {}
  GrammarExpr parameters();

 private:
  GrammarExpr value(const Json* schema, int depth);
  // Elements with the names that the object schema declares; nothing when it declares none.
  GrammarExpr named(const Json& object_schema, int depth);

  ToolRules* rules_;
  const Json* root_;
  SchemaReader reader_;
  std::map<std::pair<const Json*, int>, GrammarExpr> known_;
};

}  // namespace minim
