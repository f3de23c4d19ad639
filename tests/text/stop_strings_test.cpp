#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "text/parse_golden.h"

namespace minim {
namespace {

struct Shown {
  std::string text;
  std::optional<std::string> matched;
  bool operator==(const Shown&) const = default;
};

Shown shown(const std::vector<std::string>& tokens, const std::vector<std::string>& stops) {
  StopStrings search(stops);
  Shown result;
  for (const std::string& token : tokens) result.text += search.push(token);
  result.text += search.flush();
  result.matched = search.matched();
  return result;
}

// What the rule says, place by place.
Shown by_definition(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (stop.size() > best.size() && text.substr(0, end).ends_with(stop)) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, std::nullopt};
}

std::vector<std::string> cut(const std::string& text, std::mt19937& random) {
  std::vector<std::string> tokens(1);
  for (const char c : text) {
    if (random() % 3 == 0) tokens.emplace_back();
    tokens.back() += c;
  }
  return tokens;
}

// B11: a stop string that spans several tokens is found, and nothing of it is shown.
TEST(StopStrings, AllVectorsAtAllCuts) {
  std::mt19937 random(1);
  for (const Json& vector : parse_vectors("stop.jsonl", 46)) {
    const auto tokens = vector["tokens"].get<std::vector<std::string>>();
    const auto stops = vector["stop"].get<std::vector<std::string>>();
    Shown expect{vector["expect"]["text"].get<std::string>(), std::nullopt};
    if (vector["expect"]["matched"].is_string()) {
      expect.matched = vector["expect"]["matched"].get<std::string>();
    }
    std::string text;
    for (const std::string& token : tokens) text += token;
    EXPECT_EQ(shown(tokens, stops), expect) << vector["id"];
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(shown(cut(text, random), stops), expect) << vector["id"];
    }
  }
}

TEST(StopStrings, RandomTextsAgreeWithTheDefinition) {
  std::mt19937 random(2);
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t n = random() % (longest + 1); n > 0; --n) text += "abc"[random() % 3];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::string text = word(24);
    std::vector<std::string> stops;
    for (size_t n = random() % 5; n > 0; --n) stops.push_back(word(5));
    ASSERT_EQ(shown(cut(text, random), stops), by_definition(text, stops)) << text;
  }
}

TEST(StopStrings, HoldsBackOnlyWhatMayBecomeAMatch) {
  StopStrings search({"STOP", "TOOL"});
  EXPECT_EQ(search.push("a ST"), "a ");
  EXPECT_EQ(search.push("O"), "");
  EXPECT_EQ(search.push("O"), "S");  // "TOO" may still become TOOL
  EXPECT_EQ(search.push("x"), "TOOx");
  EXPECT_EQ(search.push("TOOL more"), "");
  EXPECT_EQ(search.matched(), "TOOL");
  EXPECT_EQ(search.push("more"), "");
  EXPECT_EQ(search.flush(), "");
}

TEST(StopStrings, WorkIsLinearWhateverTheStrings) {
  // Compared place by place this is 10^12 steps.
  StopStrings search({std::string(1 << 20, 'a') + "b", "c" + std::string(1 << 20, 'a')});
  const std::string text = std::string(1 << 21, 'a');
  std::string seen;
  for (const char c : text) seen += search.push({&c, 1});
  seen += search.flush();
  EXPECT_EQ(seen, text);
  EXPECT_FALSE(search.matched());
}

}  // namespace
}  // namespace minim
