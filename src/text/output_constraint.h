// What the next token of a reply may be, over thinking, content and tool calls: the union of a
// request's response format, its tools with tool_choice and strict, and its budget for thinking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/grammar.h"
#include "text/output_parser.h"
#include "text/thinking.h"
#include "text/tool_set.h"

namespace minim {

struct ToolChoice {
  enum class Kind : uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;      // of kNamed
  bool parallel = true;  // more than one call in a reply
};

struct ConstraintRequest {
  ThinkingMode mode = ThinkingMode::kUnset;
  std::optional<int64_t> thinking_budget;  // tokens of thinking; then the closing marker is forced
  std::optional<GrammarSpec> format;       // what the content must be; free thinking comes first
  std::shared_ptr<const ToolSet> tools;
  ToolChoice choice;
};

class OutputConstraint {
 public:
  // nullptr when the request constrains nothing. `compiler` may be null if no grammar is needed;
  // errors are those of GrammarCompiler::compile, with the tool's name where one is at fault, and
  // kInvalid for a tool_choice that names no tool.
  static Result<std::unique_ptr<OutputConstraint>> create(const ConstraintRequest& request,
                                                          const Tokenizer& tokenizer,
                                                          GrammarCompiler* compiler);
  virtual ~OutputConstraint() = default;

  // The ids that may come next; nullptr: all. Valid until the next accept(). May run on another
  // thread while the forward pass runs, never at the same time as accept().
  virtual const TokenBits* allowed() = 0;
  // Tokens that must come next, without asking the sampler; empty where there is a choice.
  virtual std::vector<TokenId> forced() = 0;
  // The token that was taken. A token that allowed() excludes is our own bug.
  virtual void accept(TokenId token) = 0;
};

}  // namespace minim
