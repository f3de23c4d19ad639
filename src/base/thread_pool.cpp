// Owns the workers and the one job they share.
//
// A job is a function, its context and a count; `ticket` says which job is current and which item
// is next: (job number << 24 | next item). A thread takes an item by a compare-and-swap of the
// ticket, which fails if the job changed meanwhile, so what it read of the job before is known to
// be valid: while one item is taken and not finished, the caller cannot leave run(). Hence nobody
// waits for a worker that is asleep or was never scheduled; on a busy machine that is the
// difference between a microsecond and a time slice. (The usual form, where every worker must check
// in and out of every job, lost for that reason.)
//
// Between two jobs the ticket is closed (its item is the largest) before the first field of the new
// job is written: a thread that sees a new field with an old ticket finds its swap refused.
//
// Workers spin for a few microseconds after a job, because a forward pass is a rapid sequence of
// jobs, and then sleep on `bell`, which counts jobs. With more threads than processors spinning
// would only keep others from running, so they sleep at once.
#include "base/thread_pool.h"

#include <immintrin.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/fp_env.h"

namespace minim {

namespace {
constexpr int kItemBits = 24;
constexpr uint64_t kItemMask = (uint64_t{1} << kItemBits) - 1;
constexpr int kSpins = 1000;  // pauses of 20 to 40 ns
}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<uint64_t> ticket{0};
  std::atomic<size_t> n{0};
  std::atomic<Call> call{nullptr};
  std::atomic<const void*> context{nullptr};
  alignas(64) std::atomic<int> unfinished{0};
  alignas(64) std::atomic<int> bell{0};
  std::atomic<bool> stopping{false};
  int spins = kSpins;
  std::vector<std::thread> workers;

  // Runs items until none is left and reports them; safe at any moment, for any job.
  void work(size_t thread) {
    uint64_t current = ticket.load(std::memory_order_acquire);
    int done = 0;
    for (;;) {
      const size_t count = n.load(std::memory_order_acquire);
      const Call function = call.load(std::memory_order_acquire);
      const void* argument = context.load(std::memory_order_acquire);
      const size_t item = static_cast<size_t>(current & kItemMask);
      if (item >= count) break;
      if (!ticket.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      function(argument, item, thread);
      ++done;
      current = ticket.load(std::memory_order_acquire);
    }
    if (done != 0 && unfinished.fetch_sub(done, std::memory_order_acq_rel) == done) {
      unfinished.notify_one();
    }
  }

  void serve(size_t thread) {
    const FlushDenormals flush;
    int heard = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      for (int i = 0; i < spins && bell.load(std::memory_order_acquire) == heard; ++i) _mm_pause();
      bell.wait(heard, std::memory_order_acquire);
      heard = bell.load(std::memory_order_acquire);
      work(thread);
    }
  }

  void ring() {
    bell.fetch_add(1, std::memory_order_acq_rel);
    bell.notify_all();
  }

  void dismiss() {
    stopping.store(true, std::memory_order_release);
    ring();
    for (std::thread& worker : workers) worker.join();
  }

  void wait_until_finished() {
    for (int i = 0; i < spins && unfinished.load(std::memory_order_acquire) != 0; ++i) _mm_pause();
    for (int left; (left = unfinished.load(std::memory_order_acquire)) != 0;) {
      unfinished.wait(left, std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads), state_(std::make_unique<State>()) {
  CHECK(n_threads >= 1, "%d threads", n_threads);
  if (static_cast<unsigned>(n_threads) > std::thread::hardware_concurrency()) state_->spins = 0;
  State* state = state_.get();
  try {
    for (int i = 1; i < n_threads; ++i) {
      state_->workers.emplace_back([state, i] { state->serve(static_cast<size_t>(i)); });
    }
  } catch (...) {
    // A thread that runs must be joined before its std::thread goes.
    state_->dismiss();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->dismiss(); }

void ThreadPool::run(size_t n, Call call, const void* context) {
  const FlushDenormals flush;
  if (n_threads_ == 1 || n <= 1) {
    for (size_t i = 0; i < n; ++i) call(context, i, 0);
    return;
  }
  CHECK(n < kItemMask, "%zu items", n);
  State& state = *state_;
  const uint64_t job = (state.ticket.load(std::memory_order_relaxed) >> kItemBits) + 1;
  state.ticket.store(job << kItemBits | kItemMask, std::memory_order_release);
  state.n.store(n, std::memory_order_release);
  state.call.store(call, std::memory_order_release);
  state.context.store(context, std::memory_order_release);
  state.unfinished.store(static_cast<int>(n), std::memory_order_release);
  state.ticket.store(job << kItemBits, std::memory_order_release);
  state.ring();
  state.work(0);
  state.wait_until_finished();
}

}  // namespace minim
