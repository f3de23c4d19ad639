// A fixed pool of workers for loops whose items are independent. No work stealing and no
// reductions: which thread runs an item can never change a result, because items write disjoint
// memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace minim {

class ThreadPool {
 public:
  // n_threads >= 1, the calling thread included: a pool of 1 starts no thread. Workers set FTZ and
  // DAZ.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(i) for every i in [0, n), items handed out one at a time in ascending order; returns
  // when all are done. The caller takes part. body must not throw and must not call the pool.
  // Allocates nothing.
  template <typename Body>
  void parallel_for(size_t n, const Body& body) {
    run(
        n, [](const void* context, size_t i) { (*static_cast<const Body*>(context))(i); }, &body);
  }

  // Splits [0, n) into one contiguous range a thread (the first ranges one longer) and calls
  // body(begin, end) for each non-empty range: for loops that should read one stream a thread.
  template <typename Body>
  void parallel_ranges(size_t n, const Body& body) {
    const size_t parts = static_cast<size_t>(n_threads_);
    parallel_for(parts < n ? parts : n, [&](size_t part) {
      const size_t used = parts < n ? parts : n;
      const size_t begin = n / used * part + (part < n % used ? part : n % used);
      body(begin, begin + n / used + (part < n % used ? 1 : 0));
    });
  }

 private:
  using Call = void (*)(const void* context, size_t i);
  void run(size_t n, Call call, const void* context);

  int n_threads_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minim
