// Ids to what the state machine takes, and events to an answer. Markers go to the state machine by
// id; everything else that has text goes through the detokenizer, so a character may arrive in
// several tokens, and markers split none: what is held becomes U+FFFD before a marker, where it
// stands, while a silent token leaves it alone.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "text/output_parser.h"

namespace minim {

MarkerIds MarkerIds::of(const Tokenizer& tokenizer) {
  MarkerIds ids{.ns = tokenizer.find_added("]<]minimax[>["),
                .think = tokenizer.find_added("<mm:think>"),
                .end_think = tokenizer.find_added("</mm:think>"),
                .silent = {}};
  for (const char* literal : {"]~!b[", "[e~[", "]~b]", "]!p~[", "]!d~["}) {
    if (const std::optional<TokenId> id = tokenizer.find_added(literal)) ids.silent.push_back(*id);
  }
  return ids;
}

TokenOutputParser::TokenOutputParser(const Tokenizer& tokenizer,
                                     std::shared_ptr<const ToolSet> tools, ThinkingMode mode)
    : markers_(MarkerIds::of(tokenizer)),
      detokenizer_(tokenizer, false),
      parser_(std::move(tools), mode) {}

void TokenOutputParser::push(TokenId token, std::vector<OutputEvent>& out) {
  using Marker = OutputParser::Marker;
  if (std::find(markers_.silent.begin(), markers_.silent.end(), token) != markers_.silent.end()) {
    return;
  }
  const std::array markers = {std::pair(markers_.ns, Marker::kNs),
                              std::pair(markers_.think, Marker::kThink),
                              std::pair(markers_.end_think, Marker::kEndThink)};
  for (const auto& [id, marker] : markers) {
    if (id != token) continue;
    parser_.push_text(detokenizer_.flush(), out);
    return parser_.push_marker(marker, out);
  }
  parser_.push_text(detokenizer_.push(token), out);
}

void TokenOutputParser::finish(std::string_view engine_finish, std::vector<OutputEvent>& out) {
  parser_.push_text(detokenizer_.flush(), out);
  parser_.finish(engine_finish, out);
}

void ParsedOutput::add(const OutputEvent& event) {
  using Kind = OutputEvent::Kind;
  const auto call = [&]() -> Call& {
    CHECK(event.tool >= 0 && static_cast<size_t>(event.tool) < calls.size());
    return calls[static_cast<size_t>(event.tool)];
  };
  switch (event.kind) {
    case Kind::kReasoning:
    case Kind::kText: {
      std::optional<std::string>& whole = event.kind == Kind::kText ? content : reasoning;
      if (!whole) whole.emplace();
      *whole += event.text;
      if (order.empty() || order.back().kind != event.kind) order.push_back({event.kind, "", -1});
      order.back().text += event.text;
      return;
    }
    case Kind::kToolStart:
      calls.push_back({.name = event.text, .arguments = {}});
      order.push_back({event.kind, "", event.tool});
      return;
    case Kind::kToolArgs:
      call().arguments += event.text;
      return;
    case Kind::kToolEnd:
      call().complete = event.complete;
      return;
    case Kind::kFinish:
      finish = event.text;
      return;
  }
}

}  // namespace minim
