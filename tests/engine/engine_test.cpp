#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// A model whose selection budget is three blocks.
class EngineTest : public testing::Test {
 protected:
  void make(int n_blocks = 16, EngineOptions options = {}, int chunk = 256, int context = 1024) {
    engine_.reset();
    runtime_ = load_runtime_of("m3-text", context, chunk, n_blocks, 2, options.max_sequences);
    ASSERT_NE(runtime_, nullptr);
    Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime_, std::move(options));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }
  Reply alone(const GenerateRequest& request, int reply = 0) {
    if (oracle_ == nullptr) oracle_ = load_runtime_of("m3-text", 1024, 512, 0, 1, 0);
    return run_alone(*oracle_, request, reply, TokenMask(kVocab, 1));
  }
  void expect_as_alone(const GenerateRequest& r) {
    const std::vector<Reply> replies = run(*engine_, r);
    for (size_t i = 0; i < replies.size(); ++i) {
      expect_same(replies[i], alone(r, static_cast<int>(i)), "reply " + std::to_string(i));
    }
    engine_->check_invariants();
  }

  std::unique_ptr<Runtime> runtime_, oracle_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, OneRequestGivesWhatASessionGives) {
  make();
  for (const int n : {1, 2, 127, 128, 129, 255, 256, 257, 383, 384, 385, 500, 700}) {
    expect_as_alone(request(prompt(n, n)));
  }
}

TEST_F(EngineTest, T_k1_CachedPromptsGiveTheSameTokensAndLogprobs) {
  make();
  for (const int n : {100, 128, 129, 256, 300, 512}) {
    GenerateRequest r = request(prompt(n), 6);
    r.logprobs = 5;
    const std::vector<Reply> first = run(*engine_, r), again = run(*engine_, r);
    expect_same(first[0], alone(r), "first");
    expect_same(again[0], first[0], "cached");
    EXPECT_EQ(again[0].usage.cached_tokens, n - 1) << n;  // all but the last token
    engine_->check_invariants();
  }
}

TEST_F(EngineTest, AFullyCachedPromptStillYieldsLogits) {
  make();
  const GenerateRequest r = request(prompt(256), 1);
  const std::vector<Reply> first = run(*engine_, r), again = run(*engine_, r);
  EXPECT_EQ(first[0].usage.miss, CacheMiss::kNew);
  EXPECT_EQ(again[0].usage.miss, CacheMiss::kNone);
  EXPECT_EQ(again[0].tokens, first[0].tokens);
}

TEST_F(EngineTest, TheNextTurnGoesOnBehindTheTail) {
  make();
  GenerateRequest r = request(prompt(200), 10);
  const std::vector<Reply> first = run(*engine_, r);
  std::vector<int32_t> next = r.prompt;
  next.insert(next.end(), first[0].tokens.begin(), first[0].tokens.end());
  const std::vector<int32_t> turn = prompt(20, 5);
  next.insert(next.end(), turn.begin(), turn.end());
  const GenerateRequest second = request(next, 10);
  const std::vector<Reply> reply = run(*engine_, second);
  EXPECT_EQ(reply[0].usage.cached_tokens, 200 + 9);  // the last token of a reply is never computed
  expect_same(reply[0], alone(second), "second turn");
}

TEST_F(EngineTest, ReasonsOfAMissAreTold) {
  make(8);
  EXPECT_EQ(run(*engine_, request(prompt(50, 1)))[0].usage.miss, CacheMiss::kShort);
  EXPECT_EQ(run(*engine_, request(prompt(300, 2)))[0].usage.miss, CacheMiss::kNew);
  EXPECT_EQ(run(*engine_, request(prompt(300, 2)))[0].usage.miss, CacheMiss::kNone);
  for (int salt = 3; salt < 5; ++salt) run(*engine_, request(prompt(900, salt), 1));
  EXPECT_EQ(run(*engine_, request(prompt(300, 2)))[0].usage.miss, CacheMiss::kEvicted);
  GenerateRequest r = request(prompt(300, 2));
  r.prompt_logprobs = 0;
  EXPECT_EQ(run(*engine_, r)[0].usage.miss, CacheMiss::kNotAsked);
}

TEST_F(EngineTest, T_k3_SaltsDoNotShare) {
  make();
  GenerateRequest r = request(prompt(300));
  r.salt = "a";
  run(*engine_, r);
  EXPECT_EQ(run(*engine_, r)[0].usage.cached_tokens, 299);
  r.salt = "b";
  EXPECT_EQ(run(*engine_, r)[0].usage.cached_tokens, 0);
}

TEST_F(EngineTest, ForgettingTheCacheLeavesNoHit) {
  make();
  const GenerateRequest r = request(prompt(300));
  run(*engine_, r);
  engine_->forget_cache();
  EXPECT_EQ(run(*engine_, r)[0].usage.cached_tokens, 0);
}

TEST_F(EngineTest, T_k4_PreemptionAtEveryStepChangesNothing) {
  make(16, {.max_sequences = 1, .decode_slack = -1}, 64);
  GenerateRequest r = request(prompt(300), 30);
  r.logprobs = 2;
  r.sampling = {.temperature = 0.8, .seed = 3};
  Result<Ticket> ticket = engine_->submit(r);
  std::vector<Reply> replies(1);
  for (int i = 0; !ticket->done(); ++i) {
    engine_->step();
    collect(*ticket, replies);
    GenerateRequest urgent = request(prompt(100 + i % 60, i), 1);
    urgent.priority = 1;
    run(*engine_, urgent);
    engine_->check_invariants();
    collect(*ticket, replies);
  }
  EXPECT_GE(replies[0].usage.preemptions, 30);
  expect_same(replies[0], alone(r), "preempted");
}

TEST_F(EngineTest, SequencesThatOutgrowThePoolStepBackAndComeAgain) {
  // Five blocks for four sequences that begin with one and end with two.
  make(5, {.max_sequences = 4, .decode_slack = -1}, 64, 512);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(request(prompt(100 + 5 * i, i), 60));
    requests.back().logprobs = 2;
    requests.back().sampling = {.temperature = 0.8, .seed = static_cast<uint64_t>(i)};
  }
  std::vector<Ticket> tickets;
  for (const GenerateRequest& r : requests) tickets.push_back(*engine_->submit(r));
  std::vector<std::vector<Reply>> replies(4, std::vector<Reply>(1));
  while (std::any_of(tickets.begin(), tickets.end(), [](const Ticket& t) { return !t.done(); })) {
    engine_->step(true);
    engine_->check_invariants();
    for (size_t i = 0; i < 4; ++i) collect(tickets[i], replies[i]);
  }
  EXPECT_GT(engine_->stats().preemptions, 0u);
  for (size_t i = 0; i < 4; ++i) expect_same(replies[i][0], alone(requests[i]), "outgrown");
}

TEST_F(EngineTest, T_k5_AnyChunkSizeGivesTheSameOutput) {
  GenerateRequest r = request(prompt(450), 6);
  r.logprobs = 3;
  const Reply expected = alone(r);
  for (const int chunk : {1, 7, 64, 128, 200, 512}) {
    make(16, {}, chunk);
    expect_same(run(*engine_, r)[0], expected, "chunk " + std::to_string(chunk));
  }
}

TEST_F(EngineTest, SeveralRepliesShareThePrompt) {
  make(24);
  GenerateRequest r = request(prompt(400), 12);
  r.n = 4;
  r.sampling = {.temperature = 1.2, .seed = 7};
  expect_as_alone(r);
  EXPECT_LT(engine_->stats().prefill_rows, 400u + 3 * 128u);
}

TEST_F(EngineTest, PromptsThatRunSideBySideComputeTheirStemOnce) {
  // A step has room for all three, so without waiting each would compute the stem.
  make(24, {.decode_slack = -1}, 900);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> tokens = prompt(256);
    tokens.push_back(i);
    tickets.push_back(*engine_->submit(request(tokens, 2)));
  }
  while (engine_->step(true)) {
  }
  EXPECT_EQ(engine_->stats().prefill_rows, 256u + 3u);
}

TEST_F(EngineTest, CancellingEndsWithinAStep) {
  make();
  Result<Ticket> ticket = engine_->submit(request(prompt(600), 100));
  Result<Ticket> other = engine_->submit(request(prompt(100, 3), 5));
  std::vector<Reply> replies(1), others(1);
  engine_->step();
  ticket->cancel();
  engine_->step();
  collect(*ticket, replies);
  EXPECT_TRUE(replies[0].finished);
  EXPECT_EQ(replies[0].finish, Finish::kCancelled);
  others = run_to_end(*engine_, *other, 1);
  expect_same(others[0], alone(request(prompt(100, 3), 5)), "other");
  engine_->check_invariants();
  EXPECT_EQ(engine_->stats().free_blocks, engine_->stats().n_blocks);
}

TEST_F(EngineTest, ADroppedTicketIsCancelled) {
  make();
  { Result<Ticket> ticket = engine_->submit(request(prompt(600), 100)); }
  engine_->step();
  EXPECT_EQ(engine_->stats().cancelled, 1u);
  EXPECT_FALSE(engine_->step());
}

TEST_F(EngineTest, DeadlinesEndWaitingAndRunningRequests) {
  make(16, {.max_sequences = 1});
  GenerateRequest r = request(prompt(100), 1000);
  r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  Result<Ticket> running = engine_->submit(r), waiting = engine_->submit(r);
  std::vector<Reply> a = run_to_end(*engine_, *running, 1), b(1);
  collect(*waiting, b);
  EXPECT_EQ(a[0].finish, Finish::kDeadline);
  EXPECT_EQ(b[0].finish, Finish::kDeadline);
}

TEST_F(EngineTest, AFullQueueIsRefusedWithAnEstimate) {
  make(16, {.max_sequences = 1, .max_queue = 2});
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2; ++i) tickets.push_back(*engine_->submit(request(prompt(10, i))));
  const Result<Ticket> refused = engine_->submit(request(prompt(10, 5)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBusy);
  EXPECT_NE(refused.error().message.find("the queue holds 2"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(" s"), std::string::npos);
}

TEST_F(EngineTest, WhoeverWaitsForAnEndBeforeTheNextRequestIsNeverRefused) {
  make(16, {.max_sequences = 1, .max_queue = 2});
  ASSERT_TRUE(engine_->start());
  std::vector<Ticket> tickets;
  for (int i = 0; i < 400; ++i) {
    Result<Ticket> ticket = engine_->submit(request({1 + i % 7}, 1));
    ASSERT_TRUE(ticket) << i << ": " << ticket.error().message;
    tickets.push_back(*std::move(ticket));
    if (tickets.size() < 2) continue;
    while (!tickets.front().done()) tickets.front().next();
    tickets.erase(tickets.begin());
  }
}

TEST_F(EngineTest, BadRequestsAreRefusedAtOnce) {
  make();
  EXPECT_EQ(engine_->submit(request({})).error().code, Code::kInvalid);
  EXPECT_EQ(engine_->submit(request({1, 320})).error().code, Code::kInvalid);
  const Result<Ticket> too_long = engine_->submit(request(prompt(1025)));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, Code::kExhausted);
  EXPECT_NE(too_long.error().message.find("1025"), std::string::npos);
  EXPECT_NE(too_long.error().message.find("1024"), std::string::npos);
  GenerateRequest r = request(prompt(3));
  r.logprobs = 21;
  EXPECT_EQ(engine_->submit(r).error().code, Code::kInvalid);
  r = request(prompt(3));
  r.sampling.temperature = -1;
  EXPECT_EQ(engine_->submit(r).error().code, Code::kInvalid);
}

TEST_F(EngineTest, ANearlyFullContextEndsByLength) {
  make();
  for (const int n : {1023, 1024}) {
    const std::vector<Reply> replies = run(*engine_, request(prompt(n), 100));
    EXPECT_EQ(replies[0].finish, Finish::kLength);
    EXPECT_EQ(replies[0].tokens.size(), static_cast<size_t>(1024 - n + 1));
  }
}

TEST_F(EngineTest, StopIdsEndAndMinTokensHoldThemBack) {
  make();
  GenerateRequest r = request(prompt(60), 12);
  const std::vector<Reply> free = run(*engine_, r);
  r.stop_ids = {free[0].tokens[2]};
  expect_as_alone(r);
  EXPECT_EQ(run(*engine_, r)[0].finish, Finish::kStop);
  r.min_tokens = 5;
  const Reply later = run(*engine_, r)[0];
  expect_same(later, alone(r), "min_tokens");
  EXPECT_TRUE(later.tokens.size() > 5 || later.finish == Finish::kLength);
  r.ignore_stop_ids = true;
  EXPECT_EQ(run(*engine_, r)[0].tokens, free[0].tokens);
}

TEST_F(EngineTest, PromptLogprobsAreThoseOfTheRows) {
  make(16, {.max_sequences = 2});
  GenerateRequest r = request(prompt(300), 3);
  r.prompt_logprobs = 4;
  r.logprobs = 0;
  expect_as_alone(r);
  expect_as_alone(r);
}

TEST_F(EngineTest, HigherPriorityGoesFirst) {
  make(16, {.max_sequences = 1});
  GenerateRequest low = request(prompt(100, 1), 30), high = request(prompt(100, 2), 3);
  high.priority = 5;
  Result<Ticket> first = engine_->submit(low);
  engine_->step();
  Result<Ticket> second = engine_->submit(high);
  const std::vector<Reply> urgent = run_to_end(*engine_, *second, 1);
  EXPECT_FALSE(first->done());
  expect_same(urgent[0], alone(high), "high");
  std::vector<Reply> patient = run_to_end(*engine_, *first, 1);
  EXPECT_GT(patient[0].usage.preemptions, 0);
  expect_same(patient[0], alone(low), "low");
}

TEST_F(EngineTest, AClientWithManyRequestsDoesNotStarveAnother) {
  make(64, {.max_sequences = 2, .decode_slack = -1}, 128);
  std::vector<Ticket> many;
  for (int i = 0; i < 10; ++i) {
    GenerateRequest r = request(prompt(400, i), 2);
    r.client = "greedy";
    many.push_back(*engine_->submit(r));
  }
  for (int i = 0; i < 5; ++i) engine_->step();
  GenerateRequest r = request(prompt(100, 99), 2);
  r.client = "modest";
  Result<Ticket> modest = engine_->submit(r);
  run_to_end(*engine_, *modest, 1);
  const auto done = std::count_if(many.begin(), many.end(), [](Ticket& ticket) {
    std::vector<Reply> replies(1);
    collect(ticket, replies);
    return replies[0].finished;
  });
  EXPECT_LE(done, 4);
}

TEST_F(EngineTest, AThreadOfItsOwnServesManyCallers) {
  make(24);
  ASSERT_TRUE(engine_->start());
  std::vector<std::thread> callers;
  std::vector<Reply> replies(6);
  for (size_t i = 0; i < replies.size(); ++i) {
    callers.emplace_back([&, i] {
      Result<Ticket> ticket =
          engine_->submit(request(prompt(150 + static_cast<int>(i), static_cast<int>(i)), 5));
      while (auto event = ticket->next()) {
        if (event->kind == TokenEvent::Kind::kToken) replies[i].tokens.push_back(event->token);
        if (event->kind == TokenEvent::Kind::kFinished) replies[i].finish = event->finish;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < replies.size(); ++i) {
    const Reply expected =
        alone(request(prompt(150 + static_cast<int>(i), static_cast<int>(i)), 5));
    EXPECT_EQ(replies[i].tokens, expected.tokens);
    EXPECT_EQ(replies[i].finish, expected.finish);
  }
}

TEST_F(EngineTest, AnEngineThatGoesEndsItsTickets) {
  make();
  Result<Ticket> ticket = engine_->submit(request(prompt(600), 100));
  ASSERT_TRUE(engine_->start());
  engine_.reset();
  while (ticket->next()) {
  }
  EXPECT_TRUE(ticket->done());
}

// Forces two tokens, then lets only even ids come, and ends at the fifth token.
class TwoForcedThenEven final : public TokenRules {
 public:
  std::span<const uint32_t> allowed() override { return {bits_, 10}; }
  std::vector<int32_t> forced() override {
    return n_ == 0 ? std::vector<int32_t>{11, 12} : std::vector<int32_t>{};
  }
  bool accept(int32_t) override { return ++n_ == 5; }

 private:
  int n_ = 0;
  uint32_t bits_[10] = {0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555,
                        0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555};
};

TEST_F(EngineTest, RulesForceAndForbidAndEnd) {
  make();
  for (const int logprobs : {-1, 3}) {
    GenerateRequest r = request(prompt(140), 100);
    r.logprobs = logprobs;
    r.rules = [](int) -> Result<std::unique_ptr<TokenRules>> {
      return std::unique_ptr<TokenRules>(new TwoForcedThenEven());
    };
    expect_as_alone(r);
    const Reply reply = run(*engine_, r)[0];
    EXPECT_EQ(reply.tokens.size(), 5u);
    EXPECT_EQ(reply.tokens[0], 11);
    EXPECT_EQ(reply.usage.forced_tokens, 2);
    for (size_t i = 2; i < 5; ++i) EXPECT_EQ(reply.tokens[i] % 2, 0);
  }
}

TEST_F(EngineTest, RulesThatCannotBeMadeRefuseTheRequest) {
  make();
  GenerateRequest r = request(prompt(5));
  r.rules = [](int) -> Result<std::unique_ptr<TokenRules>> {
    return Error{Code::kUnsupported, "no such grammar"};
  };
  EXPECT_EQ(engine_->submit(r).error().message, "no such grammar");
}

TEST_F(EngineTest, T_a5_LayerOuterAndBlockOuterGiveTheSameBits) {
  GenerateRequest r = request(prompt(450), 8);
  r.logprobs = 5;
  const Reply expected = alone(r);
  runtime_ = load_runtime_of("m3-text", 1024, 256, 16, 2, 16, KvOrder::kLayerOuter);
  engine_ = *Engine::make(*runtime_, {});
  expect_same(run(*engine_, r)[0], expected, "layer-outer");
}

}  // namespace
}  // namespace minim
