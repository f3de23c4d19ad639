#include "apps/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

namespace minim {
namespace {

constexpr std::string_view kTierFlags[] = {"fma",         "f16c",      "avx2",     "avx512f",
                                           "avx512bw",    "avx512vl",  "avx512dq", "avx512_vnni",
                                           "avx512_bf16", "avx512vbmi"};

std::string after_colon(const std::string& line) {
  const size_t colon = line.find(':');
  const size_t start = line.find_first_not_of(" \t", colon + 1);
  return colon == std::string::npos || start == std::string::npos ? "" : line.substr(start);
}

std::string largest_shard(const std::string& folder) {
  std::string best;
  uint64_t best_size = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    std::error_code size_error;
    const uint64_t size = it->file_size(size_error);
    if (!size_error && size > best_size) {
      best_size = size;
      best = it->path().string();
    }
  }
  return best;
}

// An open file that closes itself.
struct File {
  int descriptor = -1;
  explicit File(int d) : descriptor(d) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

Result<DiskSpeed> read_for_a_second(int descriptor, bool direct) {
  constexpr size_t kStep = 4 << 20, kAlignment = 4096;
  constexpr uint64_t kMost = uint64_t{1} << 30;
  constexpr double kLongest = 1.0;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(kAlignment, kStep),
                                                           &std::free);
  if (buffer == nullptr) return Error{Code::kExhausted, "no memory for a buffer of 4 MiB"};
  DiskSpeed speed;
  speed.direct = direct;
  const auto start = std::chrono::steady_clock::now();
  while (speed.bytes < kMost && speed.seconds < kLongest) {
    const ssize_t n = read(descriptor, buffer.get(), kStep);
    if (n < 0) return Error{Code::kIo, std::generic_category().message(errno)};
    speed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (n == 0) break;
    speed.bytes += static_cast<uint64_t>(n);
  }
  return speed;
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info;
  std::ifstream in("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(in, line)) {
    if (line.rfind("processor", 0) == 0) ++info.processors;
    if (line.rfind("model name", 0) == 0) info.model = after_colon(line);
    if (line.rfind("flags", 0) == 0) flags = after_colon(line);
  }
  std::istringstream words(flags);
  std::string word;
  while (words >> word) {
    if (std::find(std::begin(kTierFlags), std::end(kTierFlags), word) != std::end(kTierFlags)) {
      info.flags.push_back(word);
    }
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  info.usable = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : info.processors;
  return info;
}

std::string huge_page_mode() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(in, line);  // "always [madvise] never"
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return line.substr(open + 1, close - open - 1);
}

Result<DiskSpeed> measure_disk(const std::string& folder) {
  const std::string path = largest_shard(folder);
  if (path.empty()) return Error{Code::kNotFound, "no *.safetensors file to read"};
  const File direct(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (direct.descriptor >= 0) {
    // Some file systems open the file and then refuse to read it this way.
    Result<DiskSpeed> speed = read_for_a_second(direct.descriptor, true);
    if (speed) return speed;
  }
  const File buffered(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (buffered.descriptor < 0) {
    return Error{Code::kIo,
                 fmt::format("cannot read {}: {}", path, std::generic_category().message(errno))};
  }
  return read_for_a_second(buffered.descriptor, false);
}

}  // namespace minim
