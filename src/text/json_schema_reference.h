// Where a "$ref" leads inside its schema.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace minim {

struct SchemaTarget {
  const Json* schema;  // an object or a boolean inside the root
  std::string place;   // its JSON pointer
};

// Follows `reference`, which stands in the schema at the JSON pointer `place`. Only "#", "#/..."
// and the same behind the root's own "$id" are followed; everything else is kUnsupported with that
// place and the reason.
Result<SchemaTarget> follow_reference(const Json& root, const std::string& place,
                                      const std::string& reference);

}  // namespace minim
