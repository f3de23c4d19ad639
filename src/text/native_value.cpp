// Reads nlohmann's values in place: copying a conversation into template values first was a third
// of the interpreter's time. Objects are short and keep their order, so members are found by a
// scan.
#include "text/native_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/python_repr.h"
#include "text/utf8.h"

namespace minim::native {
namespace {

using Object = Json::object_t;
using Array = Json::array_t;

bool ordinary_value(const Json& value, int depth) {
  switch (value.type()) {
    case Json::value_t::string:
      return valid_utf8(*value.get_ptr<const std::string*>());
    case Json::value_t::array: {
      const Array& items = *value.get_ptr<const Array*>();
      return depth < kMaxDepth && std::all_of(items.begin(), items.end(), [&](const Json& item) {
               return ordinary_value(item, depth + 1);
             });
    }
    case Json::value_t::object: {
      const Object& members = *value.get_ptr<const Object*>();
      return depth < kMaxDepth && std::all_of(members.begin(), members.end(), [&](const auto& m) {
               return valid_utf8(m.first) && ordinary_value(m.second, depth + 1);
             });
    }
    case Json::value_t::binary:
    case Json::value_t::discarded:
      return false;
    default:
      return true;
  }
}

void append_integer(const Json& value, std::string* out) {
  if (value.is_number_unsigned())
    *out += fmt::format_int(value.get<uint64_t>()).c_str();
  else
    *out += fmt::format_int(value.get<int64_t>()).c_str();
}

void append_json_string(const std::string& text, std::string* out) {
  const auto plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  };
  *out += '"';
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find_if_not(at, text.end(), plain);
    out->append(at, end);
    at = end;
    if (at == text.end()) break;
    append_json_escaped(static_cast<char32_t>(*at), std::string_view(&*at, 1), false, out);
    ++at;
  }
  *out += '"';
}

}  // namespace

const Json* member(const Json& value, std::string_view name) {
  const Object* members = value.get_ptr<const Object*>();
  if (!members) return nullptr;
  for (const auto& [key, item] : *members) {
    if (key == name) return &item;
  }
  return nullptr;
}

bool truthy(const Json* value) {
  if (!value) return false;
  switch (value->type()) {
    case Json::value_t::boolean:
      return value->get<bool>();
    case Json::value_t::number_integer:
      return value->get<int64_t>() != 0;
    case Json::value_t::number_unsigned:
      return value->get<uint64_t>() != 0;
    case Json::value_t::number_float:
      return value->get<double>() != 0;
    case Json::value_t::string:
      return !value->get_ref<const std::string&>().empty();
    case Json::value_t::array:
    case Json::value_t::object:
      return !value->empty();
    default:
      return false;
  }
}

bool equals(const Json* value, std::string_view text) {
  const std::string* held = value ? value->get_ptr<const std::string*>() : nullptr;
  return held && *held == text;
}

bool ordinary(const Json& vars) {
  return !member(vars, "namespace") && !member(vars, "raise_exception") && ordinary_value(vars, 0);
}

bool append_str(const Json& value, std::string* out) {
  switch (value.type()) {
    case Json::value_t::null:
      *out += "None";
      return true;
    case Json::value_t::boolean:
      *out += value.get<bool>() ? "True" : "False";
      return true;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      append_integer(value, out);
      return true;
    case Json::value_t::number_float:
      *out += python_float_repr(value.get<double>());
      return true;
    case Json::value_t::string:
      *out += value.get_ref<const std::string&>();
      return true;
    default:
      return false;
  }
}

void append_json(const Json& value, std::string* out) {
  const char* separator = "";
  switch (value.type()) {
    case Json::value_t::null:
      *out += "null";
      return;
    case Json::value_t::boolean:
      *out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_float:
      *out += json_float(value.get<double>());
      return;
    case Json::value_t::string:
      return append_json_string(value.get_ref<const std::string&>(), out);
    case Json::value_t::array:
      *out += '[';
      for (const Json& item : value.get_ref<const Array&>()) {
        *out += std::exchange(separator, ", ");
        append_json(item, out);
      }
      *out += ']';
      return;
    case Json::value_t::object:
      *out += '{';
      for (const auto& [key, item] : value.get_ref<const Object&>()) {
        *out += std::exchange(separator, ", ");
        append_json_string(key, out);
        *out += ": ";
        append_json(item, out);
      }
      *out += '}';
      return;
    default:
      return append_integer(value, out);
  }
}

}  // namespace minim::native
