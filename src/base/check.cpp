#include "base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace minim {

void check_failed(const char* file, int line, const char* condition, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s", file, line, condition);
  if (format != nullptr) {
    std::fputs(" (", stderr);
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc(')', stderr);
  }
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace minim
