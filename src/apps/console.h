// The two standard streams and the terminal behind them: messages, progress, interrupts.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/runtime.h"

namespace minim {

// One line "minim: ..." on stderr (line breaks inside become blanks); returns the exit code.
int fail(const Error& error);                 // kCannot; interrupted_code() for kCancelled
int usage_error(const std::string& message);  // kUsage
void warn(const std::string& message);

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();
bool use_colour();  // stdout is a terminal, NO_COLOR is not set, TERM is not dumb

// Writes to stdout. False once the other end is gone or the disk is full; finish_output says why.
bool write_out(std::string_view text);
bool flush_out();
// Flushes; kDone, or a message and kCannot when anything could not be written.
int finish_output();

// 128 + the signal that the last InterruptWatch saw, of Ctrl-C if it saw none: 130, 143, 129.
int interrupted_code();

// Ctrl-C, SIGTERM and SIGHUP. While one is watched, the first of them sets the flag and a second
// one ends the program at once; otherwise they do what they did before.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  const std::atomic<bool>& flag() const;
  bool interrupted() const { return flag().load(std::memory_order_relaxed); }
  // Not only what is going on now is to end: SIGTERM or SIGHUP.
  bool ends_program() const;
};

// One line on stderr that is redrawn in place, only on a terminal. Shown when the work takes longer
// than a moment, gone when the object is.
class ProgressLine {
 public:
  // `watch` may be null; an interrupt makes the sink return false.
  ProgressLine(bool enabled, const InterruptWatch* watch);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  ProgressSink sink();
  void clear();

 private:
  bool report(std::string_view phase, size_t done, size_t total);

  bool enabled_, shown_ = false;
  const InterruptWatch* watch_;
  std::chrono::steady_clock::time_point started_, drawn_;
};

// Largest resident set of this process so far, bytes.
uint64_t peak_memory();

}  // namespace minim
