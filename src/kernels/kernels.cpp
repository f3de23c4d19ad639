// Which tiers exist, which of them this machine can run, and which one a run uses.
//
// Order: slowest first, so the last one that the processor, the operating system and the self-test
// accept is the best. A tier that fails the self-test (a broken compiler, emulator or processor) is
// passed over, loudly: the caller gets its name. A tier asked for by name is never replaced by
// another.
#include "kernels/kernels.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "kernels/tiers.h"

namespace minim {
namespace {

constexpr std::string_view kTierNames[] = {"scalar", "avx2", "avx512"};
constexpr size_t kTiers = std::size(kTierNames);

// Half-float conversion: bit 29 of leaf 1 (clang 14 does not know the name in
// __builtin_cpu_supports). Its registers are those of AVX2, so the operating system needs no second
// question.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1u) != 0;
}

// __builtin_cpu_supports also asks the operating system whether it saves the registers.
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

struct Available {
  std::array<const Kernels*, kTiers> tiers = {};
  size_t count = 0;
};

Available detect() {
  Available found;
  __builtin_cpu_init();
  found.tiers[found.count++] = &kScalarKernels;
  if (runs_avx2()) found.tiers[found.count++] = &kAvx2Kernels;
  if (runs_avx512()) found.tiers[found.count++] = &kAvx512Kernels;
  return found;
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const Available available = detect();
  return {available.tiers.data(), available.count};
}

Result<KernelChoice> choose_kernels(std::string_view name) {
  if (!__builtin_cpu_supports("fma")) {
    return Error{Code::kUnsupported,
                 "this processor has no fused multiply-add (FMA3), which every kernel needs"};
  }
  const std::span<const Kernels* const> available = available_kernels();
  if (name == "auto") {
    KernelChoice choice;
    for (size_t i = available.size(); i-- > 0;) {
      choice.kernels = available[i];
      if (self_test(*available[i], 1).empty()) break;
      if (choice.rejected.empty()) choice.rejected = available[i]->name;
    }
    return choice;
  }
  for (const Kernels* tier : available) {
    if (name == tier->name) return KernelChoice{.kernels = tier, .rejected = {}};
  }
  for (const std::string_view known : kTierNames) {
    if (name == known) {
      return Error{
          Code::kUnsupported,
          fmt::format("this processor cannot run the {} kernels; the best it can run is {}", name,
                      available.back()->name)};
    }
  }
  return Error{Code::kInvalid, fmt::format("unknown instruction set '{}': use auto, {}, {} or {}",
                                           name, kTierNames[0], kTierNames[1], kTierNames[2])};
}

}  // namespace minim
