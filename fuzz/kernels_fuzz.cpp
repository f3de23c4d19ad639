// Differential fuzzing of the kernels: the bytes choose an entry, sizes and values; every tier must
// give the scalar bits.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/fp_env.h"
#include "kernels/differential.h"
#include "kernels/tiers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace minim;
  if (size == 0) return 0;
  const FlushDenormals flush;
  const std::span<const DifferentialCase> cases = differential_cases();
  const DifferentialCase& chosen = cases[data[0] % cases.size()];
  for (const Kernels* tier : available_kernels()) {
    Draw draw(0, {data + 1, size - 1});
    if (chosen.same(*tier, kScalarKernels, draw)) continue;
    std::fprintf(stderr, "%s: %s differs from scalar\n", tier->name,
                 std::string(chosen.entry).c_str());
    std::abort();
  }
  return 0;
}
