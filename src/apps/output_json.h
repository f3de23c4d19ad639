// A reply that was taken apart, as JSON.
#pragma once

#include <span>

#include "base/json.h"
#include "text/output_parser.h"

namespace minim {

// [{"name", "arguments", "complete"}, ...]; "arguments" is JSON text, as it was sent.
Json calls_json(const ParsedOutput& output);
// {"reasoning", "content", "tool_calls", "finish", "order"}; "order" is the sequence of the pieces:
// ["reasoning", TEXT], ["text", TEXT], ["tool", NUMBER].
Json result_json(std::span<const OutputEvent> events);
// One object an event: {"e": "reasoning", "d"}, {"e": "text", "d"}, {"e": "tool_start", "i",
// "name"}, {"e": "args", "i", "d"}, {"e": "tool_end", "i", "complete"}, {"e": "finish", "kind"}.
Json events_json(std::span<const OutputEvent> events);

}  // namespace minim
