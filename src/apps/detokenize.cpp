// minim detokenize: token ids to text, at once or as a stream.
#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"
#include "text/detokenizer.h"

namespace minim {
namespace {

// What each token adds; one more when something was still held at the end.
Json deltas(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  Json out = Json::array();
  Detokenizer stream(tokenizer, false);
  for (const TokenId token : tokens) out.push_back(stream.push(token));
  if (std::string rest = stream.flush(); !rest.empty()) out.push_back(std::move(rest));
  return out;
}

bool write_text(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens, bool stream) {
  const Json object = stream ? Json{{"deltas", deltas(tokenizer, tokens)}}
                             : Json{{"text", decode(tokenizer, tokens, false)}};
  return write_out(dump_json(object) + "\n");
}

}  // namespace

int detokenize_command(const Arguments& arguments) {
  if (arguments.given("tokens") && arguments.given("file")) {
    return usage_error("--tokens and --file are both given; one input is wanted");
  }
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return fail(tokenizer.error());
  if (arguments.given("tokens")) {
    Result<std::vector<int32_t>> tokens =
        parse_token_list(arguments.text("tokens"), tokenizer->n_ids());
    if (!tokens) return fail(tokens.error());
    write_text(*tokenizer, *tokens, false);
    return finish_output();
  }
  Result<JsonLines> lines = JsonLines::open(arguments.given("file") ? arguments.text("file") : "-");
  if (!lines) return fail(lines.error());
  while (true) {
    Result<std::optional<JsonLine>> line = lines->next();
    if (!line) return fail(line.error());
    if (!line->has_value()) return finish_output();
    Result<Ok> known = check_keys(**line, {"tokens", "stream"});
    if (!known) return fail(known.error());
    Result<std::vector<int32_t>> tokens = tokens_member(**line, "tokens", tokenizer->n_ids(), true);
    if (!tokens) return fail(tokens.error());
    Result<bool> stream = bool_member(**line, "stream", false);
    if (!stream) return fail(stream.error());
    if (!write_text(*tokenizer, *tokens, *stream) || !flush_out()) break;
  }
  return finish_output();
}

}  // namespace minim
