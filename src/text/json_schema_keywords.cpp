// Which keywords there are, and what each must look like. A keyword that is not in the table is
// refused: ignoring it would promise what is not kept.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "text/json_schema_nodes.h"
#include "text/regex_grammar.h"

namespace minim {
namespace {

enum class Shape {
  kIgnored,
  kType,
  kList,
  kAny,
  kSchema,
  kSchemas,
  kSchemaMap,
  kItems,
  kNames,
  kCount,
  kNumber,
  kPattern,
  kFormat,
  kReference,
  kText,
  kMultiple,
  kUnique
};

const std::unordered_map<std::string_view, Shape>& shapes() {
  static const std::unordered_map<std::string_view, Shape> table = {
      {"$schema", Shape::kIgnored},
      {"$id", Shape::kText},
      {"$comment", Shape::kIgnored},
      {"title", Shape::kIgnored},
      {"description", Shape::kIgnored},
      {"default", Shape::kIgnored},
      {"examples", Shape::kIgnored},
      {"deprecated", Shape::kIgnored},
      {"readOnly", Shape::kIgnored},
      {"writeOnly", Shape::kIgnored},
      {"discriminator", Shape::kIgnored},
      {"nullable", Shape::kIgnored},
      {"example", Shape::kIgnored},
      {"externalDocs", Shape::kIgnored},
      {"xml", Shape::kIgnored},
      {"$defs", Shape::kSchemaMap},
      {"definitions", Shape::kSchemaMap},
      {"type", Shape::kType},
      {"enum", Shape::kList},
      {"const", Shape::kAny},
      {"properties", Shape::kSchemaMap},
      {"required", Shape::kNames},
      {"additionalProperties", Shape::kSchema},
      {"items", Shape::kItems},
      {"additionalItems", Shape::kSchema},
      {"prefixItems", Shape::kSchemas},
      {"minItems", Shape::kCount},
      {"maxItems", Shape::kCount},
      {"minProperties", Shape::kCount},
      {"maxProperties", Shape::kCount},
      {"anyOf", Shape::kSchemas},
      {"oneOf", Shape::kSchemas},
      {"allOf", Shape::kSchemas},
      {"$ref", Shape::kReference},
      {"pattern", Shape::kPattern},
      {"minLength", Shape::kCount},
      {"maxLength", Shape::kCount},
      {"minimum", Shape::kNumber},
      {"maximum", Shape::kNumber},
      {"exclusiveMinimum", Shape::kNumber},
      {"exclusiveMaximum", Shape::kNumber},
      {"format", Shape::kFormat},
      {"multipleOf", Shape::kMultiple},
      {"uniqueItems", Shape::kUnique},
  };
  return table;
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 40) text = fmt::format("{} of {} bytes", value.type_name(), text.size());
  return text;
}

struct Checker {
  const Json& schema;
  const std::string& place;

  Error wrong(const std::string& keyword, const std::string& wanted) const {
    return schema_error(Code::kInvalid, keyword, place,
                        fmt::format("found {}, wanted: {}", shown(schema.at(keyword)), wanted));
  }

  Result<Ok> type(const std::string& keyword, const Json& value) const {
    static const std::set<std::string> known = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};
    const auto sound = [](const Json& name) {
      return name.is_string() && known.contains(name.get<std::string>());
    };
    const bool list =
        value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), sound);
    if (sound(value) || list) return Ok{};
    return wrong(keyword,
                 "null, boolean, integer, number, string, array, object or a list of them");
  }

  Result<Ok> names(const std::string& keyword, const Json& value) const {
    const bool sound =
        value.is_array() &&
        std::all_of(value.begin(), value.end(), [](const Json& name) { return name.is_string(); });
    if (sound) return Ok{};
    return wrong(keyword, "a list of property names");
  }

  Result<Ok> schema_map(const std::string& keyword, const Json& value) const {
    if (!value.is_object()) return wrong(keyword, "an object of schemas");
    if (keyword != "properties") return Ok{};  // definitions count where they are used
    for (const auto& [name, member] : value.items()) {
      if (!is_schema(member)) {
        return schema_error(
            Code::kInvalid, keyword, place,
            fmt::format("{} is {}, wanted: a schema", shown(Json(name)), shown(member)));
      }
      if (name.size() > 1000) {
        return schema_error(Code::kUnsupported, keyword, place, "a name of more than 1000 bytes");
      }
    }
    return Ok{};
  }

  Result<Ok> schemas(const std::string& keyword, const Json& value) const {
    const bool may_be_empty = keyword == "items" || keyword == "prefixItems";
    if (!value.is_array() || (value.empty() && !may_be_empty) ||
        !std::all_of(value.begin(), value.end(), is_schema)) {
      return wrong(keyword, may_be_empty ? "a list of schemas" : "a list of at least one schema");
    }
    return Ok{};
  }

  Result<Ok> count(const std::string& keyword, const Json& value) const {
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || std::floor(number) != number) {
      return wrong(keyword, "a whole number that is not negative");
    }
    if (number > 1e6 && keyword.starts_with("min")) {
      return schema_error(Code::kUnsupported, keyword, place,
                          "above 1000000, more than is ever written");
    }
    return Ok{};
  }

  Result<Ok> number(const std::string& keyword, const Json& value) const {
    if (value.is_boolean()) return wrong(keyword, "a number (draft 2019-09 or later)");
    if (!value.is_number()) return wrong(keyword, "a number");
    if (decimal_of(value)) return Ok{};
    return schema_error(Code::kUnsupported, keyword, place,
                        fmt::format("more than {} digits", kMaxDecimalDigits));
  }

  Result<Ok> pattern(const std::string& keyword, const Json& value) const {
    if (!value.is_string()) return wrong(keyword, "a regular expression");
    Result<GrammarExpr> expr = regex_search(value.get_ref<const std::string&>());
    if (expr) return Ok{};
    return schema_error(expr.error().code, keyword, place, expr.error().message);
  }

  Result<Ok> format(const std::string& keyword, const Json& value) const {
    if (!value.is_string()) return wrong(keyword, "a name");
    const std::string& name = value.get_ref<const std::string&>();
    if (format_pattern(name) || format_range(name)) return Ok{};
    return schema_error(Code::kUnsupported, keyword, place,
                        fmt::format("{} is not supported", shown(value)));
  }

  Result<Ok> multiple(const std::string& keyword, const Json& value) const {
    if (value.is_number_integer() && value == 1 && schema.value("type", Json()) == "integer") {
      return Ok{};
    }
    return schema_error(Code::kUnsupported, keyword, place, "not supported");
  }

  Result<Ok> unique(const std::string& keyword, const Json& value) const {
    if (value.is_boolean() && (!value.get<bool>() || at_most("maxItems", 1))) return Ok{};
    return schema_error(Code::kUnsupported, keyword, place, "not supported");
  }

  bool at_most(const char* keyword, double limit) const {
    const auto found = schema.find(keyword);
    return found != schema.end() && found->is_number() && found->get<double>() <= limit;
  }

  Result<Ok> check(const std::string& keyword, const Json& value) const {
    if (keyword.starts_with("x-")) return Ok{};
    const auto shape = shapes().find(keyword);
    if (shape == shapes().end()) {
      return schema_error(Code::kUnsupported, keyword, place, "this keyword is not supported");
    }
    switch (shape->second) {
      case Shape::kIgnored:
      case Shape::kAny:
        return Ok{};
      case Shape::kText:
        return value.is_string() ? Result<Ok>(Ok{}) : wrong(keyword, "a text");
      case Shape::kType:
        return type(keyword, value);
      case Shape::kList:
        if (value.is_array() && !value.empty()) return Ok{};
        return wrong(keyword, "a list of at least one value");
      case Shape::kSchema:
        return is_schema(value) ? Result<Ok>(Ok{}) : wrong(keyword, "a schema");
      case Shape::kItems:
        if (value.is_array()) return schemas(keyword, value);
        return is_schema(value) ? Result<Ok>(Ok{}) : wrong(keyword, "a schema");
      case Shape::kSchemas:
        return schemas(keyword, value);
      case Shape::kSchemaMap:
        return schema_map(keyword, value);
      case Shape::kNames:
        return names(keyword, value);
      case Shape::kCount:
        return count(keyword, value);
      case Shape::kNumber:
        return number(keyword, value);
      case Shape::kPattern:
        return pattern(keyword, value);
      case Shape::kFormat:
        return format(keyword, value);
      case Shape::kMultiple:
        return multiple(keyword, value);
      case Shape::kUnique:
        return unique(keyword, value);
      case Shape::kReference:
        return value.is_string() ? Result<Ok>(Ok{}) : wrong(keyword, "a reference");
    }
    return Ok{};
  }

  Result<Ok> ordered(const char* low, const char* high) const {
    const auto least = schema.find(low), most = schema.find(high);
    if (least == schema.end() || most == schema.end()) return Ok{};
    if (compare(*decimal_of(*least), *decimal_of(*most)) <= 0) return Ok{};
    return schema_error(Code::kInvalid, low, place,
                        fmt::format("{} is above {} {}", shown(*least), high, shown(*most)));
  }
};

}  // namespace

Error schema_error(Code code, std::string_view keyword, std::string_view place,
                   std::string_view why) {
  return {code, fmt::format("{} at {}: {}", dump_json(Json(std::string(keyword))),
                            dump_json(Json(std::string(place))), why)};
}

Result<Ok> check_schema_keywords(const Json& schema, const std::string& place) {
  const Checker checker{schema, place};
  for (const auto& [keyword, value] : schema.items()) {
    if (Result<Ok> sound = checker.check(keyword, value); !sound) return sound;
  }
  static constexpr const char* kPairs[][2] = {{"minItems", "maxItems"},
                                              {"minLength", "maxLength"},
                                              {"minProperties", "maxProperties"},
                                              {"minimum", "maximum"},
                                              {"exclusiveMinimum", "exclusiveMaximum"},
                                              {"minimum", "exclusiveMaximum"},
                                              {"exclusiveMinimum", "maximum"}};
  for (const auto& pair : kPairs) {
    if (Result<Ok> sound = checker.ordered(pair[0], pair[1]); !sound) return sound;
  }
  return Ok{};
}

}  // namespace minim
