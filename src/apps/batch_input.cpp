// A bad line is an item like others, so that its answer can stand in its place. Before anything is
// written one good line is looked for: a file that holds something else altogether gets one error
// and not one a line.
#include "apps/batch_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace minim {

Json BatchItem::id() const { return line ? line->value.value("id", Json()) : Json(); }

Result<BatchInput> BatchInput::open(const std::string& path) {
  Result<JsonLines> lines = JsonLines::open(path);
  if (!lines) return lines.error();
  BatchInput input(*std::move(lines));
  std::error_code unknown;
  input.rereadable_ = path != "-" && std::filesystem::is_regular_file(path, unknown);
  input.standard_ = path == "-";
  Result<Ok> found = input.find_good(path == "-" ? "standard input" : path);
  if (!found) return found.error();
  return input;
}

Result<Ok> BatchInput::find_good(const std::string& name) {
  constexpr size_t kMostBad = 1000;
  while (ahead_.size() < kMostBad) {
    Result<std::optional<BatchItem>> item = read();
    if (!item) return item.error();
    if (!item->has_value()) break;
    ahead_.push_back(**std::move(item));
    if (ahead_.back().line) return Ok{};
  }
  if (ahead_.empty()) return Ok{};
  return Error{Code::kInvalid,
               fmt::format("no line of {} can be read ({} looked at), wanted: one JSON object a "
                           "line; {}",
                           name, ahead_.size(), ahead_.front().line.error().message)};
}

Result<std::optional<BatchItem>> BatchInput::read() {
  Result<std::optional<JsonLine>> line = lines_.next();
  if (!line && line.error().code == Code::kIo) return line.error();
  if (!line) return std::optional<BatchItem>(BatchItem{line.error()});
  if (!line->has_value()) return std::optional<BatchItem>();
  return std::optional<BatchItem>(BatchItem{**std::move(line)});
}

bool BatchInput::ready() const {
  if (!standard_ || !ahead_.empty()) return true;
  pollfd standard{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&standard, 1, 0) != 0;
}

Result<std::optional<BatchItem>> BatchInput::next() {
  if (ahead_.empty()) return read();
  BatchItem item = std::move(ahead_.front());
  ahead_.pop_front();
  return std::optional<BatchItem>(std::move(item));
}

}  // namespace minim
