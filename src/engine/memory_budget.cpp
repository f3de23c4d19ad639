// Three limits can stop an allocation: the machine's memory, a control group's and the process's
// address space. All are read before the cache is made, because afterwards the answer is not an
// error but the kernel's out-of-memory killer.
#include "engine/memory_budget.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace minim {
namespace {

// The number behind `key` in a file of "key number" lines; 0 when absent.
uint64_t field(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

// A file with one number; 0 for "max" and for a file that is not there.
uint64_t number(const std::string& path) {
  std::ifstream in(path);
  uint64_t value = 0;
  return in >> value ? value : 0;
}

struct Group {
  std::string folder;
  bool v2;
};

// The control group of this process that accounts for memory, as a folder of /sys/fs/cgroup.
Group own_group() {
  std::ifstream in("/proc/self/cgroup");
  std::string line, v2;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.find("memory") != std::string::npos) {
      return {"/sys/fs/cgroup/memory" + line.substr(second + 1), false};
    }
    if (controllers.empty()) v2 = "/sys/fs/cgroup" + line.substr(second + 1);
  }
  return {v2, true};
}

// Limits apply at every level up to the mount. A container sees its own group as the root.
void read_groups(MemoryBudget& budget) {
  Group group = own_group();
  constexpr uint64_t kUnlimited = uint64_t{1} << 62;  // v1 spells "none" as a huge number
  while (group.folder.size() >= std::string_view("/sys/fs/cgroup").size()) {
    const std::string folder = group.folder;
    const uint64_t limit = number(folder + (group.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit != 0 && limit < kUnlimited) {
      const std::string stat = folder + "/memory.stat";
      const uint64_t used =
          number(folder + (group.v2 ? "/memory.current" : "/memory.usage_in_bytes"));
      const uint64_t cache = field(stat, group.v2 ? "inactive_file" : "total_inactive_file") +
                             field(stat, group.v2 ? "active_file" : "total_active_file");
      const uint64_t held = used - std::min(used, cache);
      const uint64_t free = limit - std::min(limit, held);
      if (budget.cgroup_limit == 0 || free < budget.cgroup_free) {
        budget.cgroup_limit = limit;
        budget.cgroup_free = free;
      }
    }
    group.folder.resize(std::min(group.folder.rfind('/'), group.folder.size()));
  }
}

}  // namespace

MemoryBudget read_memory_budget() {
  constexpr uint64_t kKiB = 1024;
  MemoryBudget budget;
  budget.total = field("/proc/meminfo", "MemTotal:") * kKiB;
  budget.machine_free = field("/proc/meminfo", "MemAvailable:") * kKiB;
  budget.available = budget.machine_free;
  read_groups(budget);
  if (budget.cgroup_limit != 0) budget.available = std::min(budget.available, budget.cgroup_free);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t used = field("/proc/self/status", "VmSize:") * kKiB;
    budget.address_limit = limit.rlim_cur;
    budget.address_free = limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
    budget.available = std::min(budget.available, budget.address_free);
  }
  return budget;
}

std::string format_bytes(uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;
  const double value = static_cast<double>(bytes);
  return value >= kGiB ? fmt::format("{:.1f} GiB", value / kGiB)
                       : fmt::format("{:.1f} MiB", value / kMiB);
}

}  // namespace minim
