// Owns the workers and the one phase that they share at a time.
//
// `ticket` says which phase is current and which of its items is next: (epoch << 24 | next item);
// epochs rise with every phase of every launch and are never reset. A thread takes an item by a
// compare-and-swap of the ticket, which fails if the phase changed meanwhile, so what it read of
// the phase before is known to be valid: while one item is taken and not finished, the phase cannot
// pass. The thread that finishes the last item of a phase opens the next one: it runs the serial
// part, runs single items itself and publishes the rest. Hence a phase waits for items, never for
// threads: one that sleeps or was never scheduled delays nobody, finds later that the epoch has
// passed, and has touched nothing but atomics. On a busy machine that is the difference between a
// microsecond and a time slice. (The usual forms lost for that reason: every worker checking in and
// out of every loop, every thread walking the whole program between barriers, or the caller alone
// opening phases.)
//
// Between two phases the ticket is closed (its item is the largest) before the first field of the
// new phase is written: a thread that sees a new field with an old ticket finds its swap refused.
//
// Threads without work spin for a few microseconds, because a forward pass is a rapid sequence of
// phases, and then sleep on `bell`, which counts phases. With more threads than processors spinning
// would only keep others from running, so they sleep at once.
#include "base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

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

// Processors that this thread may run on, ascending; empty when the system does not say.
std::vector<int> allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &mask)) processors.push_back(i);
  }
  return processors;
}

bool bind(std::thread& thread, int processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(processor, &mask);
  return pthread_setaffinity_np(thread.native_handle(), sizeof(mask), &mask) == 0;
}

}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<uint64_t> ticket{0};
  std::atomic<size_t> n{0};
  std::atomic<Run> run{nullptr};
  std::atomic<const void*> context{nullptr};
  alignas(64) std::atomic<int> unfinished{0};
  alignas(64) std::atomic<int> bell{0};
  std::atomic<uint64_t> n_finished{0};  // launches
  std::atomic<bool> stopping{false};
  // Of the thread that opens phases: first the caller, then whoever finished the last item.
  alignas(64) std::span<const Phase> phases;
  size_t next_phase = 0;
  int spins = kSpins;
  std::vector<std::thread> workers;

  void ring() {
    bell.fetch_add(1, std::memory_order_acq_rel);
    bell.notify_all();
  }

  void publish(const Phase& phase, size_t count) {
    CHECK(count < kItemMask, "%zu items", count);
    const uint64_t epoch = (ticket.load(std::memory_order_relaxed) >> kItemBits) + 1;
    ticket.store(epoch << kItemBits | kItemMask, std::memory_order_release);
    n.store(count, std::memory_order_release);
    run.store(phase.run, std::memory_order_release);
    context.store(phase.context, std::memory_order_release);
    unfinished.store(static_cast<int>(count), std::memory_order_release);
    ticket.store(epoch << kItemBits, std::memory_order_release);
    ring();
  }

  // Runs what needs one thread only, up to the next phase that others can share, or to the end.
  void open_next(size_t thread) {
    while (next_phase < phases.size()) {
      const Phase& phase = phases[next_phase++];
      const size_t count = phase.open(phase.context);
      if (count > 1) return publish(phase, count);
      if (count == 1) phase.run(phase.context, 0, thread);
    }
    n_finished.fetch_add(1, std::memory_order_acq_rel);
    if (thread != 0) ring();
  }

  // Takes one item and runs it; false when there is none. Safe at any moment, in any phase.
  bool take_item(size_t thread) {
    uint64_t current = ticket.load(std::memory_order_acquire);
    for (;;) {
      const size_t count = n.load(std::memory_order_acquire);
      const Run function = run.load(std::memory_order_acquire);
      const void* argument = context.load(std::memory_order_acquire);
      const size_t item = static_cast<size_t>(current & kItemMask);
      if (item >= count) return false;
      if (!ticket.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      function(argument, item, thread);
      if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) open_next(thread);
      return true;
    }
  }

  void wait_for_bell(int heard) {
    for (int i = 0; i < spins && bell.load(std::memory_order_acquire) == heard; ++i) _mm_pause();
    bell.wait(heard, std::memory_order_acquire);
  }

  // Works until `done()`. The bell is read first: what changes later rings it.
  template <typename Done>
  void work(size_t thread, const Done& done) {
    for (;;) {
      const int heard = bell.load(std::memory_order_acquire);
      while (take_item(thread)) {
      }
      if (done()) return;
      wait_for_bell(heard);
    }
  }

  void serve(size_t thread) {
    const FlushDenormals flush;
    work(thread, [this] { return stopping.load(std::memory_order_acquire); });
  }

  void dismiss() {
    stopping.store(true, std::memory_order_release);
    ring();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(int n_threads, bool pin_threads)
    : n_threads_(n_threads), state_(std::make_unique<State>()) {
  CHECK(n_threads >= 1, "%d threads", n_threads);
  const std::vector<int> processors = allowed_processors();
  const size_t n = static_cast<size_t>(n_threads);
  if (n > processors.size()) state_->spins = 0;
  State* state = state_.get();
  try {
    for (size_t i = 1; i < n; ++i) {
      state_->workers.emplace_back([state, i] { state->serve(i); });
    }
  } catch (...) {
    // A thread that runs must be joined before its std::thread goes.
    state_->dismiss();
    throw;
  }
  pinned_ = pin_threads && n <= processors.size();
  for (size_t i = 1; i < n && pinned_; ++i) {
    pinned_ = bind(state_->workers[i - 1], processors[i]);
  }
}

ThreadPool::~ThreadPool() { state_->dismiss(); }

void ThreadPool::launch(std::span<const Phase> phases) {
  const FlushDenormals flush;
  if (n_threads_ == 1) {
    for (const Phase& phase : phases) {
      const size_t n = phase.open(phase.context);
      for (size_t i = 0; i < n; ++i) phase.run(phase.context, i, 0);
    }
    return;
  }
  State& state = *state_;
  const uint64_t before = state.n_finished.load(std::memory_order_relaxed);
  state.phases = phases;
  state.next_phase = 0;
  state.open_next(0);
  state.work(0, [&] { return state.n_finished.load(std::memory_order_acquire) != before; });
}

}  // namespace minim
