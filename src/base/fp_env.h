// The floating-point environment of every thread that computes: denormals are flushed and read as
// zero.
#pragma once

#include <xmmintrin.h>

namespace minim {

// Sets FTZ and DAZ (and rounding to nearest, all exceptions masked) for a scope and restores what
// was there before. The numeric contract needs it: bf16 dot products of some instruction sets flush
// whatever the mode says, so all must.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(kMasked | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() { _mm_setcsr(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kMasked = 0x1f80, kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned saved_;
};

}  // namespace minim
