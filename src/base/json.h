// The one JSON header: nlohmann's ordered_json, which keeps key order (tool schemas are prompt
// text), behind calls that return errors instead of throwing. Include it from .cpp files and from
// text/; never from a header of kernels, device, model or engine.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace minim {

using Json = nlohmann::ordered_json;

// Parses one complete JSON text (RFC 8259, valid UTF-8, at most kMaxJsonDepth levels, no key twice
// in one object), in time n log n however many keys an object has.
// `what` names the source in the error: "config.json: not JSON at byte 17: ...".
inline constexpr int kMaxJsonDepth = 512;
Result<Json> parse_json(std::string_view text, std::string_view what);

// Reads a whole file, or what comes through a pipe, of at most `max_bytes`; kNotFound, kIo or
// kInvalid with the path and the reason.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;
Result<std::string> read_file(const std::string& path, size_t max_bytes = kMaxTextBytes);

// Reads a file of somebody's folder: must be a plain file (a link to one is), so that reading ends,
// and no Git LFS pointer. The first gives nothing when there is no such name (a link to nothing is
// an error), the second says kNotFound then.
Result<std::optional<std::string>> read_plain_file(const std::string& path);
Result<std::string> require_plain_file(const std::string& path);

// Parses such a file.
Result<Json> read_json_file(const std::string& path);

// The same with sorted keys and logarithmic look-up, for machine-written objects of many thousand
// keys that are looked up by name: ordered_json compares a name with all keys.
using SortedJson = nlohmann::json;
Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view what);

// What nlohmann's parser says, without its own marks and what it read last of a long text: short,
// printable. (It begins with "[json.exception.parse_error.101] " and may end with all of a string,
// in whatever bytes that had.)
std::string json_reason(const std::exception& exception);

// Compact text with ", " and ": " left out; invalid UTF-8 in strings is replaced by U+FFFD, never
// an exception.
std::string dump_json(const Json& value);

}  // namespace minim
