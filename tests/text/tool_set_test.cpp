#include "text/tool_set.h"

#include <gtest/gtest.h>

#include "text/thinking.h"

namespace minim {
namespace {

Result<ToolSet> parse(const std::string& text) {
  const Result<Json> json = parse_json(text, "test");
  EXPECT_TRUE(json) << json.error().message;
  return ToolSet::parse(json ? *json : Json());
}

TEST(ToolSet, TakesWrappedAndBareFunctions) {
  const Result<ToolSet> set = parse(R"([
      {"type": "function", "function": {"name": "a", "description": "d", "strict": true,
                                        "parameters": {"type": "object"}}},
      {"name": "b", "input_schema": {"properties": {}}},
      {"type": "function", "name": "c", "parameters": null},
      {"name": "a"}])");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->tools().size(), 4u);
  EXPECT_TRUE(set->tools()[0].strict);
  EXPECT_EQ(set->find("b")->parameters, Json({{"properties", Json::object()}}));
  EXPECT_TRUE(set->find("c")->parameters.is_null());
  EXPECT_EQ(set->find("a"), &set->tools()[0]) << "of equal names the first";
  EXPECT_EQ(set->find("d"), nullptr);
}

TEST(ToolSet, NullAndTheEmptyListMeanNone) {
  EXPECT_TRUE(parse("null")->empty());
  EXPECT_TRUE(parse("[]")->empty());
}

TEST(ToolSet, RefusalsNameThePlace) {
  struct Case {
    const char *text, *place;
    Code code;
  };
  for (const Case& c : {
           Case{"{}", "tools is an object", Code::kInvalid},
           Case{"[1]", "tools[0] is 1", Code::kInvalid},
           Case{R"([{"name": "a"}, {}])", "tools[1].name is missing", Code::kInvalid},
           Case{R"([{"function": {"name": 5}}])", "tools[0].function.name is 5", Code::kInvalid},
           Case{R"([{"name": ""}])", "tools[0].name is \"\"", Code::kInvalid},
           Case{R"([{"function": []}])", "tools[0].function is an array", Code::kInvalid},
           Case{R"([{"name": "a", "parameters": [1]}])", "tools[0].parameters", Code::kInvalid},
           Case{R"([{"name": "a", "strict": 1}])", "tools[0].strict is 1", Code::kInvalid},
           Case{R"([{"type": "web_search"}])", "tools[0].type is \"web_search\"",
                Code::kUnsupported},
       }) {
    const Result<ToolSet> set = parse(c.text);
    ASSERT_FALSE(set) << c.text;
    EXPECT_EQ(set.error().message.rfind(c.place, 0), 0u) << set.error().message;
    EXPECT_EQ(set.error().code, c.code) << c.text;
    EXPECT_EQ(set.error().message.find('\n'), std::string::npos);
  }
}

TEST(ThinkingMode, WordsGoThereAndBack) {
  for (const char* word : {"enabled", "disabled", "adaptive"}) {
    ASSERT_TRUE(parse_thinking_mode(word)) << word;
    EXPECT_EQ(thinking_mode_name(*parse_thinking_mode(word)), word);
  }
  EXPECT_EQ(thinking_mode_name(ThinkingMode::kUnset), "");
  for (const char* word : {"", "Enabled", "on", "null"}) EXPECT_FALSE(parse_thinking_mode(word));
}

TEST(ThinkingMode, EffortsOfTheApisHaveAMode) {
  for (const char* word : {"none", "minimal"}) {
    EXPECT_EQ(mode_of_effort(word), ThinkingMode::kDisabled);
  }
  EXPECT_EQ(mode_of_effort("low"), ThinkingMode::kAdaptive);
  for (const char* word : {"medium", "high", "xhigh", "max"}) {
    EXPECT_EQ(mode_of_effort(word), ThinkingMode::kEnabled);
  }
  EXPECT_EQ(mode_of_effort("extreme"), std::nullopt);
}

}  // namespace
}  // namespace minim
