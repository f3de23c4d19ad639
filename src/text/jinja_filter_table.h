// Joins the parts of the filter table.
#pragma once

#include <string_view>
#include <utility>

#include "text/jinja_runtime.h"

namespace minim::jinja {

using NamedFilter = std::pair<std::string_view, Filter>;

// A table's filter of that name, or null.
template <size_t n>
Filter find_in(const NamedFilter (&table)[n], std::string_view name) {
  for (const auto& [known, filter] : table) {
    if (known == name) return filter;
  }
  return nullptr;
}

// The filters of jinja_filters_text.cpp, _number.cpp and _sequence.cpp, or null.
Filter find_text_filter(std::string_view name);
Filter find_number_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);

// json.dumps(value, ensure_ascii, indent, separators, sort_keys) with the defaults of transformers.
Value tojson(Runtime& runtime, const Value& value, const Args& args);

}  // namespace minim::jinja
