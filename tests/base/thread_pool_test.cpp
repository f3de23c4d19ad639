#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace minim
