// Attributes, items and calls. The attribute rules are the sandbox's: a method of the type comes
// before an item of the same name for "x.name", after it for "x['name']"; names with a leading
// underscore and methods that would change a value are not there.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_runtime.h"

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

}  // namespace minim::jinja
