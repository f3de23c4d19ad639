// Requests at the edges of what an engine holds: forced tokens beyond the limits, contexts and
// pools of one block, a cache that is forgotten while it is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine_fixture.h"

namespace minim {
namespace {

constexpr int kVocab = 320;

std::vector<int32_t> prompt(int n, int salt = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * 7 + i * i % 13 + salt * 31) % 300);
  return tokens;
}

GenerateRequest request(std::vector<int32_t> tokens, int max_tokens = 8) {
  GenerateRequest request;
  request.prompt = std::move(tokens);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// Forces a run of tokens behind every `period` free ones, the first at once or later.
class ForcedRuns final : public TokenRules {
 public:
  ForcedRuns(int length, int period, bool at_once)
      : length_(length), period_(period), free_(at_once ? period : 0) {}
  std::span<const uint32_t> allowed() override { return {}; }
  std::vector<int32_t> forced() override {
    if (free_ < period_) return {};
    free_ = -length_;
    return prompt(length_, 5);
  }
  bool accept(int32_t) override { return ++free_, false; }

 private:
  int length_, period_, free_;
};

class EngineEdgesTest : public testing::Test {
 protected:
  void make(int n_blocks, EngineOptions options, int chunk, int context) {
    engine_.reset();
    runtime_ = load_runtime_of("m3-text", context, chunk, n_blocks, 1, options.max_sequences);
    ASSERT_NE(runtime_, nullptr);
    Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime_, std::move(options));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
    oracle_ = load_runtime_of("m3-text", context, 512, 0, 1, 0);
  }
  void expect_as_alone(const GenerateRequest& r, const std::string& what) {
    const std::vector<Reply> replies = run(*engine_, r);
    for (size_t i = 0; i < replies.size(); ++i) {
      expect_same(replies[i], run_alone(*oracle_, r, static_cast<int>(i), TokenMask(kVocab, 1)),
                  what);
    }
    engine_->check_invariants();
  }

  std::unique_ptr<Runtime> runtime_, oracle_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineEdgesTest, ForcedTokensEndWithTheContext) {
  for (const int context : {128, 200}) {
    for (const int n_blocks : {(context + 127) / 128, 4}) {
      make(n_blocks, {.max_sequences = 2}, 512, context);
      for (const int left : {0, 1, 2, 40}) {
        for (const int length : {1, 3, 60}) {
          for (const int logprobs : {-1, 1}) {
            for (const bool at_once : {true, false}) {
              GenerateRequest r = request(prompt(context - left), 0);
              r.logprobs = logprobs;
              r.rules = [=](int) -> Result<std::unique_ptr<TokenRules>> {
                return std::unique_ptr<TokenRules>(new ForcedRuns(length, 2, at_once));
              };
              expect_as_alone(r, std::to_string(context) + " left " + std::to_string(left) +
                                     " forced " + std::to_string(length));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace minim
