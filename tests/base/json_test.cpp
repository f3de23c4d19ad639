#include "base/json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

TEST(Json, MessagesArePrintableAndSpeakOfNoException) {
  for (const std::string& text :
       {std::string("\xff\xfe\0x", 4), std::string("[1e999]"), std::string("\"\x1b[31m\""),
        "[1e" + std::string(100000, '9') + "]", std::string("{\"a\":\"\xc3\"}")}) {
    const Result<Json> parsed = parse_json(text, "body");
    ASSERT_FALSE(parsed);
    const std::string& message = parsed.error().message;
    EXPECT_EQ(message.find("exception"), std::string::npos) << message;
    EXPECT_LT(message.size(), 300u);
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
  }
}

TEST(Json, AKeyTwiceInOneObjectIsRefusedByName) {
  for (const char* text : {R"({"a":1,"a":1})", R"({"b":{"a":1,"c":{"a":2},"a":3}})",
                           R"([{},{"a":1,"b":[{"a":1}],"a":2}])"}) {
    for (const Error& error :
         {parse_json(text, "body").error(), parse_sorted_json(text, "body").error()}) {
      EXPECT_EQ(error.message, "body: the key \"a\" comes twice in one object");
    }
  }
  EXPECT_TRUE(parse_json(R"([{"a":{"a":1},"b":{"a":1}},{"a":2}])", "body"));
}

TEST(Json, OfSeveralRepeatedKeysTheFirstInTheTextIsNamed) {
  // The second "a" stands before the second "b", though its object ends after.
  const std::string outer = R"({"a":1,"a":{"b":1,"b":2}})", inner = R"({"a":{"b":1,"b":2},"a":1})";
  EXPECT_EQ(parse_json(outer, "x").error().message, "x: the key \"a\" comes twice in one object");
  EXPECT_EQ(parse_json(inner, "x").error().message, "x: the key \"b\" comes twice in one object");
  EXPECT_NE(parse_json(R"({"a":1,"a":2)", "x").error().message.find("not JSON"), std::string::npos);
  EXPECT_FALSE(parse_json(R"({"":1,"":2})", "x"));
  EXPECT_FALSE(parse_json(R"({"a":1,"\u0061":2})", "x")) << "the same key, written otherwise";
}

// Processor time: other programs may keep the machine busy.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// What it takes to parse an object of these keys with the values 0, 1, 2, ...
double seconds_to_parse(const std::vector<std::string>& keys) {
  std::string text = "{";
  for (size_t i = 0; i < keys.size(); ++i) {
    text += (i == 0 ? "\"" : ",\"") + keys[i] + "\":" + std::to_string(i);
  }
  text += "}";
  const double start = seconds();
  const Result<Json> value = parse_json(text, "test");
  const double taken = seconds() - start;
  EXPECT_TRUE(value);
  if (!value) return taken;
  EXPECT_EQ(value->size(), keys.size());
  EXPECT_EQ(value->begin().key(), keys.front());
  EXPECT_EQ(*std::prev(value->end()), keys.size() - 1);
  return taken;
}

TEST(Json, AHundredThousandKeysInOneObjectTakeAMoment) {
  std::vector<std::string> keys;
  for (int i = 0; i < 100000; ++i) keys.push_back("k" + std::to_string(i));
  EXPECT_LT(seconds_to_parse(keys), 3.0);  // a minute when each is compared with all before
}

TEST(Json, ALargeFirstMemberOfManyNestedObjectsIsNotCopiedAtEachLevel) {
  std::string inside = "[0";
  for (int i = 0; i < 200000; ++i) inside += ",\"a string that needs memory of its own\"";
  inside += "]";
  std::string text;
  for (int i = 0; i < 500; ++i) text += "{\"a\":";
  text += inside;
  for (int i = 0; i < 500; ++i) text += ",\"b\":1}";
  const double start = seconds();
  EXPECT_TRUE(parse_json(text, "test"));
  EXPECT_LT(seconds() - start, 5.0);
}

TEST(Json, AnLfsPointerIsCalledSo) {
  const Result<Json> parsed = parse_json("version https://git-lfs.github.com/spec/v1\n", "x.json");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("git lfs pull"), std::string::npos);
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
    // Tests run side by side as programs of their own.
    std::string name = ::testing::TempDir() + "minim_json_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
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

TEST_F(Files, EndlessOnesAreStoppedAndThoseThatAreNotPlainAreNotBegun) {
  const Result<std::string> endless = read_file("/dev/zero", size_t{1} << 20);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, Code::kInvalid);
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), pipe, directory_.string()}) {
    const Result<std::string> read = require_plain_file(path);
    ASSERT_FALSE(read) << path;
    EXPECT_EQ(read.error().code, Code::kIo) << read.error().message;
  }
}

TEST_F(Files, ALinkToNothingIsNotAnAbsentFile) {
  const Result<std::optional<std::string>> absent = read_plain_file(directory_ / "absent");
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->has_value());
  EXPECT_EQ(require_plain_file(directory_ / "absent").error().code, Code::kNotFound);
  std::filesystem::create_symlink("nowhere", directory_ / "link");
  std::filesystem::create_symlink("loop", directory_ / "loop");
  for (const char* name : {"link", "loop"}) {
    const Result<std::optional<std::string>> read = read_plain_file(directory_ / name);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, Code::kIo);
    EXPECT_NE(read.error().message.find(name), std::string::npos);
  }
  std::ofstream(directory_ / "nowhere") << "text";
  const Result<std::optional<std::string>> linked = read_plain_file(directory_ / "link");
  ASSERT_TRUE(linked);
  EXPECT_EQ(*linked, "text");
}

TEST_F(Files, LfsPointersAreRefusedWhateverTheFileIsFor) {
  const std::string path = directory_ / "chat_template.jinja";
  std::ofstream(path) << "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
  const Result<std::string> read = require_plain_file(path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("git lfs pull"), std::string::npos);
}

}  // namespace
}  // namespace minim::testing
