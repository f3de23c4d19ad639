// A launch of a thread pool while it is put together: phases given as closures, in memory that was
// taken before.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"

namespace minim {

class PhaseList {
 public:
  static constexpr size_t kClosureBytes = 240;  // of both closures of a phase

  explicit PhaseList(size_t capacity) : closures_(capacity) { phases_.reserve(capacity); }

  bool full() const { return phases_.size() == closures_.size(); }
  std::span<const ThreadPool::Phase> phases() const { return phases_; }
  void clear() { phases_.clear(); }

  // open() -> size_t and body(i) or body(i, thread), as ThreadPool::Phase says. The closures are
  // copied, so they hold values and pointers, and nothing that needs to be destroyed. Not when
  // full.
  template <typename Open, typename Body>
  void add(const Open& open, const Body& body) {
    struct Closure {
      Open open;
      Body body;
    };
    static_assert(sizeof(Closure) <= kClosureBytes && alignof(Closure) <= alignof(Slot));
    static_assert(std::is_trivially_copyable_v<Closure> &&
                  std::is_trivially_destructible_v<Closure>);
    CHECK(!full(), "more than %zu phases", closures_.size());
    const void* const closure = new (closures_[phases_.size()].bytes) Closure{open, body};
    phases_.push_back(
        {[](const void* context) -> size_t { return static_cast<const Closure*>(context)->open(); },
         [](const void* context, size_t i, size_t thread) {
           ThreadPool::call(static_cast<const Closure*>(context)->body, i, thread);
         },
         closure});
  }

 private:
  struct alignas(16) Slot {
    unsigned char bytes[kClosureBytes];
  };
  std::vector<Slot> closures_;
  std::vector<ThreadPool::Phase> phases_;
};

}  // namespace minim
