// The walk over a template's tree as a class, shared by the files that implement it: names and
// statements in jinja_eval.cpp, expressions in jinja_eval_expression.cpp, "for" and the variable
// "loop" in jinja_eval_loop.cpp, macros and call blocks in jinja_eval_macro.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_parser.h"
#include "text/jinja_runtime.h"
#include "text/jinja_value.h"

namespace minim::jinja {

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

// What a call block passes to the macro that it calls.
inline const std::string kCallerName = "caller";

class Evaluator {
 public:
  Evaluator(Runtime& runtime, Dict variables)
      : rt_(runtime), variables_(std::move(variables)), root_(nullptr) {}

  // The text that a template prints.
  Text run(const Body& body);

  // For the objects that the walk makes.
  Value call_macro(const Stmt& definition, Scope* closure, const Args& args);
  // The text that a recursive loop prints for `iterable`.
  Value recurse(const Stmt& s, Scope* scope, const Value& iterable, int depth0);
  // Does an item pass a loop's "if"?
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

  void print(const Text& text);

  // --- names ---
  Value lookup(const Expr& e);
  void assign(const Expr& target, Value value);

  // --- expressions ---
  Value eval(const Expr& e);
  Value eval_node(const Expr& e);
  // The value of a child; errors are then again those of the line of `e`.
  Value kid(const Expr& e, size_t i);
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
  Flow exec(const Body& body);
  Flow exec(const Stmt& s);
  Flow exec_node(const Stmt& s);
  Flow exec_if(const Stmt& s);
  Flow exec_for(const Stmt& s);
  // Runs a for statement over `items` in `scope`.
  Flow run_loop(const Stmt& s, Scope* scope, std::vector<Value> items, int depth0);
  Flow exec_set_block(const Stmt& s);
  Flow exec_filter_block(const Stmt& s);
  Flow exec_with(const Stmt& s);
  Flow exec_scope(const Stmt& s);
  void exec_print(const Stmt& s);
  void exec_call_block(const Stmt& s);
  // What a block prints; nothing where a break or continue leaves it.
  Flow block_text(const Stmt& s, Value* text);
  // A block's text through its filter chain.
  Value filtered(const ExprPtr& chain, Value text);

  // --- macros ---
  // A macro or call block as a value that keeps the current scope.
  Value make_macro(const Stmt& definition);
  // Sets a macro's parameters in the current scope.
  void bind_parameters(const Stmt& definition, const Args& args);

  Runtime& rt_;
  Dict variables_;
  Scope root_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  Value block_text_;  // the input of a filter chain that has none of its own
  std::vector<std::unique_ptr<Scope>> kept_;
};

}  // namespace minim::jinja
