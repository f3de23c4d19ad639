// Reading members of a tokenizer.json with one-line errors. Internal to the tokenizer's .cpp files.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/result.h"

namespace minim {

// The member of an object, or nullptr when it is absent, null, or `object` is no object.
const SortedJson* member(const SortedJson& object, const char* key);

// A string that must be there; a boolean with a default. Errors begin with `name`.
Result<std::string> string_member(const SortedJson& object, const char* key, std::string_view name);
Result<bool> bool_member(const SortedJson& object, const char* key, bool absent,
                         std::string_view name);

}  // namespace minim
