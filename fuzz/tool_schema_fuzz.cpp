// Arbitrary JSON as the tools of a request; bits of the first byte make all of them strict and
// allow several calls. What is taken becomes a grammar, some replies are drawn from its masks, and
// those that end must be read back as calls of these tools, with the required parameters of strict
// ones. (The grammar library itself is linked as it is, without instrumentation.)
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "byte_vocabulary.h"
#include "repaired.h"
#include "text/grammar.h"
#include "text/json_text.h"
#include "text/output_parser.h"
#include "text/tool_grammar.h"
#include "text/tool_set.h"

namespace {

constexpr minim::TokenId kStop = 256, kNs = 257;  // added tokens behind the bytes
constexpr minim::TokenId kIds = 259;
constexpr int kSteps = 200, kPatience = 20;  // draws of a reply, and before it looks for its end

struct Grammars {
  Grammars() {
    minim::GrammarCompiler::Limits limits;
    limits.max_bytes = size_t{1} << 18;  // of the grammar, which is longer than the schema
    limits.max_positions = 5000;
    limits.max_rules = 500;
    limits.cache_bytes = 1;
    auto made = minim::GrammarCompiler::create(tokenizer, std::vector{kStop}, limits);
    if (made) compiler = *std::move(made);
  }
  const minim::Tokenizer tokenizer = byte_vocabulary({"[e~[", "]<]minimax[>[", "<tool_call>"});
  std::unique_ptr<minim::GrammarCompiler> compiler;
};

bool allowed(const minim::TokenBits& bits, minim::TokenId id) {
  return (bits[static_cast<size_t>(id) / 32] >> id % 32 & 1) != 0;
}

// A token that may come next. The marker leads on, so it is taken mostly; after some time, what
// ends things is.
minim::TokenId choose(const minim::TokenBits& bits, int step, uint32_t& random) {
  if (allowed(bits, kStop)) return kStop;
  random = random * 1664525 + 1013904223;
  if ((random >> 16 & 7) != 0 && allowed(bits, kNs)) return kNs;
  for (const char end : std::string_view("/\n\"]}>")) {
    if (step >= kPatience && allowed(bits, end)) return end;
  }
  for (minim::TokenId i = 0; i < kIds; ++i) {
    const auto id = static_cast<minim::TokenId>((static_cast<uint32_t>(i) + (random >> 17)) % kIds);
    if (allowed(bits, id)) return id;
  }
  require(false);  // with all bytes at hand a reply can always go on
  return -1;
}

// A reply without its end token; nothing if it did not end soon.
std::vector<minim::TokenId> walk(const std::shared_ptr<const minim::CompiledGrammar>& grammar,
                                 uint32_t seed) {
  minim::GrammarMatcher matcher(grammar);
  minim::TokenBits bits;
  std::vector<minim::TokenId> reply;
  for (int step = 0; step < kSteps; ++step) {
    for (const minim::TokenId id : matcher.forced()) {
      require(matcher.accept(id));
      if (id == kStop) return reply;
      reply.push_back(id);
    }
    matcher.allowed(bits);
    const minim::TokenId next = choose(bits, step, seed);
    require(matcher.accept(next));
    if (next == kStop) return reply;
    reply.push_back(next);
  }
  return {};
}

void check_call(const minim::ParsedOutput::Call& call, const minim::ToolSet& tools) {
  const minim::Tool* tool = tools.find(call.name);
  require(tool != nullptr && call.complete);
  require(minim::respell_json(call.arguments) == call.arguments);
  if (!tool->strict || !tool->parameters.contains("required")) return;
  const auto arguments = minim::parse_json(call.arguments, "arguments");
  if (!arguments) return;  // numbers beyond the library's
  for (const minim::Json& name : tool->parameters["required"]) {
    require(arguments->contains(name.get<std::string>()));
  }
}

void check_reply(const std::vector<minim::TokenId>& reply, const minim::Tokenizer& tokenizer,
                 const std::shared_ptr<const minim::ToolSet>& tools) {
  minim::TokenOutputParser parser(tokenizer, tools, minim::ThinkingMode::kDisabled);
  std::vector<minim::OutputEvent> events;
  for (const minim::TokenId id : reply) parser.push(id, events);
  parser.finish("stop", events);
  minim::ParsedOutput output;
  for (const minim::OutputEvent& event : events) output.add(event);
  require(!output.content && !output.reasoning && !output.calls.empty());
  for (const auto& call : output.calls) check_call(call, *tools);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Grammars grammars;
  if (size == 0 || grammars.compiler == nullptr) return 0;
  auto json = minim::parse_json({reinterpret_cast<const char*>(data) + 1, size - 1}, "tools");
  if (!json) return 0;
  if ((data[0] & 1) != 0 && json->is_array()) {
    for (minim::Json& tool : *json) {
      if (!tool.is_object()) continue;
      minim::Json& function = tool.contains("function") ? tool["function"] : tool;
      if (function.is_object()) function["strict"] = true;
    }
  }
  const auto one_line = [](const minim::Error& error) {
    require(!error.message.empty() && error.message.find('\n') == std::string::npos);
    return 0;
  };
  minim::Result<minim::ToolSet> read = minim::ToolSet::parse(*json);
  if (!read) return one_line(read.error());
  if (read->empty()) return 0;
  const auto tools = std::make_shared<const minim::ToolSet>(*std::move(read));
  std::vector<const minim::Tool*> all;
  for (const minim::Tool& tool : tools->tools()) {
    require(tools->find(tool.name)->name == tool.name);
    if (tools->find(tool.name) == &tool) all.push_back(&tool);  // of equal names the first counts
  }
  auto spec = minim::tool_call_grammar(all, (data[0] & 2) != 0, grammars.tokenizer);
  if (!spec) return one_line(spec.error());
  auto grammar = grammars.compiler->compile(*spec);
  if (!grammar) return one_line(grammar.error());
  for (uint32_t seed = 0; seed < 2; ++seed) {
    const std::vector<minim::TokenId> reply = walk(*grammar, seed);
    if (!reply.empty()) check_reply(reply, grammars.tokenizer, tools);
  }
  return 0;
}
