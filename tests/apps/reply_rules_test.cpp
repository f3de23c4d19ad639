#include "apps/reply_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace minim {
namespace {

const Tokenizer& demo() {
  static const Tokenizer* tokenizer =
      new Tokenizer(*Tokenizer::load(std::string(MINIM_DEMO_MODEL) + "/tokenizer.json"));
  return *tokenizer;
}

std::shared_ptr<const ReplyForm> form_of(std::vector<std::string> stops, bool raw,
                                         std::vector<TokenId> stop_ids = {}) {
  return std::make_shared<const ReplyForm>(
      ReplyForm{.raw = raw, .stops = std::move(stops), .stop_ids = std::move(stop_ids)});
}

struct Shown {
  std::string text, finish;
};

Shown show(ReplyText& reply, const std::vector<TokenId>& tokens) {
  Shown shown;
  const auto add = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      if (event.kind == OutputEvent::Kind::kText) shown.text += event.text;
      if (event.kind == OutputEvent::Kind::kFinish) shown.finish = event.text;
    }
  };
  for (const TokenId token : tokens) add(reply.push(token));
  add(reply.finish("length"));
  return shown;
}

TEST(ReplyText, NothingOfAStopStringIsShownWhereverItBegins) {
  const std::string text = "one two, three; 四 fünf six seven";
  for (const bool raw : {true, false}) {
    for (size_t at = 1; at + 1 < text.size(); ++at) {
      for (size_t n = 1; at + n <= text.size() && n < 9; ++n) {
        const std::string stop = text.substr(at, n);
        ReplyText reply(demo(), form_of({"never", stop}, raw));
        const Shown shown = show(reply, demo().encode(text, false));
        ASSERT_EQ(shown.text, text.substr(0, text.find(stop))) << stop;
        ASSERT_EQ(shown.finish, "stop");
        ASSERT_EQ(reply.stopped_by(), stop);
      }
    }
  }
}

TEST(ReplyText, WhatWasHeldBackForAStopStringIsShownAtTheEnd) {
  for (const bool raw : {true, false}) {
    ReplyText reply(demo(), form_of({"seven up"}, raw));
    const Shown shown = show(reply, demo().encode("six seven", false));
    EXPECT_EQ(shown.text, "six seven");
    EXPECT_EQ(shown.finish, "length");
  }
}

TEST(ReplyText, ThinkingIsNoPlaceForAStopString) {
  std::vector<TokenId> tokens = demo().encode("<mm:think>stop here</mm:think>go on. stop", true);
  ReplyText reply(demo(), form_of({"stop"}, false));
  EXPECT_EQ(show(reply, tokens).text, "go on. ");
}

TEST(ReplyRules, TheReplyEndsWithTheTokenThatCompletesTheString) {
  const std::string text = "one two, three four five";
  const std::vector<TokenId> tokens = demo().encode(text, false);
  for (size_t at = 1; at + 3 < text.size(); ++at) {
    const std::string stop = text.substr(at, 3);
    const size_t end = text.find(stop) + stop.size();
    ReplyRules rules(demo(), form_of({stop}, true), nullptr);
    EXPECT_TRUE(rules.allowed().empty());
    EXPECT_TRUE(rules.forced().empty());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const size_t so_far =
          decode(demo(), std::span<const TokenId>(tokens).first(i + 1), false).size();
      const bool ended = rules.accept(tokens[i]);
      ASSERT_EQ(ended, so_far >= end) << stop;
      if (ended) break;
    }
  }
}

TEST(ReplyRules, AStopIdIsNoText) {
  const std::vector<TokenId> tokens = demo().encode("one two", false);
  ReplyRules rules(demo(), form_of({"one"}, true, {tokens[0]}), nullptr);
  EXPECT_FALSE(rules.accept(tokens[0]));
}

}  // namespace
}  // namespace minim
