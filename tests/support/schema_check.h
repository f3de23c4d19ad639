// A small validator of JSON schemas, written from the specification (draft 2020-12) and not from
// the grammars: what it says about a value is the test's second opinion.
#pragma once

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "base/json.h"

namespace minim::testing {

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  // Empty when the value satisfies the schema, else the keyword that it breaks and where.
  std::string why_not(const Json& value) const { return check(root_, value, "", 0); }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (!value.is_number()) return false;
    if (type == "number") return true;
    return type == "integer" && std::floor(value.get<double>()) == value.get<double>();
  }

  static size_t code_points(const std::string& text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }

  const Json& follow(const std::string& reference) const {
    return root_.at(nlohmann::json_pointer<std::string>(reference.substr(1)));
  }

  std::string check(const Json& schema, const Json& value, const std::string& at, int depth) const {
    if (depth > 200) return "too deep at " + at;
    if (schema.is_boolean()) return schema.get<bool>() ? "" : "false at " + at;
    for (const auto& [keyword, wanted] : schema.items()) {
      const std::string why = check_keyword(schema, keyword, wanted, value, at, depth);
      if (!why.empty()) return why;
    }
    return "";
  }

  std::string check_keyword(const Json& schema, const std::string& keyword, const Json& wanted,
                            const Json& value, const std::string& at, int depth) const {
    const auto broken = [&](bool is) { return is ? keyword + " at " + at : std::string(); };
    if (keyword == "$ref") {
      return check(follow(wanted.get<std::string>()), value, at, depth + 1);
    }
    if (keyword == "type") {
      bool fits = false;
      for (const Json& type : wanted.is_array() ? wanted : Json::array({wanted})) {
        fits = fits || is_type(value, type.get<std::string>());
      }
      return broken(!fits);
    }
    if (keyword == "enum") {
      return broken(std::find(wanted.begin(), wanted.end(), value) == wanted.end());
    }
    if (keyword == "const") return broken(value != wanted);
    if (keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf") {
      size_t n = 0;
      for (const Json& one : wanted) n += check(one, value, at, depth + 1).empty() ? 1 : 0;
      return broken(keyword == "anyOf" ? n == 0 : keyword == "oneOf" ? n != 1 : n != wanted.size());
    }
    if (value.is_string()) return check_string(keyword, wanted, value.get<std::string>(), broken);
    if (value.is_number()) return check_number(keyword, wanted, value.get<double>(), broken);
    if (value.is_array()) return check_array(schema, keyword, wanted, value, at, depth);
    if (value.is_object()) return check_object(schema, keyword, wanted, value, at, depth);
    return "";
  }

  template <typename Broken>
  static std::string check_string(const std::string& keyword, const Json& wanted,
                                  const std::string& value, const Broken& broken) {
    if (keyword == "minLength") return broken(code_points(value) < wanted.get<size_t>());
    if (keyword == "maxLength") return broken(code_points(value) > wanted.get<size_t>());
    if (keyword == "pattern") {
      return broken(!std::regex_search(value, std::regex(wanted.get<std::string>())));
    }
    return "";
  }

  template <typename Broken>
  static std::string check_number(const std::string& keyword, const Json& wanted, double value,
                                  const Broken& broken) {
    if (keyword == "minimum") return broken(value < wanted.get<double>());
    if (keyword == "maximum") return broken(value > wanted.get<double>());
    if (keyword == "exclusiveMinimum") return broken(value <= wanted.get<double>());
    if (keyword == "exclusiveMaximum") return broken(value >= wanted.get<double>());
    return "";
  }

  std::string check_array(const Json& schema, const std::string& keyword, const Json& wanted,
                          const Json& value, const std::string& at, int depth) const {
    if (keyword == "minItems" && value.size() < wanted.get<size_t>()) return "minItems at " + at;
    if (keyword == "maxItems" && value.size() > wanted.get<size_t>()) return "maxItems at " + at;
    const size_t n_prefix = schema.value("prefixItems", Json::array()).size();
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* item = keyword == "prefixItems" && i < n_prefix ? &wanted[i]
                         : keyword == "items" && i >= n_prefix    ? &wanted
                                                                  : nullptr;
      if (item == nullptr) continue;
      std::string why = check(*item, value[i], at + "/" + std::to_string(i), depth + 1);
      if (!why.empty()) return why;
    }
    return "";
  }

  std::string check_object(const Json& schema, const std::string& keyword, const Json& wanted,
                           const Json& value, const std::string& at, int depth) const {
    if (keyword == "required") {
      for (const Json& name : wanted) {
        if (!value.contains(name.get<std::string>())) return "required " + name.dump() + at;
      }
    }
    const Json declared = schema.value("properties", Json::object());
    for (const auto& [name, member] : value.items()) {
      const Json* own = keyword == "properties" && wanted.contains(name) ? &wanted[name]
                        : keyword == "additionalProperties" && !declared.contains(name) ? &wanted
                                                                                        : nullptr;
      if (own == nullptr) continue;
      std::string why = check(*own, member, at + "/" + name, depth + 1);
      if (!why.empty()) return why;
    }
    return "";
  }

  const Json& root_;
};

}  // namespace minim::testing
