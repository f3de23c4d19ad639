// The loop from logits to tokens under a constraint, on the demo model.
#include "apps/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "apps/reply_rules.h"
#include "engine/rules_worker.h"

namespace minim {
namespace {

std::unique_ptr<Runtime> load_demo(int context = 512, int chunk = 512) {
  Result<std::unique_ptr<Runtime>> runtime =
      Runtime::load({.model_dir = MINIM_DEMO_MODEL, .context = context, .chunk = chunk}, {});
  EXPECT_TRUE(runtime) << runtime.error().message;
  return runtime ? *std::move(runtime) : nullptr;
}

// After every token whose id is a multiple of `every` come `stretch`; only ids of `word` (bits of
// every word of the mask) are allowed otherwise. May take its time.
class Scripted final : public OutputConstraint {
 public:
  Scripted(size_t n_ids, uint32_t word, int every, std::vector<TokenId> stretch, bool slow = false)
      : bits_((n_ids + 31) / 32, word), every_(every), stretch_(std::move(stretch)), slow_(slow) {}

  const TokenBits* allowed() override {
    if (slow_) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    asked_from_.push_back(std::this_thread::get_id());
    return &bits_;
  }
  std::vector<TokenId> forced() override { return {pending_.begin(), pending_.end()}; }
  void accept(TokenId token) override {
    accepted.push_back(token);
    if (!pending_.empty()) {
      EXPECT_EQ(token, pending_.front());
      pending_.pop_front();
    } else if (token % every_ == 0) {
      pending_.assign(stretch_.begin(), stretch_.end());
    }
  }

  std::vector<TokenId> accepted;
  const std::vector<std::thread::id>& asked_from() const { return asked_from_; }

 private:
  TokenBits bits_;
  int every_;
  std::vector<TokenId> stretch_;
  bool slow_;
  std::deque<TokenId> pending_;
  std::vector<std::thread::id> asked_from_;
  std::minstd_rand random_{7};
};

struct Made {
  Generation generation;
  std::vector<int32_t> seen;
};

// The constraint stays with the test.
class Borrowed final : public TokenRules {
 public:
  explicit Borrowed(OutputConstraint& constraint) : constraint_(constraint) {}
  std::span<const uint32_t> allowed() override { return *constraint_.allowed(); }
  std::vector<int32_t> forced() override { return constraint_.forced(); }
  bool accept(int32_t token) override {
    constraint_.accept(token);
    return false;
  }

 private:
  OutputConstraint& constraint_;
};

GenerateRequest request(OutputConstraint& constraint, int64_t max_tokens) {
  GenerateRequest request;
  request.prompt = {1314, 30, 40, 50, 60, 70};
  request.sampling.temperature = 1.5;
  request.sampling.seed = 11;
  request.stop_ids = {1300};
  request.max_tokens = max_tokens;
  request.logprobs = 0;
  request.rules = [&constraint](int) -> Result<std::unique_ptr<TokenRules>> {
    return std::unique_ptr<TokenRules>(new Borrowed(constraint));
  };
  return request;
}

Made make(Runtime& runtime, OutputConstraint& constraint, int64_t max_tokens) {
  Result<std::unique_ptr<Engine>> engine = Engine::make(runtime, {});
  EXPECT_TRUE(engine) << engine.error().message;
  ProgressLine progress(false, nullptr);
  const InterruptWatch watch;
  Made made;
  Result<Generation> generation =
      generate(**engine, request(constraint, max_tokens), progress, watch, [&](int32_t token) {
        made.seen.push_back(token);
        return true;
      });
  EXPECT_TRUE(generation) << generation.error().message;
  if (generation) made.generation = *std::move(generation);
  return made;
}

TEST(Generation, DrawnTokensAreAllowedOnesAndForcedOnesComeWhereTheyMust) {
  const auto runtime = load_demo();
  ASSERT_NE(runtime, nullptr);
  const std::vector<TokenId> stretch = {300, 301, 302, 303, 304};
  Scripted constraint(1344, 0x0f0f0f0f, 4, stretch);
  const Made made = make(*runtime, constraint, 60);
  const std::vector<int32_t>& tokens = made.generation.tokens;
  ASSERT_EQ(tokens.size(), 60u);
  EXPECT_EQ(made.seen, tokens);
  int forced = 0;
  for (size_t i = 0; i < tokens.size();) {
    EXPECT_EQ(0x0f0f0f0f >> (tokens[i] % 32) & 1, 1) << tokens[i];
    const bool leads = tokens[i++] % 4 == 0;
    for (size_t k = 0; leads && k < stretch.size() && i < tokens.size(); ++k, ++i, ++forced) {
      EXPECT_EQ(tokens[i], stretch[k]);
    }
  }
  EXPECT_GT(forced, 10);
  EXPECT_EQ(made.generation.forced_tokens, forced);
  EXPECT_EQ(made.generation.decode_tokens, 59);
  EXPECT_EQ(made.generation.finish, Finish::kLength);
}

TEST(Generation, TheTokensDependOnNoTimingAndNoChunk) {
  const std::vector<TokenId> stretch = {300, 301, 302, 303, 304, 305, 306};
  const auto runtime = load_demo();
  const auto small = load_demo(512, 3);
  ASSERT_TRUE(runtime != nullptr && small != nullptr);
  Scripted fast(1344, 0x0f0f0f0f, 3, stretch), slow(1344, 0x0f0f0f0f, 3, stretch, true),
      chunked(1344, 0x0f0f0f0f, 3, stretch);
  const Made one = make(*runtime, fast, 80), two = make(*runtime, slow, 80),
             three = make(*small, chunked, 80);
  EXPECT_EQ(one.generation.tokens, two.generation.tokens);
  EXPECT_EQ(one.generation.tokens, three.generation.tokens);
  // Masks were made on another thread, one for each draw.
  EXPECT_EQ(slow.asked_from().size(), 80u - static_cast<size_t>(two.generation.forced_tokens));
  for (const std::thread::id& id : slow.asked_from()) EXPECT_NE(id, std::this_thread::get_id());
}

TEST(Generation, AStopIdAmongForcedTokensEndsTheReply) {
  const auto runtime = load_demo();
  ASSERT_NE(runtime, nullptr);
  Scripted constraint(1344, 0xffffffff, 1, {300, 1300, 301});
  const Made made = make(*runtime, constraint, 0);
  ASSERT_EQ(made.generation.tokens.size(), 3u);
  EXPECT_EQ(made.generation.tokens.back(), 1300);
  EXPECT_EQ(made.seen.size(), 2u);
  EXPECT_EQ(made.generation.finish, Finish::kStop);
}

TEST(Generation, LimitsCutForcedStretchesToo) {
  Scripted constraint(1344, 0xffffffff, 1, {300, 301, 302, 303});
  const auto runtime = load_demo();
  ASSERT_NE(runtime, nullptr);
  const Made made = make(*runtime, constraint, 3);
  EXPECT_EQ(made.generation.tokens.size(), 3u);
  EXPECT_EQ(made.generation.finish, Finish::kLength);
  // A prompt of 6, 4 more places; the last token needs none.
  const auto tight = load_demo(10);
  ASSERT_NE(tight, nullptr);
  Scripted other(1344, 0xffffffff, 1, {300, 301, 302, 303, 304, 305, 306});
  const Made full = make(*tight, other, 0);
  EXPECT_EQ(full.generation.tokens.size(), 5u);
  EXPECT_EQ(full.generation.finish, Finish::kLength);
}

TEST(Generation, AMaskWithoutTokensIsAnErrorOfTheReply) {
  const auto runtime = load_demo();
  ASSERT_NE(runtime, nullptr);
  Scripted constraint(1344, 0, 1, {});
  ProgressLine progress(false, nullptr);
  const InterruptWatch watch;
  Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime, {});
  ASSERT_TRUE(engine);
  const Result<Generation> failed =
      generate(**engine, request(constraint, 0), progress, watch, [](int32_t) { return true; });
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("allowed"), std::string::npos);
}

TEST(RulesWorker, GoesAwayWhateverItIsDoing) {
  for (int i = 0; i < 20; ++i) {
    Scripted constraint(64, 1, 1, {}, true);
    Borrowed rules(constraint);
    RulesWorker::Question question{.rules = &rules, .allowed = {}};
    Result<std::unique_ptr<RulesWorker>> worker = RulesWorker::create();
    ASSERT_TRUE(worker);
    if (i % 3 != 0) (*worker)->start({&question, 1});
    if (i % 3 == 2) {
      (*worker)->finish();
      EXPECT_FALSE(question.allowed.empty());
    }
  }
}

}  // namespace
}  // namespace minim
