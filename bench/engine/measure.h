// What the benchmarks of this folder share: clocks, the machine's name and load, medians.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace minim {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of all threads of this process.
inline double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Microseconds that runnable tasks of this machine have waited for a processor.
inline double cpu_pressure_us() {
  std::ifstream in("/proc/pressure/cpu");
  std::string line;
  std::getline(in, line);
  const size_t at = line.find("total=");
  return at == std::string::npos ? 0 : std::atof(line.c_str() + at + 6);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace minim
