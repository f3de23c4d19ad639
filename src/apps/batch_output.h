// Where a batch's answers go: standard output, or a file that an interrupted batch continues.
#pragma once

#include <cstdint>
#include <string>

#include "apps/batch_input.h"

namespace minim {

struct BatchProgress {
  size_t lines = 0;   // answered before
  size_t errors = 0;  // of those
};

class BatchOutput {
 public:
  // Empty path: standard output. A file that is not there is made.
  static Result<BatchOutput> open(const std::string& path);
  ~BatchOutput();
  BatchOutput(BatchOutput&& other) noexcept;
  BatchOutput& operator=(BatchOutput&&) = delete;

  // Takes from `input` the lines that the file has answers to, and leaves the file at the end of
  // its last complete line. kInvalid, and the file is as it was, when it holds anything but answers
  // to these lines in this order.
  Result<BatchProgress> resume(BatchInput& input);

  // One answer, and out of the process at once.
  Result<Ok> write(const Json& answer);

 private:
  BatchOutput(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;  // -1: standard output
};

}  // namespace minim
