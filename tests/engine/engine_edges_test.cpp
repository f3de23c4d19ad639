// Requests at the edges of what an engine holds: forced tokens beyond the limits, contexts and
// pools of one block, a cache that is forgotten while it is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
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

TEST_F(EngineEdgesTest, WhatIsForgottenIsForgottenInAllLevels) {
  std::string directory = testing::TempDir() + "minim-kv-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  for (const bool disk : {false, true}) {
    EngineOptions options{.max_sequences = 2};
    if (disk) {
      options.tiers.disk_dir = directory;
      options.tiers.disk_bytes = 64 << 20;
    } else {
      options.tiers.host_bytes = 64 << 20;
    }
    make(4, options, 256, 512);
    const GenerateRequest r = request(prompt(300), 1);
    run(*engine_, r);
    for (int salt = 1; salt < 4; ++salt) run(*engine_, request(prompt(500, salt), 1));
    EXPECT_GE(run(*engine_, r)[0].usage.cached_tokens, 256);
    for (int salt = 1; salt < 4; ++salt) run(*engine_, request(prompt(500, salt), 1));
    engine_->forget_cache();
    EXPECT_EQ(run(*engine_, r)[0].usage.cached_tokens, 0) << (disk ? "disk" : "host");
    EXPECT_GE(run(*engine_, r)[0].usage.cached_tokens, 256);
    engine_.reset();
  }
  std::filesystem::remove_all(directory);
}

// Eight threads submit, cancel, drop, move and outwait tickets of an engine that runs by itself.
TEST_F(EngineEdgesTest, ManyThreadsDoAsTheyLike) {
  make(6, {.max_sequences = 3, .max_queue = 8}, 64, 512);
  ASSERT_TRUE(engine_->start());
  std::vector<std::thread> threads;
  for (int id = 0; id < 8; ++id) {
    threads.emplace_back([this, id] {
      std::mt19937 random(static_cast<unsigned>(id));
      Result<Ticket> kept = Error{Code::kBusy, "none yet"};
      for (int i = 0; i < 12; ++i) {
        GenerateRequest r = request(prompt(1 + static_cast<int>(random() % 300), id % 3), 6);
        r.n = 1 + static_cast<int>(random() % 2);
        r.priority = static_cast<int>(random() % 3);
        r.logprobs = static_cast<int>(random() % 3) - 1;
        if (random() % 4 == 0)
          r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        Result<Ticket> ticket = engine_->submit(r);
        if (!ticket) {
          EXPECT_EQ(ticket.error().code, Code::kBusy);
          continue;
        }
        if (random() % 16 == 0) engine_->forget_cache();
        const unsigned what = random() % 4;
        if (what == 0) {
          kept = std::move(ticket);  // the one before is dropped
          continue;
        }
        std::thread canceller;
        if (what == 1) canceller = std::thread([&ticket] { ticket->cancel(); });
        int n_finished = 0;
        while (const auto event = ticket->next()) {
          n_finished += event->kind == TokenEvent::Kind::kFinished;
        }
        EXPECT_EQ(n_finished, r.n);
        if (canceller.joinable()) canceller.join();
        engine_->stats();
        engine_->estimated_wait_seconds();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Result<Ticket> last = engine_->submit(request(prompt(300), 200));
  ASSERT_TRUE(last) << last.error().message;
  std::thread waiter([&last] {
    while (last->next()) {
    }
  });
  engine_.reset();
  waiter.join();
  EXPECT_TRUE(last->done());
}

TEST_F(EngineEdgesTest, WhatRunsWhileTheCacheIsForgottenBeginsAnew) {
  make(8, {.max_sequences = 2}, 128, 512);
  const GenerateRequest r = request(prompt(300), 20);
  Result<Ticket> ticket = engine_->submit(r);
  ASSERT_TRUE(ticket);
  for (int i = 0; i < 6; ++i) engine_->step();  // three chunks, some tokens
  ASSERT_EQ(engine_->stats().prefill_rows, 300u);
  engine_->forget_cache();
  const Reply reply = run_to_end(*engine_, *ticket, 1)[0];
  EXPECT_GE(engine_->stats().prefill_rows, 600u);
  expect_same(reply, run_alone(*oracle_, r, 0, TokenMask(kVocab, 1)), "forgotten");
  engine_->check_invariants();
}

// Flips bytes all over the files of a directory that hold blocks.
void damage(const std::string& dir) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file() || entry.file_size() < 65536) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (size_t at = 8192 + 100; at < entry.file_size(); at += 4096) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('\x5a');
    }
  }
}

TEST(EngineDisk, DamagedBlocksOnDiskAreComputedAgain) {
  std::string dir = testing::TempDir() + "minim-kv-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  GenerateRequest r = request(prompt(600), 8);
  r.logprobs = 3;
  Reply first;
  for (const bool damaged : {false, true}) {
    const auto runtime = load_runtime_of("m3-text", 1024, 256, 16, 1, 16);
    ASSERT_NE(runtime, nullptr);
    EngineOptions options;
    options.tiers.disk_dir = dir;
    options.tiers.disk_bytes = uint64_t{1} << 30;
    Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime, std::move(options));
    ASSERT_TRUE(engine) << engine.error().message;
    const Reply reply = run(**engine, r)[0];
    if (!damaged) {
      first = reply;
      engine->reset();
      damage(dir);
      continue;
    }
    expect_same(reply, first, "behind damage");
    EXPECT_EQ(reply.usage.miss, CacheMiss::kDamaged);
    EXPECT_GT((*engine)->stats().tiers.damaged, 0u);
    (*engine)->check_invariants();
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace minim
