// The syntax tree of a template, and the parser that makes it: jinja2 3.1.6's grammar with loop
// controls and {% generation %} blocks. Template inheritance and includes are refused by name (a
// chat template is one file).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace minim::jinja {

// Deepest expression or statement tree; deeper templates are refused when they are parsed.
inline constexpr int kMaxTreeDepth = 250;
inline constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

enum class Op {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    kConst,    // constant
    kName,     // name
    kTuple,    // kids
    kList,     // kids
    kDict,     // kids: key, value, key, value, ...
    kCond,     // kids: test, then, else (null: undefined)
    kOr,       // kids: left, right
    kAnd,      // kids: left, right
    kNot,      // kids: operand
    kNeg,      // kids: operand
    kPos,      // kids: operand
    kBinary,   // ops[0]; kids: left, right
    kConcat,   // kids
    kCompare,  // kids: n + 1 operands; ops: n
    kAttr,     // kids: object; name
    kItem,     // kids: object, index
    kSlice,    // kids: start, stop, step, each may be null (only as the index of kItem)
    kCall,     // kids: callee, arguments...; named, star, star_star
    kFilter,  // kids: input (null: the body of a block), arguments...; name, named, star, star_star
    kTest,    // as kFilter
    kNsRef,   // assignment target: name.attr
  };
  Kind kind = Kind::kConst;
  int line = 1;
  int depth = 1;
  std::string name;
  std::string attr;
  Value constant;
  std::vector<ExprPtr> kids;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;
  std::vector<Op> ops;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// The parameters of a macro or call block. `uses_*`: the body reads the names varargs, kwargs,
// caller.
struct Signature {
  std::vector<std::string> names;
  std::vector<ExprPtr> defaults;  // of the last names
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Stmt {
  enum class Kind {
    kData,         // data
    kPrint,        // value
    kIf,           // branches of (test, body); else_body
    kFor,          // target, value, test (may be null), body, else_body, recursive
    kSet,          // target, value
    kSetBlock,     // target, value (filter chain or null), body
    kMacro,        // name, signature, body
    kCall,         // signature, value (the call), body
    kFilterBlock,  // value (filter chain), body
    kWith,         // targets and values, body
    kScope,        // body: {% block %} and {% generation %}
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kData;
  int line = 1;
  std::string name;
  Text data;
  ExprPtr target, value, test;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;
  Body body, else_body;
  Signature signature;
  bool recursive = false;
  bool uses_loop = false;  // kFor: the name "loop" occurs in its body
};

// Parses a template. Errors are "NAME:LINE: what".
Result<Body> parse(std::string_view source, std::string_view name);

}  // namespace minim::jinja
