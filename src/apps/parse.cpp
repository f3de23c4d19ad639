// minim parse: replies taken apart.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"
#include "apps/output_json.h"
#include "text/m3_vocabulary.h"
#include "text/output_parser.h"

namespace minim {
namespace {

struct ReplyLine {
  Json tokens;
  std::shared_ptr<const ToolSet> tools;
  ThinkingMode mode = ThinkingMode::kUnset;
  std::string engine_finish = "stop";
  std::string where;
};

Result<ThinkingMode> mode_member(const JsonLine& line) {
  const auto found = line.value.find("thinking_mode");
  if (found == line.value.end() || found->is_null()) return ThinkingMode::kUnset;
  if (found->is_string()) {
    const auto mode = parse_thinking_mode(found->get_ref<const std::string&>());
    if (mode) return *mode;
  }
  return wrong_member(line, "thinking_mode", "\"enabled\", \"disabled\", \"adaptive\" or null");
}

Result<std::string> finish_member(const JsonLine& line) {
  const auto found = line.value.find("engine_finish");
  if (found == line.value.end()) return std::string("stop");
  for (const char* word : {"stop", "length", "content_filter"}) {
    if (*found == word) return std::string(word);
  }
  return wrong_member(line, "engine_finish", "\"stop\", \"length\" or \"content_filter\"");
}

Result<ReplyLine> read_reply(JsonLine line) {
  Result<Ok> known = check_keys(line, {"tokens", "thinking_mode", "tools", "engine_finish"});
  if (!known) return known.error();
  if (!line.value.contains("tokens") || !line.value["tokens"].is_array()) {
    return wrong_member(line, "tokens", "a list of token ids and texts");
  }
  Result<ThinkingMode> mode = mode_member(line);
  if (!mode) return mode.error();
  Result<std::string> finish = finish_member(line);
  if (!finish) return finish.error();
  Result<ToolSet> tools = ToolSet::parse(line.value.value("tools", Json()));
  if (!tools) return Error{tools.error().code, line.where + ": " + tools.error().message};
  return ReplyLine{.tokens = std::move(line.value["tokens"]),
                   .tools = std::make_shared<const ToolSet>(*std::move(tools)),
                   .mode = *mode,
                   .engine_finish = *std::move(finish),
                   .where = std::move(line.where)};
}

Result<std::vector<OutputEvent>> parse_reply(const ReplyLine& reply, const Tokenizer& tokenizer,
                                             bool m3_ids) {
  TokenOutputParser parser(tokenizer, reply.tools, reply.mode);
  std::vector<OutputEvent> events;
  for (size_t i = 0; i < reply.tokens.size(); ++i) {
    const Json& token = reply.tokens[i];
    if (token.is_string()) {
      parser.push_text(token.get_ref<const std::string&>(), events);
      continue;
    }
    const Result<TokenId> any = token_id(token, reply.where, i, kTokenIdLimit);
    if (m3_ids && any && m3_added_token(*any)) {
      parser.push_added(*m3_added_token(*any), events);
      continue;
    }
    Result<TokenId> id = token_id(token, reply.where, i, tokenizer.n_ids());
    if (!id) return id.error();
    parser.push(*id, events);
  }
  parser.finish(reply.engine_finish, events);
  return events;
}

}  // namespace

int parse_command(const Arguments& arguments) {
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return fail(tokenizer.error());
  Result<JsonLines> lines = JsonLines::open(arguments.given("file") ? arguments.text("file") : "-");
  if (!lines) return fail(lines.error());
  while (true) {
    Result<std::optional<JsonLine>> line = lines->next();
    if (!line) return fail(line.error());
    if (!line->has_value()) return finish_output();
    Result<ReplyLine> reply = read_reply(**std::move(line));
    if (!reply) return fail(reply.error());
    Result<std::vector<OutputEvent>> events =
        parse_reply(*reply, *tokenizer, arguments.on("m3-ids"));
    if (!events) return fail(events.error());
    const Json out = arguments.on("events") ? events_json(*events) : result_json(*events);
    if (!write_out(dump_json(out) + "\n") || !flush_out()) break;
  }
  return finish_output();
}

}  // namespace minim
