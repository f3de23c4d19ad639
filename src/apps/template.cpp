// minim template: renders conversations.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/json_lines.h"
#include "apps/model_folder.h"
#include "text/chat_template.h"

namespace minim {
namespace {

Result<ChatTemplate> wanted_template(const Arguments& arguments) {
  if (arguments.given("template")) {
    const std::string& path = arguments.text("template");
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (status.type() != std::filesystem::file_type::fifo) return ChatTemplate::load(path);
    Result<std::string> source = read_input(path);  // <(...) of a shell
    if (!source) return source.error();
    return ChatTemplate::parse(*source, path);
  }
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return folder.error();
  return load_chat_template(*folder);
}

// What the template sees: the conversation, and the caller's variables under their own names.
Result<Json> variables(JsonLine line) {
  Result<Ok> known =
      check_keys(line, {"messages", "tools", "chat_template_kwargs", "add_generation_prompt"});
  if (!known) return known.error();
  if (!line.value.contains("messages") || !line.value["messages"].is_array()) {
    return Error{Code::kInvalid, line.where + ": \"messages\" is missing or is no list"};
  }
  Result<bool> generation_prompt = bool_member(line, "add_generation_prompt", true);
  if (!generation_prompt) return generation_prompt.error();
  Json out{{"messages", std::move(line.value["messages"])},
           {"add_generation_prompt", *generation_prompt}};
  if (line.value.contains("tools")) out["tools"] = std::move(line.value["tools"]);
  if (!line.value.contains("chat_template_kwargs")) return out;
  Json& kwargs = line.value["chat_template_kwargs"];
  if (!kwargs.is_object()) {
    return Error{Code::kInvalid, line.where + ": \"chat_template_kwargs\" is no object"};
  }
  // Names among themselves differ, so only ours have to be compared with each.
  auto& members = out.get_ref<Json::object_t&>();
  const auto n_own = static_cast<ptrdiff_t>(members.size());
  for (auto& [name, value] : kwargs.get_ref<Json::object_t&>()) {
    const auto end = members.begin() + n_own;
    const auto own = std::find_if(members.begin(), end,
                                  [&name = name](const auto& m) { return m.first == name; });
    if (own == end) {
      members.emplace_back(name, std::move(value));
    } else {
      own->second = std::move(value);
    }
  }
  return out;
}

}  // namespace

int template_command(const Arguments& arguments) {
  Result<ChatTemplate> chat_template = wanted_template(arguments);
  if (!chat_template) return fail(chat_template.error());
  Result<JsonLines> lines = JsonLines::open(arguments.given("file") ? arguments.text("file") : "-");
  if (!lines) return fail(lines.error());
  while (true) {
    Result<std::optional<JsonLine>> line = lines->next();
    if (!line) return fail(line.error());
    if (!line->has_value()) return finish_output();
    Result<Json> vars = variables(**std::move(line));
    if (!vars) return fail(vars.error());
    Result<std::vector<PromptSegment>> segments = chat_template->render(*vars, {});
    const Json out = segments ? Json{{"text", ChatTemplate::join(*segments)}}
                              : Json{{"error", segments.error().message}};
    if (!write_out(dump_json(out) + "\n") || !flush_out()) break;
  }
  return finish_output();
}

}  // namespace minim
