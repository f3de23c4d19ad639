// What run needs to answer: the loaded model with its text side, and the rules of the request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/answer_form.h"
#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/generation.h"
#include "base/json.h"
#include "engine/runtime.h"
#include "engine/sampler.h"
#include "text/chat_template.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace minim {

// The text side, which is at hand long before the weights are.
struct TextSide {
  std::string folder;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;  // none with --raw
  ThinkingMode mode = ThinkingMode::kUnset;
  Json tools;  // as the template wants them; null: none
  std::shared_ptr<const ToolSet> tool_set;
  AnswerForm form;  // set once the text side stays where it is: grammars refer to the tokenizer
};
Result<TextSide> load_text_side(const Arguments& arguments);

// The prompt of a conversation, ready for an answer. Replies that `memory` (may be null) knows
// stand in it with the tokens that the model wrote.
Result<std::vector<TokenId>> render_prompt(const TextSide& text, const Json& messages,
                                           const TurnMemory* memory);

struct Answerer {
  std::unique_ptr<Runtime> runtime;
  TokenMask mask;
  std::vector<int32_t> stops;
  SamplingParams sampling;
  int64_t max_tokens = 0;
  double load_seconds = 0;
};
Result<Answerer> load_answerer(const TextSide& text, RuntimeOptions options,
                               const Arguments& arguments, const InterruptWatch& watch);

struct Answer {
  Generation generation;
  ParsedOutput output;  // with --raw: all of it is content
};
// Answers a prompt, writing to stdout as the tokens come unless `silent`.
Result<Answer> answer(const TextSide& text, const Answerer& answerer, Session& sequence,
                      const std::vector<TokenId>& prompt, bool silent, bool quiet,
                      const InterruptWatch& watch);

// "12 prompt tokens (0 cached) at 900 tok/s, 30 generated at 80 tok/s, 85.2 MiB, avx2, 2 threads"
std::string summary(const Generation& generation, const Runtime& runtime);
Json answer_json(const Answer& answer, const Answerer& answerer);

// The chat on a terminal; the exit code.
int chat(const TextSide& text, const Answerer& answerer, const Arguments& arguments);

}  // namespace minim
