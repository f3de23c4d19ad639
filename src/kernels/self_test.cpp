// The check that a tier gives the scalar tier's bits on this very machine, before it is trusted
// with a model.
#include "base/fp_env.h"
#include "kernels/differential.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace minim {

std::string_view self_test(const Kernels& tier, int rounds) {
  const FlushDenormals flush;
  constexpr int kDrawsPerRound = 3;
  Draw draw(0x6d696e696d);
  for (int i = 0; i < rounds * kDrawsPerRound; ++i) {
    for (const DifferentialCase& test : differential_cases()) {
      if (!test.same(tier, kScalarKernels, draw)) return test.entry;
    }
  }
  return {};
}

}  // namespace minim
