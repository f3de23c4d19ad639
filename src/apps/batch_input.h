// The lines of a batch's file, good and bad.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "apps/json_lines.h"

namespace minim {

struct BatchItem {
  Result<JsonLine> line;  // or why it cannot be read
  // "id" of the line; null where it has none or cannot be read.
  Json id() const;
};

class BatchInput {
 public:
  // A file, or standard input for "-". kInvalid when there are lines and none can be read (of a
  // pipe: none of the first thousand).
  static Result<BatchInput> open(const std::string& path);

  // The next line; nullopt at the end. An error is the system's.
  Result<std::optional<BatchItem>> next();
  // Whether next() finds something at once, for all that is known: false only for standard input
  // on which nothing has come yet.
  bool ready() const;
  // Whether it can be read once more: a plain file.
  bool rereadable() const { return rereadable_; }

 private:
  explicit BatchInput(JsonLines lines) : lines_(std::move(lines)) {}
  Result<std::optional<BatchItem>> read();
  Result<Ok> find_good(const std::string& name);

  JsonLines lines_;
  std::deque<BatchItem> ahead_;  // read while a good line was looked for
  bool rereadable_ = false, standard_ = false;
};

}  // namespace minim
