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

// kAuto: the model decides; calls of strict tools are held to their schemas. kNone: no call.
// kRequired: thinking, then calls and nothing else. kNamed: the same, of this tool only.
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
  std::shared_ptr<const ToolSet> tools;    // null: none
  ToolChoice choice;
  std::vector<TokenId> stop_ids;  // those that the compiler was made with
};

class OutputConstraint {
 public:
  // nullptr when the request constrains nothing. `compiler` may be null if no grammar is needed
  // (needs_grammar); errors are those of GrammarCompiler::compile, with the tool's name where one
  // is at fault, kInvalid for a tool_choice that names no tool, and kUnsupported for a tokenizer
  // without the markers that the request needs. The tokenizer must outlive the constraint.
  static Result<std::unique_ptr<OutputConstraint>> create(const ConstraintRequest& request,
                                                          const Tokenizer& tokenizer,
                                                          GrammarCompiler* compiler);
  // Whether the request takes a compiler.
  static bool needs_grammar(const ConstraintRequest& request);
  virtual ~OutputConstraint() = default;

  // The ids that may come next; nullptr: all. Valid until the next accept(). May run on another
  // thread while the forward pass runs, never at the same time as another call. No bit at all: the
  // reply cannot go on, which only a mistake in a grammar leads to.
  virtual const TokenBits* allowed() = 0;
  // Tokens that must come next, without asking the sampler; empty where there is a choice. They are
  // part of what a reply is, not a short cut: whoever asks once asks after every accept() until
  // nothing comes, and takes them. A function of the tokens accepted so far.
  virtual std::vector<TokenId> forced() = 0;
  // The token that was taken. A token that allowed() excludes is our own bug.
  virtual void accept(TokenId token) = 0;
};

}  // namespace minim
