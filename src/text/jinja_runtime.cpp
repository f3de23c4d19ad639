// Budgets, the making of values, printing, and the binding of arguments. The rest of the class is
// in jinja_compare.cpp, jinja_access.cpp, jinja_ops.cpp, jinja_percent.cpp and jinja_brace.cpp.
#include "text/jinja_runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/python_repr.h"

namespace minim::jinja {
namespace {

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

Runtime::Runtime(std::string name, const std::tm& now) : name_(std::move(name)), now_(now) {}

Runtime::~Runtime() {
  for (const auto& object : objects_) object->drop();
}

Value Runtime::fail(std::string what, Code code) {
  constexpr size_t kLongest = 500;
  if (error_) return Value();
  if (what.size() > kLongest) what = what.substr(0, byte_offset(what, kLongest / 4)) + "...";
  error_ = Error{code, one_line(fmt::format("{}:{}: {}", name_, line_, what))};
  return Value();
}

bool Runtime::spend(uint64_t steps) {
  if (failed()) return false;
  steps_ += std::min(steps, kMaxSteps + 1);
  if (steps_ <= kMaxSteps) return true;
  fail(fmt::format("the template takes more than {} steps", kMaxSteps), Code::kExhausted);
  return false;
}

bool Runtime::spend_search(std::string_view text, std::string_view needle) {
  if (needle.size() > text.size()) return spend();
  constexpr double kBytesAStep = 4096;
  const double compared =
      static_cast<double>(text.size() - needle.size() + 1) * static_cast<double>(needle.size());
  return spend(1 + static_cast<uint64_t>(compared / kBytesAStep));
}

bool Runtime::room(uint64_t bytes) {
  if (failed()) return false;
  if (bytes > kMaxStringBytes) {
    fail(fmt::format("a string of more than {} bytes", kMaxStringBytes), Code::kExhausted);
    return false;
  }
  string_bytes_ += bytes;
  if (string_bytes_ <= kMaxStringWork) return true;
  fail(fmt::format("the template makes more than {} bytes of strings", kMaxStringWork),
       Code::kExhausted);
  return false;
}

Value Runtime::string(Text text) {
  if (!room(text.size())) return Value();
  return Value::string(std::move(text));
}

Value Runtime::list(std::vector<Value> items, ListKind kind) {
  auto made = std::make_shared<List>();
  made->kind = kind;
  for (const Value& item : items) made->depth = std::max(made->depth, depth_of(item) + 1);
  if (made->depth > kMaxContainerDepth) return fail("lists nest too deeply", Code::kExhausted);
  if (!spend(items.size())) return Value();
  made->items = std::move(items);
  return Value::list(std::move(made));
}

Value Runtime::dict(Dict dict) {
  if (dict.depth > kMaxContainerDepth) return fail("mappings nest too deeply", Code::kExhausted);
  if (!spend(dict.items.size())) return Value();
  return Value::dict(std::make_shared<const Dict>(std::move(dict)));
}

Value Runtime::own(std::shared_ptr<Object> object) {
  spend(10);  // it lives until the end, so it costs more than a value that goes away
  objects_.push_back(object);
  return Value::object(std::move(object));
}

// --- printing ---

Text Runtime::str(const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is(Kind::kUndefined)) return Text();
  return repr(value);
}

Text Runtime::repr(const Value& value) {
  Text out;
  write_repr(value, &out);
  if (!room(out.size())) return Text();
  return out;
}

void Runtime::write_items(const std::vector<Value>& items, Text* out) {
  bool first = true;
  for (const Value& item : items) {
    if (failed()) return;
    if (!first) out->append(", ", false);
    first = false;
    write_repr(item, out);
  }
}

void Runtime::write_repr(const Value& value, Text* out) {
  if (!spend()) return;
  if (out->size() > kMaxStringBytes) {
    room(out->size());
    return;
  }
  switch (value.kind()) {
    case Kind::kUndefined:
      return out->append("Undefined", false);
    case Kind::kNone:
      return out->append("None", false);
    case Kind::kBool:
      return out->append(value.as_bool() ? "True" : "False", false);
    case Kind::kInt:
      return out->append(int_to_string(value.as_int()), false);
    case Kind::kFloat:
      return out->append(python_float_repr(value.as_real()), false);
    case Kind::kObject:
      return out->append(value.object()->repr(), false);
    case Kind::kString:
      return write_repr(value.text(), out);
    case Kind::kDict:
      return write_repr(value.dict(), out);
    case Kind::kList:
      return write_repr(value.list(), out);
  }
}

void Runtime::write_repr(const Text& text, Text* out) {
  if (!spend(text.size() / 64)) return;
  const char quote = repr_quote(text.view());
  out->append(std::string_view(&quote, 1), false);
  std::string piece;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text.view(), &pos);
    piece.clear();
    append_repr_escaped(c, text.view().substr(begin, pos - begin), quote, &piece);
    out->append(piece, text.from_template_at(begin));
  }
  out->append(std::string_view(&quote, 1), false);
}

void Runtime::write_repr(const Dict& dict, Text* out) {
  out->append("{", false);
  bool first = true;
  for (const auto& [key, item] : dict.items) {
    if (failed()) return;
    if (!first) out->append(", ", false);
    first = false;
    write_repr(key, out);
    out->append(": ", false);
    write_repr(item, out);
  }
  out->append("}", false);
}

void Runtime::write_repr(const List& list, Text* out) {
  switch (list.kind) {
    case ListKind::kList:
      out->append("[", false);
      write_items(list.items, out);
      return out->append("]", false);
    case ListKind::kTuple:
    case ListKind::kGroup:
      out->append("(", false);
      write_items(list.items, out);
      return out->append(list.items.size() == 1 ? ",)" : ")", false);
    case ListKind::kGenerator:
      return out->append("<generator object>", false);
    case ListKind::kRange:
      out->append(fmt::format("range({}, {}", int_to_string(list.start), int_to_string(list.stop)),
                  false);
      if (list.step != 1) out->append(fmt::format(", {}", int_to_string(list.step)), false);
      return out->append(")", false);
    default:
      out->append(fmt::format("{}([", type_name(list.kind)), false);
      write_items(list.items, out);
      return out->append("])", false);
  }
}

// --- arguments ---

Params::Params(Runtime& runtime, std::string_view callee, const Args& args,
               std::initializer_list<std::string_view> names, size_t required)
    : rt_(runtime), callee_(callee), given_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    rt_.fail(fmt::format("{}() takes at most {} arguments, got {}", callee, names.size(),
                         args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size() && i < names.size(); ++i)
    given_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      rt_.fail(fmt::format("{}() got an unexpected keyword argument '{}'", callee, name));
      break;
    }
    const Value*& slot = given_[static_cast<size_t>(at - names.begin())];
    if (slot) rt_.fail(fmt::format("{}() got multiple values for argument '{}'", callee, name));
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given_[i])
      rt_.fail(fmt::format("{}() misses the argument '{}'", callee, *(names.begin() + i)));
  }
  ok_ = !rt_.failed();
}

const Value& Params::value(size_t i) const {
  static const Value kAbsent;
  return given_[i] ? *given_[i] : kAbsent;
}

Int Params::integer(size_t i, Int otherwise, bool none_is_default) {
  if (!has(i) || (none_is_default && value(i).is(Kind::kNone))) return otherwise;
  if (value(i).is_integral()) return value(i).as_int();
  ok_ = false;
  rt_.fail(fmt::format("{}() wants an integer, got '{}'", callee_, type_name(value(i))));
  return otherwise;
}

bool Params::flag(size_t i, bool otherwise) { return has(i) ? rt_.truthy(value(i)) : otherwise; }

Text Params::text(size_t i, std::string_view otherwise) {
  if (!has(i)) return Text(std::string(otherwise), false);
  if (value(i).is_string()) return value(i).text();
  ok_ = false;
  rt_.fail(fmt::format("{}() wants a string, got '{}'", callee_, type_name(value(i))));
  return Text();
}

}  // namespace minim::jinja
