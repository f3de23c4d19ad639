// A JSON schema after reading: nodes, each a set of JSON values by type, or a choice of nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/decimal.h"

namespace minim {

enum SchemaType : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are no integers
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberTypes = kIntegerType | kFractionType,
  kAllTypes = 127,
};

struct SchemaProperty {
  std::string name;
  size_t node = 0;
  bool required = false;
};

struct SchemaNode {
  std::string place;  // JSON pointer of the schema that it comes from, or of the first of several

  // A choice of other nodes; then nothing below counts.
  bool choice = false;
  std::vector<size_t> alternatives;

  unsigned types = kAllTypes;    // what the schema says
  unsigned written = kAllTypes;  // what is written: without "type", what the keywords speak of
  std::optional<std::vector<const Json*>> values;  // "enum" and "const", filtered by the rest
  DecimalRange range;
  int64_t min_length = 0, max_length = -1;
  std::optional<std::string> pattern;  // the text in which it is searched
  std::optional<std::string> format;   // of strings
  std::vector<size_t> prefix;
  std::optional<size_t> items;  // behind the prefix; nothing: no more items
  int64_t min_items = 0, max_items = -1;
  std::vector<SchemaProperty> properties;
  std::optional<size_t> additional;  // other properties; nothing: there are none
  bool declared_closed = false;      // and the schema itself says so
  int64_t min_properties = 0, max_properties = -1;
};

// Nodes that a "oneOf" wants to be disjoint.
struct DisjointWish {
  std::string place;
  std::vector<size_t> nodes;
};

struct SchemaNodes {
  std::vector<SchemaNode> nodes;  // node 0 is the whole
  std::vector<DisjointWish> wishes;
};

// `"keyword" at "/place": why`.
Error schema_error(Code code, std::string_view keyword, std::string_view place,
                   std::string_view why);

// Checks one schema object's own keywords: known, of the right shape, not contradictory.
Result<Ok> check_schema_keywords(const Json& schema, const std::string& place);

Result<SchemaNodes> read_schema(const Json& schema, int max_depth);

// kUnsupported unless the members of every "oneOf" are disjoint beyond doubt.
Result<Ok> check_disjoint(const SchemaNodes& nodes);

// The JSON texts of nodes, for grammars in which they are parts.
struct JsonRules {
  std::vector<GrammarExpr> rules;
  // By node: of its arrays and its objects alone; they refer to `rules`. Without parts where it has
  // none of them.
  std::vector<GrammarExpr> arrays, objects;
};
Result<JsonRules> json_rules(const SchemaNodes& schema);

// The strings of a "format", as a pattern for the whole; nothing for one that is not known. Formats
// of numbers say a range instead.
std::optional<std::string> format_pattern(std::string_view format);
std::optional<DecimalRange> format_range(std::string_view format);

}  // namespace minim
