// Macros and call blocks. A call binds its arguments in a scope of its own inside the one in which
// the macro was defined; a call block is a macro without a name that its callee knows as "caller".
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/jinja_evaluator.h"

namespace minim::jinja {
namespace {

const std::string kVarargsName = "varargs";
const std::string kKwargsName = "kwargs";

class Macro : public Object {
 public:
  Macro(Evaluator* evaluator, const Stmt* definition, Scope* closure)
      : evaluator_(evaluator), definition_(definition), closure_(closure) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override { return fmt::format("<Macro '{}'>", definition_->name); }
  bool callable() const override { return true; }
  Value call(Runtime&, const Args& args) override {
    return evaluator_->call_macro(*definition_, closure_, args);
  }
  bool attribute(Runtime& runtime, std::string_view name, Value* out) override {
    if (name == "name")
      *out = Value::string(Text(definition_->name, true));
    else if (name == "caller")
      *out = Value::boolean(definition_->signature.uses_caller);
    else if (name == "catch_kwargs")
      *out = Value::boolean(definition_->signature.uses_kwargs);
    else if (name == "catch_varargs")
      *out = Value::boolean(definition_->signature.uses_varargs);
    else if (name == "arguments") {
      std::vector<Value> names;
      for (const std::string& n : definition_->signature.names)
        names.push_back(Value::string(Text(n, true)));
      *out = runtime.list(std::move(names), ListKind::kTuple);
    } else
      return false;
    return true;
  }

 private:
  Evaluator* evaluator_;
  const Stmt* definition_;
  Scope* closure_;
};

}  // namespace

Value Evaluator::make_macro(const Stmt& definition) {
  mark_captured(scope_);
  return rt_.own(std::make_shared<Macro>(this, &definition, scope_));
}

Value Evaluator::call_macro(const Stmt& definition, Scope* closure, const Args& args) {
  if (!rt_.enter()) return Value();
  const int line = rt_.line();
  Inner inner(this, closure);
  bind_parameters(definition, args);
  Capture capture(this);
  if (!rt_.failed()) exec(definition.body);
  rt_.leave();
  Value out = capture.take();
  if (!rt_.failed()) rt_.set_line(line);
  return out;
}

void Evaluator::bind_parameters(const Stmt& definition, const Args& args) {
  const Signature& sig = definition.signature;
  const std::string what =
      definition.name.empty() ? "caller()" : fmt::format("macro '{}'", definition.name);
  std::vector<std::pair<std::string, Value>> named = args.named;
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    const auto at =
        std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (at == named.end()) return std::nullopt;
    Value value = std::move(at->second);
    named.erase(at);
    return value;
  };
  std::vector<bool> missing(sig.names.size(), false);
  bool explicit_caller = false;
  for (size_t i = 0; i < sig.names.size(); ++i) {
    explicit_caller |= sig.names[i] == kCallerName;
    std::optional<Value> value;
    if (i < args.positional.size())
      value = args.positional[i];
    else
      value = take(sig.names[i]);
    missing[i] = !value.has_value();
    if (value) scope_->set(sig.names[i], std::move(*value));
  }
  if (sig.uses_caller && !explicit_caller) {
    std::optional<Value> caller = take(kCallerName);
    scope_->set(kCallerName, caller ? std::move(*caller) : Value::undefined("No caller defined"));
  }
  if (sig.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : named) rest.set(Value::string(name), std::move(value));
    scope_->set(kKwargsName, rt_.dict(std::move(rest)));
  } else if (!named.empty()) {
    rt_.fail(fmt::format("{} takes no keyword argument '{}'", what, named.front().first));
  }
  const size_t taken = std::min(args.positional.size(), sig.names.size());
  if (sig.uses_varargs) {
    std::vector<Value> rest(args.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                            args.positional.end());
    scope_->set(kVarargsName, rt_.list(std::move(rest), ListKind::kTuple));
  } else if (args.positional.size() > sig.names.size()) {
    rt_.fail(fmt::format("{} takes not more than {} argument(s)", what, sig.names.size()));
  }
  // Defaults may use the parameters before them.
  const size_t first_default = sig.names.size() - sig.defaults.size();
  for (size_t i = 0; i < sig.names.size() && !rt_.failed(); ++i) {
    if (!missing[i]) continue;
    scope_->set(sig.names[i], i >= first_default
                                  ? eval(*sig.defaults[i - first_default])
                                  : Value::undefined(fmt::format("parameter '{}' was not provided",
                                                                 sig.names[i])));
  }
}

void Evaluator::exec_call_block(const Stmt& s) {
  const Value caller = make_macro(s);
  const Value out = eval_call(*s.value, &caller);
  if (!rt_.failed()) print(rt_.str(out));
}

}  // namespace minim::jinja
