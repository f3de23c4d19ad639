// Ids to what the state machine takes, and events to an answer. Markers go to the state machine by
// id; everything else that has text goes through the detokenizer, so a character may arrive in
// several tokens, and markers split none: what is held becomes U+FFFD before a marker, where it
// stands, while a silent token leaves it alone.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "text/output_parser.h"

namespace minim {

MarkerIds MarkerIds::of(const Tokenizer& tokenizer) {
  MarkerIds ids{.ns = tokenizer.find_added(kNsLiteral),
                .think = tokenizer.find_added(kThinkLiteral),
                .end_think = tokenizer.find_added(kEndThinkLiteral),
                .silent = {}};
  for (const std::string_view literal : kSilentLiterals) {
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
  const auto& silent = markers_.silent;
  if (std::find(silent.begin(), silent.end(), token) != silent.end()) return;
  if (token == markers_.ns) return push_marker(OutputParser::Marker::kNs, out);
  if (token == markers_.think) return push_marker(OutputParser::Marker::kThink, out);
  if (token == markers_.end_think) return push_marker(OutputParser::Marker::kEndThink, out);
  parser_.push_text(detokenizer_.push(token), out);
}

void TokenOutputParser::push_marker(OutputParser::Marker marker, std::vector<OutputEvent>& out) {
  parser_.push_text(detokenizer_.flush(), out);
  parser_.push_marker(marker, out);
}

void TokenOutputParser::push_text(std::string_view text, std::vector<OutputEvent>& out) {
  parser_.push_text(detokenizer_.flush(), out);
  parser_.push_text(text, out);
}

void TokenOutputParser::push_added(std::string_view literal, std::vector<OutputEvent>& out) {
  if (std::count(std::begin(kSilentLiterals), std::end(kSilentLiterals), literal) > 0) return;
  if (literal == kNsLiteral) return push_marker(OutputParser::Marker::kNs, out);
  if (literal == kThinkLiteral) return push_marker(OutputParser::Marker::kThink, out);
  if (literal == kEndThinkLiteral) return push_marker(OutputParser::Marker::kEndThink, out);
  push_text(literal, out);
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
