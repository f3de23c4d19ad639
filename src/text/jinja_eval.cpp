// Walks the tree. Names live in scopes chained by nesting: loop iterations, macro bodies, with,
// call, filter and set blocks open one; if does not. A macro keeps the scope in which it was
// defined and reads it when it is called, as a Python closure does. Scopes belong to the walk and
// are reused; one that a macro holds moves to a list that lives as long as the evaluator. (jinja2
// compiles to Python and resolves names there; the difference shows only for a macro that reads a
// name before the template sets it and while the caller passed one as well.)
// Here: the entry, names and statements.
#include "text/jinja_eval.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_evaluator.h"

namespace minim::jinja {
namespace {

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
        list->depth = std::max(list->depth, depth_of(list->items.back()) + 1);
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

Text Evaluator::run(const Body& body) {
  Text out;
  out_ = &out;
  scope_ = &root_;
  exec(body);
  return out;
}

Value Evaluator::lookup(const Expr& e) {
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

void Evaluator::assign(const Expr& target, Value value) {
  if (rt_.failed()) return;
  rt_.set_line(target.line);
  if (target.kind == Expr::Kind::kName) return scope_->set(target.name, std::move(value));
  if (target.kind == Expr::Kind::kNsRef) {
    const Value object = lookup(target);
    if (!object.is(Kind::kObject) || !object.object()->assign(rt_, target.attr, std::move(value))) {
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

Flow Evaluator::exec(const Body& body) {
  for (const auto& s : body) {
    const Flow flow = exec(*s);
    if (rt_.failed()) return Flow::kBreak;
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Flow Evaluator::exec(const Stmt& s) {
  if (!rt_.spend() || !rt_.enter()) return Flow::kBreak;
  rt_.set_line(s.line);
  const Flow flow = exec_node(s);
  rt_.leave();
  return flow;
}

void Evaluator::print(const Text& text) {
  if (out_->size() + text.size() > kMaxStringBytes)
    rt_.room(out_->size() + text.size());
  else
    out_->append(text);
}

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
      scope_->set(s.name, make_macro(s));
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

Flow Evaluator::block_text(const Stmt& s, Value* text) {
  Capture capture(this);
  Inner inner(this, scope_);
  const Flow flow = exec(s.body);
  if (flow == Flow::kNormal) *text = capture.take();
  return flow;
}

Flow Evaluator::exec_set_block(const Stmt& s) {
  Value text;
  if (const Flow flow = block_text(s, &text); flow != Flow::kNormal) return flow;
  assign(*s.target, filtered(s.value, std::move(text)));
  return Flow::kNormal;
}

Flow Evaluator::exec_filter_block(const Stmt& s) {
  Value text;
  if (const Flow flow = block_text(s, &text); flow != Flow::kNormal) return flow;
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
