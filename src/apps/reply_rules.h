// A reply's text, and the rules of it that are made of text, for an engine that sees ids only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/output_constraint.h"
#include "text/output_parser.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace minim {

// How a reply is read; shared by those who read it.
struct ReplyForm {
  bool raw = false;  // as the model wrote it, nothing taken apart
  std::shared_ptr<const ToolSet> tools = nullptr;
  ThinkingMode mode = ThinkingMode::kUnset;
  std::vector<std::string> stops = {};  // looked for in the content, not in thinking and calls
  std::vector<TokenId> stop_ids = {};   // no part of the text
};

// Tokens to events, cut in front of a stop string. A function of the tokens alone.
class ReplyText {
 public:
  // The tokenizer must outlive the object.
  ReplyText(const Tokenizer& tokenizer, std::shared_ptr<const ReplyForm> form);

  std::vector<OutputEvent> push(TokenId token);
  // The end, once; the last event is kFinish. `engine_finish` as OutputParser::finish.
  std::vector<OutputEvent> finish(const std::string& engine_finish);
  // The stop string that ended the text.
  const std::optional<std::string>& stopped_by() const { return stops_.matched(); }

 private:
  std::vector<OutputEvent> cut(std::vector<OutputEvent> events);

  std::shared_ptr<const ReplyForm> form_;
  std::optional<TokenOutputParser> parser_;
  Detokenizer plain_;
  StopStrings stops_;
};

// Stop strings and a constraint as the engine's rules. `constraint` may be null.
class ReplyRules : public TokenRules {
 public:
  ReplyRules(const Tokenizer& tokenizer, std::shared_ptr<const ReplyForm> form,
             std::unique_ptr<OutputConstraint> constraint);

  std::span<const uint32_t> allowed() override;
  std::vector<int32_t> forced() override;
  // True where a stop string is complete. Stop ids are the engine's business and change nothing.
  bool accept(int32_t token) override;

 private:
  std::shared_ptr<const ReplyForm> form_;
  std::unique_ptr<OutputConstraint> constraint_;
  std::optional<ReplyText> text_;  // where there are stop strings
};

}  // namespace minim
