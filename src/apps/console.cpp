// A signal handler can reach nothing but static storage: the interrupt flag is the one mutable
// global of the program, and it is an atomic that only this file writes.
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
#include <system_error>

#include "apps/command.h"
#include "engine/memory_budget.h"
#include "text/utf8.h"

namespace minim {
namespace {

std::atomic<bool> interrupt_flag{false};
struct sigaction previous_action;  // written only while no watch is active

extern "C" void on_interrupt(int) {
  if (interrupt_flag.exchange(true)) _exit(kInterrupted);
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
  return error.code == Code::kCancelled ? kInterrupted : kCannot;
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
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_action);
}

InterruptWatch::~InterruptWatch() { sigaction(SIGINT, &previous_action, nullptr); }

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
  const std::string amount = phase == "loading"
                                 ? fmt::format("{} of {}", format_bytes(done), format_bytes(total))
                                 : fmt::format("{} of {} tokens", done, total);
  std::fputs(fmt::format("\r\x1b[K{} {:.0f} % ({})", phase, percent, amount).c_str(), stderr);
  std::fflush(stderr);
  return go_on;
}

uint64_t peak_memory() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace minim
