// generation_config.json: how its maker meant a model to be sampled, and where an answer ends.
#include <fmt/format.h>

#include <optional>

#include "base/json.h"
#include "base/json_fields.h"
#include "model/config.h"

namespace minim {
namespace {

void read_stop_ids(JsonFields& fields, std::vector<int32_t>& ids) {
  const char* key = "eos_token_id";
  if (!fields.has(key)) return;
  const SortedJson& value = *fields.find(key);
  if (!value.is_array()) {
    ids.push_back(fields.integer(key, 0, INT32_MAX));
    return;
  }
  for (const SortedJson& item : value) {
    const std::optional<int> id = json_integer(item, 0, INT32_MAX);
    if (!id) fields.fail(fmt::format("{} has {}, wanted token ids", key, describe_json(item)));
    ids.push_back(id.value_or(0));
  }
}

Result<Ok> read_generation(const std::string& json, const std::string& name,
                           GenerationDefaults& defaults) {
  const Result<SortedJson> document = parse_sorted_json(json, name);
  if (!document) return document.error();
  FirstError error;
  JsonFields fields(*document, name + ": ", error);
  read_stop_ids(fields, defaults.stop_ids);
  if (fields.has("temperature")) defaults.temperature = fields.number_or("temperature", 0, 100, 1);
  if (fields.has("top_p")) defaults.top_p = fields.number_or("top_p", 0, 1, 1);
  if (fields.has("top_k")) {
    const int k = fields.integer("top_k", -1, INT32_MAX);
    if (k > 0) defaults.top_k = k;
  }
  if (fields.has("do_sample") && !fields.flag_or("do_sample", true)) defaults.temperature = 0.0;
  if (error) return *error;
  return Ok{};
}

// The ids in config.json, for folders whose generation_config.json names none.
Result<Ok> read_fallback_stop_ids(const std::string& json, const std::string& name,
                                  GenerationDefaults& defaults) {
  const Result<SortedJson> document = parse_sorted_json(json, name);
  if (!document) return document.error();
  FirstError error;
  JsonFields root(*document, name + ": ", error);
  read_stop_ids(root, defaults.stop_ids);
  if (defaults.stop_ids.empty()) {
    JsonFields text = root.object_or_empty("text_config");
    read_stop_ids(text, defaults.stop_ids);
  }
  if (error) return *error;
  return Ok{};
}

}  // namespace

Result<GenerationDefaults> load_generation_defaults(const std::string& model_dir) {
  GenerationDefaults defaults;
  const std::string path = model_dir + "/generation_config.json";
  const Result<std::optional<std::string>> json = read_plain_file(path);
  if (!json) return json.error();
  if (json->has_value()) {
    if (Result<Ok> read = read_generation(**json, path, defaults); !read) return read.error();
  }
  if (!defaults.stop_ids.empty()) return defaults;
  const std::string config_path = model_dir + "/config.json";
  const Result<std::string> config = require_plain_file(config_path);
  if (!config) return config.error();
  if (Result<Ok> read = read_fallback_stop_ids(*config, config_path, defaults); !read) {
    return read.error();
  }
  return defaults;
}

}  // namespace minim
