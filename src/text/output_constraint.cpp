// A reply as a few phases: thinking, content, calls, in the order that the output parser reads
// them.
//
// Thinking and unformatted content are free, but for a handful of ids that would lead out of what
// the request asks for: a second thinking behind a format, the end of the reply before a required
// call, a call that is not wanted. They are masks made once. A format and a block of calls are
// grammars; a matcher starts where its phase begins, so thinking of any length costs nothing, and a
// second block gets a matcher of its own. One grammar over the whole reply lost: it would have to
// describe free text as "anything but these tokens", and every mask of the thinking would be
// computed to say so.
//
// The namespace marker opens calls wherever it comes, in thinking too, as it does for the parser;
// whether thinking is open is asked of the parser itself, so that the two cannot disagree.
#include "text/output_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "text/tool_grammar.h"

namespace minim {
namespace {

using Kind = ToolChoice::Kind;

bool has_tools(const ConstraintRequest& request) {
  return request.tools != nullptr && !request.tools->empty();
}

// A call is a part of the reply that must come.
bool wants_call(const ConstraintRequest& request) {
  return request.choice.kind == Kind::kRequired || request.choice.kind == Kind::kNamed;
}

// Calls are held to a grammar. With a format they are, since what follows the marker is no content.
bool constrains_calls(const ConstraintRequest& request) {
  if (wants_call(request)) return true;
  if (request.choice.kind == Kind::kNone || !has_tools(request)) return false;
  const std::span<const Tool> tools = request.tools->tools();
  return request.format.has_value() || !request.choice.parallel ||
         std::any_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.strict; });
}

// Everything that a reply's states share.
struct Plan {
  std::optional<TokenId> ns, think, end_think;
  std::vector<TokenId> stops;
  std::shared_ptr<const CompiledGrammar> format, calls;
  ThinkingMode mode = ThinkingMode::kUnset;
  std::optional<int64_t> budget;
  bool call_required = false;  // calls, and no content
  bool parallel = true;
  // Masks of the free phases; empty: everything may come.
  TokenBits thinking, content, content_after_call;
  TokenBits only_end_think;
};

void set(TokenBits& bits, TokenId id, bool value) {
  const size_t word = static_cast<size_t>(id) / 32;
  const uint32_t bit = uint32_t{1} << (static_cast<uint32_t>(id) % 32);
  bits[word] = value ? bits[word] | bit : bits[word] & ~bit;
}

// All ids but these; empty when there are none to leave out.
TokenBits all_but(const Tokenizer& tokenizer, const std::vector<std::optional<TokenId>>& out) {
  TokenBits bits;
  for (const std::optional<TokenId>& id : out) {
    if (!id || *id < 0 || *id >= tokenizer.n_ids()) continue;
    if (bits.empty()) bits.assign((static_cast<size_t>(tokenizer.n_ids()) + 31) / 32, ~uint32_t{0});
    set(bits, *id, false);
  }
  return bits;
}

void make_masks(Plan& plan, const ConstraintRequest& request, const Tokenizer& tokenizer) {
  const bool unwanted_call =
      plan.calls == nullptr &&
      (plan.format != nullptr || (request.choice.kind == Kind::kNone && has_tools(request)));
  std::vector<std::optional<TokenId>> out;
  if (unwanted_call) out.push_back(plan.ns);
  std::vector<std::optional<TokenId>> thinking = out;
  if (plan.format != nullptr || plan.call_required) {
    thinking.insert(thinking.end(), plan.stops.begin(), plan.stops.end());
  }
  plan.thinking = all_but(tokenizer, thinking);
  if (plan.mode == ThinkingMode::kDisabled) out.push_back(plan.think);
  plan.content = all_but(tokenizer, out);
  if (plan.calls != nullptr && !plan.parallel) out.push_back(plan.ns);
  plan.content_after_call = all_but(tokenizer, out);
  if (plan.end_think && plan.budget) {
    plan.only_end_think.assign((static_cast<size_t>(tokenizer.n_ids()) + 31) / 32, 0);
    set(plan.only_end_think, *plan.end_think, true);
  }
}

int count_bits(const TokenBits& bits) {
  int n = 0;
  for (const uint32_t word : bits) n += std::popcount(word);
  return n;
}

TokenId first_bit(const TokenBits& bits) {
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) return static_cast<TokenId>(i * 32) + std::countr_zero(bits[i]);
  }
  return -1;
}

class PhasedConstraint final : public OutputConstraint {
 public:
  PhasedConstraint(Plan plan, const Tokenizer& tokenizer)
      : plan_(std::move(plan)), tokenizer_(tokenizer), parser_(tokenizer, nullptr, plan_.mode) {
    if (plan_.mode == ThinkingMode::kEnabled) {
      phase_ = Phase::kThinking;
    } else {
      begin_content();
      // The model chooses: it opens its thinking, or closes it unopened, or goes straight on.
      may_open_ = plan_.mode != ThinkingMode::kDisabled;
    }
  }

  const TokenBits* allowed() override {
    if (!fresh_) {
      current_ = compute();
      fresh_ = true;
    }
    return current_;
  }

  std::vector<TokenId> forced() override {
    std::vector<TokenId> tokens = find_forced();
    n_forced_ = tokens.size();
    return tokens;
  }

  void accept(TokenId token) override {
    fresh_ = false;
    look_for_single_ = tokenizer_.is_added(token) || n_forced_ > 0;
    if (n_forced_ > 0) --n_forced_;
    if (phase_ == Phase::kThinking || phase_ == Phase::kFree) return accept_free(token);
    if (extras()) {
      if (token == plan_.think || token == plan_.end_think) return accept_marker(token);
      if (token == plan_.ns && plan_.calls != nullptr) begin_calls();
    }
    may_open_ = at_start_ = false;
    take(token);
  }

 private:
  enum class Phase { kThinking, kFree, kFormat, kCalls };

  std::vector<TokenId> find_forced() {
    if (phase_ == Phase::kThinking) {
      return spent() ? std::vector<TokenId>{*plan_.end_think} : std::vector<TokenId>{};
    }
    if (phase_ == Phase::kFree || failed_ || extras()) return {};
    std::vector<TokenId> tokens = matcher_->forced();
    if (!tokens.empty() || !look_for_single_) return tokens;
    // Markers are no text, so the matcher does not report them: where one was just passed, or a
    // forced stretch, the next choice is often none either. Elsewhere the mask is left to the
    // thread that computes it behind the forward pass.
    const TokenBits* bits = allowed();
    if (bits == nullptr || count_bits(*bits) != 1) return {};
    return {first_bit(*bits)};
  }

  // Beside the matcher's tokens others may come: the reply, or its content, has not begun.
  bool extras() const {
    return may_open_ || (at_start_ && phase_ == Phase::kFormat && plan_.calls != nullptr);
  }
  bool spent() const { return plan_.budget && thought_ >= *plan_.budget; }

  void begin_content() {
    at_start_ = true;
    if (plan_.call_required) {
      begin_calls();
    } else if (plan_.format != nullptr) {
      phase_ = Phase::kFormat;
      matcher_.emplace(plan_.format);
    } else {
      phase_ = Phase::kFree;
      matcher_.reset();
    }
  }

  void begin_calls() {
    phase_ = Phase::kCalls;
    matcher_.emplace(plan_.calls);
  }

  void take(TokenId token) {
    if (phase_ == Phase::kCalls) follow(token);
    if (!matcher_->accept(token)) failed_ = true;  // a failure of the library, no choice of ours
    if (phase_ == Phase::kCalls && matcher_->may_end()) {
      called_ = true;
      if (!plan_.call_required && plan_.format == nullptr) phase_ = Phase::kFree;
    }
  }

  // THINK or ENDTHINK where the matcher knows neither.
  void accept_marker(TokenId token) {
    follow(token);
    may_open_ = false;
    if (token == plan_.think) {
      phase_ = Phase::kThinking;
    } else {
      begin_content();
    }
  }

  void accept_free(TokenId token) {
    may_open_ = at_start_ = false;
    if (token == plan_.ns && plan_.calls != nullptr && (plan_.parallel || !called_)) {
      begin_calls();
      return take(token);
    }
    const bool thinking = phase_ == Phase::kThinking;
    follow(token);
    const bool marker = token == plan_.think || token == plan_.end_think || token == plan_.ns;
    if (thinking && !marker) ++thought_;
    if (parser_.in_reasoning()) {
      phase_ = Phase::kThinking;
    } else if (thinking) {
      begin_content();
    }
  }

  void follow(TokenId token) {
    parser_.push(token, events_);
    events_.clear();
  }

  const TokenBits* compute() {
    if (phase_ == Phase::kThinking) {
      if (spent()) return &plan_.only_end_think;
      return plan_.thinking.empty() ? nullptr : &plan_.thinking;
    }
    if (phase_ == Phase::kFree) {
      const TokenBits& mask = called_ ? plan_.content_after_call : plan_.content;
      return mask.empty() ? nullptr : &mask;
    }
    bits_.resize((static_cast<size_t>(tokenizer_.n_ids()) + 31) / 32);
    if (failed_) {
      std::fill(bits_.begin(), bits_.end(), 0);
      return &bits_;
    }
    matcher_->allowed(bits_);
    if (may_open_) {
      for (const auto& id : {plan_.think, plan_.end_think}) {
        if (id) set(bits_, *id, true);
      }
    }
    if (extras() && plan_.calls != nullptr) set(bits_, *plan_.ns, true);
    return &bits_;
  }

  Plan plan_;
  const Tokenizer& tokenizer_;
  TokenOutputParser parser_;
  std::vector<OutputEvent> events_;
  Phase phase_ = Phase::kFree;
  std::optional<GrammarMatcher> matcher_;
  TokenBits bits_;
  const TokenBits* current_ = nullptr;
  int64_t thought_ = 0;  // tokens of thinking so far
  bool fresh_ = false;   // current_ is of this state
  bool may_open_ = false, at_start_ = false;
  bool called_ = false;           // a block of calls is complete
  bool look_for_single_ = false;  // the last token was an added one, or forced
  size_t n_forced_ = 0;           // tokens that forced() named and that did not come yet
  bool failed_ = false;
};

Error without_marker(const char* what, const char* literal) {
  return {Code::kUnsupported,
          fmt::format("{} needs the token {}, which this tokenizer does not have", what, literal)};
}

Result<Ok> check_request(const ConstraintRequest& request, const Plan& plan) {
  if (wants_call(request) && !has_tools(request)) {
    return Error{Code::kInvalid, "tool_choice asks for a call, but there are no tools"};
  }
  if (request.choice.kind == Kind::kNamed && request.tools->find(request.choice.name) == nullptr) {
    std::string names;
    for (const Tool& tool : request.tools->tools()) {
      names += (names.empty() ? "" : ", ") + tool.name;
    }
    return Error{Code::kInvalid,
                 fmt::format("tool_choice names {}, which is not among the tools: {}",
                             dump_json(Json(request.choice.name)), names)};
  }
  if (request.format && wants_call(request)) {
    return Error{Code::kInvalid,
                 "a response format and a tool_choice that asks for a call are both given; the "
                 "reply cannot be both"};
  }
  if (constrains_calls(request) && !plan.ns) {
    return without_marker("a constraint on tool calls", "]<]minimax[>[");
  }
  if (request.thinking_budget && !plan.end_think) {
    return without_marker("a budget for thinking", "</mm:think>");
  }
  return Ok{};
}

Result<std::shared_ptr<const CompiledGrammar>> compile_calls(const ConstraintRequest& request,
                                                             const Tokenizer& tokenizer,
                                                             GrammarCompiler& compiler) {
  std::vector<const Tool*> callable;
  for (const Tool& tool : request.tools->tools()) {
    if (request.choice.kind == Kind::kNamed && tool.name != request.choice.name) continue;
    callable.push_back(&tool);
  }
  Result<GrammarSpec> spec = tool_call_grammar(callable, request.choice.parallel, tokenizer);
  if (!spec) return spec.error();
  Result<std::shared_ptr<const CompiledGrammar>> compiled = compiler.compile(*spec);
  if (!compiled) {
    return Error{compiled.error().code, "the grammar of the tools: " + compiled.error().message};
  }
  return compiled;
}

}  // namespace

bool OutputConstraint::needs_grammar(const ConstraintRequest& request) {
  return request.format.has_value() || constrains_calls(request);
}

Result<std::unique_ptr<OutputConstraint>> OutputConstraint::create(const ConstraintRequest& request,
                                                                   const Tokenizer& tokenizer,
                                                                   GrammarCompiler* compiler) {
  const MarkerIds markers = MarkerIds::of(tokenizer);
  Plan plan{.ns = markers.ns,
            .think = markers.think,
            .end_think = markers.end_think,
            .stops = request.stop_ids,
            .format = nullptr,
            .calls = nullptr,
            .mode = request.mode,
            .budget = request.thinking_budget,
            .call_required = wants_call(request),
            .parallel = request.choice.parallel,
            .thinking = {},
            .content = {},
            .content_after_call = {},
            .only_end_think = {}};
  Result<Ok> checked = check_request(request, plan);
  if (!checked) return checked.error();
  CHECK(compiler != nullptr || !needs_grammar(request));
  if (request.format) {
    Result<std::shared_ptr<const CompiledGrammar>> format = compiler->compile(*request.format);
    if (!format) return format.error();
    plan.format = *std::move(format);
  }
  if (constrains_calls(request)) {
    Result<std::shared_ptr<const CompiledGrammar>> calls =
        compile_calls(request, tokenizer, *compiler);
    if (!calls) return calls.error();
    plan.calls = *std::move(calls);
  }
  make_masks(plan, request, tokenizer);
  const bool nothing = plan.format == nullptr && plan.calls == nullptr && !plan.budget &&
                       plan.thinking.empty() && plan.content.empty();
  if (nothing) return std::unique_ptr<OutputConstraint>();
  return std::unique_ptr<OutputConstraint>(
      std::make_unique<PhasedConstraint>(std::move(plan), tokenizer));
}

}  // namespace minim
