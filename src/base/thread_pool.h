// A fixed pool of workers for loops whose items are independent. No work stealing and no
// reductions: which thread runs an item can never change a result, because items write disjoint
// memory.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace minim {

class ThreadPool {
 public:
  // n_threads >= 1, the calling thread included: a pool of 1 starts no thread. Workers set FTZ and
  // DAZ. When the system refuses a thread, those already started are joined and the
  // std::system_error goes on to the caller, who has to turn it into an error.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(i), or body(i, thread) where the body takes two arguments, for every i in [0, n),
  // items handed out one at a time in ascending order; returns when all are done. `thread` is in
  // [0, n_threads) and belongs to one running thread: it names scratch memory and nothing else.
  // The caller takes part, as thread 0, with FTZ and DAZ set. One caller at a time; body must not
  // throw and must not call the pool. n < 2^24. Allocates nothing.
  template <typename Body>
  void parallel_for(size_t n, const Body& body) {
    run(
        n,
        [](const void* context, size_t i, size_t thread) {
          const Body& call = *static_cast<const Body*>(context);
          if constexpr (std::is_invocable_v<const Body&, size_t, size_t>) {
            call(i, thread);
          } else {
            call(i);
          }
        },
        &body);
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
  using Call = void (*)(const void* context, size_t i, size_t thread);
  void run(size_t n, Call call, const void* context);

  int n_threads_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minim
