// Arbitrary replies: the first byte chooses mode and end, then 0x1D, 0x1E and 0x1F are the three
// markers, 0x1C is a cut, everything else is text. However the text is cut the joined events must
// be the same, their order must be well-formed, arguments must be JSON, and what was sent of a call
// must be the beginning of what closing it gives.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "repaired.h"
#include "text/json_text.h"
#include "text/output_parser.h"
#include "text/tool_set.h"

namespace {

using minim::OutputEvent;
using Kind = OutputEvent::Kind;

constexpr char kTools[] = R"([{"name": "f", "parameters": {"type": "object", "properties": {
  "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": ["number", "null"]},
  "m": {"type": ["string", "null"]}, "b": {"type": "boolean"}, "e": {"enum": ["a", 1, true, null]},
  "o": {"type": "object", "properties": {"x": {"type": "integer"}, "r": {"$ref": "#"}}},
  "a": {"type": "array", "items": {"$ref": "#/properties/o"}},
  "u": {"anyOf": [{"type": "array"}, {"type": "object", "properties": {"k": {"type": "string"}}}]}
  }}}, {"name": "g"}])";

struct Reply {
  std::string text;
  minim::ThinkingMode mode;
  std::string finish;
  bool close;  // with the tag that closes everything
};

std::vector<OutputEvent> events_of(const Reply& reply, std::shared_ptr<const minim::ToolSet> tools,
                                   bool by_character) {
  using Marker = minim::OutputParser::Marker;
  minim::OutputParser parser(std::move(tools), reply.mode);
  std::vector<OutputEvent> events;
  std::string piece;
  const auto send = [&] { parser.push_text(std::exchange(piece, {}), events); };
  for (size_t i = 0; i < reply.text.size(); ++i) {
    const char c = reply.text[i];
    if (c >= '\x1C' && c <= '\x1F') {
      send();
      if (c == '\x1D') parser.push_marker(Marker::kNs, events);
      if (c == '\x1E') parser.push_marker(Marker::kThink, events);
      if (c == '\x1F') parser.push_marker(Marker::kEndThink, events);
      continue;
    }
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (by_character && begins) send();
    piece += c;
  }
  send();
  if (reply.close) {
    parser.push_marker(Marker::kNs, events);
    parser.push_text("</tool_call>", events);
  }
  parser.finish(reply.finish, events);
  return events;
}

void check_order(const std::vector<OutputEvent>& events) {
  int calls = 0;
  bool open = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const OutputEvent& event = events[i];
    require((event.kind == Kind::kFinish) == (i + 1 == events.size()));
    require(event.text.empty() == (event.kind == Kind::kToolEnd));
    require(minim::valid_utf8(event.text));
    const bool of_call = event.kind == Kind::kToolArgs || event.kind == Kind::kToolEnd;
    require(open == of_call);
    if (of_call || event.kind == Kind::kToolStart) require(event.tool == calls);
    if (event.kind == Kind::kToolStart) open = true;
    if (event.kind != Kind::kToolEnd) continue;
    open = false;
    ++calls;
  }
}

minim::ParsedOutput joined(const std::vector<OutputEvent>& events) {
  minim::ParsedOutput output;
  for (const OutputEvent& event : events) output.add(event);
  return output;
}

void check_same(const minim::ParsedOutput& a, const minim::ParsedOutput& b) {
  require(a.reasoning == b.reasoning && a.content == b.content && a.finish == b.finish);
  require(a.order.size() == b.order.size() && a.calls.size() == b.calls.size());
  for (size_t i = 0; i < a.order.size(); ++i) {
    require(a.order[i].kind == b.order[i].kind && a.order[i].text == b.order[i].text);
  }
  for (size_t i = 0; i < a.calls.size(); ++i) {
    require(a.calls[i].name == b.calls[i].name && a.calls[i].complete == b.calls[i].complete);
    require(a.calls[i].arguments == b.calls[i].arguments);
  }
}

// Valid, and in the one spelling; elements and JSON inside them may nest deeper than respell_json
// goes, and numbers may be larger than the JSON library takes.
void check_arguments(const std::string& arguments) {
  const std::optional<std::string> again = minim::respell_json(arguments);
  require(again ? *again == arguments : minim::Json::accept(arguments));
  require(arguments.front() == '{');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tools = std::make_shared<const minim::ToolSet>(
      *minim::ToolSet::parse(*minim::parse_json(kTools, "tools")));
  if (size == 0) return 0;
  Reply reply{.text = repaired({reinterpret_cast<const char*>(data) + 1, size - 1}),
              .mode = static_cast<minim::ThinkingMode>(data[0] & 3),
              .finish = (data[0] & 4) != 0 ? "stop" : "length",
              .close = false};
  const std::vector<OutputEvent> events = events_of(reply, tools, false);
  check_order(events);
  const minim::ParsedOutput output = joined(events);
  const std::vector<OutputEvent> other = events_of(reply, tools, true);
  check_order(other);
  check_same(output, joined(other));

  reply.close = true;
  const minim::ParsedOutput closed = joined(events_of(reply, tools, false));
  require(closed.calls.size() == output.calls.size());
  for (size_t i = 0; i < closed.calls.size(); ++i) {
    require(closed.calls[i].complete);
    check_arguments(closed.calls[i].arguments);
    require(closed.calls[i].arguments.starts_with(output.calls[i].arguments));
  }
  return 0;
}
