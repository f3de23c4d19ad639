// The text of one element to the JSON text of its value.
#pragma once

#include <string>
#include <string_view>

#include "text/value_schema.h"

namespace minim {

// White space of the markup; narrower than Unicode's.
inline constexpr std::string_view kMarkupSpace = " \t\n\r\f\v";
std::string_view trim_markup_space(std::string_view text);
bool is_markup_space(std::string_view text);  // nothing else in it

// Always valid JSON: what fits no type of the schema is a string.
std::string value_text(const std::string& text, const ValueSchema& schema);

// Whether `text`, in any case, is "null" or its beginning.
bool may_become_null(std::string_view text);

}  // namespace minim
