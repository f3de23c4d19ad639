// Nothing here recurses: only known members at known depths are looked at. Values are of the sorted
// kind, since a vocabulary of 200,000 entries in file order would take 2 * 10^10 comparisons to
// build.
#include "text/tokenizer_json.h"

#include <fmt/format.h>

namespace minim {

const SortedJson* member(const SortedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> string_member(const SortedJson& object, const char* key,
                                  std::string_view name) {
  const SortedJson* value = member(object, key);
  if (value == nullptr || !value->is_string()) {
    return Error{Code::kInvalid, fmt::format("{}: \"{}\" is {}, wanted a string", name, key,
                                             value == nullptr ? "missing" : value->type_name())};
  }
  return value->get<std::string>();
}

Result<bool> bool_member(const SortedJson& object, const char* key, bool absent,
                         std::string_view name) {
  const SortedJson* value = member(object, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    return Error{Code::kInvalid, fmt::format("{}: \"{}\" is {}, wanted true or false", name, key,
                                             value->type_name())};
  }
  return value->get<bool>();
}

}  // namespace minim
