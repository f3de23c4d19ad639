// The minim program on a pseudo terminal, as a person would use it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

namespace minim::testing {

class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& words) {
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master_);
    unlockpt(master_);
    const std::string name = ptsname(master_);
    child_ = fork();
    if (child_ == 0) {
      setsid();
      const int slave = open(name.c_str(), O_RDWR);
      ioctl(slave, TIOCSCTTY, 0);
      for (int fd = 0; fd < 3; ++fd) dup2(slave, fd);
      setenv("TERM", "xterm", 1);
      setenv("HOME", "/nonexistent", 1);
      unsetenv("NO_COLOR");
      // A test may itself run in the background, where interrupts are ignored.
      for (const int watched : {SIGINT, SIGTERM, SIGHUP}) signal(watched, SIG_DFL);
      std::vector<std::string> arguments = words;
      arguments.insert(arguments.begin(), MINIM_PROGRAM);
      std::vector<char*> argv;
      for (std::string& word : arguments) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(MINIM_PROGRAM, argv.data());
      _exit(127);
    }
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& text) {
    const ssize_t written = write(master_, text.data(), text.size());
    (void)written;
  }

  // Reads until `text` appears behind what was waited for before; false after a minute or at the
  // end of the program.
  bool wait_for(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (const size_t at = seen_.find(text, waited_); at != std::string::npos) {
        waited_ = at + text.size();
        return true;
      }
      if (!read_some(200)) return false;
    }
    return false;
  }

  // Reads until `n` more bytes have come behind what was waited for.
  bool wait_for_bytes(size_t n) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (seen_.size() < waited_ + n) {
      if (std::chrono::steady_clock::now() > end || !read_some(200)) return false;
    }
    return true;
  }

  // Of the program, 128 + signal when one ended it; waits for a minute. `nudge` is typed until
  // then: a key that is pressed before the editor has taken over the terminal is lost.
  int exit_code(const std::string& nudge = "") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    int status = 0;
    while (std::chrono::steady_clock::now() < end) {
      type(nudge);
      read_some(50);
      if (waitpid(child_, &status, WNOHANG) != child_) continue;
      child_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
  }

  const std::string& seen() const { return seen_; }
  pid_t id() const { return child_; }

 private:
  bool read_some(int milliseconds) {
    pollfd wait{master_, POLLIN, 0};
    if (poll(&wait, 1, milliseconds) <= 0) return true;
    char buffer[4096];
    const ssize_t n = read(master_, buffer, sizeof(buffer));
    if (n <= 0) return false;
    seen_.append(buffer, static_cast<size_t>(n));
    return true;
  }

  int master_ = -1;
  pid_t child_ = -1;
  std::string seen_;
  size_t waited_ = 0;
};

}  // namespace minim::testing
