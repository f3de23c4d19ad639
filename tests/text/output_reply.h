// Replies as lists of texts and markers, for tests of the output parser.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/output_parser.h"

namespace minim {

using Atom = std::variant<std::string, OutputParser::Marker>;
using Reply = std::vector<Atom>;

inline constexpr OutputParser::Marker kNs = OutputParser::Marker::kNs;
inline constexpr OutputParser::Marker kThink = OutputParser::Marker::kThink;
inline constexpr OutputParser::Marker kEndThink = OutputParser::Marker::kEndThink;

inline void feed(OutputParser& parser, const Atom& atom, std::vector<OutputEvent>& out) {
  if (const auto* text = std::get_if<std::string>(&atom)) {
    parser.push_text(*text, out);
  } else {
    parser.push_marker(std::get<OutputParser::Marker>(atom), out);
  }
}

inline std::vector<OutputEvent> events_of(const Reply& reply, std::shared_ptr<const ToolSet> tools,
                                          ThinkingMode mode, const std::string& finish = "stop") {
  OutputParser parser(std::move(tools), mode);
  std::vector<OutputEvent> events;
  for (const Atom& atom : reply) feed(parser, atom, events);
  parser.finish(finish, events);
  return events;
}

inline ParsedOutput joined(const std::vector<OutputEvent>& events) {
  ParsedOutput result;
  for (const OutputEvent& event : events) result.add(event);
  return result;
}

inline ParsedOutput parsed(const Reply& reply, std::shared_ptr<const ToolSet> tools = nullptr,
                           ThinkingMode mode = ThinkingMode::kUnset,
                           const std::string& finish = "stop") {
  return joined(events_of(reply, std::move(tools), mode, finish));
}

// Everything of a result, for comparing and for showing.
inline Json as_json(const ParsedOutput& result) {
  Json calls = Json::array(), order = Json::array();
  for (const ParsedOutput::Call& call : result.calls) {
    calls.push_back(
        {{"name", call.name}, {"arguments", call.arguments}, {"complete", call.complete}});
  }
  for (const ParsedOutput::Piece& piece : result.order) {
    using Kind = OutputEvent::Kind;
    if (piece.kind == Kind::kToolStart) {
      order.push_back(Json::array({"tool", piece.tool}));
    } else {
      order.push_back(
          Json::array({piece.kind == Kind::kReasoning ? "reasoning" : "text", piece.text}));
    }
  }
  return {{"reasoning", result.reasoning ? Json(*result.reasoning) : Json()},
          {"content", result.content ? Json(*result.content) : Json()},
          {"tool_calls", calls},
          {"finish", result.finish},
          {"order", order}};
}

// The characters of a text: pushed text may be cut between them.
inline std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char byte : text) {
    if (out.empty() || (static_cast<unsigned char>(byte) & 0xC0) != 0x80) out.emplace_back();
    out.back() += byte;
  }
  return out;
}

// The same reply, one character an atom.
inline Reply by_character(const Reply& reply) {
  Reply out;
  for (const Atom& atom : reply) {
    if (const auto* text = std::get_if<std::string>(&atom)) {
      for (std::string& character : characters(*text)) out.emplace_back(std::move(character));
    } else {
      out.push_back(atom);
    }
  }
  return out;
}

// The same reply, its texts joined and cut anew.
inline Reply recut(const Reply& reply, std::mt19937& random) {
  Reply out;
  for (const Atom& atom : by_character(reply)) {
    const auto* text = std::get_if<std::string>(&atom);
    const bool joins = text != nullptr && !out.empty() &&
                       std::holds_alternative<std::string>(out.back()) && random() % 10 < 7;
    if (joins) {
      std::get<std::string>(out.back()) += *text;
    } else {
      out.push_back(atom);
    }
  }
  return out;
}

}  // namespace minim
