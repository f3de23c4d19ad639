// Owns the handler of SIGBUS. Weights are read through mappings, so a file that shrinks under a
// running program shows only as a signal at some load instruction, in whichever thread. The handler
// may do next to nothing: it looks up the address in /proc/self/maps, where the kernel keeps the
// names, and writes one line. (A registry of our own mappings lost: it would be one more mutable
// global, to be kept in step by the layer that maps.) Copying all weights before use would need
// twice the memory; checking the size before each access would still race.
#include "apps/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "apps/command.h"

namespace minim {
namespace {

std::atomic_flag reported = ATOMIC_FLAG_INIT;

// Everything below is async-signal-safe: system calls and plain loops on the stack.

// Text of bounded length; what does not fit is left out.
class Line {
 public:
  void add(const char* text) {
    for (; *text != '\0'; ++text) add_byte(*text);
  }
  // Control characters cannot steer the terminal.
  void add_byte(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    if (size_ < sizeof text_) text_[size_++] = code < 0x20 || code == 0x7f ? '?' : byte;
  }
  void write_to(int descriptor) {
    for (size_t at = 0; at < size_;) {
      const ssize_t n = ::write(descriptor, text_ + at, size_ - at);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }

 private:
  char text_[4500];  // a path and what is said of it
  size_t size_ = 0;
};

// The bytes of a file, one at a time; -1 at its end.
class Bytes {
 public:
  explicit Bytes(const char* path) : descriptor_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Bytes() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  int next() {
    if (at_ == size_) {
      const ssize_t n = descriptor_ < 0 ? 0 : ::read(descriptor_, buffer_, sizeof buffer_);
      if (n <= 0) return -1;
      size_ = static_cast<size_t>(n);
      at_ = 0;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

 private:
  int descriptor_;
  char buffer_[512];
  size_t at_ = 0, size_ = 0;
};

// A hexadecimal number and the byte behind it.
uintptr_t read_hex(Bytes& bytes, int& behind) {
  uintptr_t value = 0;
  for (;;) {
    behind = bytes.next();
    const int digit = behind >= '0' && behind <= '9'   ? behind - '0'
                      : behind >= 'a' && behind <= 'f' ? behind - 'a' + 10
                                                       : -1;
    if (digit < 0) return value;
    value = value << 4 | static_cast<uintptr_t>(digit);
  }
}

// Adds the path of the mapping around `address`: a line of /proc/self/maps is
// "begin-end rwxp offset device inode   /path". False: none, or it has no file.
bool add_path_of(uintptr_t address, Line& line) {
  Bytes maps("/proc/self/maps");
  for (int byte = 0; byte >= 0;) {
    const uintptr_t begin = read_hex(maps, byte);
    const uintptr_t end = byte == '-' ? read_hex(maps, byte) : 0;
    const bool found = address >= begin && address < end;
    while (byte >= 0 && byte != '\n' && byte != '/') byte = maps.next();
    if (found && byte != '/') return false;
    for (; byte >= 0 && byte != '\n'; byte = maps.next()) {
      if (found) line.add_byte(static_cast<char>(byte));
    }
    if (found) return true;
  }
  return false;
}

// Without the handler the access comes again and ends the program as it would have.
void let_it_happen() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &action, nullptr);
}

extern "C" void on_bus_error(int, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) return let_it_happen();
  Line line;
  line.add("minim: ");
  if (!add_path_of(reinterpret_cast<uintptr_t>(info->si_addr), line)) return let_it_happen();
  line.add(" cannot be read any more: it was cut short, or its disk failed, while in use");
  if (reported.test_and_set()) {
    for (;;) pause();  // another thread is about to end the program
  }
  termios ignored;
  if (tcgetattr(STDERR_FILENO, &ignored) == 0) {
    constexpr char kClear[] = "\r\x1b[K";  // a progress line may stand there
    (void)!::write(STDERR_FILENO, kClear, sizeof kClear - 1);
  }
  line.write_to(STDERR_FILENO);
  (void)!::write(STDERR_FILENO, "\n", 1);
  _exit(kCannot);
}

}  // namespace

void report_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace minim
