// What the flags of run ask of an answer's form: a format, calls of tools, a bound on the thinking.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "base/result.h"
#include "text/output_constraint.h"
#include "text/thinking.h"

namespace minim {

// --thinking or --effort; kUnset when neither is given.
ThinkingMode thinking_flag(const Arguments& arguments);

// Flags that exclude each other or want another one. The error is one of usage.
Result<Ok> check_form_flags(const Arguments& arguments);

// Whether a flag may constrain the end of the answer.
bool wants_stop_ids(const Arguments& arguments);

struct AnswerForm {
  ConstraintRequest request;
  std::unique_ptr<GrammarCompiler> compiler;  // null when no grammar is needed

  // The constraint of one answer; null: none.
  Result<std::unique_ptr<OutputConstraint>> begin(const Tokenizer& tokenizer) const;
};

// Reads files and compiles grammars, so that a mistake is told before any weight is loaded; errors
// name the flag. `mode` is that of the prompt.
Result<AnswerForm> read_answer_form(const Arguments& arguments, const Tokenizer& tokenizer,
                                    std::shared_ptr<const ToolSet> tools, ThinkingMode mode,
                                    std::vector<TokenId> stop_ids);

}  // namespace minim
