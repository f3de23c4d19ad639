// An answer is one write() of a whole line, in order of the input, so after a kill the file holds
// complete lines and at most one torn one behind them. What is there already is compared with the
// input, id by id, before a byte is changed: another batch's file, or the input itself, is refused.
// A journal beside the file lost: it can be out of step with the answers, which are what counts.
#include "apps/batch_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/console.h"

namespace minim {
namespace {

Error system_error(const char* what, const std::string& path) {
  return {Code::kIo,
          fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(errno))};
}

struct Extent {
  size_t lines = 0;       // complete ones
  off_t end = 0;          // behind the last of them
  std::string torn = {};  // the first bytes of what stands behind it
};

Result<Extent> measure(int file, const std::string& path) {
  Extent extent;
  char piece[1 << 16];
  off_t at = 0;
  for (;;) {
    const ssize_t n = pread(file, piece, sizeof piece, at);
    if (n < 0) return system_error("read", path);
    if (n == 0) return extent;
    const std::string_view text(piece, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
      ++extent.lines;
      extent.end = at + static_cast<off_t>(end) + 1;
      extent.torn.clear();
      begin = end + 1;
    }
    constexpr size_t kShown = 8;
    if (extent.torn.size() < kShown) extent.torn += text.substr(begin, kShown);
    at += n;
  }
}

// Whether a torn line may be the beginning of an answer.
bool begins_answer(std::string_view torn) {
  constexpr std::string_view kBegin = R"({"id":)";
  const size_t n = std::min(torn.size(), kBegin.size());
  return torn.substr(0, n) == kBegin.substr(0, n);
}

bool is_answer_to(const JsonLine& answer, const BatchItem& item) {
  const bool whole = answer.value.contains("error") || answer.value.contains("finish_reason");
  return whole && answer.value.contains("id") && answer.value["id"] == item.id();
}

}  // namespace

Result<BatchOutput> BatchOutput::open(const std::string& path) {
  if (path.empty()) return BatchOutput(path, -1);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return system_error("write", path);
  BatchOutput output(path, file);
  struct stat found {};
  if (fstat(file, &found) != 0) return system_error("read", path);
  if (!S_ISREG(found.st_mode)) {
    return Error{Code::kInvalid,
                 fmt::format("--output {} is no plain file; standard output may be a pipe", path)};
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return Error{Code::kBusy, fmt::format("another batch is writing {}", path)};
  }
  return output;
}

BatchOutput::BatchOutput(BatchOutput&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

BatchOutput::~BatchOutput() {
  if (file_ >= 0) close(file_);
}

Result<BatchProgress> BatchOutput::resume(BatchInput& input) {
  BatchProgress done;
  if (file_ < 0) return done;
  const Result<Extent> extent = measure(file_, path_);
  if (!extent) return extent.error();
  const auto refuse = [&](const std::string& what) {
    return Error{Code::kInvalid,
                 fmt::format("{} holds something else than answers to this batch: {}; another "
                             "--output, or an empty one, begins anew",
                             path_, what)};
  };
  Result<JsonLines> answers = JsonLines::open(path_);
  if (!answers) return answers.error();
  for (; done.lines < extent->lines; ++done.lines) {
    const Result<std::optional<JsonLine>> answer = answers->next();
    if (!answer) return refuse(answer.error().message);
    Result<std::optional<BatchItem>> item = input.next();
    if (!item) return item.error();
    if (!item->has_value()) {
      return refuse(fmt::format("it has {} lines, the input {}", extent->lines, done.lines));
    }
    if (!answer->has_value() || !is_answer_to(**answer, **item)) {
      return refuse(
          fmt::format("line {} is no answer to id {}", done.lines + 1, dump_json((*item)->id())));
    }
    done.errors += (*answer)->value.contains("error");
  }
  if (!begins_answer(extent->torn)) return refuse("its last line is no answer");
  if (ftruncate(file_, extent->end) != 0 || lseek(file_, extent->end, SEEK_SET) < 0) {
    return system_error("write", path_);
  }
  return done;
}

Result<Ok> BatchOutput::write(const Json& answer) {
  const std::string line = dump_json(answer) + "\n";
  if (file_ < 0) {
    if (write_out(line) && flush_out()) return Ok{};
    return Error{Code::kIo, fmt::format("cannot write the output: {}",
                                        std::generic_category().message(errno))};
  }
  for (std::string_view left = line; !left.empty();) {
    const ssize_t n = ::write(file_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path_);
    left.remove_prefix(static_cast<size_t>(n));
  }
  return Ok{};
}

}  // namespace minim
