// What doctor wants to know of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace minim {

struct CpuInfo {
  std::string model;
  int processors = 0;              // of the machine
  int usable = 0;                  // by this process
  std::vector<std::string> flags;  // those that some tier of kernels needs and that are there
};
CpuInfo read_cpu_info();

// "always", "madvise", "never"; empty when the system has no transparent huge pages.
std::string huge_page_mode();

struct DiskSpeed {
  uint64_t bytes = 0;  // that were read
  double seconds = 0;
  bool direct = false;  // past the page cache; otherwise the figure may be that of memory
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};
// Reads the start of the folder's largest *.safetensors file, for a second or up to 1 GiB.
Result<DiskSpeed> measure_disk(const std::string& folder);

}  // namespace minim
