#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace minim::testing {
namespace {

std::string nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') +
         std::string(static_cast<size_t>(levels), ']');
}

TEST(Json, ALongBrokenStringDoesNotMakeALongMessage) {
  const Result<Json> parsed = parse_json("[\"" + std::string(100000, 'x') + "\n\"]", "body");
  ASSERT_FALSE(parsed);
  EXPECT_LT(parsed.error().message.size(), 300u);
  EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
}

TEST(Json, KeysKeepTheirOrder) {
  const Result<Json> value = parse_json(R"({"z": 1, "a": [true, null, 2.5], "m": "x"})", "test");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(dump_json(*value), R"({"z":1,"a":[true,null,2.5],"m":"x"})");
}

TEST(Json, WhatIsNotJsonIsOneLineThatNamesTheSource) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\x80\"", "\"\\ud800\"",
                           "{\"a\":01}", "[1e999]", "\"tab\tinside\""}) {
    const Result<Json> value = parse_json(text, "config.json");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, Code::kInvalid);
    EXPECT_EQ(value.error().message.find("config.json: not JSON"), 0u) << value.error().message;
    EXPECT_EQ(value.error().message.find('\n'), std::string::npos) << value.error().message;
  }
}

TEST(Json, DepthIsBoundedOutsideStringsOnly) {
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "test"));
  const Result<Json> deep = parse_json(nested(kMaxJsonDepth + 1), "test");
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("deeper than 512 levels"), std::string::npos);
  EXPECT_FALSE(parse_json(std::string(1000000, '['), "test"));
  EXPECT_TRUE(parse_json(std::string("\"").append(2000, '[').append("\\\"[\""), "test"));
}

TEST(Json, InvalidUtf8IsReplacedWhenPrinted) {
  Json value = Json::object();
  value["a"] = "x\xff";
  EXPECT_EQ(dump_json(value), "{\"a\":\"x\xef\xbf\xbd\"}");
}

TEST(Json, SortedJsonReadsTheSameTexts) {
  const Result<SortedJson> value = parse_sorted_json(R"({"b": 1, "a": 2})", "test");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->begin().key(), "a");
  EXPECT_FALSE(parse_sorted_json(nested(kMaxJsonDepth + 1), "test"));
  EXPECT_FALSE(parse_sorted_json("{", "test"));
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ("json_test." + std::to_string(reinterpret_cast<uintptr_t>(this)));
    std::filesystem::create_directory(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_;
};

TEST_F(Files, AreReadWhole) {
  const std::string path = directory_ / "a.json";
  const std::string text("[1,\n\0 2]", 8);
  std::ofstream(path, std::ios::binary) << text;
  const Result<std::string> read = read_file(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, text);
  EXPECT_FALSE(read_json_file(path)) << "a zero byte is not JSON";
  std::ofstream(path, std::ios::binary) << "[1]";
  EXPECT_TRUE(read_json_file(path));
}

TEST_F(Files, ThatAreAbsentOrAreDirectoriesAreErrorsNotExceptions) {
  const Result<std::string> absent = read_file(directory_ / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_NE(absent.error().message.find("absent"), std::string::npos);
  const Result<std::string> folder = read_file(directory_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::kIo);
}

}  // namespace
}  // namespace minim::testing
