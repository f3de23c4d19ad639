// For loops and the variable "loop". Items are looked at one ahead at most, unless the template
// asks for the length: the loop's condition may have effects on what follows.
#include <deque>
#include <optional>

#include "text/jinja_evaluator.h"

namespace minim::jinja {
namespace {

const std::string kLoopName = "loop";

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
    last_changed_.reset();
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

}  // namespace

bool Evaluator::passes(const Stmt& loop, Scope* scope, const Value& item) {
  if (!loop.test) return true;
  Inner inner(this, scope);
  assign(*loop.target, item);
  return !rt_.failed() && rt_.truthy(eval(*loop.test));
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

}  // namespace minim::jinja
