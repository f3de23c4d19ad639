#include "apps/output_json.h"

#include <optional>
#include <string>

namespace minim {
namespace {

using Kind = OutputEvent::Kind;

Json event_json(const OutputEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      return {{"e", "reasoning"}, {"d", event.text}};
    case Kind::kText:
      return {{"e", "text"}, {"d", event.text}};
    case Kind::kToolStart:
      return {{"e", "tool_start"}, {"i", event.tool}, {"name", event.text}};
    case Kind::kToolArgs:
      return {{"e", "args"}, {"i", event.tool}, {"d", event.text}};
    case Kind::kToolEnd:
      return {{"e", "tool_end"}, {"i", event.tool}, {"complete", event.complete}};
    case Kind::kFinish:
      return {{"e", "finish"}, {"kind", event.text}};
  }
  return Json();
}

Json piece_json(const ParsedOutput::Piece& piece) {
  if (piece.kind == Kind::kToolStart) return Json::array({"tool", piece.tool});
  return Json::array({piece.kind == Kind::kReasoning ? "reasoning" : "text", piece.text});
}

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

}  // namespace

Json calls_json(const ParsedOutput& output) {
  Json calls = Json::array();
  for (const ParsedOutput::Call& call : output.calls) {
    calls.push_back(
        {{"name", call.name}, {"arguments", call.arguments}, {"complete", call.complete}});
  }
  return calls;
}

Json result_json(std::span<const OutputEvent> events) {
  ParsedOutput output;
  for (const OutputEvent& event : events) output.add(event);
  Json order = Json::array();
  for (const ParsedOutput::Piece& piece : output.order) order.push_back(piece_json(piece));
  return {{"reasoning", text_or_null(output.reasoning)},
          {"content", text_or_null(output.content)},
          {"tool_calls", calls_json(output)},
          {"finish", output.finish},
          {"order", order}};
}

Json events_json(std::span<const OutputEvent> events) {
  Json out = Json::array();
  for (const OutputEvent& event : events) out.push_back(event_json(event));
  return out;
}

}  // namespace minim
