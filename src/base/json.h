// The one JSON header: nlohmann's ordered_json, which keeps key order (tool schemas are prompt
// text), behind calls that return errors instead of throwing. Include it from .cpp files and from
// text/; never from a header of kernels, device, model or engine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace minim {

using Json = nlohmann::ordered_json;

// Parses one complete JSON text (RFC 8259, valid UTF-8, at most kMaxJsonDepth levels).
// `what` names the source in the error: "config.json: not JSON at byte 17: ...".
inline constexpr int kMaxJsonDepth = 512;
Result<Json> parse_json(std::string_view text, std::string_view what);

// Reads and parses a file.
Result<Json> read_json_file(const std::string& path);

// Reads a whole file; kNotFound or kIo with the path and the system's reason.
Result<std::string> read_file(const std::string& path);

// The same with sorted keys and logarithmic look-up, for machine-written objects of many thousand
// keys: ordered_json compares every new key with all keys before it.
using SortedJson = nlohmann::json;
Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view what);

// Compact text with ", " and ": " left out; invalid UTF-8 in strings is replaced by U+FFFD, never
// an exception.
std::string dump_json(const Json& value);

}  // namespace minim
