// Types, bounds and values meet in the node; the order of keywords does not matter. What cannot be
// intersected (two patterns) is said to the caller, who knows where it stands.
#include "text/json_schema_plain.h"

#include <algorithm>

#include "text/utf8.h"

namespace minim {
namespace {

unsigned type_bit(const std::string& name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kNumberTypes;
  if (name == "string") return kStringType;
  return name == "array" ? kArrayType : kObjectType;
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

int64_t least_bound(int64_t a, int64_t b) { return a < 0 ? b : std::min(a, b); }

std::optional<std::string> one_text(std::optional<std::string>& text, const Json& value) {
  if (text && *text != value.get<std::string>()) {
    return "two of them that must both hold are not supported";
  }
  text = value.get<std::string>();
  return std::nullopt;
}

void add_values(SchemaNode& node, const std::string& keyword, const Json& value) {
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

}  // namespace

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

std::optional<std::string> add_keyword(SchemaNode& node, const std::string& keyword,
                                       const Json& value) {
  if (keyword == "type") {
    unsigned types = 0;
    if (value.is_string()) types = type_bit(value.get<std::string>());
    if (value.is_array()) {
      for (const Json& name : value) types |= type_bit(name.get<std::string>());
    }
    node.types &= types;
  } else if (keyword == "enum" || keyword == "const") {
    add_values(node, keyword, value);
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
    return one_text(node.pattern, value);
  } else if (keyword == "format") {
    if (const std::optional<DecimalRange> range = format_range(value.get<std::string>())) {
      if (range->low) node.range.raise_low(*range->low);
      if (range->high) node.range.lower_high(*range->high);
    } else {
      return one_text(node.format, value);
    }
  }
  return std::nullopt;
}

void filter_values(SchemaNode& node) {
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
}

bool speaks_of_values(const SchemaNode& node, std::string_view keyword) {
  unsigned types = types_of_keyword(keyword) & (kArrayType | kObjectType);
  if (keyword == "pattern" || (keyword == "format" && node.format)) types |= kStringType;
  return std::any_of(node.values->begin(), node.values->end(),
                     [&](const Json* one) { return (type_of(*one) & types) != 0; });
}

}  // namespace minim
