// A strict tool's schema to the text of its elements.
//
// Two readers look at one schema. What is valid is said by its nodes (json_schema_nodes.h), as for
// a response format. What a text becomes is said by the output parser, which reads schemas its own
// way: the first type that fits wins, "null" is null where the schema lists it, and so on. A text
// is in the grammar only if what the parser makes of it is valid. For fixed texts the parser's own
// value_text() is asked. Open sets of texts are argued by type: a number never becomes anything but
// itself, a boolean or null, and a string is kept from beginning like a value that would be tried
// before it. What cannot be argued so is left out or refused; it is never hoped for.
//
// Objects and arrays are child elements, as the template writes them, where one schema of the kind
// is all there is; else JSON text, which the parser takes as it is. Building both at once in the
// nodes' writer lost: there a value's text does not depend on how it will be read.
#include "text/tool_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/json_levels.h"
#include "text/json_spelling.h"
#include "text/regex_grammar.h"
#include "text/value_text.h"

namespace minim {
namespace {

constexpr int kMaxSchemaDepth = 128;

bool is_open(const SchemaNode& node, JsonType type) {
  if (node.values) return false;
  switch (type) {
    case JsonType::kNull:
      return (node.types & kNullType) != 0;
    case JsonType::kBoolean:
      return (node.types & kBooleanType) != 0;
    case JsonType::kInteger:
      return (node.types & kIntegerType) != 0 && !node.range.bounded();
    case JsonType::kNumber:
      return (node.types & kNumberTypes) == kNumberTypes && !node.range.bounded();
    case JsonType::kString:
    case JsonType::kObject:
    case JsonType::kArray:
      break;
  }
  return false;
}

bool holds_value(const SchemaNode& node, const Json& value) {
  return node.values && std::any_of(node.values->begin(), node.values->end(),
                                    [&](const Json* one) { return *one == value; });
}

void add_chars(CharSet& set, std::string_view chars) {
  for (const char c : chars) {
    set.add(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
  }
}

// How a value of this type begins, to whom the parser would give a text.
std::string_view beginnings(JsonType type) {
  switch (type) {
    case JsonType::kNull:
      return "nN";
    case JsonType::kBoolean:
      return "tTfFyYnNoO01";
    case JsonType::kInteger:
    case JsonType::kNumber:
      return "-0123456789";
    case JsonType::kObject:
      return "{";
    case JsonType::kArray:
      return "[";
    case JsonType::kString:
      break;
  }
  return "";
}

}  // namespace

struct StrictValues::View {
  Plain plain;
  std::shared_ptr<const ValueSchema> says;
  int depth = 0;

  bool becomes(const std::string& text, std::string_view json) const {
    return value_text(text, *says) == json;
  }
  bool open(JsonType type) const {
    return std::any_of(plain.begin(), plain.end(),
                       [&](const SchemaNode* node) { return is_open(*node, type); });
  }
  bool valid(const Json& value) const {
    return std::any_of(plain.begin(), plain.end(), [&](const SchemaNode* node) {
      if (node->values) return holds_value(*node, value);
      if (value.is_null()) return (node->types & kNullType) != 0;
      if (value.is_boolean()) return (node->types & kBooleanType) != 0;
      const std::optional<Decimal> number = decimal_of(value);
      const unsigned type =
          number && number->fraction.empty() ? kIntegerType : static_cast<unsigned>(kFractionType);
      return number && (node->types & type) != 0 && node->range.contains(*number);
    });
  }
  size_t count(SchemaType type) const {
    return static_cast<size_t>(std::count_if(
        plain.begin(), plain.end(),
        [&](const SchemaNode* node) { return !node->values && (node->types & type) != 0; }));
  }

  // First characters that a string must not have, since the parser would not read a string.
  CharSet taken_beginnings() const {
    CharSet taken;
    for (const JsonType type : says->types) {
      if (type == JsonType::kString) break;
      if (type != JsonType::kNull && !open(type)) add_chars(taken, beginnings(type));
    }
    if (says->allows(JsonType::kNull) && !valid(Json())) add_chars(taken, "nN");
    for (const auto& set : says->members) {
      for (const std::string& scalar : set->scalars) {
        const Result<Json> value = parse_json(scalar, "");
        if (!value || !valid(*value)) add_chars(taken, scalar.substr(0, 1));
      }
    }
    if (!taken.empty()) add_chars(taken, kMarkupSpace);
    return taken;
  }
  // A container that is tried before a string takes the empty text.
  bool empty_is_container() const {
    for (const JsonType type : says->types) {
      if (type == JsonType::kString) return false;
      if (type == JsonType::kObject || type == JsonType::kArray) return true;
    }
    return false;
  }
};

Result<StrictValues> StrictValues::create(ToolRules& rules, const Json& parameters) {
  StrictValues values(rules, parameters);
  Result<SchemaNodes> nodes = read_schema(parameters, kMaxSchemaDepth);
  if (!nodes) return nodes.error();
  values.schema_ = *std::move(nodes);
  if (Result<Ok> disjoint = check_disjoint(values.schema_); !disjoint) return disjoint.error();
  Result<JsonRules> json = json_rules(values.schema_);
  if (!json) return json.error();
  values.json_ = *std::move(json);
  bound_levels(values.json_, kJsonLevels);
  const size_t moved = rules.append(std::move(values.json_.rules));
  for (GrammarExpr& expr : values.json_.arrays) move_rules(expr, moved);
  for (GrammarExpr& expr : values.json_.objects) move_rules(expr, moved);
  return values;
}

bool StrictValues::open_to_others(const SchemaNode& node) const {
  if (!node.additional) return false;
  const SchemaNode& others = schema_.nodes[*node.additional];
  return others.choice || others.types != 0;
}

void StrictValues::fail(std::string_view keyword, const SchemaNode& node, const std::string& why) {
  if (!error_) error_ = schema_error(Code::kUnsupported, keyword, node.place, why);
}

StrictValues::Plain StrictValues::plain_nodes(size_t node) const {
  Plain plain;
  std::vector<bool> seen(schema_.nodes.size(), false);
  std::vector<size_t> stack{node};
  while (!stack.empty()) {
    const size_t next = stack.back();
    stack.pop_back();
    if (seen[next]) continue;
    seen[next] = true;
    const SchemaNode& one = schema_.nodes[next];
    if (!one.choice) {
      plain.push_back(&one);
    } else {
      stack.insert(stack.end(), one.alternatives.rbegin(), one.alternatives.rend());
    }
  }
  return plain;
}

Result<GrammarExpr> StrictValues::parameters() {
  const Plain plain = plain_nodes(0);
  const SchemaNode& whole = schema_.nodes[0];
  if (plain.size() != 1 || plain[0]->values || (plain[0]->types & kObjectType) == 0) {
    return schema_error(Code::kUnsupported, "", "", "wanted: the schema of one object");
  }
  const SchemaNode& node = *plain[0];
  if (open_to_others(node) && node.properties.empty()) {
    return schema_error(Code::kUnsupported, "additionalProperties", node.place,
                        "names that are not declared cannot be written as parameters");
  }
  const auto n_required =
      std::count_if(node.properties.begin(), node.properties.end(),
                    [](const SchemaProperty& property) { return property.required; });
  if (node.min_properties > n_required) {
    fail("minProperties", node, "above the number of required parameters it is not supported");
  }
  if (node.max_properties >= 0 &&
      node.max_properties < static_cast<int64_t>(node.properties.size())) {
    fail("maxProperties", node, "below the number of parameters it is not supported");
  }
  const auto says = reader_.read(root_, root_);
  GrammarExpr all =
      properties(says->objects.empty() ? nullptr : says->objects[0], node, 1, /*not_empty=*/false);
  if (error_) return *error_;
  if (all.nothing()) {
    return schema_error(Code::kInvalid, "", whole.place, "no arguments satisfy it");
  }
  return all;
}

GrammarExpr StrictValues::value(size_t node, const Json* schema, int depth) {
  const auto key = std::make_tuple(node, schema, depth);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  GrammarExpr expr = rules_->shared(make_value(node, schema, depth));
  known_.emplace(key, expr);
  return expr;
}

GrammarExpr StrictValues::make_value(size_t node, const Json* schema, int depth) {
  const View view{plain_nodes(node), reader_.read(schema, root_), depth};
  std::vector<GrammarExpr> cases;
  for (const SchemaNode* one : view.plain) {
    if (one->values) {
      add_values(view, *one, cases);
      continue;
    }
    add_scalars(view, *one, cases);
    const unsigned types = view.says->unknown() ? one->types : one->written;
    if ((types & kArrayType) != 0) cases.push_back(array(view, *one));
    if ((types & kObjectType) != 0) cases.push_back(object(view, *one));
  }
  return choice_expr(std::move(cases));
}

void StrictValues::add_values(const View& view, const SchemaNode& node,
                              std::vector<GrammarExpr>& cases) {
  for (const Json* value : *node.values) {
    const std::string text =
        value->is_string() ? value->get_ref<const std::string&>() : spaced_json(*value);
    const Result<Json> read = parse_json(value_text(text, *view.says), "");
    if (read && *read == *value) cases.push_back(text_expr(text));
  }
}

void StrictValues::add_scalars(const View& view, const SchemaNode& node,
                               std::vector<GrammarExpr>& cases) {
  const unsigned types = view.says->unknown() ? node.types : node.written;
  if ((types & kNullType) != 0 && view.becomes("null", "null")) cases.push_back(text_expr("null"));
  if ((types & kBooleanType) != 0) {
    for (const char* word : {"true", "false"}) {
      if (view.becomes(word, word)) cases.push_back(text_expr(word));
    }
  }
  const bool fraction = (types & kFractionType) != 0 && view.becomes("70.5", "70.5");
  const bool integer = (types & kIntegerType) != 0 && view.becomes("70", "70");
  if (fraction || integer) {
    if (view.becomes("1", "true") && !view.open(JsonType::kBoolean)) {
      fail("type", node, "a number whose 1 and 0 would be read as booleans");
    }
    cases.push_back(fraction ? numbers_in(node.range) : integers_in(node.range));
  }
  const bool text = view.says->unknown() || view.says->allows(JsonType::kString);
  if ((types & kStringType) != 0 && text) cases.push_back(string(view, node));
}

GrammarExpr StrictValues::plain_string(const SchemaNode& node) {
  if (!node.pattern && !node.format) {
    return repeat_expr(chars_expr(CharSet::all()), node.min_length, node.max_length);
  }
  if (node.pattern && node.format) {
    fail("format", node, "beside \"pattern\" it is not supported");
    return choice_expr({});
  }
  const char* keyword = node.pattern ? "pattern" : "format";
  Result<GrammarExpr> plain =
      node.pattern ? regex_search(*node.pattern) : regex_whole(*format_pattern(*node.format));
  if (!plain) {
    fail(keyword, node, plain.error().message);
    return choice_expr({});
  }
  Result<GrammarExpr> fitting = with_length(*std::move(plain), node.min_length, node.max_length);
  if (fitting) return *std::move(fitting);
  fail(node.max_length >= 0 ? "maxLength" : "minLength", node,
       fmt::format("beside this \"{}\" it is not supported: {}", keyword, fitting.error().message));
  return choice_expr({});
}

GrammarExpr StrictValues::string(const View& view, const SchemaNode& node) {
  if (node.max_length >= 0 && node.min_length > node.max_length) return choice_expr({});
  const CharSet taken = view.taken_beginnings();
  if (taken.empty() && !view.empty_is_container()) return plain_string(node);
  if (node.pattern || node.format) {
    fail(node.pattern ? "pattern" : "format", node,
         "of a string behind other types, whose values its texts could be, it is not supported");
    return choice_expr({});
  }
  std::vector<GrammarExpr> cases;
  if (node.min_length == 0 && !view.empty_is_container()) cases.push_back(text_expr(""));
  if (node.max_length != 0) {
    cases.push_back(sequence_expr(
        {chars_expr(taken.complement()),
         repeat_expr(chars_expr(CharSet::all()), std::max<int64_t>(node.min_length - 1, 0),
                     node.max_length < 0 ? -1 : node.max_length - 1)}));
  }
  return choice_expr(std::move(cases));
}

GrammarExpr StrictValues::items(const View& view, const SchemaNode& node) {
  const auto item = [&](size_t child, size_t index) {
    return rules_->element(
        "item", value(child, SchemaReader::item(*view.says->arrays[0], index), view.depth + 1));
  };
  const auto n_prefix = static_cast<int64_t>(node.prefix.size());
  int64_t most = node.max_items;
  if (!node.items) most = most < 0 ? n_prefix : std::min(most, n_prefix);
  if (most == 0 || (most >= 0 && node.min_items > most)) return choice_expr({});
  const int64_t n = most < 0 ? n_prefix : std::min(n_prefix, most);
  GrammarExpr rest = text_expr("");
  if (node.items && (most < 0 || most > n)) {
    const int64_t least = std::max<int64_t>(node.min_items - n, n == 0 ? 1 : 0);
    rest = repeat_expr(item(*node.items, node.prefix.size()), least, most < 0 ? -1 : most - n);
  } else if (node.min_items > n) {
    return choice_expr({});
  }
  for (int64_t i = n; i-- > 0;) {
    const auto index = static_cast<size_t>(i);
    rest = sequence_expr({item(node.prefix[index], index), std::move(rest)});
    if (i > 0 && i >= node.min_items) rest = repeat_expr(std::move(rest), 0, 1);
    if (n > 4) rest = rules_->shared(std::move(rest));
  }
  return rest;
}

GrammarExpr StrictValues::array(const View& view, const SchemaNode& node) {
  const ValueSchema& says = *view.says;
  const bool as_text = view.becomes("[]", "[]");
  const bool nests = view.depth < kNestedElements && says.may_have_children() &&
                     says.arrays.size() == 1 && view.count(kArrayType) == 1;
  // An array of anything is JSON: elements without a schema could only be strings.
  const bool free = node.prefix.empty() && node.items &&
                    schema_.nodes[*node.items].types == kAllTypes &&
                    !schema_.nodes[*node.items].choice && !schema_.nodes[*node.items].values;
  if (!nests || (free && as_text)) return as_text ? json_.arrays[index_of(node)] : choice_expr({});
  std::vector<GrammarExpr> cases{items(view, node)};
  if (node.min_items == 0) {
    if (view.becomes("", "[]")) {
      cases.push_back(text_expr(""));
    } else if (as_text) {
      cases.push_back(text_expr("[]"));
    }
  }
  return choice_expr(std::move(cases));
}

GrammarExpr StrictValues::object(const View& view, const SchemaNode& node) {
  const ValueSchema& says = *view.says;
  const auto names_nest = [&](const SchemaProperty& property) {
    return ToolRules::is_tag_name(property.name) &&
           (says.arrays.empty() || property.name != "item");
  };
  const auto n_required =
      std::count_if(node.properties.begin(), node.properties.end(),
                    [](const SchemaProperty& property) { return property.required; });
  const bool counted = node.min_properties > n_required ||
                       (node.max_properties >= 0 &&
                        node.max_properties < static_cast<int64_t>(node.properties.size()));
  const bool nests = view.depth < kNestedElements && says.may_have_children() &&
                     says.objects.size() == 1 && view.count(kObjectType) == 1 &&
                     !open_to_others(node) && !counted &&
                     std::all_of(node.properties.begin(), node.properties.end(), names_nest);
  const bool as_text = view.becomes("{}", "{}");
  if (!nests) return as_text ? json_.objects[index_of(node)] : choice_expr({});
  const bool empty = view.becomes("", "{}");
  std::vector<GrammarExpr> cases{properties(says.objects[0], node, view.depth + 1, !empty)};
  if (!empty && as_text && n_required == 0) cases.push_back(text_expr("{}"));
  return choice_expr(std::move(cases));
}

GrammarExpr StrictValues::properties(const Json* container, const SchemaNode& node, int depth,
                                     bool not_empty) {
  GrammarExpr rest = text_expr("");
  std::vector<GrammarExpr> begun;  // one for each property that may be the first
  for (size_t i = node.properties.size(); i-- > 0;) {
    const SchemaProperty& property = node.properties[i];
    if (!ToolRules::is_tag_name(property.name)) {
      fail("properties", node,
           fmt::format("{} cannot be the name of a tag", dump_json(Json(property.name))));
      return choice_expr({});
    }
    const Json* schema =
        container == nullptr ? nullptr : reader_.property(*container, property.name);
    GrammarExpr element = rules_->element(property.name, value(property.node, schema, depth));
    if (not_empty) {
      rest = rules_->shared(std::move(rest));
      if (property.required) begun.clear();
      begun.push_back(sequence_expr({element, rest}));
    }
    if (!property.required) element = repeat_expr(std::move(element), 0, 1);
    rest = sequence_expr({std::move(element), std::move(rest)});
  }
  return not_empty ? choice_expr(std::move(begun)) : rest;
}

}  // namespace minim
