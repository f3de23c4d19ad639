// Counts every call of operator new in the test program (allocation_count_test.cpp replaces it).
#pragma once

#include <cstddef>

namespace minim {

size_t allocation_count();

}  // namespace minim
