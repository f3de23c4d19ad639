// JSON schemas as grammars. A schema is either enforced as a whole or refused by keyword and place;
// nothing is left out silently. docs/structured_output.md lists what is which.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/ebnf_grammar.h"

namespace minim {

// The grammar of the JSON texts that satisfy the schema, in the spelling of json_spelling.h,
// declared properties in the schema's order. Some texts that satisfy it are left out
// (docs/structured_output.md says which); none that does not is in. Errors read: "pattern" at
// "/items": why.
Result<NamedGrammar> json_schema_grammar(const Json& schema, int max_depth);

// Whether the schema can be enforced, without making the grammar's text.
Result<Ok> check_json_schema(const Json& schema, int max_depth);

}  // namespace minim
