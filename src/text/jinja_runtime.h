// What a running template may do with values: Python's operators, printing, comparison, iteration
// and attribute rules, under budgets. Templates and data are untrusted: every operation that can
// loop or grow asks the budget first.
//
// Errors are sticky: the first fail() is kept, later ones are ignored, and callers wind up as soon
// as they see failed(). A Value returned after a failure is undefined and must not be used for
// anything visible.
#pragma once

#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_parser.h"
#include "text/jinja_value.h"

namespace minim::jinja {

// Nodes evaluated, list items touched, 256 string bytes read.
inline constexpr uint64_t kMaxSteps = 10'000'000;
inline constexpr uint64_t kMaxStringBytes = uint64_t{256} << 20;  // one string; the whole output
// All strings made during one render together.
inline constexpr uint64_t kMaxStringWork = uint64_t{2} << 30;
inline constexpr int kMaxContainerDepth = 1000;  // lists in lists
inline constexpr int kMaxEvalDepth = 2500;       // nested evaluation, through macros too
inline constexpr Int kMaxRange = 100'000;        // range(), as jinja2's sandbox

class Runtime {
 public:
  // `now` is what strftime_now() shows; `name` is the template's, for messages.
  Runtime(std::string name, const std::tm& now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // --- errors and budgets ---
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  Value fail(std::string what, Code code = Code::kInvalid);
  // Fails with why `value` is undefined.
  Value fail_undefined(const Value& value) { return fail(value.why_undefined()); }
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }
  const std::tm& now() const { return now_; }
  bool spend(uint64_t steps = 1);
  // Pays for looking for `needle` in a text: in the worst case every place compares all of it.
  bool spend_search(std::string_view text, std::string_view needle);
  // Pays for hashing a key.
  bool spend_key(const Value& key) { return !key.is_string() || spend(key.text().size() / 256); }
  // May a string of so many bytes be made?
  bool room(uint64_t bytes);

  // --- making values ---
  Value string(Text text);
  Value string(std::string bytes) { return string(Text(std::move(bytes), false)); }
  Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  Value dict(Dict dict);
  // Keeps an object alive until the render ends.
  Value own(std::shared_ptr<Object> object);

  // --- printing ---
  Text str(const Value& value);
  Text repr(const Value& value);

  // --- asking ---
  bool truthy(const Value& value);
  bool equal(const Value& a, const Value& b);
  // a < b, where Python orders them; fails otherwise.
  bool less(const Value& a, const Value& b);
  bool contains(const Value& container, const Value& item);
  // The items of anything iterable (an undefined value has none). False on failure.
  bool iterate(const Value& value, std::vector<Value>* out);
  // len(), or nothing where Python has none.
  std::optional<size_t> length(const Value& value);

  // --- operators ---
  Value binary(Op op, const Value& a, const Value& b);
  bool compare(Op op, const Value& a, const Value& b);
  Value negate(const Value& value);
  // "format % arguments".
  Value percent_format(const Text& format, const Value& arguments);
  // format.format(...).
  Value brace_format(const Text& format, const Args& args);

  // object.name: a method or attribute, else an item of that name, else undefined.
  Value attribute(const Value& object, std::string_view name);
  // object[index]: an item, else (for strings) an attribute, else undefined.
  Value item(const Value& object, const Value& index);
  // object[start:stop:step]; none for what is left out.
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& callee, const Args& args);

  // Recursion guard for the evaluator.
  bool enter() {
    if (++depth_ <= kMaxEvalDepth) return true;
    fail("nested too deeply (recursive macro?)", Code::kExhausted);
    return false;
  }
  void leave() { --depth_; }

 private:
  bool equal_lists(const List& a, const List& b);
  bool equal_dicts(const Dict& a, const Dict& b);
  bool item_of(const Value& object, const Value& index, Value* out);
  bool attribute_of(const Value& object, std::string_view name, Value* out);
  void write_repr(const Value& value, Text* out);
  void write_repr(const Text& text, Text* out);
  void write_repr(const Dict& dict, Text* out);
  void write_repr(const List& list, Text* out);
  void write_items(const std::vector<Value>& items, Text* out);
  Value arithmetic(Op op, const Value& a, const Value& b);
  Value int_arithmetic(Op op, Int a, Int b);
  Value real_arithmetic(Op op, double a, double b);
  Value repeat(const Value& sequence, Int times);

  std::string name_;
  std::tm now_;
  std::optional<Error> error_;
  int line_ = 0;
  int depth_ = 0;
  uint64_t steps_ = 0;
  uint64_t string_bytes_ = 0;
  std::vector<std::shared_ptr<Object>> objects_;
};

// Binds the arguments of a call to parameter names as Python does; a wrong call fails the runtime.
class Params {
 public:
  Params(Runtime& runtime, std::string_view callee, const Args& args,
         std::initializer_list<std::string_view> names, size_t required = 0);
  bool ok() const { return ok_; }
  bool has(size_t i) const { return given_[i] != nullptr; }
  // The argument, or undefined.
  const Value& value(size_t i) const;
  // The argument, or the default where it is absent (`none_is_default`: or None). Fails for another
  // type.
  Int integer(size_t i, Int otherwise, bool none_is_default = false);
  bool flag(size_t i, bool otherwise);
  Text text(size_t i, std::string_view otherwise);

 private:
  Runtime& rt_;
  std::string callee_;
  std::vector<const Value*> given_;
  bool ok_ = true;
};

// --- what jinja_filters*.cpp, jinja_predicates.cpp and jinja_methods*.cpp provide ---
using Filter = Value (*)(Runtime&, const Value& input, const Args&);
using Predicate = bool (*)(Runtime&, const Value& subject, const Args&);

// Null where there is no such filter; `refused` then says whether jinja2 has one that is left out
// here.
Filter find_filter(std::string_view name, bool* refused);
Predicate find_predicate(std::string_view name);
// A method that a value of this type has (bound to nothing yet).
bool has_method(const Value& self, std::string_view name);
Value call_method(Runtime& runtime, const Value& self, std::string_view name, const Args& args);
// range, dict, namespace, cycler, joiner, raise_exception, strftime_now, ...; undefined if there is
// none.
Value find_global(Runtime& runtime, std::string_view name);

Text text_upper(const Text& text);
Text text_lower(const Text& text);
// str.split() / str.strip() whitespace or a set of characters (null: whitespace); `sides`: 1 left,
// 2 right, 3 both.
Text text_strip(const Text& text, const Text* chars, int sides);
Text text_replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, Int count);
// Every piece is a step, here and in text_words(), so that a long text does not become a list of as
// many strings before anybody counts; nothing once the steps are used up.
std::vector<Text> text_split_lines(Runtime& runtime, const Text& text, bool keep_ends);
// str.split() at runs of whitespace.
std::vector<Text> text_words(Runtime& runtime, const Text& text);
Text text_center(const Text& text, Int width, std::string_view fill);
Text text_capitalize(const Text& text);
// int(text, base) and float(text), or nothing where Python raises ValueError.
std::optional<Int> parse_python_int(std::string_view text, int base);
std::optional<double> parse_python_float(std::string_view text);
// The characters of a string, each a string.
std::vector<Text> text_chars(const Text& text);
// sorted(): stable; `less` may fail the runtime.
void sort_values(Runtime& runtime, std::vector<std::pair<Value, Value>>* keyed, bool reverse);

}  // namespace minim::jinja
