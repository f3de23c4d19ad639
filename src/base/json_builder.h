// Documents from nlohmann's parser in near-linear time; the part of json.h that knows how.
#pragma once

#include <string_view>

#include "base/json.h"

namespace minim {

// The document of one complete JSON text whose depth was checked; an error names `what`.
Result<Json> build_json(std::string_view text, std::string_view what);
Result<SortedJson> build_sorted_json(std::string_view text, std::string_view what);

}  // namespace minim
