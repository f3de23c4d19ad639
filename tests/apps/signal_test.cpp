// How the program ends when it is told to, or when the ground under it goes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "apps/bus_error.h"
#include "apps/console.h"
#include "apps/model_folder.h"
#include "base/mapped_file.h"
#include "engine/session.h"
#include "program.h"
#include "terminal.h"

namespace minim::testing {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

size_t n_lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// An answer that takes its time and goes on to the end of the context.
std::vector<std::string> long_answer() {
  return {"run",
          "--model",
          MINIM_DEMO_MODEL,
          "--numerics",
          "reference",
          "--seed",
          "3",
          "--temperature",
          "5",
          "--top-p",
          "1",
          "--max-tokens",
          "3000",
          "Hello"};
}

TEST(Signal, EachEndsAnAnswerWithWhatItHasASummaryAndItsOwnCode) {
  for (const int signal : kSignals) {
    SCOPED_TRACE(signal);
    const Running running(long_answer());
    ASSERT_TRUE(running.wait_for_output(10));
    kill(running.id(), signal);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_EQ(n_lines(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("prompt tokens"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out.back(), '\n');
  }
}

TEST(Signal, OneThatWasIgnoredFromTheStartStaysIgnored) {
  std::vector<std::string> words = long_answer();
  words[words.size() - 2] = "30";
  const Running running(words, {.ignored_signal = SIGHUP});  // as under nohup
  ASSERT_TRUE(running.wait_for_output(3));
  kill(running.id(), SIGHUP);
  EXPECT_EQ(running.wait().code, 0);
}

// In a process of its own, with the signal already there: loading and the prompt look for it.
void load_with(int signal) {
  const InterruptWatch watch;
  raise(signal);
  const auto runtime = load_runtime({.model_dir = MINIM_DEMO_MODEL, .n_threads = 1}, true, &watch);
  std::exit(runtime ? 99 : fail(runtime.error()));
}

void prefill_with(int signal) {
  const auto runtime = load_runtime({.model_dir = MINIM_DEMO_MODEL, .n_threads = 1}, true, nullptr);
  if (!runtime) std::exit(98);
  const InterruptWatch watch;
  raise(signal);
  Session sequence(**runtime);
  const std::vector<int32_t> prompt(100, 5);
  const Result<Ok> done = sequence.prefill(prompt, {}, &watch.flag());
  std::exit(done ? 99 : fail(done.error()));
}

TEST(SignalDeathTest, EachEndsLoadingAndThePromptWithOneLineAndItsOwnCode) {
  for (const int signal : kSignals) {
    EXPECT_EXIT(load_with(signal), ::testing::ExitedWithCode(128 + signal),
                "^minim: [^\n]*stopped[^\n]*\n$");
    EXPECT_EXIT(prefill_with(signal), ::testing::ExitedWithCode(128 + signal),
                "^minim: stopped after 0 of 100 prompt tokens\n$");
  }
}

TEST(SignalDeathTest, ASecondOneEndsAtOnce) {
  EXPECT_EXIT(
      {
        const InterruptWatch watch;
        raise(SIGINT);
        raise(SIGTERM);
      },
      ::testing::ExitedWithCode(143), "^$");
}

TEST(Signal, TermEndsAChatAndNotOnlyTheAnswer) {
  Terminal terminal({"run", "--model", MINIM_DEMO_MODEL, "--temperature", "5", "--top-p", "1",
                     "--numerics", "reference"});
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("Hello\n");
  ASSERT_TRUE(terminal.wait_for("Hello\r\n"));
  ASSERT_TRUE(terminal.wait_for_bytes(20)) << terminal.seen();
  kill(terminal.id(), SIGTERM);
  EXPECT_EQ(terminal.exit_code(), 143);
}

TEST(Signal, WhileAnInputIsWaitedForItSimplyEnds) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "--model", MINIM_DEMO_MODEL, "-"},
        std::vector<std::string>{"score", "--model", golden_model("m3-bf16"), "--tokens-file",
                                 "-"}}) {
    const Running running(words, {.input_path = pipe});
    std::ofstream writer(pipe);  // opens when the program has opened its end
    if (words[0] == "score") {
      writer << "{\"tokens\": [1,2]}\n" << std::flush;
      ASSERT_TRUE(running.wait_for_output(20));
    }
    usleep(200000);
    kill(running.id(), SIGTERM);
    EXPECT_EQ(running.wait().code, 143);
  }
}

// The exit code and the messages of the program when a shell starts it in this way.
Outcome shell(const std::string& before, const std::string& after) {
  const TempFolder folder;
  write_file(folder / "script", before + "'" + MINIM_PROGRAM + "' score --model '" +
                                    golden_model("m3-bf16") + "' --tokens 1,2,3 --top 300 2>'" +
                                    folder / "err" + "' " + after + "\n");
  const int status = std::system(("bash '" + folder / "script" + "'").c_str());
  return {WEXITSTATUS(status), "", slurp(folder / "err")};
}

TEST(ClosedOutput, IsAnErrorInOneLine) {
  for (const Outcome& outcome :
       {shell("", ">&-"), shell("trap '' PIPE; exec > >(exec true); wait $!; ", "")}) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(n_lines(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("cannot write the output"), std::string::npos) << outcome.err;
  }
}

TEST(ClosedOutput, ABrokenPipeIsSilent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);  // in front of fork: nobody must be able to read when the child writes
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    execl(MINIM_PROGRAM, "minim", "--help", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

// Reads a mapping whose file was cut short after it was mapped.
void read_what_is_gone(const std::string& path) {
  report_bus_errors();
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file || truncate(path.c_str(), 0) != 0) std::exit(99);
  const volatile uint8_t* bytes = file->data().data();
  std::exit(bytes[5000] == 0 ? 97 : 98);
}

TEST(BusErrorDeathTest, AFileCutShortInUseIsNamedInOneLine) {
  const TempFolder folder;
  write_file(folder / "some shard.safetensors", std::string(10000, 'x'));
  EXPECT_EXIT(read_what_is_gone(folder / "some shard.safetensors"), ::testing::ExitedWithCode(1),
              "^minim: /[^\n]*some shard\\.safetensors cannot be read any more: [^\n]*\n$");
}

TEST(BusErrorDeathTest, OneThatIsNoFilesStaysWhatItWas) {
  EXPECT_EXIT(
      {
        report_bus_errors();
        raise(SIGBUS);
        raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(BusError, AShardCutShortBetweenTwoInputsEndsTheProgramWithOneLine) {
  const TempFolder folder;
  copy_model(golden_model("m3-bf16"), folder);
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Running running({"score", "--model", folder.path(), "--tokens-file", "-"},
                        {.input_path = pipe});
  std::ofstream writer(pipe);
  writer << "{\"tokens\": [1,2]}\n" << std::flush;
  ASSERT_TRUE(running.wait_for_output(20));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".safetensors") {
      ASSERT_EQ(truncate(entry.path().c_str(), 100), 0);
    }
  }
  writer << "{\"tokens\": [300,301,302]}\n" << std::flush;  // rows of the embedding stay mapped
  writer.close();
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(n_lines(outcome.err), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find(".safetensors cannot be read any more"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace minim::testing
