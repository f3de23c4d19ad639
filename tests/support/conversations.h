// Random conversations: what clients send every day, and with `oddness` above 0 also what they
// should not send.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "base/json.h"

namespace minim::testing {

class Conversations {
 public:
  // Every choice is odd with this probability.
  Conversations(uint64_t seed, double oddness) : random_(seed), oddness_(oddness) {}

  // All variables of a template.
  Json variables() {
    Json vars{{"messages", messages()}};
    if (chance(0.7)) vars["add_generation_prompt"] = odd() ? value(1) : Json(chance(0.8));
    if (chance(0.6)) vars["thinking_mode"] = odd() ? value(1) : Json(mode());
    if (chance(0.4)) vars["tools"] = odd() ? value(2) : tools();
    if (chance(0.2)) vars["model_identity"] = odd() ? value(1) : Json(text());
    if (odd())
      vars[pick({"namespace", "raise_exception", "ns", "loop", "body", "mode"})] = value(2);
    return vars;
  }

  // A conversation that may end anywhere between two turns.
  Json messages() {
    Json out = Json::array();
    if (odd() && chance(0.1)) return value(2);
    if (chance(0.2)) out.push_back({{"role", "root"}, {"content", content()}});
    if (chance(0.4))
      out.push_back({{"role", pick({"system", "developer"})}, {"content", content()}});
    for (int n = number(0, 6); n > 0; --n) turn(out);
    return out;
  }

  // Appends a user's message, a reply, or a reply with calls and their results.
  void turn(Json& messages) {
    if (odd()) return void(messages.push_back(odd_message()));
    if (chance(0.1))
      messages.push_back({{"role", pick({"system", "developer", "other"})}, {"content", text()}});
    if (chance(0.5)) return void(messages.push_back({{"role", "user"}, {"content", content()}}));
    const int calls = chance(0.5) ? number(1, 3) : 0;
    messages.push_back(reply(calls));
    for (int i = 0; i < calls; ++i) {
      if (odd()) break;
      messages.push_back(
          {{"role", "tool"}, {"content", result()}, {"tool_call_id", std::to_string(i)}});
    }
  }

  // An assistant's message.
  Json reply(int calls) {
    Json message{{"role", "assistant"}};
    if (calls == 0 || chance(0.5))
      message["content"] = odd() ? value(2) : Json(text());
    else if (chance(0.5))
      message["content"] = nullptr;
    if (chance(0.3)) {
      message["content"] = "<mm:think>" + text() + "</mm:think>" + text();
      if (chance(0.3)) message["content"] = content();
    }
    if (chance(0.5)) message["reasoning_content"] = odd() ? value(2) : Json(text());
    for (int i = 0; i < calls; ++i) message["tool_calls"].push_back(call());
    if (odd()) message["tool_calls"] = value(3);
    return message;
  }

  Json call() {
    Json function{
        {"name", odd() ? value(1) : Json(pick({"f", "get_weather", "a-b", "naïve", ""}))}};
    function["arguments"] = odd() ? value(2) : mapping(3);
    if (odd()) function.erase(pick({"name", "arguments"}));
    if (odd()) return value(2);
    if (chance(0.2)) return function;
    return {{"id", text()}, {"type", "function"}, {"function", odd() ? value(2) : function}};
  }

  std::string text() {
    std::string out;
    for (int n = number(0, 3); n > 0; --n) {
      out += pick({"Hi",
                   "\n",
                   " ",
                   "<mm:think>",
                   "</mm:think>",
                   "]~b]user\n",
                   "]~b]ai\n",
                   "[e~[",
                   "]<]minimax[>[<tool_call>\n",
                   "]<]image[>[",
                   "é漢🙂",
                   "\"q\\\"",
                   "\x01\x7f",
                   "</response>",
                   "{{ x }}",
                   "1e16",
                   "None",
                   "the end.",
                   "\r\n\t",
                   "int main() { return 0; }\n"});
    }
    return out;
  }

  const char* mode() { return pick({"enabled", "disabled", "adaptive", "nonsense"}); }

  Json tools() {
    Json out = Json::array();
    for (int n = number(0, 3); n > 0; --n) {
      Json function{{"name", text()}, {"description", text()}, {"parameters", mapping(3)}};
      if (odd())
        out.push_back(value(2));
      else
        out.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    return out;
  }

  // Anything that JSON can say.
  Json value(int depth) {
    if (depth > 0 && chance(0.4)) {
      if (chance(0.5)) return mapping(depth);
      Json list = Json::array();
      for (int n = number(0, 3); n > 0; --n) list.push_back(value(depth - 1));
      return list;
    }
    switch (number(0, 6)) {
      case 0:
        return nullptr;
      case 1:
        return chance(0.5);
      case 2:
        return std::uniform_int_distribution<int64_t>(std::numeric_limits<int64_t>::min())(random_);
      case 3:
        return number(-2, 2);
      case 4: {
        constexpr double kReals[] = {0.0,  -0.0, 1.0,      1e16,   1e15,
                                     1e-7, 0.1,  -2.5e300, 5e-324, 123456.75};
        return kReals[number(0, 9)];
      }
      case 5:
        return std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(number(0, 2));
      default:
        return text();
    }
  }

  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  const char* pick(std::initializer_list<const char*> choices) {
    return choices.begin()[number(0, static_cast<int>(choices.size()) - 1)];
  }

 private:
  bool odd() { return oddness_ > 0 && chance(oddness_); }

  Json mapping(int depth) {
    Json out = Json::object();
    for (int n = number(0, 4); n > 0; --n)
      out[pick({"city", "days", "a b", "<", "", "items", "text", "type", "role", "ключ"})] =
          value(depth - 1);
    return out;
  }

  Json content() {
    if (odd()) return value(2);
    if (chance(0.7)) return text();
    Json out = Json::array();
    for (int n = number(0, 4); n > 0; --n) out.push_back(item());
    return out;
  }

  Json item() {
    if (odd()) return value(2);
    switch (number(0, 4)) {
      case 0:
        return text();
      case 1:
        return {{"type", pick({"image", "image_url", "video", "video_url", "audio", "input_text"})},
                {"url", "x"}};
      default:
        return {{"type", "text"}, {"text", odd() ? value(1) : Json(text())}};
    }
  }

  Json result() {
    if (odd()) return value(2);
    if (chance(0.7)) return text();
    Json out = Json::array();
    for (int n = number(0, 3); n > 0; --n) {
      if (odd())
        out.push_back(
            {{pick({"output", "type", "text"}), value(1)}, {"type", pick({"image", "text"})}});
      else
        out.push_back({{"type", chance(0.8) ? "text" : "image"}, {"text", text()}});
    }
    return out;
  }

  Json odd_message() {
    if (chance(0.1)) return value(2);
    Json message{{"role", chance(0.9)
                              ? Json(pick({"user", "assistant", "tool", "system", "root", "x"}))
                              : value(1)}};
    if (chance(0.8)) message["content"] = value(3);
    if (chance(0.3)) message["reasoning_content"] = value(1);
    if (chance(0.3)) message["tool_calls"] = value(3);
    return message;
  }

  std::mt19937_64 random_;
  double oddness_;
};

// A working day of an agent: rounds of a question, a call after some thought, its result and an
// answer, with two tools on offer.
inline Json long_chat(size_t n_messages) {
  const std::string paragraph(
      "The build fails in the second stage because the cache holds an object that was compiled "
      "with other flags; removing it helps, but the reason lies in the key of the cache.\n");
  Json messages = Json::array();
  for (size_t i = 0; i < n_messages; ++i) {
    const std::string n = std::to_string(i);
    if (i % 4 == 0) {
      messages.push_back({{"role", "user"}, {"content", "Question " + n + ": why? " + paragraph}});
    } else if (i % 4 == 1) {
      const Json arguments{{"path", "src/part_" + n + ".cpp"},
                           {"lines", {i, i + 100}},
                           {"options", {{"numbers", true}, {"limit", nullptr}}}};
      messages.push_back(
          {{"role", "assistant"},
           {"content", "I look at the file."},
           {"reasoning_content", paragraph + paragraph},
           {"tool_calls",
            {{{"id", n}, {"function", {{"name", "read_file"}, {"arguments", arguments}}}}}}});
    } else if (i % 4 == 2) {
      messages.push_back({{"role", "tool"}, {"content", paragraph + paragraph + paragraph}});
    } else {
      messages.push_back({{"role", "assistant"}, {"content", "Answer " + n + ". " + paragraph}});
    }
  }
  Json tools = Json::array();
  for (const char* name : {"read_file", "write_file"}) {
    const Json parameters{{"type", "object"},
                          {"properties", {{"path", {{"type", "string"}}}}},
                          {"required", {"path"}}};
    tools.push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}});
  }
  return {{"messages", std::move(messages)},
          {"tools", std::move(tools)},
          {"add_generation_prompt", true}};
}

}  // namespace minim::testing
