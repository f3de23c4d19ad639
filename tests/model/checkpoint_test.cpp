#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "support/safetensors_writer.h"

namespace minim {
namespace {

using std::string_literals::operator""s;
using testing::safetensors_bytes;
using testing::StoredTensors;
using testing::TempDir;
using testing::write_bytes;

constexpr const char* kIndex = "model.safetensors.index.json";

std::string golden(const std::string& name) { return MINIM_TEST_DATA "/model/" + name; }

StoredTensors two_tensors() {
  return {{"a", {Dtype::kBf16, {2, 2}, "12345678"}}, {"b", {Dtype::kF32, {1}, "abcd"}}};
}

void expect_one_line(const Error& error, const std::string& named) {
  EXPECT_NE(error.message.find(named), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
}

void expect_open_fails(const TempDir& dir, const std::string& named) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(dir.path());
  ASSERT_FALSE(checkpoint) << "wanted an error with " << named;
  expect_one_line(checkpoint.error(), named);
}

void expect_header_refused(const std::string& json, uint64_t data_bytes, const std::string& named) {
  const Result<std::vector<HeaderEntry>> entries =
      parse_safetensors_header(json, data_bytes, "x.safetensors");
  ASSERT_FALSE(entries) << json;
  expect_one_line(entries.error(), named);
  expect_one_line(entries.error(), "x.safetensors");
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsHeader, EntriesComeInTheOrderOfTheirBytes) {
  const std::string json = "{\"__metadata__\":{\"format\":\"pt\"}," +
                           entry("late", "\"F32\"", "[2,1]", "[6,14]") + "," +
                           entry("none", "\"U8\"", "[0,7]", "[6,6]") + "," +
                           entry("early", "\"BF16\"", "[3]", "[0,6]") + "}   ";
  const Result<std::vector<HeaderEntry>> entries = parse_safetensors_header(json, 14, "x");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "early");
  EXPECT_EQ((*entries)[1].name, "none");
  EXPECT_EQ((*entries)[2].name, "late");
  EXPECT_EQ((*entries)[2].dtype, Dtype::kF32);
  EXPECT_EQ((*entries)[2].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*entries)[2].begin, 6u);
  EXPECT_EQ((*entries)[2].end, 14u);
}

TEST(SafetensorsHeader, ScalarsEmptyFilesAndLaterFieldsAreAccepted) {
  EXPECT_TRUE(parse_safetensors_header("{}", 0, "x"));
  const Result<std::vector<HeaderEntry>> scalar =
      parse_safetensors_header("{" + entry("s", "\"F32\"", "[]", "[0,4]") + "}", 4, "x");
  ASSERT_TRUE(scalar) << scalar.error().message;
  EXPECT_TRUE((*scalar)[0].shape.empty());
  const std::string later =
      R"({"s":{"extra":{"a":[1,{"b":null}]},"more":[[]],"dtype":"U8","shape":[1],"note":"x","data_offsets":[0,1],"n":-1.5}})";
  EXPECT_TRUE(parse_safetensors_header(later, 1, "x"));
}

TEST(SafetensorsHeader, TextThatIsNotAHeaderIsRefused) {
  for (const char* json : {"", "[]", "5", "null", "\"a\"", "{", "{}x", "{\"a\":5}", "{\"a\":[]}",
                           "{\"a\":{}}", "{\"a\":null}", "\xff", "{\"__metadata__\":5}",
                           "{\"__metadata__\":{\"a\":5}}", "{\"__metadata__\":{\"a\":{}}}"}) {
    expect_header_refused(json, 0, "");
  }
}

TEST(SafetensorsHeader, FieldsOfTheWrongTypeAreRefusedWithTheTensor) {
  for (const char* shape : {"[-1]", "[1.5]", "[\"1\"]", "[null]", "[[1]]", "5", "{}", "null",
                            "[1e30]", "[18446744073709551615]"}) {
    expect_header_refused("{" + entry("t", "\"U8\"", shape, "[0,1]") + "}", 1, "\"t\"");
  }
  for (const char* offsets : {"[0]", "[]", "[0,1,2]", "[-1,0]", "[0,1.0]", "{}", "null", "7",
                              "[\"0\",\"1\"]", "[[0,1]]"}) {
    expect_header_refused("{" + entry("t", "\"U8\"", "[1]", offsets) + "}", 1, "\"t\"");
  }
  expect_header_refused(
      "{\"t\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
      "dtype twice");
  for (const char* dtype : {"\"F4\"", "\"bf16\"", "5", "null", "[]", "{}", "\"\""}) {
    expect_header_refused("{" + entry("t", dtype, "[1]", "[0,1]") + "}", 1, "\"t\"");
  }
}

TEST(SafetensorsHeader, OffsetsThatDoNotFitAreRefused) {
  const auto one = [](const char* shape, const char* offsets) {
    return "{" + entry("t", "\"F32\"", shape, offsets) + "}";
  };
  expect_header_refused(one("[1]", "[4,0]"), 4, "begin <= end");
  expect_header_refused(one("[2]", "[0,8]"), 4, "truncated");
  expect_header_refused(one("[1]", "[18446744073709551612,0]"), 4, "begin <= end");
  expect_header_refused(one("[1]", "[0,18446744073709551615]"), 4, "truncated");
  expect_header_refused(one("[1000,1000]", "[0,4]"), 4, "4000000");
  expect_header_refused(one("[2]", "[0,4]"), 4, "wanted 8");
  expect_header_refused(one("[4294967296,4294967296]", "[0,0]"), 0, "overflows");
  expect_header_refused(one("[9223372036854775807,3]", "[0,4]"), 4, "overflows");
}

TEST(SafetensorsHeader, OverlapsHolesAndRepeatsAreRefused) {
  const auto two = [](const char* a, const char* b) {
    return "{" + entry("a", "\"U8\"", "[4]", a) + "," + entry("b", "\"U8\"", "[4]", b) + "}";
  };
  expect_header_refused(two("[0,4]", "[2,6]"), 6, "overlap");
  expect_header_refused(two("[0,4]", "[0,4]"), 4, "overlap");
  expect_header_refused(two("[0,4]", "[5,9]"), 9, "no tensor");
  expect_header_refused(two("[1,5]", "[5,9]"), 9, "no tensor");
  expect_header_refused(two("[0,4]", "[4,8]"), 9, "last tensor");
  const std::string twice =
      "{" + entry("a", "\"U8\"", "[4]", "[0,4]") + "," + entry("a", "\"U8\"", "[4]", "[4,8]") + "}";
  expect_header_refused(twice, 8, "twice");
}

TEST(SafetensorsHeader, HostileNamesStayOnOneShortLine) {
  const std::string json =
      "{" + entry("a\\nb\\u0000" + std::string(5000, 'x'), "\"F4\"", "[1]", "[0,1]") + "}";
  const Result<std::vector<HeaderEntry>> entries = parse_safetensors_header(json, 1, "x");
  ASSERT_FALSE(entries);
  expect_one_line(entries.error(), "a\\nb");
  EXPECT_LT(entries.error().message.size(), 300u);
}

TEST(SafetensorsHeader, ShapesOfManyDimensionsAndBytesThatAreNoTextMakeNoLongMessage) {
  std::string shape = "[1";
  for (int i = 0; i < 100000; ++i) shape += ",1";
  const std::string many = "{" + entry("t", "\"U8\"", shape + "]", "[0,2]") + "}";
  for (const std::string& json : {many, std::string("\xff\xfe\x1b[31m"), "{\"\xc3\":"s}) {
    const Result<std::vector<HeaderEntry>> entries = parse_safetensors_header(json, 2, "x");
    ASSERT_FALSE(entries);
    const std::string& message = entries.error().message;
    EXPECT_LT(message.size(), 300u);
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
  }
}

TEST(Checkpoint, GoldenFoldersOpen) {
  const Result<Checkpoint> two = Checkpoint::open(golden("m3-bf16"));
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->n_shards(), 2u);
  const std::vector<std::string_view> names = two->names();
  EXPECT_EQ(names.size(), 137u);
  EXPECT_EQ(two->total_bytes(), 9044064u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const TensorView* head = two->find("language_model.lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->dtype, Dtype::kBf16);
  EXPECT_EQ(head->shape, (std::vector<int64_t>{320, 256}));
  EXPECT_EQ(head->data.size(), 320u * 256 * 2);
  EXPECT_EQ(two->find("language_model.lm_head"), nullptr);
  const Result<Checkpoint> single = Checkpoint::open(golden("m3-native"));
  ASSERT_TRUE(single) << single.error().message;
  EXPECT_EQ(single->n_shards(), 1u);
}

TEST(Checkpoint, BytesSurviveReleaseAndComeBack) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(golden("m3-bf16"));
  ASSERT_TRUE(checkpoint);
  const TensorView& view = *checkpoint->find("language_model.model.embed_tokens.weight");
  const std::vector<uint8_t> before(view.data.begin(), view.data.end());
  checkpoint->will_need(view.data);
  checkpoint->release(view.data);
  checkpoint->release({});
  EXPECT_TRUE(std::equal(before.begin(), before.end(), view.data.begin()));
}

TEST(Checkpoint, MovesWithItsMappings) {
  Result<Checkpoint> opened = Checkpoint::open(golden("m3-bf16"));
  ASSERT_TRUE(opened);
  const uint8_t* data = opened->find("language_model.lm_head.weight")->data.data();
  Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.find("language_model.lm_head.weight")->data.data(), data);
}

TEST(Checkpoint, FoldersWithoutWeightsAreRefused) {
  const TempDir dir;
  expect_open_fails(dir, "no weights");
  const Result<Checkpoint> absent = Checkpoint::open(dir.path() + "/absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  const Result<Checkpoint> file = Checkpoint::open(golden("m3-bf16") + "/config.json");
  EXPECT_FALSE(file);
}

TEST(Checkpoint, TruncatedShardsAreRefusedAtEveryLength) {
  const std::string whole = safetensors_bytes(two_tensors());
  const TempDir dir;
  write_bytes(dir / "model.safetensors", whole);
  ASSERT_TRUE(Checkpoint::open(dir.path()));
  for (size_t size = 0; size < whole.size(); ++size) {
    write_bytes(dir / "model.safetensors", std::string_view(whole).substr(0, size));
    expect_open_fails(dir, "model.safetensors");
  }
  write_bytes(dir / "model.safetensors", whole + "x");
  expect_open_fails(dir, "last tensor");
}

TEST(Checkpoint, AbsurdHeaderLengthsAreRefused) {
  const TempDir dir;
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{100'000'001}}) {
    std::string bytes(16, ' ');
    std::memcpy(bytes.data(), &length, sizeof length);
    write_bytes(dir / "model.safetensors", bytes);
    expect_open_fails(dir, "header of");
  }
}

TEST(Checkpoint, LfsPointersAreRecognised) {
  const TempDir dir;
  const char* pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
  write_bytes(dir / "model.safetensors", pointer);
  expect_open_fails(dir, "git lfs pull");
  write_bytes(dir / kIndex, pointer);
  expect_open_fails(dir, "git lfs pull");
}

TEST(Checkpoint, TensorInTwoShardsIsRefusedWithBoth) {
  const TempDir dir;
  write_bytes(dir / "a.safetensors", safetensors_bytes(two_tensors()));
  write_bytes(dir / "b.safetensors", safetensors_bytes({{"b", {Dtype::kU8, {1}, "x"}}}));
  expect_open_fails(dir, "tensor \"b\" is both in a.safetensors and in b.safetensors");
}

TEST(Checkpoint, IndexThatNamesAnAbsentShardIsRefused) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  write_bytes(dir / kIndex, R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})");
  expect_open_fails(dir, "two.safetensors");
}

TEST(Checkpoint, IndexThatNamesATensorItsShardLacksIsRefused) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  write_bytes(dir / "two.safetensors", safetensors_bytes({{"c", {Dtype::kU8, {1}, "x"}}}));
  write_bytes(dir / kIndex, R"({"weight_map":{"a":"one.safetensors","d":"one.safetensors"}})");
  expect_open_fails(dir, "\"d\" in one.safetensors");
  write_bytes(dir / kIndex, R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
  expect_open_fails(dir, "\"a\" in two.safetensors");
  write_bytes(dir / kIndex, R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})");
  const Result<Checkpoint> good = Checkpoint::open(dir.path());
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->n_shards(), 1u);
}

TEST(Checkpoint, ShardNamesThatLeaveTheFolderAreRefused) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  for (const char* name :
       {"../one.safetensors", "/etc/passwd", "a/../one.safetensors", "", ".", "..",
        "sub/one.safetensors", "one\\u0000.safetensors", "a\\\\b", "a\\nb", "\\u001b[31m"}) {
    write_bytes(dir / kIndex, std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    expect_open_fails(dir, "plain name");
  }
  write_bytes(dir / kIndex, R"({"weight_map":{"a":")" + std::string(256, 'x') + "\"}}");
  expect_open_fails(dir, "plain name");
  write_bytes(dir / kIndex, R"({"weight_map":{"a":5}})");
  expect_open_fails(dir, "plain name");
}

TEST(Checkpoint, IndexThatIsNoIndexIsRefused) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", "{"}) {
    write_bytes(dir / kIndex, text);
    expect_open_fails(dir, kIndex);
  }
}

TEST(Checkpoint, IndexThatPlacesATensorTwiceIsRefused) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  write_bytes(dir / kIndex, R"({"weight_map":{"a":"two.safetensors","a":"one.safetensors"}})");
  expect_open_fails(dir, "twice");
}

TEST(Checkpoint, IndexThatLinksToNothingIsNotPassedOver) {
  const TempDir dir;
  write_bytes(dir / "one.safetensors", safetensors_bytes(two_tensors()));
  std::filesystem::create_symlink("nowhere", dir / kIndex);
  expect_open_fails(dir, kIndex);
}

TEST(Checkpoint, ShardThatIsAFolderIsRefused) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "model.safetensors");
  expect_open_fails(dir, "not a plain file");
}

TEST(Checkpoint, LinkedShardsOfADownloadCacheOpen) {
  const TempDir blobs, dir;
  write_bytes(blobs / "0123", safetensors_bytes(two_tensors()));
  std::filesystem::create_symlink(blobs / "0123", dir / "model.safetensors");
  EXPECT_TRUE(Checkpoint::open(dir.path()));
  std::filesystem::remove(blobs / "0123");
  expect_open_fails(dir, "model.safetensors");
}

}  // namespace
}  // namespace minim
