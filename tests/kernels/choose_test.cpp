// Choosing a tier, and the self-test that guards the choice.
#include "kernels/tier_fixture.h"

namespace minim {
namespace {

TEST(ChooseKernels, ListsScalarFirst) {
  ASSERT_FALSE(available_kernels().empty());
  EXPECT_STREQ(available_kernels()[0]->name, "scalar");
}

TEST(ChooseKernels, AutoTakesTheLastAvailableTier) {
  const Result<KernelChoice> choice = choose_kernels("auto");
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->kernels, available_kernels().back());
  EXPECT_EQ(choice->rejected, "");
}

TEST(ChooseKernels, GivesExactlyTheTierAskedFor) {
  for (const Kernels* tier : available_kernels()) {
    const Result<KernelChoice> choice = choose_kernels(tier->name);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->kernels, tier);
  }
}

TEST(ChooseKernels, RefusesUnknownAndUnsupportedNames) {
  const Result<KernelChoice> unknown = choose_kernels("avx3");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalid);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("avx3"));
  ASSERT_FALSE(choose_kernels(""));
  if (find_tier("avx512") != nullptr) GTEST_SKIP() << "this host has every tier";
  const Result<KernelChoice> missing = choose_kernels("avx512");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnsupported);
}

class SelfTestOfTiers : public TierTest {};
MINIM_ALL_TIERS(SelfTestOfTiers);

TEST_P(SelfTestOfTiers, PassesOnEveryTier) { EXPECT_EQ(self_test(tier(), 20), ""); }

void wrong_add(float* x, const float* y, size_t n) noexcept {
  kScalarKernels.add_bf16(x, y, n);
  if (n > 20) x[20] = -x[20];
}

void rounding_sigmoid(const float* x, size_t n, float* out) noexcept {
  for (size_t i = 0; i < n; ++i) out[i] = 1.0f / (1.0f + std::exp(-x[i]));
}

TEST(SelfTest, NamesTheFirstWrongEntry) {
  Kernels broken = kScalarKernels;
  EXPECT_EQ(self_test(broken, 1), "");
  broken.sigmoid = rounding_sigmoid;
  EXPECT_EQ(self_test(broken, 1), "sigmoid");
  broken.add_bf16 = wrong_add;
  EXPECT_EQ(self_test(broken, 1), "add_bf16");
}

TEST(SelfTest, CoversEveryEntry) {
  // The table is a name and one pointer an entry.
  EXPECT_EQ(differential_cases().size() + 1, sizeof(Kernels) / sizeof(void*));
}

}  // namespace
}  // namespace minim
