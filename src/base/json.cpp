// Owns reading of texts and files; base/json_builder.cpp makes the documents. Size, depth and kind
// of file are checked before anything is parsed: the parser is not the one to be asked for bounds.
#include "base/json.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "base/json_builder.h"

namespace minim {
namespace {

constexpr size_t kMaxReason = 160;
constexpr std::string_view kLfsMark = "version https://git-lfs";

bool is_lfs_pointer(std::string_view text) { return text.starts_with(kLfsMark); }

Error lfs_error(std::string_view what) {
  return {Code::kInvalid,
          fmt::format("{} is a Git LFS pointer, not the file (run: git lfs pull)", what)};
}

// nlohmann's parser keeps its own stack, but whoever walks the value later may recurse: bound the
// depth first.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::optional<Error> refused_unread(std::string_view text, std::string_view what) {
  if (is_lfs_pointer(text)) return lfs_error(what);
  if (!too_deep(text)) return std::nullopt;
  return Error{Code::kInvalid,
               fmt::format("{}: JSON nested deeper than {} levels", what, kMaxJsonDepth)};
}

Error cannot_read(const std::string& path, int reason) {
  return {reason == ENOENT ? Code::kNotFound : Code::kIo,
          fmt::format("cannot read {}: {}", path, std::generic_category().message(reason))};
}

}  // namespace

std::string json_reason(const std::exception& exception) {
  std::string_view reason = exception.what();
  if (const size_t end = reason.find("] "); end != std::string_view::npos) {
    reason.remove_prefix(end + 2);
  }
  if (reason.size() > kMaxReason) reason = reason.substr(0, reason.find("; last read"));
  std::string shown(reason.substr(0, kMaxReason));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

Result<Json> parse_json(std::string_view text, std::string_view what) {
  if (std::optional<Error> error = refused_unread(text, what)) return *std::move(error);
  return build_json(text, what);
}

Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view what) {
  if (std::optional<Error> error = refused_unread(text, what)) return *std::move(error);
  return build_sorted_json(text, what);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return cannot_read(path, errno);
  // Not istreambuf_iterator: the buffer throws when the system refuses a read (a directory opens
  // but cannot be read); read() turns that into badbit.
  std::string text;
  char piece[1 << 16];
  do {
    in.read(piece, sizeof piece);
    if (in.bad()) return cannot_read(path, errno);
    text.append(piece, static_cast<size_t>(in.gcount()));
    if (text.size() > max_bytes) {
      return Error{Code::kInvalid,
                   fmt::format("{} has more than {} bytes, wanted a text file", path, max_bytes)};
    }
  } while (in);
  return text;
}

Result<std::optional<std::string>> read_plain_file(const std::string& path) {
  // Through symbolic links, of which download caches are built; a link to nothing is a download
  // that did not finish, not an absent file.
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    std::error_code ignored;
    const bool absent = (reason == ENOENT || reason == ENOTDIR) &&
                        !std::filesystem::is_symlink(std::filesystem::path(path), ignored);
    if (absent) return std::optional<std::string>();
    return Error{Code::kIo, cannot_read(path, reason).message};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kIo, fmt::format("cannot read {}: not a plain file", path)};
  }
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  if (is_lfs_pointer(*text)) return lfs_error(path);
  return std::optional<std::string>(*std::move(text));
}

Result<std::string> require_plain_file(const std::string& path) {
  Result<std::optional<std::string>> text = read_plain_file(path);
  if (!text) return text.error();
  if (!text->has_value()) return cannot_read(path, ENOENT);
  return **std::move(text);
}

Result<Json> read_json_file(const std::string& path) {
  Result<std::string> text = require_plain_file(path);
  if (!text) return text.error();
  return parse_json(*text, path);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace minim
