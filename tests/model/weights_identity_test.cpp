#include "model/weights_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <set>

#include "support/safetensors_writer.h"

namespace minim {
namespace {

using testing::safetensors_bytes;
using testing::StoredTensors;
using testing::TempDir;
using testing::write_bytes;

class WeightsIdentity : public ::testing::Test {
 protected:
  static constexpr int64_t kLarge = 100'001;

  WeightsIdentity() {
    tensors_["large"] = {Dtype::kU8, {kLarge}, std::string(kLarge, 'a')};
    tensors_["small"] = {Dtype::kU8, {192}, std::string(192, 'b')};
    tensors_["none"] = {Dtype::kF32, {0, 3}, ""};
    write_bytes(dir_ / "config.json", "{}");
    write_shard("one.safetensors", tensors_);
    write_shard("two.safetensors", {{"other", {Dtype::kU8, {1}, "c"}}});
  }

  // With a time of its own, so that only what a test means to change changes.
  void write_shard(const std::string& name, const StoredTensors& tensors, int64_t time = 1000) {
    write_bytes(dir_ / name, safetensors_bytes(tensors));
    set_time(name, time, 7);
  }
  void set_time(const std::string& name, int64_t seconds, int64_t nanoseconds) {
    const timespec time{.tv_sec = seconds, .tv_nsec = nanoseconds};
    const timespec times[2] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, (dir_ / name).c_str(), times, 0), 0);
  }
  std::string identity() {
    const Result<Checkpoint> checkpoint = Checkpoint::open(dir_.path());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    const Result<std::string> found = weights_identity(*checkpoint);
    EXPECT_TRUE(found) << found.error().message;
    return *found;
  }
  std::string with_byte(const std::string& tensor, size_t at) {
    StoredTensors changed = tensors_;
    changed[tensor].bytes[at] ^= 1;
    write_shard("one.safetensors", changed);
    const std::string found = identity();
    write_shard("one.safetensors", tensors_);
    return found;
  }

  TempDir dir_;
  StoredTensors tensors_;
};

TEST_F(WeightsIdentity, TheSameFolderTwiceIsTheSame) {
  const std::string first = identity();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(identity(), first);
  write_shard("one.safetensors", tensors_);
  EXPECT_EQ(identity(), first) << "written again, with its time";
}

TEST_F(WeightsIdentity, SampledBytesOfEveryTensorCount) {
  const std::string before = identity();
  std::set<std::string> all = {before};
  const size_t last = kLarge - 1, middle = (kLarge - kIdentitySample) / 2;
  const std::vector<size_t> places = {0, 63, middle, middle + 63, last - 63, last};
  for (const size_t at : places) all.insert(with_byte("large", at));
  for (size_t at = 0; at < 192; at += 19) all.insert(with_byte("small", at));
  EXPECT_EQ(all.size(), 1 + places.size() + 11);
  EXPECT_EQ(with_byte("large", 64), before) << "the contract says that this is missed";
  EXPECT_EQ(identity(), before);
}

TEST_F(WeightsIdentity, NamesTimesHeadersAndConfigCount) {
  std::set<std::string> all = {identity()};
  set_time("two.safetensors", 1001, 7);
  all.insert(identity());
  set_time("two.safetensors", 1000, 8);
  all.insert(identity());
  set_time("two.safetensors", 1000, 7);
  EXPECT_EQ(all.count(identity()), 1u);

  std::filesystem::rename(dir_ / "two.safetensors", dir_ / "three.safetensors");
  all.insert(identity());
  std::filesystem::rename(dir_ / "three.safetensors", dir_ / "two.safetensors");
  write_shard("two.safetensors", {{"another", {Dtype::kU8, {1}, "c"}}});
  all.insert(identity());
  write_shard("two.safetensors", {{"other", {Dtype::kI8, {1}, "c"}}});
  all.insert(identity());
  write_shard("two.safetensors", {{"other", {Dtype::kU8, {1}, "c"}}});
  EXPECT_EQ(all.count(identity()), 1u);

  write_bytes(dir_ / "config.json", "{} ");
  all.insert(identity());
  write_bytes(dir_ / "hf_quant_config.json", "");
  all.insert(identity());
  EXPECT_EQ(all.size(), 8u);
}

TEST_F(WeightsIdentity, AFolderWithoutAConfigHasNone) {
  std::filesystem::remove(dir_ / "config.json");
  const Result<Checkpoint> checkpoint = Checkpoint::open(dir_.path());
  ASSERT_TRUE(checkpoint);
  const Result<std::string> found = weights_identity(*checkpoint);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_NE(found.error().message.find("config.json"), std::string::npos);
}

// A file of 1 GiB that is all hole: reading it whole would take far longer than the samples.
TEST_F(WeightsIdentity, AGibibyteTakesNoTime) {
  constexpr int64_t kTensors = 256, kBytes = int64_t{4} << 20;
  std::string header = "{";
  for (int64_t i = 0; i < kTensors; ++i) {
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          i == 0 ? "" : ",", i, kBytes, i * kBytes, (i + 1) * kBytes);
  }
  const std::string bytes = safetensors_bytes(header + "}", "");
  write_bytes(dir_ / "big.safetensors", bytes);
  std::filesystem::resize_file(dir_ / "big.safetensors",
                               bytes.size() + static_cast<uint64_t>(kTensors * kBytes));
  const Result<Checkpoint> checkpoint = Checkpoint::open(dir_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_GE(checkpoint->total_bytes(), size_t{1} << 30);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(weights_identity(*checkpoint));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
  EXPECT_LT(took.count(), 1.0) << "a tenth of a second at most on an idle machine";
}

}  // namespace
}  // namespace minim
