// A line says what differs from the flags. Its prompt is rendered as run renders one, so that a
// batch gives the tokens that run gives one by one.
#include "apps/batch_line.h"

#include <fmt/format.h>

#include <utility>

#include "apps/batch_fields.h"

namespace minim {
namespace {

Error at_line(const JsonLine& line, const Error& error) {
  return {error.code, fmt::format("{}: {}", line.where, error.message)};
}

// What cannot be asked for together.
Result<Ok> check_together(const JsonLine& line, const BatchLine& batch) {
  using Kind = ToolChoice::Kind;
  const ConstraintRequest& constraint = batch.constraint;
  const bool calls =
      constraint.choice.kind == Kind::kRequired || constraint.choice.kind == Kind::kNamed;
  const bool tools = constraint.tools != nullptr && !constraint.tools->empty();
  const char* clash = nullptr;
  if (calls && constraint.format) clash = "a format asks for a text and \"tool_choice\" for a call";
  if (calls && !tools) clash = "\"tool_choice\" wants \"tools\"";
  // A grammar ends with a stop id and with nothing else.
  if (batch.request.ignore_stop_ids && OutputConstraint::needs_grammar(constraint)) {
    clash = "\"ignore_eos\" and a format or a choice of tools exclude each other";
  }
  if (clash == nullptr) return Ok{};
  return at_line(line, {Code::kInvalid, clash});
}

}  // namespace

Result<Ok> BatchReader::read_prompt(const JsonLine& line, const OfferedTools& tools,
                                    BatchLine& out) const {
  const Json* messages = member(line, "messages");
  const Json* prompt = member(line, "prompt");
  const Json* tokens = member(line, "tokens");
  if ((messages != nullptr) + (prompt != nullptr) + (tokens != nullptr) != 1) {
    return at_line(line,
                   {Code::kInvalid, "wanted: one of \"messages\", \"prompt\" and \"tokens\""});
  }
  const bool raw = !text_->chat_template;
  if (tokens != nullptr) {
    Result<std::vector<int32_t>> ids = tokens_member(line, "tokens", defaults_.vocab, false);
    if (!ids) return ids.error();
    out.request.prompt = *std::move(ids);
    return Ok{};
  }
  Json conversation = defaults_.opening;
  if (prompt != nullptr) {
    if (!prompt->is_string() || prompt->get_ref<const std::string&>().empty()) {
      return wrong_member(line, "prompt", "a text that is not empty");
    }
    if (raw) {
      out.request.prompt = text_->tokenizer.encode(prompt->get_ref<const std::string&>(), true);
      return Ok{};
    }
    conversation.push_back({{"role", "user"}, {"content", *prompt}});
  } else {
    if (raw) {
      return at_line(
          line, {Code::kInvalid, "\"messages\" want the chat template, which --raw leaves out"});
    }
    if (!messages->is_array() || messages->empty()) {
      return wrong_member(line, "messages", "a list of at least one message");
    }
    conversation = *messages;
  }
  Result<std::vector<TokenId>> ids =
      render_prompt(*text_, conversation, out.constraint.mode, tools.for_template, nullptr);
  if (!ids) return at_line(line, ids.error());
  out.request.prompt = *std::move(ids);
  return Ok{};
}

Result<BatchLine> BatchReader::read(const JsonLine& line) const {
  BatchLine out;
  out.request.sampling = defaults_.sampling;
  out.request.max_tokens = defaults_.max_tokens;
  out.request.stop_ids = defaults_.stop_ids;
  out.constraint = text_->form.request;
  out.constraint.stop_ids = defaults_.stop_ids;
  OfferedTools tools{.for_template = text_->tools, .set = text_->tool_set};
  Result<Ok> read = check_batch_keys(line);
  if (const Json* offered = member(line, "tools"); read && offered != nullptr) {
    Result<OfferedTools> own = read_tools(*offered, line.where);
    if (!own) return own.error();
    tools = *std::move(own);
  }
  out.constraint.tools = tools.set;
  if (read) read = read_answer_keys(line, out.constraint);
  if (read) read = read_sampling(line, text_->tokenizer, defaults_.vocab, out.request);
  if (read) read = check_together(line, out);
  if (read) read = read_prompt(line, tools, out);
  if (!read) return read.error();
  Result<std::vector<std::string>> stops = read_stops(line);
  if (!stops) return stops.error();
  out.form = std::make_shared<const ReplyForm>(ReplyForm{.raw = !text_->chat_template,
                                                         .tools = tools.set,
                                                         .mode = out.constraint.mode,
                                                         .stops = *std::move(stops),
                                                         .stop_ids = out.request.stop_ids});
  return out;
}

Result<Ok> BatchReader::add_rules(BatchLine& line) {
  if (compiler_ == nullptr && OutputConstraint::needs_grammar(line.constraint)) {
    Result<std::unique_ptr<GrammarCompiler>> made =
        GrammarCompiler::create(text_->tokenizer, defaults_.stop_ids, {});
    if (!made) return made.error();
    compiler_ = *std::move(made);
  }
  line.request.rules = [&tokenizer = text_->tokenizer, compiler = compiler_, form = line.form,
                        constraint = line.constraint](int) -> Result<std::unique_ptr<TokenRules>> {
    Result<std::unique_ptr<OutputConstraint>> made =
        OutputConstraint::create(constraint, tokenizer, compiler.get());
    if (!made) return made.error();
    if (*made == nullptr && form->stops.empty()) return std::unique_ptr<TokenRules>();
    return std::unique_ptr<TokenRules>(
        std::make_unique<ReplyRules>(tokenizer, form, *std::move(made)));
  };
  return Ok{};
}

}  // namespace minim
