// From JSON to nodes.
//
// A node is what a set of schemas demands together: the schema itself, what its "$ref" names, the
// members of its "allOf". Such a set is first made flat (all of that followed), then each list of
// alternatives in it ("anyOf", "oneOf") multiplies it out, and what is left are plain keywords of
// several schema objects, which are intersected one by one: types, bounds, properties name by name.
// That is exact, and it needs no rule for which keywords may stand beside which. Equal sets are one
// node, so recursive schemas end; nodes wait in a queue, so no nesting of the schema is nesting of
// calls. The number of nodes is bounded, since alternatives multiply.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "text/json_schema_nodes.h"
#include "text/regex_grammar.h"
#include "text/utf8.h"

namespace minim {
namespace {

constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxReferences = 128;  // one behind the other

// One demand: a schema as it stands, its plain keywords alone, or one of a list of alternatives.
struct Demand {
  enum Part { kWhole, kPlain, kAnyOf, kOneOf };
  const Json* schema;
  Part part;
};
using Demands = std::vector<Demand>;

std::string escaped_name(std::string name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '~' || name[i] == '/') name.replace(i, 1, name[i] == '~' ? "~0" : "~1");
  }
  return name;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view hex = text.substr(i + 1, 2);
    if (hex.size() < 2 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return std::nullopt;
    }
    out += static_cast<char>(std::stoi(std::string(hex), nullptr, 16));
    i += 2;
  }
  return out;
}

unsigned type_bit(const std::string& name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kNumberTypes;
  if (name == "string") return kStringType;
  return name == "array" ? kArrayType : kObjectType;
}

// The types that a keyword speaks of; 0: of all or none.
unsigned types_of_keyword(std::string_view keyword) {
  static constexpr struct {
    std::string_view keyword;
    unsigned types;
  } kTable[] = {
      {"properties", kObjectType},
      {"required", kObjectType},
      {"additionalProperties", kObjectType},
      {"minProperties", kObjectType},
      {"maxProperties", kObjectType},
      {"items", kArrayType},
      {"prefixItems", kArrayType},
      {"additionalItems", kArrayType},
      {"minItems", kArrayType},
      {"maxItems", kArrayType},
      {"pattern", kStringType},
      {"minLength", kStringType},
      {"maxLength", kStringType},
      {"minimum", kNumberTypes},
      {"maximum", kNumberTypes},
      {"exclusiveMinimum", kNumberTypes},
      {"exclusiveMaximum", kNumberTypes},
  };
  for (const auto& row : kTable) {
    if (row.keyword == keyword) return row.types;
  }
  return 0;
}

unsigned type_of(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  if (value.is_number_integer()) return kIntegerType;
  const std::optional<Decimal> decimal = decimal_of(value);
  return decimal && !decimal->fraction.empty() ? kFractionType : kIntegerType;
}

int64_t count_of(const Json& number) {
  return static_cast<int64_t>(std::min(number.get<double>(), 4e9));
}

class Reader {
 public:
  Reader(const Json& root, int max_depth) : root_(root), max_depth_(max_depth) {}

  Result<SchemaNodes> read() {
    if (!root_.is_object() && !root_.is_boolean()) {
      return schema_error(Code::kInvalid, "", "", "no schema; wanted: an object, true or false");
    }
    if (Result<Ok> sound = check_depth(); !sound) return sound.error();
    places_[&root_] = "";
    node({{&root_, Demand::kWhole}});
    while (!queue_.empty() && !error_) {
      auto [number, demands] = std::move(queue_.front());
      queue_.pop_front();
      fill(number, demands);
      if (result_.nodes.size() > kMaxNodes) {
        fail("anyOf", &root_, fmt::format("more than {} combinations of alternatives", kMaxNodes));
      }
    }
    if (error_) return *error_;
    return std::move(result_);
  }

 private:
  // Schemas in schemas; lists and maps of schemas are no level of their own.
  Result<Ok> check_depth() const {
    struct Level {
      const Json* value;
      int depth;
    };
    std::vector<Level> stack{{&root_, 1}};
    while (!stack.empty()) {
      const Level level = stack.back();
      stack.pop_back();
      if (level.depth > max_depth_) {
        return schema_error(Code::kUnsupported, "", "",
                            fmt::format("schemas nested deeper than {}", max_depth_));
      }
      if (level.value->is_array()) {
        for (const Json& element : *level.value) {
          if (element.is_structured()) stack.push_back({&element, level.depth + 1});
        }
      } else {
        for (const auto& [key, member] : level.value->items()) {
          const bool map =
              key == "properties" || key == "$defs" || key == "definitions" || member.is_array();
          if (member.is_structured()) stack.push_back({&member, level.depth + (map ? 0 : 1)});
        }
      }
    }
    return Ok{};
  }

  void fail(std::string_view keyword, const Json* schema, const std::string& why) {
    if (!error_) error_ = schema_error(Code::kUnsupported, keyword, places_.at(schema), why);
  }

  // A schema inside another one, whose place becomes known with it.
  const Json* member(const Json* schema, const std::string& keyword, const Json& value,
                     const std::string& name) {
    places_.try_emplace(&value, places_.at(schema) + "/" + keyword + name);
    return &value;
  }

  size_t node(const Demands& demands) {
    Demands flat;
    std::vector<const Json*> path;
    for (const Demand& demand : demands) flatten(demand, flat, path);
    std::vector<std::pair<const Json*, int>> key;
    for (const Demand& demand : flat) key.emplace_back(demand.schema, demand.part);
    std::sort(key.begin(), key.end());
    const auto [found, added] = numbers_.try_emplace(std::move(key), result_.nodes.size());
    if (added) {
      result_.nodes.emplace_back();
      result_.nodes.back().place = places_.at(demands.empty() ? &root_ : demands[0].schema);
      queue_.emplace_back(found->second, std::move(flat));
    }
    return found->second;
  }

  void flatten(const Demand& demand, Demands& flat, std::vector<const Json*>& path) {
    if (error_) return;
    const auto same = [&](const Demand& other) {
      return other.schema == demand.schema && other.part == demand.part;
    };
    if (demand.part != Demand::kWhole) {
      if (std::none_of(flat.begin(), flat.end(), same)) flat.push_back(demand);
      return;
    }
    const Json* schema = demand.schema;
    if (schema->is_boolean()) {
      if (!schema->get<bool>()) flat.push_back({schema, Demand::kPlain});
      return;
    }
    if (std::find(path.begin(), path.end(), schema) != path.end()) {
      return fail("$ref", path.front(), "it leads back to itself and says nothing else");
    }
    if (path.size() > kMaxReferences) {
      return fail("$ref", schema, fmt::format("more than {} references in a row", kMaxReferences));
    }
    if (!checked_.contains(schema)) {
      Result<Ok> sound = check_schema_keywords(*schema, places_.at(schema));
      if (!sound) {
        error_ = sound.error();
        return;
      }
      checked_.insert(schema);
    }
    path.push_back(schema);
    flatten({schema, Demand::kPlain}, flat, path);
    if (const auto ref = schema->find("$ref"); ref != schema->end()) {
      const Json* target = resolve(schema, ref->get_ref<const std::string&>());
      if (target != nullptr) flatten({target, Demand::kWhole}, flat, path);
    }
    if (const auto all = schema->find("allOf"); all != schema->end()) {
      for (size_t i = 0; i < all->size(); ++i) {
        flatten({member(schema, "allOf", (*all)[i], fmt::format("/{}", i)), Demand::kWhole}, flat,
                path);
      }
    }
    if (schema->contains("anyOf")) flatten({schema, Demand::kAnyOf}, flat, path);
    if (schema->contains("oneOf")) flatten({schema, Demand::kOneOf}, flat, path);
    path.pop_back();
  }

  const Json* resolve(const Json* schema, const std::string& reference) {
    std::string_view fragment = reference;
    const auto id = root_.is_object() ? root_.find("$id") : root_.end();
    if (id != root_.end() && id->is_string() && !id->get_ref<const std::string&>().empty() &&
        reference.starts_with(id->get_ref<const std::string&>())) {
      fragment.remove_prefix(id->get_ref<const std::string&>().size());
      if (fragment.empty()) fragment = "#";
    }
    const std::string quoted = dump_json(Json(reference));
    if (inside_own_id(places_.at(schema))) {
      return fail("$ref", schema, "inside a schema with an $id of its own it is not followed"),
             nullptr;
    }
    if (!fragment.starts_with('#')) {
      return fail("$ref", schema,
                  fmt::format("{} is outside this schema; only #/… is followed", quoted)),
             nullptr;
    }
    const std::optional<std::string> pointer = percent_decoded(fragment.substr(1));
    if (!pointer || (!pointer->empty() && (*pointer)[0] != '/')) {
      return fail("$ref", schema, fmt::format("{} is no JSON pointer", quoted)), nullptr;
    }
    const Json* at = &root_;
    std::string place;
    for (size_t i = 1; i <= pointer->size() && !pointer->empty();) {
      if (at != &root_ && has_id(*at)) {
        return fail("$ref", schema, fmt::format("{} leads through a schema with an $id", quoted)),
               nullptr;
      }
      const size_t end = std::min(pointer->find('/', i), pointer->size());
      at = step(*at, pointer->substr(i, end - i), place);
      if (at == nullptr) {
        return fail("$ref", schema, fmt::format("{} leads nowhere", quoted)), nullptr;
      }
      i = end + 1;
    }
    if (!at->is_object() && !at->is_boolean()) {
      return fail("$ref", schema, fmt::format("{} leads to no schema", quoted)), nullptr;
    }
    places_.try_emplace(at, place);
    return at;
  }

  static bool has_id(const Json& schema) {
    const auto id = schema.is_object() ? schema.find("$id") : schema.end();
    return id != schema.end() && id->is_string();
  }

  // References in there are relative to that schema, not to the whole.
  bool inside_own_id(const std::string& place) const {
    const Json* at = &root_;
    std::string so_far;
    for (size_t i = 1; i <= place.size() && !place.empty() && at != nullptr;) {
      const size_t end = std::min(place.find('/', i), place.size());
      at = step(*at, place.substr(i, end - i), so_far);
      if (at != nullptr && has_id(*at)) return true;
      i = end + 1;
    }
    return false;
  }

  static const Json* step(const Json& at, std::string token, std::string& place) {
    place += "/" + token;
    for (size_t i = 0; (i = token.find('~', i)) != std::string::npos; ++i) {
      const std::string two = token.substr(i, 2);
      if (two != "~0" && two != "~1") return nullptr;
      token.replace(i, 2, two == "~0" ? "~" : "/");
    }
    if (at.is_object()) {
      const auto found = at.find(token);
      return found == at.end() ? nullptr : &*found;
    }
    if (!at.is_array() || token.empty() || token.size() > 6 ||
        token.find_first_not_of("0123456789") != std::string::npos ||
        (token.size() > 1 && token[0] == '0')) {
      return nullptr;
    }
    const size_t index = std::stoul(token);
    return index < at.size() ? &at[index] : nullptr;
  }

  void fill(size_t number, const Demands& demands) {
    const auto list = std::find_if(demands.begin(), demands.end(), [](const Demand& demand) {
      return demand.part == Demand::kAnyOf || demand.part == Demand::kOneOf;
    });
    if (list == demands.end()) return fill_plain(number, demands);
    const char* keyword = list->part == Demand::kAnyOf ? "anyOf" : "oneOf";
    const Json& members = list->schema->at(keyword);
    std::vector<size_t> alternatives;
    for (size_t i = 0; i < members.size() && !error_; ++i) {
      Demands rest{
          {member(list->schema, keyword, members[i], fmt::format("/{}", i)), Demand::kWhole}};
      for (auto other = demands.begin(); other != demands.end(); ++other) {
        if (other != list) rest.push_back(*other);
      }
      // What stands around the list comes first: it says the order of properties.
      std::rotate(rest.begin(), rest.begin() + 1, rest.end());
      alternatives.push_back(node(rest));
    }
    result_.nodes[number].choice = true;
    result_.nodes[number].alternatives = alternatives;
    if (list->part == Demand::kOneOf) {
      result_.wishes.push_back({places_.at(list->schema), std::move(alternatives)});
    }
  }

  void fill_plain(size_t number, const Demands& demands) {
    SchemaNode filled;
    filled.place = result_.nodes[number].place;
    unsigned spoken_of = 0;
    bool typed = false;
    for (const Demand& demand : demands) {
      const Json& schema = *demand.schema;
      if (schema.is_boolean()) {  // false
        filled.types = filled.written = 0;
        result_.nodes[number] = std::move(filled);
        return;
      }
      typed = typed || schema.contains("type");
      for (const auto& [keyword, value] : schema.items()) {
        spoken_of |= types_of_keyword(keyword);
        read_keyword(filled, demand.schema, keyword, value);
      }
    }
    filled.written =
        typed || spoken_of == 0 || filled.values ? filled.types : filled.types & spoken_of;
    if (filled.values) filter_values(filled, demands);
    if ((filled.types & kArrayType) != 0) read_array(filled, demands);
    if ((filled.types & kObjectType) != 0) read_object(filled, demands);
    result_.nodes[number] = std::move(filled);
  }

  void read_keyword(SchemaNode& node, const Json* schema, const std::string& keyword,
                    const Json& value) {
    if (keyword == "type") {
      unsigned types = 0;
      if (value.is_string()) types = type_bit(value.get<std::string>());
      if (value.is_array()) {
        for (const Json& name : value) types |= type_bit(name.get<std::string>());
      }
      node.types &= types;
    } else if (keyword == "enum" || keyword == "const") {
      add_values(node, schema, keyword, value);
    } else if (keyword == "minimum" || keyword == "exclusiveMinimum") {
      node.range.raise_low({*decimal_of(value), keyword[0] == 'e'});
    } else if (keyword == "maximum" || keyword == "exclusiveMaximum") {
      node.range.lower_high({*decimal_of(value), keyword[0] == 'e'});
    } else if (keyword == "minLength") {
      node.min_length = std::max(node.min_length, count_of(value));
    } else if (keyword == "maxLength") {
      node.max_length = least_bound(node.max_length, count_of(value));
    } else if (keyword == "minItems") {
      node.min_items = std::max(node.min_items, count_of(value));
    } else if (keyword == "maxItems") {
      node.max_items = least_bound(node.max_items, count_of(value));
    } else if (keyword == "minProperties") {
      node.min_properties = std::max(node.min_properties, count_of(value));
    } else if (keyword == "maxProperties") {
      node.max_properties = least_bound(node.max_properties, count_of(value));
    } else if (keyword == "pattern") {
      one_text(node.pattern, schema, keyword, value);
    } else if (keyword == "format") {
      if (const std::optional<DecimalRange> range = format_range(value.get<std::string>())) {
        if (range->low) node.range.raise_low(*range->low);
        if (range->high) node.range.lower_high(*range->high);
      } else {
        one_text(node.format, schema, keyword, value);
      }
    }
  }

  static int64_t least_bound(int64_t a, int64_t b) { return a < 0 ? b : std::min(a, b); }

  void one_text(std::optional<std::string>& text, const Json* schema, const std::string& keyword,
                const Json& value) {
    if (text && *text != value.get<std::string>()) {
      return fail(keyword, schema, "two of them that must both hold are not supported");
    }
    text = value.get<std::string>();
  }

  static void add_values(SchemaNode& node, const Json*, const std::string& keyword,
                         const Json& value) {
    std::vector<const Json*> values;
    if (keyword == "const") {
      values.push_back(&value);
    } else {
      for (const Json& one : value) {
        const bool seen = std::any_of(values.begin(), values.end(),
                                      [&](const Json* other) { return *other == one; });
        if (!seen) values.push_back(&one);
      }
    }
    if (node.values) {
      std::erase_if(*node.values, [&](const Json* old) {
        return std::none_of(values.begin(), values.end(),
                            [&](const Json* other) { return *other == *old; });
      });
    } else {
      node.values = std::move(values);
    }
  }

  // Leaves the values that the other keywords allow too.
  void filter_values(SchemaNode& node, const Demands& demands) {
    std::erase_if(*node.values, [&](const Json* value) {
      const unsigned type = type_of(*value);
      if ((type & node.types) == 0) return true;
      if ((type & kNumberTypes) != 0 && node.range.bounded()) {
        const std::optional<Decimal> decimal = decimal_of(*value);
        return !decimal || !node.range.contains(*decimal);
      }
      if (type != kStringType) return false;
      const auto length =
          static_cast<int64_t>(count_code_points(value->get_ref<const std::string&>()));
      return length < node.min_length || (node.max_length >= 0 && length > node.max_length);
    });
    for (const Demand& demand : demands) {
      for (const auto& [keyword, value] : demand.schema->items()) {
        unsigned types = types_of_keyword(keyword) & (kArrayType | kObjectType);
        if (keyword == "pattern" || (keyword == "format" && node.format)) types |= kStringType;
        const bool concerned =
            std::any_of(node.values->begin(), node.values->end(),
                        [&](const Json* one) { return (type_of(*one) & types) != 0; });
        if (concerned)
          fail(keyword, demand.schema, "beside \"enum\" or \"const\" it is not supported");
      }
    }
  }

  void read_array(SchemaNode& node, const Demands& demands) {
    size_t n_prefix = 0;
    for (const Demand& demand : demands) n_prefix = std::max(n_prefix, prefix_of(demand).size());
    bool speaks_of_rest = false;
    Demands rest;
    for (const Demand& demand : demands) {
      if (const Json* items = rest_of(demand)) {
        speaks_of_rest = true;
        rest.push_back({items, Demand::kWhole});
      }
    }
    for (size_t i = 0; i < n_prefix; ++i) {
      Demands all;
      for (const Demand& demand : demands) {
        const std::vector<const Json*> prefix = prefix_of(demand);
        if (i < prefix.size()) {
          all.push_back({prefix[i], Demand::kWhole});
        } else if (const Json* items = rest_of(demand)) {
          all.push_back({items, Demand::kWhole});
        }
      }
      node.prefix.push_back(this->node(all));
    }
    // A tuple that says nothing about more items has none, if that is enough of them.
    if (speaks_of_rest || n_prefix == 0 || node.min_items > static_cast<int64_t>(n_prefix)) {
      node.items = this->node(rest);
    }
  }

  std::vector<const Json*> prefix_of(const Demand& demand) {
    std::vector<const Json*> prefix;
    for (const char* keyword : {"prefixItems", "items"}) {  // "items": a list until draft 2019-09
      const auto list = demand.schema->find(keyword);
      if (list == demand.schema->end() || !list->is_array()) continue;
      for (size_t i = 0; i < list->size(); ++i) {
        prefix.push_back(member(demand.schema, keyword, (*list)[i], fmt::format("/{}", i)));
      }
      break;
    }
    return prefix;
  }

  const Json* rest_of(const Demand& demand) {
    const auto items = demand.schema->find("items");
    const bool old_style = items != demand.schema->end() && items->is_array();
    const char* keyword = old_style ? "additionalItems" : "items";
    const auto rest = demand.schema->find(keyword);
    if (rest == demand.schema->end() || rest->is_array()) return nullptr;
    return member(demand.schema, keyword, *rest, "");
  }

  void read_object(SchemaNode& node, const Demands& demands) {
    std::vector<std::string> names;  // in order of appearance
    std::set<std::string> known, required;
    const auto add = [&](const std::string& name) {
      if (known.insert(name).second) names.push_back(name);
    };
    bool speaks_of_rest = false;
    Demands rest;
    for (const Demand& demand : demands) {
      if (const auto map = demand.schema->find("properties"); map != demand.schema->end()) {
        for (const auto& property : map->items()) add(property.key());
      }
      if (const Json* other = additional_of(demand)) {
        speaks_of_rest = true;
        rest.push_back({other, Demand::kWhole});
        node.declared_closed = node.declared_closed || (other->is_boolean() && !other->get<bool>());
      }
    }
    const bool declares = !names.empty();
    for (const Demand& demand : demands) {
      if (const auto list = demand.schema->find("required"); list != demand.schema->end()) {
        for (const Json& name : *list) {
          add(name.get<std::string>());
          required.insert(name.get<std::string>());
        }
      }
    }
    for (const std::string& name : names) {
      Demands all;
      for (const Demand& demand : demands) {
        const auto map = demand.schema->find("properties");
        const auto found = map == demand.schema->end() ? Json::const_iterator() : map->find(name);
        if (map != demand.schema->end() && found != map->end()) {
          all.push_back({member(demand.schema, "properties", *found, "/" + escaped_name(name)),
                         Demand::kWhole});
        } else if (const Json* other = additional_of(demand)) {
          all.push_back({other, Demand::kWhole});
        }
      }
      node.properties.push_back({name, this->node(all), required.contains(name)});
    }
    // An object that declares properties and says nothing about others has no others.
    if (speaks_of_rest || !declares) node.additional = this->node(rest);
  }

  const Json* additional_of(const Demand& demand) {
    const auto other = demand.schema->find("additionalProperties");
    if (other == demand.schema->end()) return nullptr;
    return member(demand.schema, "additionalProperties", *other, "");
  }

  const Json& root_;
  const int max_depth_;
  SchemaNodes result_;
  std::map<std::vector<std::pair<const Json*, int>>, size_t> numbers_;
  std::deque<std::pair<size_t, Demands>> queue_;
  std::unordered_map<const Json*, std::string> places_;
  std::set<const Json*> checked_;
  std::optional<Error> error_;
};

}  // namespace

Result<SchemaNodes> read_schema(const Json& schema, int max_depth) {
  return Reader(schema, max_depth).read();
}

}  // namespace minim
