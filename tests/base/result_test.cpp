#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/check.h"

namespace minim::testing {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return Error{Code::kInvalid, "odd"};
  return value / 2;
}

TEST(Result, HoldsAValueOrTheReason) {
  const Result<int> good = half_of(6);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 3);
  const Result<int> bad = half_of(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalid);
  EXPECT_EQ(bad.error().message, "odd");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<std::string>> result(std::make_unique<std::string>("text"));
  ASSERT_TRUE(result);
  EXPECT_EQ((*result)->size(), 4u);
  const std::unique_ptr<std::string> taken = *std::move(result);
  EXPECT_EQ(*taken, "text");
}

TEST(Result, OfErrorTypeStillKnowsWhichSideItIs) {
  const Result<std::string> value(std::string("not an error"));
  EXPECT_TRUE(value);
  EXPECT_EQ(value->size(), 12u);
}

TEST(CheckDeathTest, FailsWithPlaceConditionAndMessage) {
  const int found = 3;
  EXPECT_DEATH(CHECK(found == 4, "found %d", found),
               "result_test.cpp:[0-9]+: CHECK failed: found == 4 \\(found 3\\)");
  EXPECT_DEATH(CHECK(found == 4), "CHECK failed: found == 4\n");
}

TEST(Check, PassesSilentlyAndEvaluatesOnce) {
  int count = 0;
  CHECK(++count == 1);
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace minim::testing
