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
#include "text/json_schema_plain.h"
#include "text/json_schema_reference.h"

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
    Result<SchemaTarget> target = follow_reference(root_, places_.at(schema), reference);
    if (!target) {
      if (!error_) error_ = target.error();
      return nullptr;
    }
    places_.try_emplace(target->schema, std::move(target->place));
    return target->schema;
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
        const std::optional<std::string> why = add_keyword(filled, keyword, value);
        if (why) fail(keyword, demand.schema, *why);
      }
    }
    filled.written =
        typed || spoken_of == 0 || filled.values ? filled.types : filled.types & spoken_of;
    if (filled.values) read_values(filled, demands);
    if ((filled.types & kArrayType) != 0) read_array(filled, demands);
    if ((filled.types & kObjectType) != 0) read_object(filled, demands);
    result_.nodes[number] = std::move(filled);
  }

  void read_values(SchemaNode& node, const Demands& demands) {
    filter_values(node);
    for (const Demand& demand : demands) {
      for (const auto& member : demand.schema->items()) {
        if (!speaks_of_values(node, member.key())) continue;
        fail(member.key(), demand.schema, "beside \"enum\" or \"const\" it is not supported");
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
