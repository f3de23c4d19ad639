// A fixed pool of workers for loops whose items are independent, and for series of such loops. No
// work stealing and no reductions: which thread runs an item can never change a result, because
// items write disjoint memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace minim {

class ThreadPool {
 public:
  // One loop of a series. `open` runs once, on any one thread, when all items of all earlier phases
  // are done, and says how many items there are (< 2^24; 0: the phase was that call). Then run(i)
  // for each of them, as in parallel_for. Both see everything that earlier phases wrote.
  using Open = size_t (*)(const void* context);
  using Run = void (*)(const void* context, size_t i, size_t thread);
  struct Phase {
    Open open = nullptr;
    Run run = nullptr;
    const void* context = nullptr;
  };

  // n_threads >= 1, the calling thread included: a pool of 1 starts no thread. Workers set FTZ and
  // DAZ. When the system refuses a thread, those already started are joined and the
  // std::system_error goes on to the caller, who has to turn it into an error.
  // pin_threads: thread i stays on the i-th processor that the constructing thread may run on, when
  // there are n_threads of them and the system agrees (pinned() says so). Callers are not pinned;
  // the first processor is left to them.
  explicit ThreadPool(int n_threads, bool pin_threads = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }
  bool pinned() const { return pinned_; }

  // Runs the phases in order and returns when the last one is done. No thread waits for another one
  // that has no item: a phase begins when the items before it are done. The rules of parallel_for
  // hold. Allocates nothing, takes no lock.
  void launch(std::span<const Phase> phases);

  // Calls body(i), or body(i, thread) where the body takes two arguments, for every i in [0, n),
  // items handed out one at a time in ascending order; returns when all are done. `thread` is in
  // [0, n_threads) and belongs to one running thread: it names scratch memory and nothing else.
  // The caller takes part, as thread 0, with FTZ and DAZ set. One caller at a time; body must not
  // throw and must not call the pool. n < 2^24. Allocates nothing.
  template <typename Body>
  void parallel_for(size_t n, const Body& body) {
    struct Loop {
      size_t n;
      const Body* body;
    };
    const Loop loop{n, &body};
    const Phase phase{[](const void* context) { return static_cast<const Loop*>(context)->n; },
                      [](const void* context, size_t i, size_t thread) {
                        call(*static_cast<const Loop*>(context)->body, i, thread);
                      },
                      &loop};
    launch({&phase, 1});
  }

  // body(i, thread) or body(i), whichever there is.
  template <typename Body>
  static void call(const Body& body, size_t i, size_t thread) {
    if constexpr (std::is_invocable_v<const Body&, size_t, size_t>) {
      body(i, thread);
    } else {
      body(i);
    }
  }

  // Splits [0, n) into one contiguous range a thread (the first ranges one longer) and calls
  // body(begin, end) for each non-empty range: for loops that should read one stream a thread.
  template <typename Body>
  void parallel_ranges(size_t n, const Body& body) {
    const size_t parts = static_cast<size_t>(n_threads_);
    const size_t used = parts < n ? parts : n;
    parallel_for(used, [&](size_t part) {
      const size_t begin = n / used * part + (part < n % used ? part : n % used);
      body(begin, begin + n / used + (part < n % used ? 1 : 0));
    });
  }

 private:
  int n_threads_;
  bool pinned_ = false;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minim
