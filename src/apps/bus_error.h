// What happens when a mapped file can no longer be read.
#pragma once

namespace minim {

// From now on, an access to a mapping whose file was cut short or whose disk fails (SIGBUS) ends
// the program with one line that names the file, and exit code 1. Other bus errors do what they did
// before.
void report_bus_errors();

}  // namespace minim
