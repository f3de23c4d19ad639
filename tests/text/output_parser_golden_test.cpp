// The golden vectors of docs/output.md: what a reply means, however it is cut, and how soon its
// parts are sent.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "text/output_reply.h"
#include "text/parse_golden.h"
#include "text/utf8.h"

namespace minim {
namespace {

constexpr size_t kVectors = 660;

// The ids that the vectors use are those of the M3 vocabulary.
Reply reply_of(const Json& tokens) {
  const std::map<int, Atom> atoms = {
      {200058, kNs},        {200059, kThink},        {200060, kEndThink},     {200050, "<think>"},
      {200051, "</think>"}, {200052, "<tool_call>"}, {200053, "</tool_call>"}};
  Reply reply;
  for (const Json& token : tokens) {
    if (token.is_string()) {
      reply.emplace_back(token.get<std::string>());
    } else if (token == 200019 || token == 200020) {
      reply.emplace_back("");  // role marker and eos are not given to the state machine
    } else {
      reply.push_back(atoms.at(token.get<int>()));
    }
  }
  return reply;
}

ThinkingMode mode_of(const Json& vector) {
  const Json& mode = vector["thinking_mode"];
  if (mode.is_null()) return ThinkingMode::kUnset;
  return parse_thinking_mode(mode.get<std::string>()).value();
}

// "order" is left out in the file where it is reasoning, content, calls.
Json expected(Json expect) {
  if (expect.contains("order")) return expect;
  Json order = Json::array();
  if (!expect["reasoning"].is_null()) {
    order.push_back(Json::array({"reasoning", expect["reasoning"]}));
  }
  if (!expect["content"].is_null()) order.push_back(Json::array({"text", expect["content"]}));
  for (size_t i = 0; i < expect["tool_calls"].size(); ++i) {
    order.push_back(Json::array({"tool", i}));
  }
  expect["order"] = order;
  return expect;
}

class OutputParserGolden : public ::testing::Test {
 protected:
  const ToolSets tools_ = golden_tool_sets();

  Json result(const Reply& reply, const Json& vector) const {
    return as_json(parsed(reply, tools_.at(vector["tools"].get<std::string>()), mode_of(vector),
                          vector["engine_finish"].get<std::string>()));
  }
};

// B01-B05, B07 and their kin: one result each, whether it comes as tokens, as characters or in
// random pieces.
TEST_F(OutputParserGolden, AllVectorsAtAllCuts) {
  std::mt19937 random(1);
  for (const Json& vector : parse_vectors("vectors.jsonl", kVectors)) {
    SCOPED_TRACE(dump_json(vector["id"]) + " " + dump_json(vector["tokens"]));
    const Json expect = expected(vector["expect"]);
    const Reply reply = reply_of(vector["tokens"]);
    ASSERT_EQ(result(reply, vector), expect);
    ASSERT_EQ(result(by_character(reply), vector), expect);
    for (int round = 0; round < 20; ++round) {
      const Reply pieces = recut(reply, random);
      ASSERT_EQ(result(pieces, vector), expect) << round;
    }
  }
}

// B01 lists it: fragments are sent as they are produced, not in one lump at the end.
TEST_F(OutputParserGolden, NothingIsHeldBackLongerThanItMust) {
  std::map<std::string, Json> vectors;
  for (Json& vector : parse_vectors("vectors.jsonl", kVectors)) {
    const std::string id = vector["id"].get<std::string>();
    vectors[id] = std::move(vector);
  }
  for (const Json& progress : parse_vectors("progress.jsonl", 106)) {
    const Json& vector = vectors.at(progress["vector"].get<std::string>());
    const Reply reply = reply_of(vector["tokens"]);
    ASSERT_EQ(progress["after"].size(), reply.size());
    OutputParser parser(tools_.at(vector["tools"].get<std::string>()), mode_of(vector));
    size_t sent[3] = {0, 0, 0};
    for (size_t i = 0; i < reply.size(); ++i) {
      std::vector<OutputEvent> events;
      feed(parser, reply[i], events);
      for (const OutputEvent& event : events) {
        using Kind = OutputEvent::Kind;
        if (event.kind == Kind::kReasoning) sent[0] += count_code_points(event.text);
        if (event.kind == Kind::kText) sent[1] += count_code_points(event.text);
        if (event.kind == Kind::kToolArgs) sent[2] += count_code_points(event.text);
      }
      for (size_t kind = 0; kind < 3; ++kind) {
        EXPECT_GE(sent[kind], progress["after"][i][kind].get<size_t>())
            << progress["id"] << " after token " << i << " of " << vector["tokens"];
      }
    }
  }
}

}  // namespace
}  // namespace minim
