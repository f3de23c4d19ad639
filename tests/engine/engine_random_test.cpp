// Random lives of many sequences against each of them alone.
//
// Requests share stems, are cancelled, outrank and preempt each other in pools of a few blocks,
// whose blocks go to host memory and to disk and come back, with chunks and threads that change.
// Every reply is compared with the same request run alone: tokens and log-probabilities bit for
// bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "engine_fixture.h"

namespace minim {
namespace {

struct World {
  std::string model;
  int context = 0;
  int n_events = 0;            // to pass
  int n_requests = 0;          // that differ
  int most_prompt = 0;         // tokens
  std::vector<int> stems;      // lengths
  std::vector<int> pool = {};  // numbers of blocks
};

class Directory {
 public:
  Directory() {
    std::string name = testing::TempDir() + "minim-kv-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class RandomLives {
 public:
  RandomLives(World world, uint64_t seed)
      : world_(std::move(world)),
        random_(seed),
        oracle_(load_runtime_of(world_.model, world_.context, 512, 0, 1, 0)),
        mask_(static_cast<size_t>(oracle_->config().vocab), 1) {
    for (size_t i = 0; i < world_.stems.size(); ++i) {
      stems_.push_back(tokens(world_.stems[i]));
    }
    // A set of requests that come again and again: what each gives alone is computed once.
    for (int i = 0; i < world_.n_requests; ++i) requests_.push_back(make_request());
    expected_.resize(requests_.size());
  }

  void live() {
    while (n_events_ < world_.n_events && !testing::Test::HasFailure()) {
      begin_engine();
      const int until = n_events_ + at_most(world_.n_events / 6) + 1;
      while (n_events_ < until && !testing::Test::HasFailure()) event();
      finish_all();
      note(engine_->stats());
      engine_.reset();
    }
  }
  // What has happened at all; a test of nothing would show here.
  std::string summary() const {
    return std::to_string(n_events_) + " events: " + std::to_string(n_submitted_) + " submitted, " +
           std::to_string(n_compared_) + " compared, " + std::to_string(n_cancelled_) +
           " cancelled, " + std::to_string(preemptions_) + " preemptions, " +
           std::to_string(cached_) + " cached tokens, " + std::to_string(host_hits_) +
           " blocks from host memory, " + std::to_string(disk_hits_) + " from disk";
  }
  uint64_t preemptions() const { return preemptions_; }
  uint64_t cached() const { return cached_; }
  uint64_t host_hits() const { return host_hits_; }
  uint64_t disk_hits() const { return disk_hits_; }
  int n_compared() const { return n_compared_; }

 private:
  struct Life {
    size_t request;
    Ticket ticket;
    std::vector<Reply> replies;
    bool cancelled = false;
  };

  int at_most(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n + 1)); }
  bool chance(int percent) { return at_most(99) < percent; }
  template <typename T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(at_most(static_cast<int>(list.size()) - 1))];
  }
  std::vector<int32_t> tokens(int n) {
    std::vector<int32_t> out;
    for (int i = 0; i < n; ++i) out.push_back(at_most(299));
    return out;
  }

  GenerateRequest make_request() {
    GenerateRequest r;
    r.prompt = one_of(stems_);
    // Up to a block's edge, one more, one less, or anything.
    const int length = static_cast<int>(r.prompt.size());
    const int to_edge = (128 - length % 128) % 128;
    const int more = chance(40) ? std::max(0, to_edge + at_most(2) - 1) : at_most(90);
    if (chance(20) && length > 130) r.prompt.resize(static_cast<size_t>(length - at_most(129)));
    const std::vector<int32_t> branch = tokens(more);
    r.prompt.insert(r.prompt.end(), branch.begin(), branch.end());
    r.prompt.resize(std::min(r.prompt.size(), static_cast<size_t>(world_.most_prompt)));
    r.max_tokens = 1 + at_most(chance(10) ? 60 : 12);
    SamplingParams& s = r.sampling;
    s.temperature = chance(40) ? 0.0 : 0.5 + at_most(10) / 10.0;
    s.seed = random_();
    if (chance(20)) s.top_k = 1 + at_most(20);
    if (chance(20)) s.top_p = 0.8;
    if (chance(20)) s.repetition_penalty = 1.3;
    if (chance(20)) s.presence_penalty = 0.7;
    if (chance(20)) s.frequency_penalty = 0.4;
    if (chance(10)) s.logit_bias = {{at_most(299), 3.0f}, {at_most(299), -100.0f}};
    if (chance(10)) s.bad_words = {{at_most(299)}, {at_most(299), at_most(299)}};
    if (chance(40)) r.logprobs = at_most(5);
    if (chance(8)) r.prompt_logprobs = at_most(3);
    if (chance(15)) r.n = 2 + at_most(1);
    if (chance(30)) r.stop_ids = tokens(6);
    if (chance(20)) r.min_tokens = at_most(6);
    if (chance(20)) r.priority = at_most(2);
    if (chance(20)) r.salt = "salt";
    r.client = std::string(1, static_cast<char>('a' + at_most(3)));
    return r;
  }

  void begin_engine() {
    const int n_sequences = 1 + at_most(5);
    const int chunk = one_of(std::vector<int>{1 + at_most(40), 64, 128, 130, 256, 512});
    runtime_ =
        load_runtime_of(world_.model, world_.context, chunk, one_of(world_.pool), 1 + at_most(2),
                        n_sequences, chance(30) ? KvOrder::kLayerOuter : KvOrder::kBlockOuter);
    EngineOptions options;
    options.max_sequences = n_sequences;
    options.max_queue = 64;
    options.decode_slack = chance(50) ? -1 : 0.5;
    options.token_mask = mask_;
    const size_t block = runtime_->layout().block_bytes;
    if (chance(50)) options.tiers.host_bytes = block * static_cast<size_t>(2 + at_most(12));
    if (chance(50)) {
      options.tiers.disk_dir = directory_.path();
      options.tiers.disk_bytes = block * static_cast<size_t>(4 + at_most(30));
    }
    Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime_, std::move(options));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }

  void event() {
    const int what = at_most(99);
    if (what < 35 && lives_.size() < 12) {
      const size_t i = static_cast<size_t>(at_most(static_cast<int>(requests_.size()) - 1));
      Result<Ticket> ticket = engine_->submit(requests_[i]);
      ASSERT_TRUE(ticket) << ticket.error().message;
      lives_.push_back(
          {i, *std::move(ticket), std::vector<Reply>(static_cast<size_t>(requests_[i].n)), false});
      ++n_submitted_;
    } else if (what < 40 && !lives_.empty()) {
      Life& life = lives_[static_cast<size_t>(at_most(static_cast<int>(lives_.size()) - 1))];
      life.ticket.cancel();
      if (!life.cancelled) ++n_cancelled_;
      life.cancelled = true;
    } else if (what == 40) {
      engine_->forget_cache();
    } else {
      for (int n = 1 + at_most(6); n > 0; --n) step();
    }
    ++n_events_;
  }

  void step() {
    engine_->step(true);
    engine_->check_invariants();
    for (size_t i = 0; i < lives_.size();) {
      Life& life = lives_[i];
      collect(life.ticket, life.replies);
      if (!life.ticket.done()) {
        ++i;
        continue;
      }
      compare(life);
      lives_.erase(lives_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void finish_all() {
    while (!lives_.empty() && !testing::Test::HasFailure()) step();
  }

  void compare(const Life& life) {
    const GenerateRequest& r = requests_[life.request];
    std::vector<Reply>& alone = expected_[life.request];
    if (alone.empty()) {
      for (int i = 0; i < r.n; ++i) alone.push_back(run_alone(*oracle_, r, i, mask_));
    }
    for (size_t i = 0; i < alone.size(); ++i) {
      const Reply& got = life.replies[i];
      if (got.finish == Finish::kCancelled && life.cancelled) {
        // What came before the end is a part of the whole.
        ASSERT_LE(got.tokens.size(), alone[i].tokens.size());
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), alone[i].tokens.begin()));
        continue;
      }
      expect_same(got, alone[i],
                  "request " + std::to_string(life.request) + " reply " + std::to_string(i) +
                      " at event " + std::to_string(n_events_));
      ++n_compared_;
    }
  }

  void note(const EngineStats& stats) {
    EXPECT_EQ(stats.running + stats.waiting, 0);
    preemptions_ += stats.preemptions;
    cached_ += stats.cached_tokens;
    host_hits_ += stats.tiers.host_hits;
    disk_hits_ += stats.tiers.disk_hits;
    EXPECT_EQ(stats.tiers.damaged, 0u) << stats.tiers.trouble;
  }

  World world_;
  std::mt19937_64 random_;
  std::unique_ptr<Runtime> oracle_, runtime_;
  TokenMask mask_;
  Directory directory_;
  std::vector<std::vector<int32_t>> stems_;
  std::vector<GenerateRequest> requests_;
  std::vector<std::vector<Reply>> expected_;
  std::unique_ptr<Engine> engine_;
  std::vector<Life> lives_;
  int n_events_ = 0, n_submitted_ = 0, n_cancelled_ = 0, n_compared_ = 0;
  uint64_t preemptions_ = 0, cached_ = 0, host_hits_ = 0, disk_hits_ = 0;
};

void run_world(const World& world) {
  RandomLives lives(world, 20261130);
  lives.live();
  std::printf("%s\n", lives.summary().c_str());
  EXPECT_GT(lives.n_compared(), world.n_events / 20);
  EXPECT_GT(lives.cached(), 0u);
  if (world.n_events < 1000) return;  // then some things may not have happened
  EXPECT_GT(lives.preemptions(), 0u);
  EXPECT_GT(lives.host_hits(), 0u);
  EXPECT_GT(lives.disk_hits(), 0u);
}

// A selection budget of three blocks, contexts of up to six.
TEST(RandomLivesTest, EveryReplyIsThatOfTheRequestAlone) {
  run_world({.model = "m3-text",
             .context = 768,
             .n_events = 10000,
             .n_requests = 60,
             .most_prompt = 700,
             .stems = {1, 100, 127, 128, 129, 255, 256, 257, 300, 384, 385, 500, 512, 640},
             .pool = {6, 7, 8, 12, 20}});
}

// The family's own budget of sixteen blocks, contexts on both sides of it.
TEST(RandomLivesTest, ContextsAroundTheSelectionBudgetOfSixteenBlocks) {
  run_world({.model = "m31-nvfp4",
             .context = 2560,
             .n_events = 60,
             .n_requests = 8,
             .most_prompt = 2400,
             .stems = {100, 1900, 2048, 2049, 2177},
             .pool = {20, 24, 40}});
}

}  // namespace
}  // namespace minim
