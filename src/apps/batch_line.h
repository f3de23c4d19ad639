// One line of a batch: JSON to a request.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/conversation.h"
#include "apps/json_lines.h"
#include "apps/reply_rules.h"
#include "engine/request.h"

namespace minim {

// What a line has where it says nothing: the flags of run.
struct BatchDefaults {
  SamplingParams sampling;
  std::vector<TokenId> stop_ids;  // the model's own
  int64_t max_tokens = 0;
  Json opening = Json::array();  // messages in front of a prompt: --system
  int vocab = 0;
};

struct BatchLine {
  GenerateRequest request;  // without rules
  std::shared_ptr<const ReplyForm> form;
  ConstraintRequest constraint;
};

class BatchReader {
 public:
  // `text` must stay where it is.
  BatchReader(const TextSide& text, BatchDefaults defaults)
      : text_(&text), defaults_(std::move(defaults)) {}

  // Errors name the line and the key.
  Result<BatchLine> read(const JsonLine& line) const;
  // Gives the line's request its rules; the compiler of grammars is made when one is needed. Errors
  // of a grammar come from the rules.
  Result<Ok> add_rules(BatchLine& line);

 private:
  Result<Ok> read_prompt(const JsonLine& line, const OfferedTools& tools, BatchLine& out) const;

  const TextSide* text_;
  BatchDefaults defaults_;
  std::shared_ptr<GrammarCompiler> compiler_;
};

}  // namespace minim
