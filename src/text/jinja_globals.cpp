// The functions that every template sees: range, dict, namespace, cycler, joiner, and what chat
// templates are given on top, raise_exception and strftime_now.
#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <array>

#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

class Namespace : public Object {
 public:
  explicit Namespace(Dict values) : values_(std::move(values)) {}
  std::string_view type_name() const override { return "Namespace"; }
  std::string repr() const override { return "<Namespace>"; }
  bool attribute(Runtime&, std::string_view name, Value* out) override {
    const size_t at = values_.find(name);
    if (at == Dict::npos) return false;
    *out = values_.items[at].second;
    return true;
  }
  bool assign(Runtime&, std::string_view name, Value value) override {
    values_.set(Value::string(std::string(name)), std::move(value));
    return true;
  }
  void drop() override { values_ = Dict(); }

 private:
  Dict values_;
};

class Function : public Object {
 public:
  using Body = Value (*)(Runtime&, const Args&);
  Function(std::string_view name, Body body) : name_(name), body_(body) {}
  std::string_view type_name() const override { return "function"; }
  std::string repr() const override { return fmt::format("<function {}>", name_); }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override { return body_(runtime, args); }

 private:
  std::string name_;
  Body body_;
};

// cycler(a, b, ...): next(), current, reset().
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::string repr() const override { return "<Cycler>"; }
  bool attribute(Runtime& runtime, std::string_view name, Value* out) override;
  Value next() {
    Value value = items_.empty() ? Value() : items_[at_];
    if (!items_.empty()) at_ = (at_ + 1) % items_.size();
    return value;
  }
  void reset() { at_ = 0; }
  void drop() override { items_.clear(); }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

class CyclerMethod : public Object {
 public:
  CyclerMethod(Cycler* cycler, bool next) : cycler_(cycler), next_(next) {}
  std::string_view type_name() const override { return "method"; }
  std::string repr() const override { return "<bound method of Cycler>"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override {
    if (!Params(runtime, next_ ? "next" : "reset", args, {}).ok()) return Value();
    if (next_) return cycler_->next();
    cycler_->reset();
    return Value::none();
  }

 private:
  Cycler* cycler_;  // the runtime keeps it alive
  bool next_;
};

bool Cycler::attribute(Runtime& runtime, std::string_view name, Value* out) {
  if (name == "current") {
    *out = items_.empty() ? Value() : items_[at_];
    return true;
  }
  if (name != "next" && name != "reset") return false;
  *out = runtime.own(std::make_shared<CyclerMethod>(this, name == "next"));
  return true;
}

// joiner(sep): gives "" the first time, then the separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  std::string repr() const override { return "<Joiner>"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override {
    if (!Params(runtime, "joiner", args, {}).ok()) return Value();
    return std::exchange(used_, true) ? separator_ : Value::string(Text());
  }
  void drop() override { separator_ = Value(); }

 private:
  Value separator_;
  bool used_ = false;
};

Value range(Runtime& rt, const Args& args) {
  Params p(rt, "range", args, {"start", "stop", "step"}, 1);
  if (!p.ok()) return Value();
  for (size_t i = 0; i < 3; ++i) {
    if (p.has(i) && p.value(i).is(Kind::kUndefined)) return rt.fail_undefined(p.value(i));
  }
  const bool single = !p.has(1);
  const Int start = single ? 0 : p.integer(0, 0);
  const Int stop = p.integer(single ? 0 : 1, 0);
  const Int step = p.integer(2, 1);
  if (!p.ok()) return Value();
  if (step == 0) return rt.fail("range() arg 3 must not be zero");
  constexpr Int kFar = Int{1} << 100;
  if (std::max({start, stop, step}) > kFar || std::min({start, stop, step}) < -kFar)
    return rt.fail("range() arguments are too large");
  const Int span = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int n = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (n > kMaxRange)
    return rt.fail(fmt::format("range too big: at most {} items", static_cast<int>(kMaxRange)),
                   Code::kExhausted);
  if (!rt.spend(static_cast<uint64_t>(n))) return Value();
  auto list = std::make_shared<List>();
  list->kind = ListKind::kRange;
  for (Int i = 0; i < n; ++i) list->items.push_back(Value::integer(start + i * step));
  list->start = start;
  list->stop = stop;
  list->step = step;
  return Value::list(std::move(list));
}

// dict(mapping or pairs, name=value, ...).
bool build_dict(Runtime& rt, const Args& args, Dict* out) {
  if (args.positional.size() > 1) return rt.fail("dict expected at most 1 argument"), false;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::kDict)) {
      if (!rt.spend(source.dict().items.size())) return false;
      *out = source.dict();
    } else {
      std::vector<Value> pairs;
      if (!rt.iterate(source, &pairs)) return false;
      for (const Value& item : pairs) {
        std::vector<Value> pair;
        if (!rt.iterate(item, &pair)) return false;
        if (pair.size() != 2) return rt.fail("dict wants pairs of key and value"), false;
        std::string key;
        if (!dict_key(pair[0], &key))
          return rt.fail(fmt::format("unhashable type: '{}'", type_name(pair[0]))), false;
        out->set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) out->set(Value::string(name), value);
  return true;
}

Value dict(Runtime& rt, const Args& args) {
  Dict out;
  return build_dict(rt, args, &out) ? rt.dict(std::move(out)) : Value();
}

Value namespace_(Runtime& rt, const Args& args) {
  Dict out;
  return build_dict(rt, args, &out) ? rt.own(std::make_shared<Namespace>(std::move(out))) : Value();
}

Value cycler(Runtime& rt, const Args& args) {
  if (args.positional.empty() || !args.named.empty())
    return rt.fail("at least one item has to be provided");
  return rt.own(std::make_shared<Cycler>(args.positional));
}

Value joiner(Runtime& rt, const Args& args) {
  Params p(rt, "joiner", args, {"sep"});
  if (!p.ok()) return Value();
  return rt.own(std::make_shared<Joiner>(p.has(0) ? p.value(0) : Value::string(Text(", ", true))));
}

Value raise_exception(Runtime& rt, const Args& args) {
  Params p(rt, "raise_exception", args, {"message"}, 1);
  return p.ok() ? rt.fail(rt.str(p.value(0)).bytes()) : Value();
}

Value strftime_now(Runtime& rt, const Args& args) {
  Params p(rt, "strftime_now", args, {"format"}, 1);
  const Text format = p.text(0, "");
  if (!p.ok()) return Value();
  // Each directive on its own: strftime's 0 for "does not fit" is also its answer for an empty
  // text.
  std::string out;
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", locale_t{});
  const std::string_view text = format.view();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    std::string directive = "%";
    directive += text[++i];
    if ((text[i] == '-' || text[i] == '_' || text[i] == '0' || text[i] == '^' || text[i] == '#') &&
        i + 1 < text.size())
      directive += text[++i];
    if (directive == "%f")
      out += "000000";  // the clock has whole seconds
    else if (directive != "%z" &&
             directive != "%Z") {  // a local time without zone prints nothing for these
      std::array<char, 256> buffer;
      const size_t n =
          strftime_l(buffer.data(), buffer.size(), directive.c_str(), &rt.now(), c_locale);
      out.append(buffer.data(), n);
    }
    if (out.size() > kMaxStringBytes) break;
  }
  if (c_locale) freelocale(c_locale);
  if (!valid_utf8(out)) return rt.fail("strftime_now: a bad format");
  return rt.string(std::move(out));
}

Value lipsum(Runtime& rt, const Args&) { return rt.fail("the function 'lipsum' is not supported"); }

constexpr std::pair<std::string_view, Function::Body> kFunctions[] = {
    {"range", range},          {"dict", dict},
    {"namespace", namespace_}, {"cycler", cycler},
    {"joiner", joiner},        {"raise_exception", raise_exception},
    {"lipsum", lipsum},        {"strftime_now", strftime_now},
};

}  // namespace

Value find_global(Runtime& runtime, std::string_view name) {
  for (const auto& [known, body] : kFunctions) {
    if (known == name) return runtime.own(std::make_shared<Function>(known, body));
  }
  return Value();
}

}  // namespace minim::jinja
