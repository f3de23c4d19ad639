// Typed, range-checked reading of the fields of a JSON object from a file that nobody vouches for.
// The first failure is kept and every later call returns a harmless value, so a reader is
// straight-line code with one test at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace minim {

// Where the first failure of a document and its sub-objects is kept.
using FirstError = std::optional<Error>;

class JsonFields {
 public:
  // `object` and `error` must outlive this; `where` stands before field names in messages
  // ("config.json: text_config."). Something other than an object fails at once.
  JsonFields(const SortedJson& object, std::string where, FirstError& error);

  bool has(const char* key) const;                // present and not null
  const SortedJson* find(const char* key) const;  // nullptr when absent

  // Required, and with a fallback for an absent key. Null, another type, a fraction or a value
  // outside [low, high] fails. On failure: `low`, or the fallback.
  int integer(const char* key, int low, int high);
  int integer_or(const char* key, int low, int high, int fallback);
  double number_or(const char* key, double low, double high, double fallback);
  bool flag_or(const char* key, bool fallback);
  std::string text_or(const char* key, const std::string& fallback);
  // An object of its own; an empty one when the key is absent or null.
  JsonFields object_or_empty(const char* key);

  // Fails as unsupported unless the key is absent, null or exactly `allowed`.
  void only(const char* key, const SortedJson& allowed);

  // Keeps the first failure: "WHEREkey is FOUND, wanted WANTED".
  void wanted(const char* key, std::string_view wanted, Code code = Code::kInvalid);
  // The same with free text: "WHEREtext".
  void fail(std::string_view text, Code code = Code::kInvalid);
  const std::string& where() const { return where_; }

 private:
  const SortedJson& object_;
  std::string where_;
  FirstError& error_;
};

// A value as it may stand in a one-line message: JSON text, shortened; containers by kind and size.
std::string describe_json(const SortedJson& value);
// Untrusted text (a tensor or file name) for a one-line message: quoted, escaped, shortened.
std::string in_quotes(std::string_view text);
// The value as an integer in [low, high], if it is one.
std::optional<int> json_integer(const SortedJson& value, int low, int high);

}  // namespace minim
