// CHECK: fail-stop on our own bugs, always on. DCHECK: the same in inner loops, debug builds only.
// A CHECK that a file, a flag or a request can reach is itself a bug.
#pragma once

namespace minim {

// Prints "file:line: CHECK failed: condition (message)" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* format = nullptr, ...)
    __attribute__((format(printf, 4, 5)));

}  // namespace minim

#define CHECK(condition, ...)                                                           \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::minim::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition, ...) \
  do {                         \
  } while (false && (condition))
#else
#define DCHECK(condition, ...) CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
