// Runs a parsed template.
#pragma once

#include <ctime>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja_parser.h"
#include "text/jinja_value.h"

namespace minim::jinja {

// Renders with the members of the object `vars` as variables; their strings count as data. `now` is
// strftime_now()'s clock. `body` must outlive the call. Errors are "NAME:LINE: what", one line; the
// limits are those of jinja_runtime.h.
Result<Text> evaluate(const Body& body, const std::string& name, const Json& vars,
                      const std::tm& now);

}  // namespace minim::jinja
