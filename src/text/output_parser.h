// What the model writes, taken apart: reasoning, content, tool calls. The rules are docs/output.md.
//
// One state machine serves streaming and not streaming; how the text was cut into tokens never
// changes the joined events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/thinking.h"
#include "text/tokenizer.h"
#include "text/tool_set.h"

namespace minim {

struct OutputEvent {
  enum class Kind : uint8_t {
    kReasoning,  // text: a piece of thinking
    kText,       // text: a piece of content
    kToolStart,  // tool, text: the name of the called tool
    kToolArgs,   // tool, text: a fragment of the arguments' JSON text
    kToolEnd,    // tool, complete
    kFinish,     // text: "tool_calls" or the engine's own word
  };
  Kind kind = Kind::kText;
  int tool = -1;  // calls are numbered through the reply, from 0
  std::string text;
  bool complete = false;  // false: the reply ended inside this call; its arguments are cut short
  bool operator==(const OutputEvent&) const = default;
};

// The added tokens with a meaning of their own, and what they are called in a tokenizer.json.
inline constexpr std::string_view kNsLiteral = "]<]minimax[>[", kThinkLiteral = "<mm:think>",
                                  kEndThinkLiteral = "</mm:think>";
inline constexpr std::string_view kSilentLiterals[] = {"]~!b[", "[e~[", "]~b]", "]!p~[", "]!d~["};

// The same as ids. Markers are known by id: the same characters written as ordinary tokens are
// text.
struct MarkerIds {
  std::optional<TokenId> ns, think, end_think;
  std::vector<TokenId> silent;  // bos, eos, role marker, pad, unk: never text

  static MarkerIds of(const Tokenizer& tokenizer);
};

// The state machine over atoms: text and markers. For ids of a vocabulary see TokenOutputParser.
class OutputParser {
 public:
  enum class Marker : uint8_t { kNs, kThink, kEndThink };

  // `tools` gives the schemas by which arguments are typed; empty: every argument is a string.
  // A reply begins as reasoning if mode is kEnabled, else as content.
  OutputParser(std::shared_ptr<const ToolSet> tools, ThinkingMode mode);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // What is certain after this atom is appended to `out`; no event is empty. `text`: UTF-8 that may
  // be cut between characters.
  void push_text(std::string_view text, std::vector<OutputEvent>& out);
  void push_marker(Marker marker, std::vector<OutputEvent>& out);
  // The end of the reply, once. `engine_finish`: "stop" if the model ended by itself, else
  // "length", "content_filter", "cancelled", ... The last event is kFinish.
  void finish(std::string_view engine_finish, std::vector<OutputEvent>& out);

  // Thinking is open: neither content nor a tool call has begun after it.
  bool in_reasoning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same over token ids.
class TokenOutputParser {
 public:
  // The tokenizer must outlive the parser.
  TokenOutputParser(const Tokenizer& tokenizer, std::shared_ptr<const ToolSet> tools,
                    ThinkingMode mode);

  void push(TokenId token, std::vector<OutputEvent>& out);
  // Text of ordinary tokens that were not given as ids.
  void push_text(std::string_view text, std::vector<OutputEvent>& out);
  // An added token of the family by its literal, whether this vocabulary has it or not.
  void push_added(std::string_view literal, std::vector<OutputEvent>& out);
  void finish(std::string_view engine_finish, std::vector<OutputEvent>& out);
  bool in_reasoning() const { return parser_.in_reasoning(); }

 private:
  void push_marker(OutputParser::Marker marker, std::vector<OutputEvent>& out);

  MarkerIds markers_;
  Detokenizer detokenizer_;
  OutputParser parser_;
};

// All events of a reply, joined: what a client that does not stream gets.
struct ParsedOutput {
  struct Call {
    std::string name, arguments;  // arguments: JSON text, exactly as sent
    bool complete = false;
  };
  struct Piece {
    OutputEvent::Kind kind = OutputEvent::Kind::kText;  // kReasoning, kText or kToolStart
    std::string text;                                   // of reasoning and text
    int tool = -1;
  };
  std::optional<std::string> reasoning, content;  // nullopt where there is none
  std::vector<Call> calls;
  std::vector<Piece> order;  // neighbours of one kind are joined
  std::string finish;

  void add(const OutputEvent& event);
};

}  // namespace minim
