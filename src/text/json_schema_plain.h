// Plain keywords of schema objects, intersected into a node one by one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/json_schema_nodes.h"

namespace minim {

// The types that a keyword speaks of; 0: of all or none.
unsigned types_of_keyword(std::string_view keyword);

// Holds the node to one keyword more; keywords that are not plain (those with schemas inside) say
// nothing here. The keyword is sound (check_schema_keywords). The result: why it cannot be kept
// beside what the node holds already, or nothing.
std::optional<std::string> add_keyword(SchemaNode& node, const std::string& keyword,
                                       const Json& value);

// Leaves the values of "enum" and "const" that the node's types, range and lengths allow too.
void filter_values(SchemaNode& node);

// Does the keyword say something of one of the node's values that filter_values does not look at?
bool speaks_of_values(const SchemaNode& node, std::string_view keyword);

}  // namespace minim
