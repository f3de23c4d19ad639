// JSON Lines in, one object a line; and whole texts.
#pragma once

#include <initializer_list>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace minim {

// Most bytes of one line, or of one text as a whole: ten times what the longest context takes when
// it is written as token ids.
inline constexpr size_t kMaxInputBytes = size_t{64} << 20;

struct JsonLine {
  Json value;         // an object
  std::string where;  // "tokens.jsonl line 3", for messages
};

class JsonLines {
 public:
  // A file, or standard input for "-".
  static Result<JsonLines> open(const std::string& path);
  // What a stream holds; `name` is for messages.
  static JsonLines of(std::unique_ptr<std::istream> stream, std::string name);
  // The next line that is not blank; nullopt at the end. An error names the line; the next call
  // goes on behind it, unless it is kIo. Lines end with LF or CRLF, the last one perhaps with
  // nothing.
  Result<std::optional<JsonLine>> next();

 private:
  Result<bool> read_line(std::string& text);
  void skip_rest();

  std::unique_ptr<std::istream> file_;  // null: standard input
  std::string name_;
  size_t line_ = 0;
  bool cut_off_ = false;  // the last line was given up before its end
};

// Refuses an object with another key than these, by name.
Result<Ok> check_keys(const JsonLine& line, std::initializer_list<std::string_view> known);
// The error for a member that is absent or not what was wanted.
Error wrong_member(const JsonLine& line, const char* key, const std::string& wanted);
// One id in [0, n_ids); `where` and `index` are for the message.
Result<int32_t> token_id(const Json& value, const std::string& where, size_t index, int n_ids);
// The members, checked; a message says what was found. Absent: the fallback, or an error if
// `required`.
Result<std::string> string_member(const JsonLine& line, const char* key);
Result<bool> bool_member(const JsonLine& line, const char* key, bool fallback);
// An array of ids in [0, n_ids), not empty unless `may_be_empty`.
Result<std::vector<int32_t>> tokens_member(const JsonLine& line, const char* key, int n_ids,
                                           bool may_be_empty);
// The value of --tokens: "1,2, 3".
Result<std::vector<int32_t>> parse_token_list(std::string_view text, int n_ids);

// The whole of a file, or of standard input for "-"; at most kMaxInputBytes.
Result<std::string> read_input(const std::string& path);

}  // namespace minim
