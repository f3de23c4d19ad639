// Values of the template language: what Python's str, int, list, dict, ... are to Jinja, plus one
// thing Python lacks: every byte of a string knows whether the template wrote it or whether it came
// in with the data (class Text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/utf8.h"

namespace minim::jinja {

// Integers: 128 bits, so that every product of two JSON integers fits. Python has no limit; here a
// result outside the range is an error, never a wrong number.
__extension__ typedef __int128 Int;

// A string and, run by run, who wrote it. Valid UTF-8. Bytes whose origin is mixed or unknown count
// as data.
class Text {
 public:
  struct Run {
    size_t end;  // one past the run's last byte
    bool from_template;
    bool operator==(const Run&) const = default;
  };

  Text() = default;
  Text(std::string bytes, bool from_template);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Ascending ends, neighbours differ, the last end is size().
  const std::vector<Run>& runs() const { return runs_; }

  bool from_template_at(size_t byte) const;
  void append(std::string_view bytes, bool from_template);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t end);
  Text slice(size_t begin, size_t end) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

class Value;
class Runtime;
struct List;
struct Dict;
struct Args;

// Things with identity: macros, namespaces, loops, functions. The runtime keeps all of them alive
// until the render ends (they may refer to each other in circles) and then calls drop() on each.
class Object {
 public:
  virtual ~Object() = default;
  // As Python's type(x).__name__.
  virtual std::string_view type_name() const = 0;
  virtual std::string repr() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, const Args& args);
  // Looks an attribute up; false where there is none.
  virtual bool attribute(Runtime& runtime, std::string_view name, Value* out);
  virtual bool assign(Runtime& runtime, std::string_view name, Value value);
  // Releases every value held, so that circles of references end.
  virtual void drop() {}
};

enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kDict, kObject };

class Value {
 public:
  Value() = default;  // undefined, without a name
  static Value none() { return Value(Data(std::in_place_index<1>)); }
  static Value boolean(bool b) { return Value(Data(std::in_place_index<2>, b)); }
  static Value integer(Int i) { return Value(Data(std::in_place_index<3>, i)); }
  static Value real(double d) { return Value(Data(std::in_place_index<4>, d)); }
  static Value string(Text text);
  // A string that counts as data.
  static Value string(std::string bytes) { return string(Text(std::move(bytes), false)); }
  static Value list(std::shared_ptr<const List> list) {
    return Value(Data(std::in_place_index<6>, std::move(list)));
  }
  static Value dict(std::shared_ptr<const Dict> dict) {
    return Value(Data(std::in_place_index<7>, std::move(dict)));
  }
  static Value object(std::shared_ptr<Object> object) {
    return Value(Data(std::in_place_index<8>, std::move(object)));
  }
  // `why` is the message of the error that any use but printing and testing raises.
  static Value undefined(std::string why);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_string() const { return is(Kind::kString); }
  // bool is a kind of int, as in Python.
  bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }
  bool is_number() const { return is_integral() || is(Kind::kFloat); }

  bool as_bool() const { return std::get<2>(data_); }
  Int as_int() const { return is(Kind::kBool) ? Int{as_bool()} : std::get<3>(data_); }
  double as_real() const;  // of any number
  const Text& text() const { return *std::get<5>(data_); }
  const List& list() const { return *std::get<6>(data_); }
  const Dict& dict() const { return *std::get<7>(data_); }
  const std::shared_ptr<Object>& object() const { return std::get<8>(data_); }
  const std::string& why_undefined() const;
  // Python's `is`.
  bool same(const Value& other) const;

 private:
  using Data = std::variant<std::shared_ptr<const std::string>, std::monostate, bool, Int, double,
                            std::shared_ptr<const Text>, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

enum class ListKind {
  kList,
  kTuple,
  kGroup,
  kGenerator,
  kRange,
  kDictKeys,
  kDictValues,
  kDictItems
};

// Sequences. Immutable once inside a Value, except that a generator can be read once.
struct List {
  ListKind kind = ListKind::kList;
  std::vector<Value> items;
  int depth = 1;                      // levels of containers, this one included
  Int start = 0, stop = 0, step = 1;  // kRange: as range() was called
  mutable bool used = false;          // kGenerator: has been iterated
};

// Insertion-ordered; keys compare as Python's do (1 == 1.0 == True). Immutable once inside a Value.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;

  // The place of a key in `items`, or npos. The key must be hashable (dict_key says so).
  static constexpr size_t npos = static_cast<size_t>(-1);
  size_t find(const Value& key) const;
  size_t find(std::string_view key) const;
  // Replaces the value of an equal key (which keeps its place), or appends.
  void set(Value key, Value value);

 private:
  std::unordered_map<std::string, size_t> index_;
};

// A text that is equal for equal keys, with a kind prefix; false for tuples whose parts exceed 4
// KiB and for values that Python cannot hash.
bool dict_key(const Value& key, std::string* out);

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  const Value* find(std::string_view name) const;
};

// As Python's type(x).__name__.
std::string_view type_name(const Value& value);
std::string_view type_name(ListKind kind);

// Levels of containers in a value: 0 for what is none.
int depth_of(const Value& value);

std::string int_to_string(Int value);
// |value| in a base up to 16, without a sign or prefix.
std::string digits_in_base(Int value, int base, bool upper);

}  // namespace minim::jinja
