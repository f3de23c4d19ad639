// Owns reading of what users pipe in. Any bytes may come, without end: a line is read in pieces and
// given up when it is longer than any use has it (std::getline would take all memory first).
#include "apps/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <limits>
#include <system_error>

namespace minim {
namespace {

// What stands there, short enough for a message.
std::string shown(const Json& value) {
  constexpr size_t kLongest = 40;
  std::string text = dump_json(value);
  if (text.size() > kLongest) text = fmt::format("{} of {} bytes", value.type_name(), text.size());
  return text;
}

Error bad_id(const std::string& where, size_t index, const std::string& found, int n_ids) {
  return {Code::kInvalid, fmt::format("{}: token {} is {}, wanted: an id from 0 to {}", where,
                                      index, found, n_ids - 1)};
}

// After a read that the system refused.
Error cannot_read(const std::string& name) {
  const std::string reason = errno == 0 ? "read error" : std::generic_category().message(errno);
  return {Code::kIo, fmt::format("cannot read {}: {}", name, reason)};
}

}  // namespace

Result<JsonLines> JsonLines::open(const std::string& path) {
  if (path == "-") return of(nullptr, "standard input");
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) {
    return Error{Code::kNotFound,
                 fmt::format("cannot read {}: {}", path, std::generic_category().message(errno))};
  }
  return of(std::move(file), path);
}

JsonLines JsonLines::of(std::unique_ptr<std::istream> stream, std::string name) {
  JsonLines lines;
  lines.file_ = std::move(stream);
  lines.name_ = std::move(name);
  return lines;
}

// The rest of a line that was given up is no line of its own.
void JsonLines::skip_rest() {
  std::istream& in = file_ == nullptr ? std::cin : *file_;
  in.clear(in.rdstate() & ~std::ios::failbit);  // set when a piece was full
  in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  cut_off_ = false;
}

// False at the end of the stream.
Result<bool> JsonLines::read_line(std::string& text) {
  std::istream& in = file_ == nullptr ? std::cin : *file_;
  char piece[1 << 16];
  if (cut_off_) skip_rest();
  text.clear();
  ++line_;
  for (;;) {
    errno = 0;
    in.getline(piece, sizeof piece);
    if (in.bad()) return cannot_read(name_);
    const size_t n = static_cast<size_t>(in.gcount());
    const bool ended = !in.eof() && !in.fail();  // then the line break was counted too
    text.append(piece, n - (ended ? 1 : 0));
    if (text.size() > kMaxInputBytes) {
      cut_off_ = !ended;
      return Error{Code::kInvalid, fmt::format("{} line {} has more than {} bytes, wanted one JSON "
                                               "object",
                                               name_, line_, kMaxInputBytes)};
    }
    if (ended) return true;
    if (in.eof()) return !text.empty();
    in.clear();  // the piece was full
  }
}

Result<std::optional<JsonLine>> JsonLines::next() {
  std::string text;
  for (;;) {
    const Result<bool> found = read_line(text);
    if (!found) return found.error();
    if (!*found) return std::optional<JsonLine>();
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{} line {}", name_, line_);
    Result<Json> value = parse_json(text, where);
    if (!value) return value.error();
    if (!value->is_object()) {
      return Error{Code::kInvalid,
                   fmt::format("{}: found {}, wanted: a JSON object", where, shown(*value))};
    }
    return std::optional<JsonLine>(JsonLine{*std::move(value), where});
  }
}

Result<Ok> check_keys(const JsonLine& line, std::initializer_list<std::string_view> known) {
  for (const auto& member : line.value.items()) {
    if (std::find(known.begin(), known.end(), member.key()) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    }
    return Error{Code::kInvalid, fmt::format("{}: unknown key {}; known are {}", line.where,
                                             shown(Json(member.key())), names)};
  }
  return Ok{};
}

Error wrong_member(const JsonLine& line, const char* key, const std::string& wanted) {
  const auto found = line.value.find(key);
  if (found == line.value.end()) {
    return {Code::kInvalid, fmt::format("{}: \"{}\" is missing", line.where, key)};
  }
  return {Code::kInvalid,
          fmt::format("{}: \"{}\" is {}, wanted: {}", line.where, key, shown(*found), wanted)};
}

Result<int32_t> token_id(const Json& value, const std::string& where, size_t index, int n_ids) {
  const bool valid =
      value.is_number_integer() &&
      (value.is_number_unsigned() ? value.get<uint64_t>() < static_cast<uint64_t>(n_ids)
                                  : value.get<int64_t>() >= 0 && value.get<int64_t>() < n_ids);
  if (!valid) return bad_id(where, index, shown(value), n_ids);
  return value.get<int32_t>();
}

Result<std::string> string_member(const JsonLine& line, const char* key) {
  const auto found = line.value.find(key);
  if (found == line.value.end() || !found->is_string()) return wrong_member(line, key, "a string");
  return found->get<std::string>();
}

Result<bool> bool_member(const JsonLine& line, const char* key, bool fallback) {
  const auto found = line.value.find(key);
  if (found == line.value.end()) return fallback;
  if (!found->is_boolean()) return wrong_member(line, key, "true or false");
  return found->get<bool>();
}

Result<std::vector<int32_t>> tokens_member(const JsonLine& line, const char* key, int n_ids,
                                           bool may_be_empty) {
  const auto found = line.value.find(key);
  if (found == line.value.end() || !found->is_array() || (found->empty() && !may_be_empty)) {
    return wrong_member(line, key,
                        may_be_empty ? "a list of token ids" : "a list of at least one token id");
  }
  std::vector<int32_t> tokens;
  tokens.reserve(found->size());
  for (const Json& element : *found) {
    Result<int32_t> id = token_id(element, line.where, tokens.size(), n_ids);
    if (!id) return id.error();
    tokens.push_back(*id);
  }
  return tokens;
}

Result<std::vector<int32_t>> parse_token_list(std::string_view text, int n_ids) {
  std::vector<int32_t> tokens;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, end);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    int32_t id = -1;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || last != word.data() + word.size() || id < 0 || id >= n_ids) {
      return bad_id("--tokens", tokens.size(), shown(Json(std::string(word))), n_ids);
    }
    tokens.push_back(id);
    if (end == text.size()) return tokens;
    text.remove_prefix(end + 1);
  }
}

Result<std::string> read_input(const std::string& path) {
  if (path != "-") return read_file(path, kMaxInputBytes);
  std::string text;
  char piece[1 << 16];
  do {
    errno = 0;
    std::cin.read(piece, sizeof piece);
    if (std::cin.bad()) return cannot_read("standard input");
    text.append(piece, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMaxInputBytes) {
      return Error{Code::kInvalid, fmt::format("standard input has more than {} bytes, wanted a "
                                               "text",
                                               kMaxInputBytes)};
    }
  } while (std::cin);
  return text;
}

}  // namespace minim
