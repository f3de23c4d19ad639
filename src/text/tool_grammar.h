// The grammar of tool calls: a list of tools to the language in which the family's models write
// their calls, so that what is written is a call that satisfies the schemas.
#pragma once

#include <span>

#include "base/result.h"
#include "text/grammar.h"
#include "text/tokenizer.h"
#include "text/tool_set.h"

namespace minim {

// One block of calls, from its namespace marker to the tag that closes it, in the bytes of the
// family's template:
//
//   NS<tool_call>\n NS<invoke name="N"> NS<key>VALUE NS</key> ... NS</invoke>\n NS</tool_call>
//
// Markers are tokens, all else is text without added tokens. One call, or any number with
// `parallel`, each of one of `tools` (at least one). A strict tool's arguments, as OutputParser
// reads them back, satisfy its schema; of another tool only the names are held to: declared ones if
// it declares any. The rules by which each schema becomes text are docs/structured_output.md.
//
// kInvalid / kUnsupported with one line that names the tool, and of a schema the keyword and its
// JSON pointer. The tokenizer has the namespace marker.
Result<GrammarSpec> tool_call_grammar(std::span<const Tool* const> tools, bool parallel,
                                      const Tokenizer& tokenizer);

}  // namespace minim
