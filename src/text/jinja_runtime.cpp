// Printing, comparison, iteration and attribute access with Python's meaning. The attribute rules
// are the sandbox's: a method of the type comes before an item of the same name for "x.name", after
// it for "x['name']"; names with a leading underscore and methods that would change a value are not
// there.
#include "text/jinja_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/python_repr.h"

namespace minim::jinja {
namespace {

// A method together with its object, for the rare template that does not call it at once.
class BoundMethod : public Object {
 public:
  BoundMethod(Value self, std::string_view name) : self_(std::move(self)), name_(name) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  std::string repr() const override { return fmt::format("<built-in method {}>", name_); }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override {
    return call_method(runtime, self_, name_, args);
  }
  void drop() override { self_ = Value(); }

 private:
  Value self_;
  std::string name_;
};

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string missing_message(Runtime& runtime, const Value& object, std::string_view what,
                            const Value& name) {
  std::string type(type_name(object));
  if (object.is(Kind::kNone))
    type = "None";
  else
    type += " object";
  const Text shown = runtime.repr(name);
  return fmt::format("'{}' has no {} {}", type, what, shown.bytes());
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
  for (const Value& item : items) {
    if (item.is(Kind::kList)) made->depth = std::max(made->depth, item.list().depth + 1);
    if (item.is(Kind::kDict)) made->depth = std::max(made->depth, item.dict().depth + 1);
  }
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
    case Kind::kString: {
      const Text& text = value.text();
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
      return out->append(std::string_view(&quote, 1), false);
    }
    case Kind::kDict: {
      out->append("{", false);
      bool first = true;
      for (const auto& [key, item] : value.dict().items) {
        if (failed()) return;
        if (!first) out->append(", ", false);
        first = false;
        write_repr(key, out);
        out->append(": ", false);
        write_repr(item, out);
      }
      return out->append("}", false);
    }
    case Kind::kList:
      break;
  }
  const List& list = value.list();
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
      out->append(std::string(type_name(value)) + "([", false);
      write_items(list.items, out);
      return out->append("])", false);
  }
}

// --- asking ---

bool Runtime::truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
      return value.list().kind == ListKind::kGenerator || !value.list().items.empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    case Kind::kObject:
      return true;
  }
  return false;
}

bool Runtime::equal(const Value& a, const Value& b) {
  if (!spend()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_real() == b.as_real();
    const double real = a.is(Kind::kFloat) ? a.as_real() : b.as_real();
    const Int whole = a.is(Kind::kFloat) ? b.as_int() : a.as_int();
    return std::fabs(real) < 1e38 && real == std::trunc(real) && static_cast<Int>(real) == whole;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return spend(std::min(a.text().size(), b.text().size()) / 256) &&
             a.text().view() == b.text().view();
    case Kind::kObject:
      return a.object() == b.object();
    case Kind::kList: {
      const List& x = a.list();
      const List& y = b.list();
      if (&x == &y) return true;
      const auto family = [](ListKind k) { return k == ListKind::kGroup ? ListKind::kTuple : k; };
      if (family(x.kind) != family(y.kind) || x.kind == ListKind::kGenerator ||
          x.kind == ListKind::kDictValues || x.items.size() != y.items.size()) {
        return false;
      }
      const bool set = x.kind == ListKind::kDictKeys || x.kind == ListKind::kDictItems;
      for (size_t i = 0; i < x.items.size(); ++i) {
        const bool found =
            set ? std::any_of(y.items.begin(), y.items.end(),
                              [&](const Value& other) { return equal(x.items[i], other); })
                : equal(x.items[i], y.items[i]);
        if (!found) return false;
      }
      return true;
    }
    case Kind::kDict: {
      const Dict& x = a.dict();
      const Dict& y = b.dict();
      if (&x == &y) return true;
      if (x.items.size() != y.items.size()) return false;
      for (const auto& [key, value] : x.items) {
        const size_t at = y.find(key);
        if (at == Dict::npos || !equal(value, y.items[at].second)) return false;
      }
      return true;
    }
    default:
      return false;
  }
}

bool Runtime::less(const Value& a, const Value& b) {
  if (!spend()) return false;
  if (a.is(Kind::kUndefined)) return fail_undefined(a), false;
  if (b.is(Kind::kUndefined)) return fail_undefined(b), false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
    if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_real() < b.as_real();
    // 64-bit mantissas hold both a double and a 64-bit integer exactly.
    const auto wide = [](const Value& v) {
      return v.is(Kind::kFloat) ? static_cast<long double>(v.as_real())
                                : static_cast<long double>(v.as_int());
    };
    return wide(a) < wide(b);
  }
  if (a.is_string() && b.is_string()) {
    return spend(std::min(a.text().size(), b.text().size()) / 256) &&
           a.text().view() < b.text().view();
  }
  if (a.is(Kind::kList) && b.is(Kind::kList)) {
    const auto family = [](ListKind k) { return k == ListKind::kGroup ? ListKind::kTuple : k; };
    const ListKind kind = family(a.list().kind);
    if (kind == family(b.list().kind) && (kind == ListKind::kList || kind == ListKind::kTuple)) {
      const auto& x = a.list().items;
      const auto& y = b.list().items;
      for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
        if (!equal(x[i], y[i])) return !failed() && less(x[i], y[i]);
      }
      return x.size() < y.size();
    }
  }
  fail(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a),
                   type_name(b)));
  return false;
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (!spend()) return false;
  if (container.is_string()) {
    if (item.is(Kind::kUndefined) || !item.is_string()) {
      fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
      return false;
    }
    if (!spend_search(container.text().view(), item.text().view())) return false;
    return container.text().view().find(item.text().view()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) {
    if (!spend_key(item)) return false;
    std::string key;
    if (!dict_key(item, &key)) {
      fail(fmt::format("unhashable type: '{}'", type_name(item)));
      return false;
    }
    return container.dict().find(item) != Dict::npos;
  }
  std::vector<Value> items;
  if (container.is(Kind::kList) && container.list().kind != ListKind::kGenerator) {
    for (const Value& other : container.list().items) {
      if (equal(other, item)) return true;
      if (failed()) return false;
    }
    return false;
  }
  if (!container.is(Kind::kUndefined) && !container.is(Kind::kList)) {
    fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
    return false;
  }
  if (!iterate(container, &items)) return false;
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(other, item); });
}

bool Runtime::iterate(const Value& value, std::vector<Value>* out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (!spend(value.text().size()) || !room(value.text().size())) return false;
      for (Text& c : text_chars(value.text())) out->push_back(Value::string(std::move(c)));
      return true;
    case Kind::kList: {
      const List& list = value.list();
      if (list.kind == ListKind::kGenerator && std::exchange(list.used, true)) return true;
      if (!spend(list.items.size())) return false;
      out->insert(out->end(), list.items.begin(), list.items.end());
      return true;
    }
    case Kind::kDict:
      if (!spend(value.dict().items.size())) return false;
      for (const auto& entry : value.dict().items) out->push_back(entry.first);
      return true;
    default:
      break;
  }
  fail(fmt::format("'{}' object is not iterable", type_name(value)));
  return false;
}

std::optional<size_t> Runtime::length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return spend(value.text().size() / 256) ? count_code_points(value.text().view()) : 0;
    case Kind::kDict:
      return value.dict().items.size();
    case Kind::kList:
      if (value.list().kind == ListKind::kGenerator) return std::nullopt;
      return value.list().items.size();
    default:
      return std::nullopt;
  }
}

// --- attributes and items ---

bool Runtime::attribute_of(const Value& object, std::string_view name, Value* out) {
  if (name.empty() || name[0] == '_') return false;
  if (object.is(Kind::kObject)) return object.object()->attribute(*this, name, out);
  if (object.is(Kind::kList) && object.list().kind == ListKind::kGroup &&
      (name == "grouper" || name == "list")) {
    *out = object.list().items[name == "list" ? 1 : 0];
    return true;
  }
  if (object.is_number() && (name == "real" || name == "imag")) {
    *out = name == "imag"           ? binary(Op::kMul, object, Value::integer(0))
           : object.is(Kind::kBool) ? Value::integer(object.as_int())
                                    : object;
    return true;
  }
  if (!has_method(object, name)) return false;
  *out = own(std::make_shared<BoundMethod>(object, name));
  return true;
}

bool Runtime::item_of(const Value& object, const Value& index, Value* out) {
  if (object.is(Kind::kDict)) {
    if (!spend_key(index)) return false;
    const size_t at = object.dict().find(index);
    if (at == Dict::npos) return false;
    *out = object.dict().items[at].second;
    return true;
  }
  if (!index.is_integral()) return false;
  Int i = index.as_int();
  if (object.is_string()) {
    const std::string_view text = object.text().view();
    if (!spend(text.size() / 256)) return false;
    const Int n = static_cast<Int>(count_code_points(text));
    if (i < 0) i += n;
    if (i < 0 || i >= n) return false;
    const size_t begin = byte_offset(text, static_cast<size_t>(i));
    size_t end = begin;
    next_code_point(text, &end);
    *out = string(object.text().slice(begin, end));
    return true;
  }
  if (!object.is(Kind::kList)) return false;
  const List& list = object.list();
  if (list.kind == ListKind::kGenerator || list.kind >= ListKind::kDictKeys) return false;
  const Int n = static_cast<Int>(list.items.size());
  if (i < 0) i += n;
  if (i < 0 || i >= n) return false;
  *out = list.items[static_cast<size_t>(i)];
  return true;
}

Value Runtime::attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) return fail_undefined(object);
  Value out;
  if (attribute_of(object, name, &out)) return out;
  // The sandbox hides a mapping's changing methods, and they in turn hide entries of the same name.
  static constexpr std::string_view kHidden[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (object.is(Kind::kDict) &&
      std::find(std::begin(kHidden), std::end(kHidden), name) == std::end(kHidden)) {
    const size_t at = object.dict().find(name);
    if (at != Dict::npos) return object.dict().items[at].second;
  }
  if (failed()) return Value();
  return Value::undefined(
      missing_message(*this, object, "attribute", Value::string(std::string(name))));
}

Value Runtime::item(const Value& object, const Value& index) {
  if (object.is(Kind::kUndefined)) return fail_undefined(object);
  Value out;
  if (item_of(object, index, &out)) return out;
  if (failed()) return Value();
  if (index.is_string()) {
    if (attribute_of(object, index.text().view(), &out)) return out;
    return Value::undefined(missing_message(*this, object, "attribute", index));
  }
  return Value::undefined(missing_message(*this, object, "element", index));
}

Value Runtime::call(const Value& callee, const Args& args) {
  if (callee.is(Kind::kUndefined)) return fail_undefined(callee);
  if (!callee.is(Kind::kObject) || !callee.object()->callable()) {
    return fail(fmt::format("'{}' object is not callable", type_name(callee)));
  }
  return callee.object()->call(*this, args);
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
