#include "base/json.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace minim {
namespace {

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

constexpr size_t kMaxReason = 160;

template <typename AnyJson>
Result<AnyJson> parse(std::string_view text, std::string_view what) {
  if (too_deep(text)) {
    return Error{Code::kInvalid,
                 fmt::format("{}: JSON nested deeper than {} levels", what, kMaxJsonDepth)};
  }
  try {
    return AnyJson::parse(text);
  } catch (const typename AnyJson::parse_error& e) {
    // nlohmann's text begins with "[json.exception.parse_error.101] " and may end with all that was
    // read of a long string; people need only what is between.
    std::string_view reason = e.what();
    if (const size_t end = reason.find("] "); end != std::string_view::npos)
      reason.remove_prefix(end + 2);
    if (reason.size() > kMaxReason) reason = reason.substr(0, reason.find("; last read"));
    return Error{Code::kInvalid, fmt::format("{}: not JSON at byte {}: {}", what, e.byte, reason)};
  } catch (const typename AnyJson::exception& e) {
    return Error{Code::kInvalid, fmt::format("{}: not JSON: {}", what, e.what())};
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  return parse<Json>(text, what);
}

Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view what) {
  return parse<SortedJson>(text, what);
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int reason = errno;
    return Error{reason == ENOENT ? Code::kNotFound : Code::kIo,
                 fmt::format("cannot read {}: {}", path, std::generic_category().message(reason))};
  }
  // Not istreambuf_iterator: the buffer throws when the system refuses a read (a directory opens
  // but cannot be read); read() turns that into badbit.
  std::string text;
  char piece[1 << 16];
  do {
    in.read(piece, sizeof piece);
    if (in.bad()) {
      const int reason = errno;
      return Error{Code::kIo, fmt::format("cannot read {}: {}", path,
                                          std::generic_category().message(reason))};
    }
    text.append(piece, static_cast<size_t>(in.gcount()));
  } while (in);
  return text;
}

Result<Json> read_json_file(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  return parse_json(*text, path);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace minim
