// JSON as text: the spelling in which arguments of tool calls are sent. Separators are ", " and
// ": ", members keep their order, nothing above U+001F is escaped but the quote and the backslash.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace minim {

// What the characters become inside a JSON string, without the quotes. May be cut anywhere.
void append_json_chars(std::string& out, std::string_view text);
// With the quotes.
void append_json_string(std::string& out, std::string_view text);

// JSON's grammar of a number: "-0", "1e5", "0.50"; no "NaN", no ".5", no "01".
bool is_json_number(std::string_view text);

// A whole object or array (RFC 8259, at most 128 levels) in that spelling; nullopt for anything
// else. Numbers stay as they are written; of equal keys the last value counts, at the place of the
// first. Half a surrogate pair is no text and makes the whole no JSON.
std::optional<std::string> respell_json(std::string_view text);

}  // namespace minim
