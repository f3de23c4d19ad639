// Walks the tree. Names live in scopes chained by nesting: loop iterations, macro bodies, with,
// call, filter and set blocks open one; if does not. A macro keeps the scope in which it was
// defined and reads it when it is called, as a Python closure does. Scopes belong to the walk and
// are reused; one that a macro holds moves to a list that lives as long as the evaluator. (jinja2
// compiles to Python and resolves names there; the difference shows only for a macro that reads a
// name before the template sets it and while the caller passed one as well.)
#include "text/jinja_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

struct Scope {
  explicit Scope(Scope* outer) : parent(outer) {}

  Value* find(std::string_view name) {
    for (auto& [key, value] : vars) {
      if (*key == name) return &value;
    }
    return nullptr;
  }
  // The name must outlive the scope: it belongs to the syntax tree.
  void set(const std::string& name, Value value) {
    if (Value* known = find(name))
      *known = std::move(value);
    else
      vars.emplace_back(&name, std::move(value));
  }

  Scope* parent;
  bool captured = false;  // a macro or recursive loop refers to it
  std::vector<std::pair<const std::string*, Value>> vars;
};

enum class Flow { kNormal, kBreak, kContinue };

const std::string kLoopName = "loop";
const std::string kCallerName = "caller";
const std::string kVarargsName = "varargs";
const std::string kKwargsName = "kwargs";

class Evaluator;

class Macro : public Object {
 public:
  Macro(Evaluator* evaluator, const Stmt* definition, Scope* closure)
      : evaluator_(evaluator), definition_(definition), closure_(closure) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override { return fmt::format("<Macro '{}'>", definition_->name); }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
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

// The variable "loop", and the iteration itself: items pass the loop's "if" only when they are
// about to be used, because the condition may depend on what the body did before.
class Loop : public Object {
 public:
  Loop(Evaluator* evaluator, const Stmt* statement, Scope* scope, std::vector<Value> items,
       int depth0)
      : evaluator_(evaluator),
        statement_(statement),
        scope_(scope),
        items_(std::move(items)),
        depth0_(depth0) {}
  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr() const override { return "<LoopContext>"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
  bool attribute(Runtime& runtime, std::string_view name, Value* out) override;
  void drop() override {
    items_.clear();
    ahead_.clear();
    current_ = previous_ = Value();
    changed_.clear();
  }

  // Moves to the next item; false at the end or on failure.
  bool advance();
  const Value& current() const { return current_; }
  Value cycle(Runtime& runtime, const Args& args) const;
  Value changed(Runtime& runtime, const Args& args);

 private:
  // Looks `n` items ahead; false if there are fewer.
  bool look_ahead(size_t n);
  Int length();

  Evaluator* evaluator_;
  const Stmt* statement_;
  Scope* scope_;
  std::vector<Value> items_;
  size_t next_ = 0;          // in items_
  std::deque<Value> ahead_;  // already passed the condition
  Value current_, previous_;
  Int index0_ = -1;
  int depth0_;
  std::optional<std::vector<Value>> last_changed_;
  std::vector<Value> changed_;
};

class LoopMethod : public Object {
 public:
  LoopMethod(Loop* loop, bool cycle) : loop_(loop), cycle_(cycle) {}
  std::string_view type_name() const override { return "method"; }
  std::string repr() const override { return "<bound method of LoopContext>"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override {
    return cycle_ ? loop_->cycle(runtime, args) : loop_->changed(runtime, args);
  }

 private:
  Loop* loop_;  // the runtime keeps it alive
  bool cycle_;
};

class Evaluator {
 public:
  Evaluator(Runtime& runtime, Dict variables)
      : rt_(runtime), variables_(std::move(variables)), root_(nullptr) {}

  Text run(const Body& body) {
    Text out;
    out_ = &out;
    scope_ = &root_;
    exec(body);
    return out;
  }

  Value call_macro(const Stmt& definition, Scope* closure, const Args& args);
  // Runs a for statement over `items` in `scope`.
  Flow run_loop(const Stmt& s, Scope* scope, std::vector<Value> items, int depth0);
  // The text that a recursive loop prints for `iterable`.
  Value recurse(const Stmt& s, Scope* scope, const Value& iterable, int depth0);
  bool passes(const Stmt& loop, Scope* scope, const Value& item);

 private:
  // A scope that ends with this object, unless it was captured.
  class Inner {
   public:
    Inner(Evaluator* e, Scope* parent)
        : e_(e), saved_(e->scope_), scope_(std::make_unique<Scope>(parent)) {
      e->scope_ = scope_.get();
    }
    ~Inner() {
      e_->scope_ = saved_;
      keep();
    }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;
    void enter() { e_->scope_ = scope_.get(); }
    // Ready for another iteration.
    void renew() {
      Scope* parent = scope_->parent;
      keep();
      if (!scope_) scope_ = std::make_unique<Scope>(parent);
      scope_->vars.clear();
      enter();
    }

   private:
    void keep() {
      if (scope_->captured) e_->kept_.push_back(std::move(scope_));
    }
    Evaluator* e_;
    Scope* saved_;
    std::unique_ptr<Scope> scope_;
  };

  // Collects what is printed while it lives.
  class Capture {
   public:
    explicit Capture(Evaluator* e) : e_(e), saved_(e->out_) { e->out_ = &text_; }
    ~Capture() { e_->out_ = saved_; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Value take() { return e_->rt_.string(std::move(text_)); }

   private:
    Evaluator* e_;
    Text* saved_;
    Text text_;
  };

  static void mark_captured(Scope* scope) {
    for (; scope && !scope->captured; scope = scope->parent) scope->captured = true;
  }

  void print(const Text& text) {
    if (out_->size() + text.size() > kMaxStringBytes)
      rt_.room(out_->size() + text.size());
    else
      out_->append(text);
  }

  // --- names ---
  Value lookup(const Expr& e) {
    for (Scope* scope = scope_; scope; scope = scope->parent) {
      if (const Value* value = scope->find(e.name)) return *value;
    }
    const size_t at = variables_.find(std::string_view(e.name));
    if (at != Dict::npos) return variables_.items[at].second;
    Value global = find_global(rt_, e.name);
    if (!global.is(Kind::kUndefined)) {
      variables_.set(Value::string(e.name), global);  // one object a name
      return global;
    }
    return Value::undefined(fmt::format("'{}' is undefined", e.name));
  }

  void assign(const Expr& target, Value value) {
    if (rt_.failed()) return;
    rt_.set_line(target.line);
    if (target.kind == Expr::Kind::kName) return scope_->set(target.name, std::move(value));
    if (target.kind == Expr::Kind::kNsRef) {
      const Value object = lookup(target);
      if (!object.is(Kind::kObject) ||
          !object.object()->assign(rt_, target.attr, std::move(value))) {
        rt_.fail("cannot assign attribute on non-namespace object");
      }
      return;
    }
    std::vector<Value> items;
    if (value.is(Kind::kUndefined)) return void(rt_.fail_undefined(value));
    if (!rt_.iterate(value, &items)) return;
    if (items.size() != target.kids.size()) {
      return void(rt_.fail(
          fmt::format("cannot unpack {} values into {} names", items.size(), target.kids.size())));
    }
    for (size_t i = 0; i < items.size(); ++i) assign(*target.kids[i], std::move(items[i]));
  }

  // --- expressions ---
  Value eval(const Expr& e) {
    if (!rt_.spend() || !rt_.enter()) return Value();
    rt_.set_line(e.line);
    Value out = eval_node(e);
    rt_.leave();
    return rt_.failed() ? Value() : out;
  }
  Value eval_node(const Expr& e);
  Value kid(const Expr& e, size_t i) {
    Value out = eval(*e.kids[i]);
    rt_.set_line(e.line);
    return out;
  }
  Value eval_items(const Expr& e, ListKind kind);
  Value eval_dict(const Expr& e);
  Value eval_cond(const Expr& e);
  Value eval_compare(const Expr& e);
  Value eval_concat(const Expr& e);
  Value eval_binary(const Expr& e);
  Value eval_item(const Expr& e);
  Value eval_call(const Expr& e, const Value* caller);
  Value eval_filter(const Expr& e);
  Value eval_test(const Expr& e);
  bool eval_args(const Expr& e, Args* out);

  // --- statements ---
  Flow exec(const Body& body) {
    for (const auto& s : body) {
      const Flow flow = exec(*s);
      if (rt_.failed()) return Flow::kBreak;
      if (flow != Flow::kNormal) return flow;
    }
    return Flow::kNormal;
  }
  Flow exec(const Stmt& s) {
    if (!rt_.spend() || !rt_.enter()) return Flow::kBreak;
    rt_.set_line(s.line);
    const Flow flow = exec_node(s);
    rt_.leave();
    return flow;
  }
  Flow exec_node(const Stmt& s);
  Flow exec_if(const Stmt& s);
  Flow exec_for(const Stmt& s);
  Flow exec_set_block(const Stmt& s);
  Flow exec_filter_block(const Stmt& s);
  Flow exec_with(const Stmt& s);
  Flow exec_scope(const Stmt& s);
  void exec_print(const Stmt& s);
  void exec_call_block(const Stmt& s);
  // A block's text through its filter chain.
  Value filtered(const ExprPtr& chain, Value text);

  Runtime& rt_;
  Dict variables_;
  Scope root_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  Value block_text_;  // the input of a filter chain that has none of its own
  std::vector<std::unique_ptr<Scope>> kept_;
};

// --- macros ---

Value Macro::call(Runtime&, const Args& args) {
  return evaluator_->call_macro(*definition_, closure_, args);
}

Value Evaluator::call_macro(const Stmt& definition, Scope* closure, const Args& args) {
  const Signature& sig = definition.signature;
  const std::string what =
      definition.name.empty() ? "caller()" : fmt::format("macro '{}'", definition.name);
  if (!rt_.enter()) return Value();
  const int line = rt_.line();
  Inner inner(this, closure);
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
  Capture capture(this);
  if (!rt_.failed()) exec(definition.body);
  rt_.leave();
  Value out = capture.take();
  if (!rt_.failed()) rt_.set_line(line);
  return out;
}

// --- loops ---

bool Evaluator::passes(const Stmt& loop, Scope* scope, const Value& item) {
  if (!loop.test) return true;
  Inner inner(this, scope);
  assign(*loop.target, item);
  return !rt_.failed() && rt_.truthy(eval(*loop.test));
}

bool Loop::look_ahead(size_t n) {
  while (ahead_.size() < n && next_ < items_.size()) {
    Value& item = items_[next_++];
    if (evaluator_->passes(*statement_, scope_, item)) ahead_.push_back(std::move(item));
  }
  return ahead_.size() >= n;
}

bool Loop::advance() {
  if (!look_ahead(1)) return false;
  previous_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  ++index0_;
  return true;
}

Int Loop::length() {
  look_ahead(items_.size() + 1);
  return index0_ + 1 + static_cast<Int>(ahead_.size());
}

Value Loop::cycle(Runtime& runtime, const Args& args) const {
  if (!args.named.empty()) return runtime.fail("cycle() takes no keyword arguments");
  if (args.positional.empty()) return runtime.fail("no items for cycling given");
  return args.positional[static_cast<size_t>(index0_ % static_cast<Int>(args.positional.size()))];
}

Value Loop::changed(Runtime& runtime, const Args& args) {
  if (!args.named.empty()) return runtime.fail("changed() takes no keyword arguments");
  bool same = last_changed_ && last_changed_->size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i)
    same = runtime.equal((*last_changed_)[i], args.positional[i]);
  if (!same) last_changed_ = args.positional;
  return Value::boolean(!same);
}

bool Loop::attribute(Runtime& runtime, std::string_view name, Value* out) {
  if (name == "index")
    *out = Value::integer(index0_ + 1);
  else if (name == "index0")
    *out = Value::integer(index0_);
  else if (name == "first")
    *out = Value::boolean(index0_ == 0);
  else if (name == "last")
    *out = Value::boolean(!look_ahead(1));
  else if (name == "length")
    *out = Value::integer(length());
  else if (name == "revindex")
    *out = Value::integer(length() - index0_);
  else if (name == "revindex0")
    *out = Value::integer(length() - index0_ - 1);
  else if (name == "depth")
    *out = Value::integer(depth0_ + 1);
  else if (name == "depth0")
    *out = Value::integer(depth0_);
  else if (name == "previtem")
    *out = index0_ == 0 ? Value::undefined("there is no previous item") : previous_;
  else if (name == "nextitem")
    *out = look_ahead(1) ? ahead_.front() : Value::undefined("there is no next item");
  else if (name == "cycle" || name == "changed")
    *out = runtime.own(std::make_shared<LoopMethod>(this, name == "cycle"));
  else
    return false;
  return true;
}

Value Loop::call(Runtime& runtime, const Args& args) {
  Params p(runtime, "loop", args, {"iterable"}, 1);
  if (!p.ok()) return Value();
  if (!statement_->recursive)
    return runtime.fail("the loop must have the 'recursive' marker to be called recursively");
  return evaluator_->recurse(*statement_, scope_, p.value(0), depth0_ + 1);
}

Value Evaluator::recurse(const Stmt& s, Scope* scope, const Value& iterable, int depth0) {
  std::vector<Value> items;
  if (!rt_.enter() || !rt_.iterate(iterable, &items)) return Value();
  Capture capture(this);
  run_loop(s, scope, std::move(items), depth0);
  rt_.leave();
  return capture.take();
}

Flow Evaluator::run_loop(const Stmt& s, Scope* scope, std::vector<Value> items, int depth0) {
  auto loop = std::make_shared<Loop>(this, &s, scope, std::move(items), depth0);
  Value loop_value;
  if (s.uses_loop) {
    if (s.recursive || s.test) mark_captured(scope);  // the loop may outlive the statement
    loop_value = rt_.own(loop);
  }
  bool iterated = false;
  {
    Inner inner(this, scope);
    while (!rt_.failed() && loop->advance() && rt_.spend()) {
      if (iterated) inner.renew();
      iterated = true;
      assign(*s.target, loop->current());
      if (s.uses_loop) scope_->set(kLoopName, loop_value);
      if (!rt_.failed() && exec(s.body) == Flow::kBreak) break;
    }
  }
  if (iterated || rt_.failed() || s.else_body.empty()) return Flow::kNormal;
  Inner inner(this, scope);
  return exec(s.else_body);
}

Flow Evaluator::exec_for(const Stmt& s) {
  const Value iterable = eval(*s.value);
  rt_.set_line(s.line);
  std::vector<Value> items;
  if (rt_.failed() || !rt_.iterate(iterable, &items)) return Flow::kBreak;
  return run_loop(s, scope_, std::move(items), 0);
}

// --- expressions ---

Value Evaluator::eval_node(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::kConst:
      return e.constant;
    case Expr::Kind::kName:
    case Expr::Kind::kNsRef:
      return lookup(e);
    case Expr::Kind::kTuple:
      return eval_items(e, ListKind::kTuple);
    case Expr::Kind::kList:
      return eval_items(e, ListKind::kList);
    case Expr::Kind::kDict:
      return eval_dict(e);
    case Expr::Kind::kCond:
      return eval_cond(e);
    case Expr::Kind::kOr:
    case Expr::Kind::kAnd: {
      Value left = eval(*e.kids[0]);
      if (rt_.failed() || rt_.truthy(left) == (e.kind == Expr::Kind::kOr)) return left;
      return eval(*e.kids[1]);
    }
    case Expr::Kind::kNot:
      return Value::boolean(!rt_.truthy(eval(*e.kids[0])));
    case Expr::Kind::kNeg:
      return rt_.negate(kid(e, 0));
    case Expr::Kind::kPos:
      return rt_.binary(Op::kAdd, Value::integer(0), kid(e, 0));
    case Expr::Kind::kBinary:
      return eval_binary(e);
    case Expr::Kind::kConcat:
      return eval_concat(e);
    case Expr::Kind::kCompare:
      return eval_compare(e);
    case Expr::Kind::kAttr:
      return rt_.attribute(kid(e, 0), e.name);
    case Expr::Kind::kItem:
      return eval_item(e);
    case Expr::Kind::kCall:
      return eval_call(e, nullptr);
    case Expr::Kind::kFilter:
      return eval_filter(e);
    case Expr::Kind::kTest:
      return eval_test(e);
    case Expr::Kind::kSlice:
      break;
  }
  return rt_.fail("a slice outside an index");
}

Value Evaluator::eval_items(const Expr& e, ListKind kind) {
  std::vector<Value> items;
  items.reserve(e.kids.size());
  for (size_t i = 0; i < e.kids.size() && !rt_.failed(); ++i) items.push_back(kid(e, i));
  return rt_.list(std::move(items), kind);
}

Value Evaluator::eval_dict(const Expr& e) {
  Dict dict;
  for (size_t i = 0; i + 1 < e.kids.size() && !rt_.failed(); i += 2) {
    Value key = kid(e, i);
    Value value = kid(e, i + 1);
    if (!rt_.spend_key(key)) return Value();
    std::string name;
    if (!dict_key(key, &name))
      return rt_.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    dict.set(std::move(key), std::move(value));
  }
  return rt_.dict(std::move(dict));
}

Value Evaluator::eval_cond(const Expr& e) {
  const bool holds = rt_.truthy(eval(*e.kids[0]));
  if (rt_.failed()) return Value();
  if (holds) return eval(*e.kids[1]);
  if (e.kids[2]) return eval(*e.kids[2]);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      e.line));
}

Value Evaluator::eval_compare(const Expr& e) {
  Value left = kid(e, 0);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = kid(e, i + 1);
    if (rt_.failed() || !rt_.compare(e.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::eval_concat(const Expr& e) {
  Text out;
  for (size_t i = 0; i < e.kids.size() && !rt_.failed(); ++i) {
    const Value value = kid(e, i);
    out.append(rt_.str(value));
    if (out.size() > kMaxStringBytes) break;
  }
  return rt_.string(std::move(out));
}

Value Evaluator::eval_binary(const Expr& e) {
  const Value left = kid(e, 0);
  if (rt_.failed()) return Value();
  const Value right = kid(e, 1);
  if (rt_.failed()) return Value();
  return rt_.binary(e.ops[0], left, right);
}

Value Evaluator::eval_item(const Expr& e) {
  const Value object = kid(e, 0);
  if (rt_.failed()) return Value();
  const Expr& index = *e.kids[1];
  if (index.kind != Expr::Kind::kSlice) {
    const Value at = kid(e, 1);
    return rt_.failed() ? Value() : rt_.item(object, at);
  }
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = index.kids[i] ? eval(*index.kids[i]) : Value::none();
    if (rt_.failed()) return Value();
  }
  rt_.set_line(e.line);
  return rt_.slice(object, parts[0], parts[1], parts[2]);
}

bool Evaluator::eval_args(const Expr& e, Args* out) {
  for (size_t i = 1; i < e.kids.size() && !rt_.failed(); ++i) out->positional.push_back(kid(e, i));
  if (e.star && !rt_.failed()) rt_.iterate(eval(*e.star), &out->positional);
  for (const auto& [name, expr] : e.named) {
    if (rt_.failed()) return false;
    out->named.emplace_back(name, eval(*expr));
  }
  if (e.star_star && !rt_.failed()) {
    const Value more = eval(*e.star_star);
    if (!rt_.failed() && !more.is(Kind::kDict)) rt_.fail("the argument after ** must be a mapping");
    if (rt_.failed()) return false;
    for (const auto& [key, value] : more.dict().items) {
      if (!key.is_string()) return rt_.fail("keywords must be strings"), false;
      if (out->find(key.text().view())) {
        return rt_.fail(fmt::format("got multiple values for keyword argument '{}'",
                                    key.text().bytes())),
               false;
      }
      out->named.emplace_back(key.text().bytes(), value);
      if (!rt_.spend(out->named.size() / 16)) return false;
    }
  }
  rt_.set_line(e.line);
  return !rt_.failed();
}

Value Evaluator::eval_call(const Expr& e, const Value* caller) {
  const Expr& callee = *e.kids[0];
  Args args;
  if (callee.kind == Expr::Kind::kAttr) {
    // A method is called where it is found, without becoming a value first.
    const Value object = kid(callee, 0);
    if (rt_.failed()) return Value();
    if (has_method(object, callee.name)) {
      if (!eval_args(e, &args)) return Value();
      if (caller) args.named.emplace_back(kCallerName, *caller);
      return call_method(rt_, object, callee.name, args);
    }
    const Value function = rt_.attribute(object, callee.name);
    if (rt_.failed() || !eval_args(e, &args)) return Value();
    if (caller) args.named.emplace_back(kCallerName, *caller);
    return rt_.call(function, args);
  }
  const Value function = eval(callee);
  if (rt_.failed() || !eval_args(e, &args)) return Value();
  if (caller) args.named.emplace_back(kCallerName, *caller);
  return rt_.call(function, args);
}

Value Evaluator::eval_filter(const Expr& e) {
  bool refused = false;
  const Filter filter = find_filter(e.name, &refused);
  if (refused) return rt_.fail(fmt::format("the filter '{}' is not supported", e.name));
  if (!filter) return rt_.fail(fmt::format("no filter named '{}'", e.name));
  const Value input = e.kids[0] ? kid(e, 0) : block_text_;
  Args args;
  if (rt_.failed() || !eval_args(e, &args)) return Value();
  if (input.is_string() && !rt_.spend(1 + input.text().size() / 256)) return Value();
  return filter(rt_, input, args);
}

Value Evaluator::eval_test(const Expr& e) {
  const Predicate predicate = find_predicate(e.name);
  if (!predicate) return rt_.fail(fmt::format("no test named '{}'", e.name));
  const Value subject = kid(e, 0);
  Args args;
  if (rt_.failed() || !eval_args(e, &args)) return Value();
  if (subject.is_string() && !rt_.spend(1 + subject.text().size() / 4096)) return Value();
  return Value::boolean(predicate(rt_, subject, args));
}

// --- statements ---

Flow Evaluator::exec_node(const Stmt& s) {
  switch (s.kind) {
    case Stmt::Kind::kData:
      print(s.data);
      break;
    case Stmt::Kind::kPrint:
      exec_print(s);
      break;
    case Stmt::Kind::kIf:
      return exec_if(s);
    case Stmt::Kind::kFor:
      return exec_for(s);
    case Stmt::Kind::kSet:
      assign(*s.target, eval(*s.value));
      break;
    case Stmt::Kind::kSetBlock:
      return exec_set_block(s);
    case Stmt::Kind::kMacro:
      mark_captured(scope_);
      scope_->set(s.name, rt_.own(std::make_shared<Macro>(this, &s, scope_)));
      break;
    case Stmt::Kind::kCall:
      exec_call_block(s);
      break;
    case Stmt::Kind::kFilterBlock:
      return exec_filter_block(s);
    case Stmt::Kind::kWith:
      return exec_with(s);
    case Stmt::Kind::kScope:
      return exec_scope(s);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Evaluator::exec_print(const Stmt& s) {
  const Value value = eval(*s.value);
  if (rt_.failed()) return;
  if (value.is_string())
    print(value.text());
  else
    print(rt_.str(value));
}

Flow Evaluator::exec_if(const Stmt& s) {
  for (const auto& [test, body] : s.branches) {
    const bool holds = rt_.truthy(eval(*test));
    if (rt_.failed()) return Flow::kBreak;
    if (holds) return exec(body);
  }
  return exec(s.else_body);
}

Value Evaluator::filtered(const ExprPtr& chain, Value text) {
  if (!chain || rt_.failed()) return text;
  Value saved = std::exchange(block_text_, std::move(text));
  Value out = eval(*chain);
  block_text_ = std::move(saved);
  return out;
}

Flow Evaluator::exec_set_block(const Stmt& s) {
  Value text;
  {
    Capture capture(this);
    Inner inner(this, scope_);
    const Flow flow = exec(s.body);
    if (flow != Flow::kNormal) return flow;
    text = capture.take();
  }
  assign(*s.target, filtered(s.value, std::move(text)));
  return Flow::kNormal;
}

Flow Evaluator::exec_filter_block(const Stmt& s) {
  Value text;
  {
    Capture capture(this);
    Inner inner(this, scope_);
    const Flow flow = exec(s.body);
    if (flow != Flow::kNormal) return flow;
    text = capture.take();
  }
  const Value out = filtered(s.value, std::move(text));
  if (!rt_.failed()) print(rt_.str(out));
  return Flow::kNormal;
}

Flow Evaluator::exec_with(const Stmt& s) {
  std::vector<Value> values;
  for (const auto& [target, value] : s.bindings) values.push_back(eval(*value));
  Inner inner(this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(*s.bindings[i].first, std::move(values[i]));
  return rt_.failed() ? Flow::kBreak : exec(s.body);
}

Flow Evaluator::exec_scope(const Stmt& s) {
  Inner inner(this, scope_);
  return exec(s.body);
}

void Evaluator::exec_call_block(const Stmt& s) {
  mark_captured(scope_);
  const Value caller = rt_.own(std::make_shared<Macro>(this, &s, scope_));
  const Value out = eval_call(*s.value, &caller);
  if (!rt_.failed()) print(rt_.str(out));
}

// --- data ---

// JSON to values; deeper than the container limit fails.
Value from_json(Runtime& rt, const Json& json, int depth) {
  if (depth > kMaxContainerDepth) return rt.fail("the data nests too deeply", Code::kExhausted);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(static_cast<Int>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!valid_utf8(text)) return rt.fail("a string in the data is not valid UTF-8");
      return Value::string(text);
    }
    case Json::value_t::array: {
      auto list = std::make_shared<List>();
      for (const Json& item : json) {
        list->items.push_back(from_json(rt, item, depth + 1));
        const Value& made = list->items.back();
        if (made.is(Kind::kList)) list->depth = std::max(list->depth, made.list().depth + 1);
        if (made.is(Kind::kDict)) list->depth = std::max(list->depth, made.dict().depth + 1);
      }
      return Value::list(std::move(list));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        if (!valid_utf8(key)) return rt.fail("a key in the data is not valid UTF-8");
        dict.set(Value::string(key), from_json(rt, item, depth + 1));
      }
      return Value::dict(std::make_shared<const Dict>(std::move(dict)));
    }
    default:
      return Value::none();
  }
}

}  // namespace

Result<Text> evaluate(const Body& body, const std::string& name, const Json& vars,
                      const std::tm& now) {
  // The runtime outlives the evaluator, whose scopes hold values; objects refer to both and are
  // dropped in between.
  Runtime runtime(name, now);
  Dict variables;
  for (const auto& [key, value] : vars.items()) {
    variables.set(Value::string(key), from_json(runtime, value, 1));
  }
  if (runtime.failed()) return runtime.error();
  Evaluator evaluator(runtime, std::move(variables));
  Text out = evaluator.run(body);
  if (runtime.failed()) return runtime.error();
  return out;
}

}  // namespace minim::jinja
