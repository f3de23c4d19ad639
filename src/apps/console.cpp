// A signal handler can reach nothing but static storage: the interrupt flag and the signal behind
// it are mutable globals, atomics that only this file writes.
//
// The three signals that ask a program to end are treated alike, so that a supervisor's stop and a
// closed terminal give the same orderly end as Ctrl-C. One that was ignored when the program began
// (nohup, a background job of a script) stays ignored.
#include "apps/console.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <system_error>

#include "apps/command.h"
#include "engine/memory_budget.h"
#include "text/utf8.h"

namespace minim {
namespace {

constexpr int kWatched[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kSignalled = 128;  // exit codes of shells: this and the signal's number

std::atomic<bool> interrupt_flag{false};
std::atomic<int> caught_signal{0};
struct sigaction previous_actions[std::size(kWatched)];  // written while no watch is active
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int signal) {
  caught_signal = signal;
  if (interrupt_flag.exchange(true)) _exit(kSignalled + signal);
}

// A message may quote what a file or a flag holds: whatever that is, it stays one line of bounded
// length, valid UTF-8, and cannot steer the terminal.
void print_line(const std::string& message) {
  constexpr size_t kLongest = 2000;
  std::string line = "minim: ";
  for (std::string_view rest = message; !rest.empty();) {
    if (line.size() > kLongest) {
      line += "...";
      break;
    }
    const Utf8Element element = utf8_first(rest);
    const std::string_view bytes = rest.substr(0, element.length);
    const unsigned char first = static_cast<unsigned char>(bytes[0]);
    // Control characters: C0, DEL, and C1 (two bytes that begin with C2).
    const bool control = first < 0x20 || first == 0x7f ||
                         (first == 0xc2 && static_cast<unsigned char>(bytes.back()) < 0xa0);
    line += element.kind != Utf8Kind::kCharacter ? kReplacement : control ? " " : bytes;
    rest.remove_prefix(element.length);
  }
  line += '\n';
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::strcmp(term, "dumb") == 0;
}

}  // namespace

int fail(const Error& error) {
  print_line(error.message);
  return error.code == Code::kCancelled ? interrupted_code() : kCannot;
}

int interrupted_code() {
  const int signal = caught_signal;
  return kSignalled + (signal != 0 ? signal : SIGINT);
}

int usage_error(const std::string& message) {
  print_line(message);
  return kUsage;
}

void warn(const std::string& message) { print_line(message); }

bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool use_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return stdout_is_terminal() && !dumb_terminal() && (no_colour == nullptr || *no_colour == '\0');
}

bool write_out(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

bool flush_out() { return std::fflush(stdout) == 0; }

int finish_output() {
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  if (flushed && std::ferror(stdout) == 0) return kDone;
  return fail({Code::kIo, fmt::format("cannot write the output: {}",
                                      std::generic_category().message(reason))});
}

InterruptWatch::InterruptWatch() {
  interrupt_flag = false;
  caught_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kWatched); ++i) {
    sigaction(kWatched[i], nullptr, &previous_actions[i]);
    if (previous_actions[i].sa_handler == SIG_IGN) continue;
    sigaction(kWatched[i], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  for (size_t i = 0; i < std::size(kWatched); ++i) {
    sigaction(kWatched[i], &previous_actions[i], nullptr);
  }
}

bool InterruptWatch::ends_program() const { return interrupted() && caught_signal != SIGINT; }

const std::atomic<bool>& InterruptWatch::flag() const { return interrupt_flag; }

ProgressLine::ProgressLine(bool enabled, const InterruptWatch* watch)
    : enabled_(enabled && stderr_is_terminal() && !dumb_terminal()),
      watch_(watch),
      started_(std::chrono::steady_clock::now()),
      drawn_(started_) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

ProgressSink ProgressLine::sink() {
  return {[this](std::string_view phase, size_t done, size_t total) {
    return report(phase, done, total);
  }};
}

bool ProgressLine::report(std::string_view phase, size_t done, size_t total) {
  const bool go_on = watch_ == nullptr || !watch_->interrupted();
  if (!enabled_) return go_on;
  constexpr auto kPatience = std::chrono::milliseconds(300);
  constexpr auto kInterval = std::chrono::milliseconds(100);
  const auto now = std::chrono::steady_clock::now();
  if (done >= total) {
    clear();
    started_ = now;
    return go_on;
  }
  if (now - started_ < kPatience || now - drawn_ < kInterval) return go_on;
  drawn_ = now;
  shown_ = true;
  const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
  const std::string amount =
      phase == "loading"
          ? fmt::format("{} of {}", format_bytes(done), format_bytes(total))
          : fmt::format("{} of {} {}", done, total, phase == "answering" ? "lines" : "tokens");
  std::fputs(fmt::format("\r\x1b[K{} {:.0f} % ({})", phase, percent, amount).c_str(), stderr);
  std::fflush(stderr);
  return go_on;
}

uint64_t peak_memory() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace minim
