#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

#include "base/phase_list.h"

namespace minim {
namespace {

TEST(ThreadPool, EveryItemRunsExactlyOnce) {
  for (int n_threads = 1; n_threads <= 4; ++n_threads) {
    ThreadPool pool(n_threads);
    for (size_t n : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> runs(n, 0);
      pool.parallel_for(n, [&](size_t i) { ++runs[i]; });
      EXPECT_EQ(runs, std::vector<int>(n, 1)) << n_threads << " threads";
    }
  }
}

// Starts many threads in the address space of a few stacks and exits: 7 when that is an exception
// that can be caught.
void start_refused_threads() {
  rlimit little = {};
  little.rlim_cur = little.rlim_max = rlim_t{256} << 20;
  setrlimit(RLIMIT_AS, &little);
  try {
    const ThreadPool pool(1000);
  } catch (const std::system_error&) {
    std::_Exit(7);
  }
  std::_Exit(0);
}

TEST(ThreadPool, ThreadsThatTheSystemRefusesAreAnErrorOfTheConstructor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than this test leaves";
#endif
  EXPECT_EXIT(start_refused_threads(), ::testing::ExitedWithCode(7), "");
}

TEST(ThreadPool, ThousandsOfShortJobsNeverMixTheirItems) {
  ThreadPool pool(3);
  std::vector<size_t> out(17);
  for (size_t job = 0; job < 20000; ++job) {
    const size_t n = 1 + job % out.size();
    pool.parallel_for(n, [&, job](size_t i) { out[i] = job * 100 + i; });
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], job * 100 + i);
  }
}

TEST(ThreadPool, WritesOfOneJobAreSeenByTheNext) {
  ThreadPool pool(2);
  std::vector<long> values(512, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<long> next(values.size());
    pool.parallel_for(values.size(),
                      [&](size_t i) { next[i] = values[i] + values[values.size() - 1 - i] % 7; });
    values = next;
  }
  std::vector<long> expected(512, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<long> next(expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      next[i] = expected[i] + expected[expected.size() - 1 - i] % 7;
    }
    expected = next;
  }
  EXPECT_EQ(values, expected);
}

TEST(ThreadPool, RangesAreContiguousDisjointAndAtMostOnePerThread) {
  for (int n_threads = 1; n_threads <= 4; ++n_threads) {
    ThreadPool pool(n_threads);
    for (size_t n : {0, 1, 3, 4, 5, 100, 101}) {
      std::vector<int> owner(n, -1);
      std::atomic<int> ranges{0};
      pool.parallel_ranges(n, [&](size_t begin, size_t end) {
        ASSERT_LT(begin, end);
        const int id = ranges.fetch_add(1);
        for (size_t i = begin; i < end; ++i) owner[i] = id;
      });
      EXPECT_EQ(static_cast<size_t>(ranges.load()), std::min<size_t>(n, n_threads));
      for (int id : owner) EXPECT_GE(id, 0);
    }
  }
}

TEST(ThreadPool, ThreadNumbersNameOneRunningThread) {
  ThreadPool pool(3);
  std::atomic<int> running[3] = {};
  std::atomic<bool> clash{false};
  for (int job = 0; job < 500; ++job) {
    pool.parallel_for(32, [&](size_t, size_t thread) {
      if (thread > 2 || running[thread].fetch_add(1) != 0) clash = true;
      running[thread].fetch_sub(1);
    });
  }
  EXPECT_FALSE(clash);
}

TEST(ThreadPool, DenormalsAreFlushedInEveryThreadAndRestoredInTheCaller) {
  constexpr unsigned kFlags = 0x8040;
  const unsigned before = _mm_getcsr();
  ThreadPool pool(2);
  std::atomic<int> wrong{0};
  for (size_t n : {1, 64}) {
    pool.parallel_for(n, [&](size_t) {
      if ((_mm_getcsr() & kFlags) != kFlags) ++wrong;
    });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<size_t> sum{0};
    pool.parallel_for(100, [&](size_t item) { sum += item; });
    EXPECT_EQ(sum, 4950u);
  }
}

TEST(ThreadPool, PoolsComeAndGo) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 2 == 0) pool.parallel_for(3, [](size_t) {});
  }
}

// ---- launches

// Phases whose items build on all items of the phase before: any phase that began early, any item
// that ran twice or not at all, and any stale read changes the end.
class Relay {
 public:
  static constexpr size_t kWidth = 24;

  // What serial code and items of one phase do to the values; `n` of 0 and 1 included.
  struct Step {
    size_t n;
    long factor;
  };

  explicit Relay(const std::vector<Step>& steps) : steps_(steps) {}

  void append_to(PhaseList& list) {
    for (const Step& step : steps_) {
      list.add(
          [this, step] {
            sum_ = 0;
            for (const long value : values_[now_]) sum_ += value;
            now_ ^= 1;
            values_[now_] = values_[now_ ^ 1];
            return step.n;
          },
          [this, step](size_t i, size_t thread) {
            if (thread != 0) helped_.store(true, std::memory_order_relaxed);
            if (step.factor == 9) std::this_thread::yield();  // lets others in on a busy machine
            const std::vector<long>& before = values_[now_ ^ 1];
            values_[now_][i] = (before[kWidth - 1 - i] * step.factor + sum_ + before[i]) % 1000003;
          });
    }
  }

  const std::vector<long>& values() const { return values_[now_]; }
  bool helped() const { return helped_; }  // an item ran on a worker

 private:
  const std::vector<Step>& steps_;
  std::vector<long> values_[2] = {std::vector<long>(kWidth, 1), std::vector<long>(kWidth, 1)};
  size_t now_ = 0;
  long sum_ = 0;
  std::atomic<bool> helped_{false};
};

uint32_t next_random(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

std::vector<Relay::Step> random_steps(uint32_t& state, size_t most) {
  std::vector<Relay::Step> steps(1 + next_random(state) % most);
  for (Relay::Step& step : steps) {
    step = {next_random(state) % (Relay::kWidth + 1),
            1 + static_cast<long>(next_random(state) % 9)};
  }
  return steps;
}

TEST(ThreadPoolLaunch, T_h2_AnyNumberOfThreadsRunsThePhasesInOrder) {
  uint32_t state = 7;
  const std::vector<Relay::Step> steps = random_steps(state, 200);
  PhaseList list(200);
  Relay one(steps);
  one.append_to(list);
  ThreadPool(1).launch(list.phases());
  for (int n_threads : {2, 3, 8, 33}) {  // more than processors, and more than items
    list.clear();
    Relay many(steps);
    many.append_to(list);
    ThreadPool pool(n_threads);
    pool.launch(list.phases());
    EXPECT_EQ(many.values(), one.values()) << n_threads << " threads";
  }
}

// No phase, item count or step number may be taken for that of an earlier launch.
void run_random_launches(int n_launches, int n_threads) {
  ThreadPool pool(n_threads), serial(1);
  PhaseList list(6);
  uint32_t state = 99;
  int n_helped = 0;
  for (int launch = 0; launch < n_launches; ++launch) {
    const std::vector<Relay::Step> steps = random_steps(state, 6);
    Relay expected(steps), actual(steps);
    list.clear();
    expected.append_to(list);
    serial.launch(list.phases());
    list.clear();
    actual.append_to(list);
    pool.launch(list.phases());
    ASSERT_EQ(actual.values(), expected.values()) << "launch " << launch;
    n_helped += actual.helped();
  }
  EXPECT_GT(n_helped, 0) << "the caller did everything: the test shows nothing";
}

TEST(ThreadPoolLaunch, T_h3_AHundredThousandRandomLaunchesSeeNoStalePhase) {
  run_random_launches(100000, 2);
}

TEST(ThreadPoolLaunch, T_h3_RandomLaunchesOnMoreThreadsThanProcessors) {
  run_random_launches(3000, 8);
}

TEST(ThreadPoolLaunch, APhaseWaitsForItemsNotForThreads) {
  // One item of the first phase holds one thread; the others find no item and must not be needed.
  ThreadPool pool(4);
  std::atomic<int> n_second{0};
  PhaseList list(2);
  list.add([] { return size_t{2}; },
           [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  list.add([] { return size_t{3}; }, [&n_second](size_t) { ++n_second; });
  for (int i = 0; i < 20; ++i) pool.launch(list.phases());
  EXPECT_EQ(n_second, 60);
}

TEST(ThreadPoolLaunch, EmptyLaunchesAndPhasesWithoutItemsReturn) {
  for (int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    pool.launch({});
    PhaseList list(2);
    int n_opened = 0;
    for (int i = 0; i < 2; ++i) {
      list.add(
          [&n_opened] {
            ++n_opened;
            return size_t{0};
          },
          [](size_t) { FAIL(); });
    }
    EXPECT_TRUE(list.full());
    pool.launch(list.phases());
    EXPECT_EQ(n_opened, 2);
  }
}

TEST(ThreadPoolLaunch, DenormalsAreFlushedInSerialPartsToo) {
  constexpr unsigned kFlags = 0x8040;
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  PhaseList list(50);
  for (int i = 0; i < 50; ++i) {
    list.add(
        [&wrong] {
          if ((_mm_getcsr() & kFlags) != kFlags) ++wrong;
          return size_t{5};
        },
        [](size_t) {});
  }
  pool.launch(list.phases());
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPoolPinning, WorkersStayOnOneProcessorEachWhenThereAreEnough) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const int n_processors = CPU_COUNT(&allowed);
  if (n_processors < 2) GTEST_SKIP() << "one processor";
  EXPECT_FALSE(ThreadPool(n_processors + 1, true).pinned());
  EXPECT_FALSE(ThreadPool(2).pinned());
  ThreadPool pool(2, true);
  if (!pool.pinned()) GTEST_SKIP() << "the system does not let threads be bound";
  std::atomic<bool> worker_ran{false};
  for (int i = 0; i < 2000 && !worker_ran; ++i) {
    pool.parallel_for(8, [&](size_t, size_t thread) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      cpu_set_t mask;
      if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
      if (thread == 0) {
        EXPECT_TRUE(CPU_EQUAL(&mask, &allowed)) << "the caller is nobody's to bind";
      } else {
        EXPECT_EQ(CPU_COUNT(&mask), 1);
        worker_ran = true;
      }
    });
  }
  EXPECT_TRUE(worker_ran);
}

}  // namespace
}  // namespace minim
