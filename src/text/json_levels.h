// A bound on the nesting of JSON texts in a grammar.
#pragma once

#include <cstddef>

#include "text/json_schema_nodes.h"

namespace minim {

// Rewrites the rules so that no text of `json.arrays` and `json.objects` nests more than `levels`
// arrays and objects, not counting those inside members of "enum" and "const"; all other texts
// stay. Only what may nest deeper is copied, at most once a level. What is then without text is
// left for prune().
void bound_levels(JsonRules& json, size_t levels);

}  // namespace minim
