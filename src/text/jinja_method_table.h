// Joins the parts of the method table.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "text/jinja_runtime.h"

namespace minim::jinja {

using Method = Value (*)(Runtime&, const Value& self, const Args&);

struct NamedMethod {
  std::string_view name;
  Method method;
};

// A table's method of that name, or null.
template <size_t n>
Method find_in(const NamedMethod (&table)[n], std::string_view name) {
  const auto at = std::find_if(std::begin(table), std::end(table),
                               [&](const NamedMethod& entry) { return entry.name == name; });
  return at == std::end(table) ? nullptr : at->method;
}

// The str methods of jinja_methods_letters.cpp and jinja_methods_search.cpp, or null.
Method find_letters_method(std::string_view name);
Method find_search_method(std::string_view name);

}  // namespace minim::jinja
