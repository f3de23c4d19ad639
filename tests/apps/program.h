// Runs the minim program as a shell would, in an environment of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"

namespace minim::testing {

// A folder that is gone when the test is.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "minim-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}
inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Outcome {
  int code = -1;  // 128 + signal when one ended it
  std::string out, err;

  std::vector<Json> lines() const {  // of out, each one JSON
    std::vector<Json> parsed;
    size_t at = 0;
    while (at < out.size()) {
      const size_t end = std::min(out.find('\n', at), out.size());
      Result<Json> value = parse_json(std::string_view(out).substr(at, end - at), "output");
      EXPECT_TRUE(value) << out.substr(at, end - at);
      if (!value) return parsed;
      parsed.push_back(*std::move(value));
      at = end + 1;
    }
    return parsed;
  }
};

struct RunOptions {
  std::string input = {};                     // of standard input
  std::vector<std::string> environment = {};  // "NAME=value", beside PATH, HOME and TERM
  rlim_t address_space = RLIM_INFINITY;
  std::string input_path = {};  // instead of `input`; a pipe perhaps
  int ignored_signal = 0;
};

// The program while it runs. Whoever starts one waits for it.
class Running {
 public:
  explicit Running(const std::vector<std::string>& words, const RunOptions& options = {}) {
    write_file(folder_ / "in", options.input);
    child_ = fork();
    if (child_ == 0) become_minim(words, options);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t id() const { return child_; }
  // Until standard output holds that many bytes, or a minute has passed.
  bool wait_for_output(size_t n_bytes) const {
    for (int i = 0; i < 6000; ++i) {
      if (slurp(folder_ / "out").size() >= n_bytes) return true;
      usleep(10000);
    }
    return false;
  }
  Outcome wait() const {
    int status = 0;
    waitpid(child_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            slurp(folder_ / "out"), slurp(folder_ / "err")};
  }

 private:
  [[noreturn]] void become_minim(const std::vector<std::string>& words,
                                 const RunOptions& options) const {
    const auto redirect = [](const std::string& path, int flags, int to) {
      const int from = open(path.c_str(), flags, 0600);
      if (from < 0 || dup2(from, to) < 0) _exit(126);
      close(from);
    };
    redirect(options.input_path.empty() ? folder_ / "in" : options.input_path, O_RDONLY,
             STDIN_FILENO);
    redirect(folder_ / "out", O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(folder_ / "err", O_WRONLY | O_CREAT, STDERR_FILENO);
    // A test may itself run in the background, where interrupts are ignored.
    for (const int watched : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      signal(watched, watched == options.ignored_signal ? SIG_IGN : SIG_DFL);
    }
    if (options.address_space != RLIM_INFINITY) {
      const rlimit limit{options.address_space, options.address_space};
      setrlimit(RLIMIT_AS, &limit);
    }
    std::vector<std::string> environment = options.environment;
    environment.push_back("HOME=" + folder_.path());
    environment.push_back("TERM=dumb");
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.begin(), MINIM_PROGRAM);
    std::vector<char*> argv, envp;
    for (std::string& word : arguments) argv.push_back(word.data());
    for (std::string& word : environment) envp.push_back(word.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    execve(MINIM_PROGRAM, argv.data(), envp.data());
    _exit(127);
  }

  TempFolder folder_;
  pid_t child_ = -1;
};

inline Outcome run_minim(const std::vector<std::string>& words, const RunOptions& options = {}) {
  return Running(words, options).wait();
}

// What every refusal must look like: the code, nothing on stdout, one line "minim: ..." that
// contains each of `words`.
inline void expect_refusal(const Outcome& outcome, int code,
                           const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.rfind("minim: ", 0), 0u) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  for (const std::string& word : words) {
    EXPECT_NE(outcome.err.find(word), std::string::npos)
        << "no '" << word << "' in " << outcome.err;
  }
}

inline std::string golden_model(const std::string& name) {
  return std::string(MINIM_TEST_DATA) + "/model/" + name;
}

// A copy of a model folder that a test may break.
inline void copy_model(const std::string& from, const TempFolder& to) {
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.is_regular_file()) std::filesystem::copy(entry.path(), to.path());
  }
}

}  // namespace minim::testing
