#include "base/json_fields.h"

#include <fmt/format.h>

#include <cmath>

namespace minim {
namespace {

constexpr size_t kShownBytes = 96;

const SortedJson& empty_object() {
  static const SortedJson empty = SortedJson::object();
  return empty;
}

std::string escaped(const SortedJson& value) {
  return value.dump(-1, ' ', true, SortedJson::error_handler_t::replace);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  if (text.size() <= kShownBytes) return escaped(SortedJson(std::string(text)));
  return escaped(SortedJson(std::string(text.substr(0, kShownBytes)) + "..."));
}

std::string describe_json(const SortedJson& value) {
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return escaped(value);
}

std::optional<int> json_integer(const SortedJson& value, int low, int high) {
  if (!value.is_number_integer()) return std::nullopt;
  // Above the signed range first: the conversion below would wrap.
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT32_MAX}) {
    return std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  if (number < low || number > high) return std::nullopt;
  return static_cast<int>(number);
}

JsonFields::JsonFields(const SortedJson& object, std::string where, FirstError& error)
    : object_(object.is_object() ? object : empty_object()),
      where_(std::move(where)),
      error_(error) {
  if (object.is_object() || error_) return;
  std::string_view whole = where_;  // "config.json: rope_scaling." or "config.json: "
  const bool is_field = whole.ends_with('.');
  if (is_field) whole.remove_suffix(1);
  error_ = Error{Code::kInvalid, fmt::format("{}{}{}, wanted an object", whole,
                                             is_field ? " is " : "found ", describe_json(object))};
}

const SortedJson* JsonFields::find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

bool JsonFields::has(const char* key) const {
  const SortedJson* value = find(key);
  return value != nullptr && !value->is_null();
}

void JsonFields::fail(std::string_view text, Code code) {
  if (!error_) error_ = Error{code, fmt::format("{}{}", where_, text)};
}

void JsonFields::wanted(const char* key, std::string_view wanted, Code code) {
  const SortedJson* value = find(key);
  if (value == nullptr) return fail(fmt::format("{} is missing, wanted {}", key, wanted), code);
  fail(fmt::format("{} is {}, wanted {}", key, describe_json(*value), wanted), code);
}

void JsonFields::only(const char* key, const SortedJson& allowed) {
  if (!has(key) || *find(key) == allowed) return;
  wanted(key, fmt::format("{} (nothing else is implemented)", describe_json(allowed)),
         Code::kUnsupported);
}

int JsonFields::integer(const char* key, int low, int high) {
  const SortedJson* value = find(key);
  if (value != nullptr) {
    if (const std::optional<int> number = json_integer(*value, low, high)) return *number;
  }
  wanted(key, fmt::format("an integer in {}..{}", low, high));
  return low;
}

int JsonFields::integer_or(const char* key, int low, int high, int fallback) {
  return find(key) == nullptr ? fallback : integer(key, low, high);
}

double JsonFields::number_or(const char* key, double low, double high, double fallback) {
  const SortedJson* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= low && number <= high) return number;
  }
  wanted(key, fmt::format("a number in {:g}..{:g}", low, high));
  return fallback;
}

bool JsonFields::flag_or(const char* key, bool fallback) {
  const SortedJson* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  wanted(key, "true or false");
  return fallback;
}

std::string JsonFields::text_or(const char* key, const std::string& fallback) {
  const SortedJson* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  wanted(key, "a string");
  return fallback;
}

JsonFields JsonFields::object_or_empty(const char* key) {
  const SortedJson& value = has(key) ? *find(key) : empty_object();
  return JsonFields(value, fmt::format("{}{}.", where_, key), error_);
}

}  // namespace minim
