// JSON values with the meaning that a chat template gives them, without making template values of
// them first.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace minim::native {

// Deepest list or mapping that is rendered natively.
inline constexpr int kMaxDepth = 64;

// "value.name"; null where that is undefined. Not for names of dict's methods.
const Json* member(const Json& value, std::string_view name);

// Python's truth of a value, and whether it equals a string; null is the undefined value.
bool truthy(const Json* value);
bool equals(const Json* value, std::string_view text);

// Are these variables free of what the interpreter refuses (ill-formed text), reads in its own way
// (names of functions given as variables) or what is too deep?
bool ordinary(const Json& vars);

// Appends str(value) and says true; false for lists and mappings.
bool append_str(const Json& value, std::string* out);

// Appends json.dumps(value, ensure_ascii=False).
void append_json(const Json& value, std::string* out);

}  // namespace minim::native
