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
#include "engine/engine.h"
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

// The same with another mode of thinking and other tools (null: none) than the flags say.
Result<std::vector<TokenId>> render_prompt(const TextSide& text, const Json& messages,
                                           ThinkingMode mode, const Json& tools,
                                           const TurnMemory* memory);

// The sampling flags, and the model's own values where a flag is not given.
Result<SamplingParams> sampling_of(const Arguments& arguments, const GenerationDefaults& model);

struct OfferedTools {
  Json for_template;  // null: none
  std::shared_ptr<const ToolSet> set;
};
// The "tools" of a chat request; `where` stands in front of errors.
Result<OfferedTools> read_tools(const Json& tools, const std::string& where);

// Flags and files that say what form the answer has, into `text.form`, before any weight is loaded.
Result<Ok> read_form(TextSide& text, const Arguments& arguments);

struct Answerer {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Engine> engine;  // of this one conversation, not started
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
Result<Answer> answer(const TextSide& text, const Answerer& answerer,
                      const std::vector<TokenId>& prompt, bool silent, bool quiet,
                      const InterruptWatch& watch);

// "12 prompt tokens (0 cached) at 900 tok/s, 30 generated at 80 tok/s, 85.2 MiB, avx2, 2 threads"
std::string summary(const Generation& generation, const Runtime& runtime);
Json answer_json(const Answer& answer, const Answerer& answerer);

// The chat on a terminal; the exit code.
int chat(const TextSide& text, const Answerer& answerer, const Arguments& arguments);

}  // namespace minim
