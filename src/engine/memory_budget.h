// How much memory this process may still take, by whichever limit is the tightest.
#pragma once

#include <cstdint>
#include <string>

namespace minim {

// Bytes; 0 in a limit means that there is none (or that the system does not say).
struct MemoryBudget {
  uint64_t total = 0;          // of the machine
  uint64_t machine_free = 0;   // MemAvailable
  uint64_t cgroup_limit = 0;   // the tightest of the process's control groups (v2 or v1)
  uint64_t cgroup_free = 0;    // under that limit, page cache counted as free
  uint64_t address_limit = 0;  // RLIMIT_AS
  uint64_t address_free = 0;
  uint64_t available = 0;  // the smallest of the three
};

MemoryBudget read_memory_budget();

// "1.5 GiB", "300.0 MiB": for people.
std::string format_bytes(uint64_t bytes);

}  // namespace minim
