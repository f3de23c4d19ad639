#include "text/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace minim {
namespace {

TEST(JsonText, RespellsObjectsAndArrays) {
  const std::pair<const char*, const char*> cases[] = {
      {" { \"a\" :1,\"b\":[ ] , \"c\":{}} ", R"({"a": 1, "b": [], "c": {}})"},
      {"[1e5,-0,0.50,123456789012345678901234567890,1E+2]",
       "[1e5, -0, 0.50, 123456789012345678901234567890, 1E+2]"},
      {R"(["\u00e9\/\u0001\ud83d\ude00\b"])", "[\"é/\\u0001😀\\b\"]"},
      {R"({"a":1,"b":2,"a":{"x":1,"x":2}})", R"({"a": {"x": 2}, "b": 2})"},
      {R"({"\u0061":1,"a":2})", R"({"a": 2})"},
      {"[true,false,null]", "[true, false, null]"},
  };
  for (const auto& [text, expect] : cases) EXPECT_EQ(respell_json(text), expect) << text;
}

TEST(JsonText, RefusesWhatIsNoObjectOrArray) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "\"a\"",
                           "null",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "[1 2]",
                           "[01]",
                           "[.5]",
                           "[1.]",
                           "[+1]",
                           "[NaN]",
                           "['a']",
                           "[\"a\nb\"]",
                           "[\"\\x\"]",
                           "[\"\\ud800\"]",
                           "[\"\\udc00\"]",
                           "[\"\\ud800\\u0041\"]",
                           "[\"\\u12\"]",
                           "[",
                           "{",
                           "[\"a",
                           "{\"a\":1,}",
                           "[]]",
                           "[tru]",
                           "[1e]",
                           "[-]",
                           "{\"a\":1 \"b\":2}"}) {
    EXPECT_EQ(respell_json(text), std::nullopt) << text;
  }
}

TEST(JsonText, LevelsAreBounded) {
  const auto nested = [](int levels) {
    const auto n = static_cast<size_t>(levels);
    return std::string(n, '[') + std::string(n, ']');
  };
  EXPECT_EQ(respell_json(nested(128)), nested(128));
  EXPECT_EQ(respell_json(nested(129)), std::nullopt);
  EXPECT_EQ(respell_json(nested(1000000)), std::nullopt);
}

TEST(JsonText, EscapesOnlyWhatJsonDemands) {
  std::string out;
  append_json_string(out, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f é \u2028");
  EXPECT_EQ(out, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f é \u2028\"");
}

}  // namespace
}  // namespace minim
