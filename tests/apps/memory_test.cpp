// Memory of a loaded model, measured from outside: the weights once, the cache, and little else.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "apps/program.h"

namespace minim::testing {
namespace {

// Peak resident bytes of `minim score` on a folder; 0 when the program failed.
size_t peak_bytes_of_scoring(const std::string& model) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
    execl(MINIM_PROGRAM, "minim", "score", "--model", model.c_str(), "--tokens", "1,2,3,4",
          "--context", "512", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status)) return 0;
  return WEXITSTATUS(status) == 0 ? static_cast<size_t>(usage.ru_maxrss) * 1024 : 0;
}

TEST(Memory, LoadingPeaksAtTheRepackedWeightsAndLittleMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#else
  constexpr size_t kMiB = size_t{1} << 20;
  const TempFolder folder;
  const std::string model = folder / "random";
  // Wide and shallow, 620 MiB: a second copy of the weights would break the bound.
  const std::string make = "python3 " MINIM_SOURCE_DIR
                           "/scripts/make_random_checkpoint.py --layers 1 "
                           "--dense-layers 0 --experts 16 --vocab 1024 --out " +
                           model + " >/dev/null";
  ASSERT_EQ(std::system(make.c_str()), 0);
  size_t weights = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") weights += entry.file_size();
  }
  ASSERT_GT(weights, 450 * kMiB);
  const size_t peak = peak_bytes_of_scoring(model);
  ASSERT_GT(peak, weights / 2);
  EXPECT_LE(static_cast<double>(peak), 1.15 * static_cast<double>(weights) + 200.0 * kMiB)
      << peak / kMiB << " MiB for " << weights / kMiB << " MiB of weights";
#endif
}

}  // namespace
}  // namespace minim::testing
