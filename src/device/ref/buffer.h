// Zeroed memory of doubles that may fail to be had, without an exception.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/result.h"

namespace minim::ref {

struct FreeDoubles {
  void operator()(double* data) const { std::free(data); }
};
using Doubles = std::unique_ptr<double[], FreeDoubles>;

// nullptr when the memory cannot be had. count 0 gives a valid pointer.
inline Doubles zeroed_doubles(size_t count) {
  return Doubles(static_cast<double*>(std::calloc(count == 0 ? 1 : count, sizeof(double))));
}

inline Error out_of_memory(size_t count, const char* what) {
  return Error{Code::kExhausted, "the reference device cannot get " +
                                     std::to_string(count * sizeof(double)) + " bytes for " + what +
                                     " (it keeps every number as a double)"};
}

}  // namespace minim::ref
