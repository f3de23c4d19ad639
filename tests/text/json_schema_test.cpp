#include "text/json_schema.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "text/grammar_fixture.h"

namespace minim {
namespace {

std::vector<Json> schema_vectors(const char* file, size_t expected) {
  return golden_vectors(std::string("../schema/") + file, expected);
}

std::string refused(const std::string& schema) {
  const Result<Json> json = parse_json(schema, "schema");
  EXPECT_TRUE(json) << schema;
  const Result<Ok> checked = check_json_schema(*json, 128);
  return checked ? "" : checked.error().message;
}

TEST_F(GrammarTest, GoldenSchemasAllowAndForbidTheirTexts) {
  for (const Json& vector : schema_vectors("schemas.jsonl", 60)) {
    const GrammarSpec wanted = schema(dump_json(vector["schema"]));
    for (const Json& text : vector["accept"]) {
      EXPECT_TRUE(accepts(wanted, text.get<std::string>())) << vector["id"] << " " << text;
    }
    for (const Json& text : vector["reject"]) {
      EXPECT_FALSE(accepts(wanted, text.get<std::string>())) << vector["id"] << " " << text;
    }
  }
}

TEST(JsonSchema, GoldenBadSchemasAreRefusedByKeywordAndPlace) {
  for (const Json& vector : schema_vectors("refused.jsonl", 16)) {
    const Result<Ok> checked = check_json_schema(vector["schema"], 128);
    ASSERT_FALSE(checked) << vector["id"];
    const std::string wanted = dump_json(vector["keyword"]) + " at " + dump_json(vector["at"]);
    EXPECT_TRUE(checked.error().message.starts_with(wanted))
        << vector["id"] << " " << checked.error().message;
  }
}

// Schema, then texts: those that begin with + are allowed, those with - are not.
TEST_F(GrammarTest, CombinationsOfKeywordsMeanAllOfThem) {
  const std::vector<std::vector<std::string>> cases = {
      {R"({"type":"number","minimum":0,"maximum":1})", "+0", "+1", "+0.25", "+1.0", "-1.01", "-2",
       "-10"},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})", "+0.1", "-0", "-1", "-0.0",
       "--0.5"},
      {R"({"type":"number","minimum":-2.5,"maximum":-0.25})", "+-2.5", "+-1", "+-0.3", "-0",
       "--2.51", "--0.2"},
      {R"({"type":"number","minimum":10,"exclusiveMaximum":10.25})", "+10", "+10.249", "-10.25",
       "-9"},
      {R"({"type":"number","minimum":1e-7,"maximum":1e20})", "+0.0000001", "+100000000000000000000",
       "-0"},
      {R"({"type":"integer","minimum":-17,"maximum":1234})", "+-17", "+0", "+999", "--18", "-1235",
       "-1.0"},
      {R"({"type":"integer","minimum":0.5,"maximum":2.5})", "+1", "+2", "-0", "-3"},
      {R"({"type":"integer","format":"int8"})", "+127", "+-128", "-128"},
      {R"({"prefixItems":[{"type":"string"},{"type":"integer"}]})", "+[]", "+[\"a\"]",
       "+[\"a\", 1]", "-[1]"},
      {R"({"prefixItems":[{"type":"string"}],"items":{"type":"integer"},"minItems":2,"maxItems":3})",
       "+[\"a\", 1]", "+[\"a\", 1, 2]", "-[\"a\"]", "-[\"a\", 1, 2, 3]"},
      {R"({"items":[{"type":"string"}],"additionalItems":{"type":"null"}})", "+[\"a\", null]",
       "-[\"a\", 1]"},
      {R"({"type":"string","pattern":"ab"})", "+\"ab\"", "+\"x\\nab\\\"\"", "-\"a b\""},
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})", "+\"abcd\"",
       "-\"a\"", "-\"abcde\""},
      {R"({"type":"string","pattern":"^a\"b\\\\c\\n$"})", R"(+"a\"b\\c\n")", "-\"ab\""},
      {R"({"type":"string"})", R"(+"\ud83d\ude00")", R"(-"\ud83d")", R"(-"\ude00")"},
      {R"({"type":"string","maxLength":1})", R"(+"\ud83d\ude00")", R"(+"\n")", R"(-"\n\n")"},
      {R"({"properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       "+{\"ab\": 1}", "+{\"a\": \"x\"}", "+{\"abc\": \"x\"}", "+{\"ab\": 1, \"z\": \"\"}",
       "-{\"ab\": \"x\"}", R"(-{"\u0061b": "x"})"},
      {R"({"type":"object","required":["a"],"properties":{"b":{"type":"integer"}}})",
       "+{\"b\": 1, \"a\": 2}", "+{\"a\": []}", "-{\"b\": 1}"},
      {R"({"properties":{"b":false,"a":{"type":"integer"}}})", "+{}", "+{\"a\": 1}", "-{\"b\": 1}"},
      {R"({"properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"string"}},
          "required":["b"]}]})",
       "+{\"a\": 1}", "+{\"b\": \"\"}", "-{}"},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":3}}}]})",
       "+{\"a\": 3}", "-{\"a\": 2}", "-{}"},
      {R"({"properties":{"a":{},"b":{}},"maxProperties":2,"additionalProperties":false})",
       "+{\"a\": 1, \"b\": 2}", "+{}", "-{\"c\": 1}"},
      {R"({"type":"object","minProperties":1,"maxProperties":2})", "+{\"a\": 1}", "-{}",
       "-{\"a\": 1, \"b\": 2, \"c\": 3}"},
      {R"({"type":"integer","enum":[1,"a",2,2.5]})", "+1", "+2", "-\"a\"", "-2.5"},
      {R"({"enum":["a","abc"],"maxLength":2})", "+\"a\"", "-\"abc\""},
      {R"({"$ref":"#/$defs/p","maximum":5,"$defs":{"p":{"type":"integer","minimum":3}}})", "+3",
       "+5", "-2", "-6"},
      {R"({"anyOf":[{"type":"integer"},{"type":"string"}],"minimum":2,"minLength":2})", "+2",
       "+\"ab\"", "-1", "-\"a\""},
      {R"({"type":"string","format":"ipv6"})", "+\"::1\"", "+\"fe80::1\"", "+\"1:2:3:4:5:6:7:8\"",
       "-\"1:2\"", "-\"1::2::3\""},
      {R"({"type":"string","format":"date"})", "+\"2024-02-29\"", "-\"2023-02-29\"",
       "-\"2023-04-31\""},
      {R"({"type":"string","format":"date-time"})", "+\"2024-02-29T12:00:00.5+02:00\"",
       "-\"2024-02-30T12:00:00Z\""},
      {R"({"type":"string","format":"uri"})", "+\"https://example.com/a?b=c#d\"",
       "+\"mailto:a@b.c\"", "-\"a b\""},
  };
  for (const std::vector<std::string>& one : cases) {
    for (size_t i = 1; i < one.size(); ++i) {
      EXPECT_EQ(accepts(schema(one[0]), one[i].substr(1)), one[i][0] == '+')
          << one[0] << "\n  " << one[i];
    }
  }
}

TEST(JsonSchema, WhatIsNotEnforcedIsRefusedByName) {
  const std::map<std::string, std::string> cases = {
      {R"({"type":"object","foo":1})", R"("foo" at "")"},
      {R"({"items":{"not":{}}})", R"("not" at "/items")"},
      {R"({"if":{"type":"string"}})", R"("if" at "")"},
      {R"({"properties":{"a/b":{"patternProperties":{}}}})",
       R"("patternProperties" at "/properties/a~1b")"},
      {R"({"type":"array","uniqueItems":true})", R"("uniqueItems" at "")"},
      {R"({"type":"number","multipleOf":0.1})", R"("multipleOf" at "")"},
      {R"({"type":"string","format":"json-pointer"})", R"("format" at "")"},
      {R"({"type":"string","pattern":"^(a+)(b+)$","maxLength":5})", R"("maxLength" at "")"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", R"("pattern" at "/allOf/1")"},
      {R"({"enum":[{"a":1}],"properties":{"a":{}}})", R"("properties" at "")"},
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", R"("oneOf" at "")"},
      {R"({"type":"object","properties":{"a":{},"b":{}},"maxProperties":1})",
       R"("maxProperties" at "")"},
      {R"({"type":"object","minProperties":2})", R"("minProperties" at "")"},
      {R"({"const":3,"type":"string"})", R"("enum" at "")"},
      {R"({"minItems":1e9})", R"("minItems" at "")"},
      {R"({"exclusiveMinimum":true,"minimum":1})", R"("exclusiveMinimum" at "")"},
      {R"({"$defs":{"a":{"required":["x"],"properties":{"x":{"$ref":"#/$defs/a"}},"type":"object"}},
          "$ref":"#/$defs/a"})",
       "no value of finite size"},
      {R"({"properties":{"a":{"$id":"http://x/","items":{"$ref":"#/$defs/q"}}}})",
       R"("$ref" at "/properties/a/items")"},
  };
  for (const auto& [schema, wanted] : cases) {
    EXPECT_NE(refused(schema).find(wanted), std::string::npos)
        << schema << "\n  " << refused(schema);
  }
}

TEST(JsonSchema, DisjointMembersOfOneOfAreSeen) {
  for (const char* schema : {
           R"({"oneOf":[{"type":"string"},{"type":"number"}]})",
           R"({"oneOf":[{"type":"integer","maximum":1},{"type":"integer","minimum":2}]})",
           R"({"oneOf":[{"enum":["a","b"]},{"const":"c"}]})",
           R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},
                        {"type":"object","properties":{"k":{"const":2}},"required":["k"]}]})",
           R"({"oneOf":[{"type":"object","required":["a"]},
                        {"type":"object","properties":{"b":{}},"additionalProperties":false}]})",
       }) {
    EXPECT_EQ(refused(schema), "") << schema;
  }
}

TEST(JsonSchema, DepthIsBoundedAndDeepSchemasDoNotCrash) {
  const auto nested = [](int n) {
    std::string schema = "{}";
    for (int i = 1; i < n; ++i) schema = R"({"items":)" + schema + "}";
    return schema;
  };
  EXPECT_EQ(refused(nested(128)), "");
  EXPECT_NE(refused(nested(129)).find("deeper than 128"), std::string::npos);
  std::string chain = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 5000; ++i) {
    chain += "\"" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"},";
  }
  EXPECT_NE(refused(chain + R"("5000":{}}})").find("references in a row"), std::string::npos);
}

TEST(JsonSchema, ManyAlternativesAreBounded) {
  std::string schema = R"({"allOf":[)";
  for (int i = 0; i < 30; ++i) {
    schema += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minLength":)" + std::to_string(i) +
              R"(},{"maxLength":)" + std::to_string(100 + i) + "}]}";
  }
  EXPECT_NE(refused(schema + "]}").find("combinations"), std::string::npos);
}

}  // namespace
}  // namespace minim
