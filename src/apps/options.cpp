// The table. Ranges here are those of the flag; what depends on a model (context, ids) is checked
// where the model is known.
#include "apps/options.h"

#include <cctype>

namespace minim {
namespace {

constexpr double kMaxInt = 2147483647.0;

constexpr OptionSpec kOptions[] = {
    // ---- what to answer
    {"file", OptionKind::kText, "FILE", "",
     "Read the prompt (run), the text (score) or the JSON Lines (tokenize, detokenize, template, "
     "parse, grammar) from FILE; - is standard input.",
     kInRun | kInScore | kInTokenize | kInDetokenize | kInTemplate | kInParse | kInGrammar, false},
    {"batch", OptionKind::kText, "FILE", "",
     "Answer many prompts side by side: JSON Lines {\"id\", \"messages\", \"prompt\" or "
     "\"tokens\", sampling...}; - is standard input.",
     kInRun, false},
    {"output", OptionKind::kText, "FILE", "standard output",
     "Write the answers of --batch to FILE. If it holds the first of them already, go on behind "
     "them.",
     kInRun, false},
    {"parallel", OptionKind::kInteger, "N", "16", "Prompts of --batch that run at once.", kInRun,
     true, 1, 256},
    {"text", OptionKind::kText, "TEXT", "", "Take TEXT as the input.", kInScore | kInTokenize,
     false},
    {"tokens", OptionKind::kText, "IDS", "", "Take these token ids, separated by commas.",
     kInScore | kInDetokenize, false},
    {"tokens-file", OptionKind::kText, "FILE", "",
     "Read JSON Lines {\"id\", \"tokens\": [...]}, one sequence a line; - is standard input.",
     kInScore, false},
    {"template", OptionKind::kText, "FILE", "the model's own",
     "Render this Jinja template instead.", kInTemplate, false},
    {"system", OptionKind::kText, "TEXT", "the template's own",
     "The system message in front of the conversation.", kInRun, false},
    {"thinking", OptionKind::kChoice, "enabled|disabled|adaptive", "adaptive",
     "Whether the model thinks before it answers (template variable thinking_mode).", kInRun, true},
    {"effort", OptionKind::kChoice, "none|minimal|low|medium|high|xhigh|max", "",
     "--thinking in the words of the APIs: none and minimal disable thinking, low leaves it to the "
     "model, the others enable it.",
     kInRun, false},
    {"thinking-budget", OptionKind::kInteger, "N", "no bound",
     "Close the thinking after N tokens of it.", kInRun, true, 0, kMaxInt},
    {"tools", OptionKind::kText, "FILE", "",
     "Offer the model these tools: a JSON list as the \"tools\" of a chat request.", kInRun, false},
    // ---- what form the answer has
    {"json-schema", OptionKind::kText, "FILE", "",
     "The answer is JSON that satisfies the schema in FILE; - is standard input.", kInRun, false},
    {"json-schema-text", OptionKind::kText, "SCHEMA", "", "The same, with the schema itself.",
     kInRun, false},
    {"json-object", OptionKind::kSwitch, "", "", "The answer is a JSON object.", kInRun, false},
    {"regex", OptionKind::kText, "RE", "", "The answer as a whole matches the regular expression.",
     kInRun, false},
    {"choice", OptionKind::kText, "LIST", "",
     "The answer is one of these, a JSON list of strings: [\"yes\", \"no\"].", kInRun, false},
    {"grammar", OptionKind::kText, "FILE", "",
     "The answer is a text of the grammar in FILE (EBNF, rule root); - is standard input.", kInRun,
     false},
    {"tool-choice", OptionKind::kText, "auto|none|required|NAME", "auto",
     "Whether the answer may, must not or must call tools; NAME: it calls this one.", kInRun,
     false},
    {"raw", OptionKind::kSwitch, "", "",
     "The prompt goes to the model as it is, without the chat template; special tokens written in "
     "it are special tokens. The reply is shown as the model wrote it, markup included.",
     kInRun, false},
    {"parse-special", OptionKind::kSwitch, "", "",
     "Special tokens written in --text or --file are special tokens; otherwise all is ordinary "
     "text.",
     kInScore | kInTokenize, false},
    {"m3-ids", OptionKind::kSwitch, "", "",
     "Ids of MiniMax-M3's added tokens (200000 to 200060) mean those tokens, whatever the model's "
     "own vocabulary has.",
     kInParse, false},
    // ---- what to print
    {"events", OptionKind::kSwitch, "", "",
     "Print the events of each reply, one JSON array a line, instead of its parts.", kInParse,
     false},
    {"top", OptionKind::kInteger, "K", "0", "Print the K most probable tokens of every position.",
     kInScore, false, 0, kMaxInt},
    {"trace", OptionKind::kSwitch, "", "",
     "Print the experts and the cache blocks that every position chose.", kInScore, false},
    // ---- how to sample
    {"max-tokens", OptionKind::kInteger, "N", "what the context holds",
     "Stop the answer after N tokens.", kInRun, true, 1, kMaxInt},
    {"greedy", OptionKind::kSwitch, "", "",
     "Always take the most probable token: the same as --temperature 0.", kInRun, true},
    {"temperature", OptionKind::kNumber, "T", "the model's generation_config.json, else 1",
     "Divide the logits by T; 0 is greedy.", kInRun, true, 0, 100},
    {"top-k", OptionKind::kInteger, "K", "the model's, else 0",
     "Sample from the K most probable tokens; 0 means all.", kInRun, true, 0, kMaxInt},
    {"top-p", OptionKind::kNumber, "P", "the model's, else 0.95",
     "Sample from the smallest set of tokens whose probability reaches P.", kInRun, true, 0, 1},
    {"min-p", OptionKind::kNumber, "P", "0",
     "Leave out tokens below P times the largest probability.", kInRun, true, 0, 1},
    {"repetition-penalty", OptionKind::kNumber, "R", "1",
     "Divide positive and multiply negative logits of all tokens seen so far, the prompt's too.",
     kInRun, true, 0.001, 1000},
    {"presence-penalty", OptionKind::kNumber, "X", "0",
     "Subtract X from the logits of tokens in the answer so far.", kInRun, true, -100, 100},
    {"frequency-penalty", OptionKind::kNumber, "X", "0",
     "Subtract X for each time that a token is in the answer so far.", kInRun, true, -100, 100},
    {"seed", OptionKind::kInteger, "N", "0",
     "The random numbers: one seed gives one answer, another seed another.", kInRun, true, 0,
     9007199254740992.0},
    // ---- common
    {"model", OptionKind::kText, "DIR", "the demo model",
     "Folder of a checkpoint: config.json, *.safetensors, tokenizer.json, chat_template.jinja.",
     kInAll, true},
    {"isa", OptionKind::kChoice, "scalar|avx2|avx512|auto", "auto",
     "Instruction-set tier of the kernels; results are the same in all of them.", kInAll, true},
    {"threads", OptionKind::kInteger, "N", "the processors that may be used", "Worker threads.",
     kInAll, true, 1, 1024},
    {"kv-dtype", OptionKind::kChoice, "auto|bf16|fp8_e4m3|nvfp4", "auto",
     "Format of cached keys and values; auto: what the checkpoint declares.", kInAll, true},
    {"index-dtype", OptionKind::kChoice, "auto|bf16|fp8_e4m3|nvfp4", "auto",
     "Format of cached index keys.", kInAll, true},
    {"attention", OptionKind::kChoice, "direct|gpu", "direct",
     "direct reads the cache exactly; gpu re-rounds it to E4M3 as GPU kernels do, to compare with "
     "them.",
     kInAll, true},
    {"numerics", OptionKind::kChoice, "exact|fast|reference", "exact",
     "reference: the naive device in double precision, nothing rounded, slow. fast is not part of "
     "this version.",
     kInAll, true},
    {"context", OptionKind::kInteger, "N",
     "4096, more if the input needs it, at most what the model has",
     "Positions that the cache holds.", kInAll, true, 1, kMaxInt},
    {"kv-cache-gb", OptionKind::kNumber, "N", "one context; with --batch what is needed or left",
     "Memory of the cache, in GiB.", kInRun, true, 0.001, 1048576},
    {"kv-host-gb", OptionKind::kNumber, "N", "0",
     "Memory for blocks that the cache had to drop, in GiB.", kInRun, true, 0, 1048576},
    {"kv-disk", OptionKind::kText, "DIR", "",
     "Keep computed blocks in DIR, for later runs too; one process at a time.", kInRun, false},
    {"kv-disk-gb", OptionKind::kNumber, "N", "16", "What DIR may hold, in GiB.", kInRun, true,
     0.001, 1048576},
    {"chunk", OptionKind::kInteger, "N", "512", "Prompt tokens that are computed at once.", kInAll,
     true, 1, 65536},
    {"quiet", OptionKind::kSwitch, "", "", "No progress, no summary; errors stay.", kInAll, true},
    {"json", OptionKind::kSwitch, "", "",
     "Write JSON. (score, tokenize, detokenize, template, parse and grammar always do.)", kInAll,
     true},
    {"config", OptionKind::kText, "FILE", "~/.config/minim/config.toml",
     "Configuration file: lines of flag = value, sections by sub-command.", kInAll, false},
};

}  // namespace

std::span<const OptionSpec> option_table() { return kOptions; }

const OptionSpec* find_option(std::string_view name) {
  for (const OptionSpec& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string environment_name(const OptionSpec& option) {
  std::string name = "MINIM_";
  for (const char* c = option.name; *c != '\0'; ++c) {
    name += *c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return name;
}

}  // namespace minim
