// Expressions. Every value is made under the budget of one step a node; after a failure nothing
// more is evaluated.
#include <fmt/format.h>

#include "text/jinja_evaluator.h"

namespace minim::jinja {

Value Evaluator::eval(const Expr& e) {
  if (!rt_.spend() || !rt_.enter()) return Value();
  rt_.set_line(e.line);
  Value out = eval_node(e);
  rt_.leave();
  return rt_.failed() ? Value() : out;
}

Value Evaluator::kid(const Expr& e, size_t i) {
  Value out = eval(*e.kids[i]);
  rt_.set_line(e.line);
  return out;
}

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

}  // namespace minim::jinja
