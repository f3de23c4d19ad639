// The keys of a line of a batch, one reader for each group of them.
#pragma once

#include "apps/json_lines.h"
#include "engine/request.h"
#include "text/output_constraint.h"
#include "text/tokenizer.h"

namespace minim {

// Refuses a key that no group knows.
Result<Ok> check_batch_keys(const JsonLine& line);

// Numbers, ids and words of sampling and length into `request`, over what it holds already.
Result<Ok> read_sampling(const JsonLine& line, const Tokenizer& tokenizer, int vocab,
                         GenerateRequest& request);
// "stop": a text or a list of texts.
Result<std::vector<std::string>> read_stops(const JsonLine& line);
// Thinking, format of the answer and choice of tools into `request`, whose tools are set.
Result<Ok> read_answer_keys(const JsonLine& line, ConstraintRequest& request);
// The value behind `key`; nullptr where there is none or null.
const Json* member(const JsonLine& line, const char* key);

}  // namespace minim
