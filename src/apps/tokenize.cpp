// minim tokenize: text to token ids.
#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"

namespace minim {
namespace {

bool write_tokens(const std::vector<TokenId>& tokens) {
  return write_out(dump_json(Json{{"tokens", tokens}}) + "\n");
}

}  // namespace

int tokenize_command(const Arguments& arguments) {
  if (arguments.given("text") && arguments.given("file")) {
    return usage_error("--text and --file are both given; one input is wanted");
  }
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<Tokenizer> tokenizer = load_tokenizer(*folder);
  if (!tokenizer) return fail(tokenizer.error());
  const bool special = arguments.on("parse-special");
  if (arguments.given("text")) {
    write_tokens(tokenizer->encode(arguments.text("text"), special));
    return finish_output();
  }
  Result<JsonLines> lines = JsonLines::open(arguments.given("file") ? arguments.text("file") : "-");
  if (!lines) return fail(lines.error());
  while (true) {
    Result<std::optional<JsonLine>> line = lines->next();
    if (!line) return fail(line.error());
    if (!line->has_value()) return finish_output();
    Result<Ok> known = check_keys(**line, {"text", "parse_special"});
    if (!known) return fail(known.error());
    Result<std::string> text = string_member(**line, "text");
    if (!text) return fail(text.error());
    Result<bool> parse_special = bool_member(**line, "parse_special", special);
    if (!parse_special) return fail(parse_special.error());
    if (!write_tokens(tokenizer->encode(*text, *parse_special)) || !flush_out()) break;
  }
  return finish_output();
}

}  // namespace minim
