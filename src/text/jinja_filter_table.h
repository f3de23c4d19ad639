// Joins the two halves of the filter table.
#pragma once

#include <string_view>

#include "text/jinja_runtime.h"

namespace minim::jinja {

// The filters of jinja_filters_sequence.cpp, or null.
Filter find_sequence_filter(std::string_view name);

}  // namespace minim::jinja
