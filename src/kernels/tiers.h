// The tables, one a source file of kernels/cpu. They are constants and name no instruction: reading
// one is safe on every machine, calling through one is not (see kernels.cpp).
#pragma once

#include "kernels/kernels.h"

namespace minim {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace minim
