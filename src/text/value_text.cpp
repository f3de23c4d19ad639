// The declared type decides, never the look of the text: "02134" stays a string where a string is
// wanted, and "null" is null only where the schema lists it. Numbers keep their spelling, so that
// no digit is lost.
#include "text/value_text.h"

#include <algorithm>
#include <optional>

#include "text/json_text.h"

namespace minim {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(),
                                                  [](char a, char b) { return lower(a) == b; });
}

bool is_any_word(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return is_word(text, word); });
}

bool is_whole(std::string_view number) {
  return is_json_number(number) && number.find_first_of(".eE") == std::string_view::npos;
}

std::optional<std::string> integer_text(std::string_view text) {
  if (is_whole(text)) return std::string(text);
  const size_t point = text.find('.');
  if (point == std::string_view::npos || !is_whole(text.substr(0, point))) return std::nullopt;
  const std::string_view fraction = text.substr(point + 1);
  if (fraction.empty() || fraction.find_first_not_of('0') != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(text.substr(0, point));
}

std::optional<std::string> boolean_text(std::string_view text) {
  if (is_any_word(text, {"true", "1", "yes", "on"})) return "true";
  if (is_any_word(text, {"false", "0", "no", "off"})) return "false";
  return std::nullopt;
}

std::optional<std::string> container_text(std::string_view text, char opener) {
  if (text.empty()) return opener == '{' ? "{}" : "[]";
  if (text[0] != opener) return std::nullopt;
  return respell_json(text);
}

std::string string_text(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

// `trimmed` as a value of this type, if it is one.
std::optional<std::string> typed_text(std::string_view text, std::string_view trimmed,
                                      JsonType type) {
  switch (type) {
    case JsonType::kNull:
      return std::nullopt;  // decided before the other types are tried
    case JsonType::kBoolean:
      return boolean_text(trimmed);
    case JsonType::kInteger:
      return integer_text(trimmed);
    case JsonType::kNumber:
      return is_json_number(trimmed) ? std::optional(std::string(trimmed)) : std::nullopt;
    case JsonType::kString:
      return string_text(text);
    case JsonType::kObject:
      return container_text(trimmed, '{');
    case JsonType::kArray:
      return container_text(trimmed, '[');
  }
  return std::nullopt;
}

bool is_null(std::string_view text, std::string_view trimmed, const ValueSchema& schema) {
  if (!schema.allows(JsonType::kNull)) return false;
  if (schema.allows(JsonType::kString)) return is_word(text, "null");
  return trimmed.empty() || is_word(trimmed, "null");
}

}  // namespace

std::string_view trim_markup_space(std::string_view text) {
  const size_t first = text.find_first_not_of(kMarkupSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kMarkupSpace) - first + 1);
}

bool is_markup_space(std::string_view text) {
  return text.find_first_not_of(kMarkupSpace) == std::string_view::npos;
}

bool may_become_null(std::string_view text) {
  constexpr std::string_view kNull = "null";
  return text.size() <= kNull.size() && is_word(text, kNull.substr(0, text.size()));
}

std::string value_text(const std::string& text, const ValueSchema& schema) {
  const std::string_view trimmed = trim_markup_space(text);
  if (is_null(text, trimmed, schema)) return "null";
  if (schema.has_string(text)) return string_text(text);
  if (!schema.members.empty() && schema.has_scalar(std::string(trimmed))) {
    return std::string(trimmed);
  }
  for (const JsonType type : schema.types) {
    if (std::optional<std::string> value = typed_text(text, trimmed, type)) return *value;
  }
  return string_text(text);
}

}  // namespace minim
