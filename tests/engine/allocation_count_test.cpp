// Replaces the global operator new by one that counts; all threads share the count.
#include "allocation_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace {
std::atomic<size_t> n_allocations{0};

void* counted(size_t size, size_t alignment) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size == 0 ? 1 : size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t size) { return counted(size, 1); }
void* operator new[](size_t size) { return counted(size, 1); }
void* operator new(size_t size, std::align_val_t a) {
  return counted(size, static_cast<size_t>(a));
}
void* operator new[](size_t size, std::align_val_t a) {
  return counted(size, static_cast<size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace minim {

size_t allocation_count() { return n_allocations.load(std::memory_order_relaxed); }

TEST(AllocationCount, SeesAnAllocation) {
  const size_t before = allocation_count();
  auto one = std::make_unique<int>(1);
  EXPECT_EQ(allocation_count(), before + 1);
}

}  // namespace minim
