// From argv to a sub-command. What follows the sub-command is its business.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/bus_error.h"
#include "apps/command.h"
#include "apps/console.h"
#include "apps/help.h"
#include "apps/options.h"

namespace minim {
namespace {

constexpr Command kCommands[] = {
    {"run", kInRun, "[PROMPT]",
     "answers a prompt from the argument, a file or stdin; a chat on a terminal",
     "The prompt is PROMPT, the content of --file, or standard input (also written -). Without any "
     "of them and with standard input on a terminal it is a chat that remembers what was said.\n\n"
     "Tokens are written as they come. On a terminal thinking is shown dimmed in front of the "
     "answer; in a pipe it is left out. A tool call is a line of its own, \"→ NAME ARGUMENTS\", "
     "with the arguments as JSON. Ctrl-C stops the answer, a second one the "
     "program. A summary goes to standard error.\n\n"
     "With --json one object is written at the end: \"text\" (the answer without its thinking), "
     "\"reasoning\" (the thinking, or null), \"tool_calls\" ([{\"name\", \"arguments\", "
     "\"complete\"}]; the arguments are JSON text, cut short where the reply ended inside the "
     "call), \"tokens\" (all ids that were generated, the stop id included), \"finish_reason\" "
     "(stop: the model ended; tool_calls: it ended and called tools; length: --max-tokens or the "
     "context did; cancelled: Ctrl-C), \"seed\", \"usage\" and \"timings\".\n\n"
     "With --raw nothing is taken apart: thinking, markup and markers stay in the text, as the "
     "model wrote them.\n\n"
     "With --batch many prompts are answered side by side. A line of the file is an object with "
     "\"id\" and one of \"prompt\" (as PROMPT), \"messages\" (a conversation) and \"tokens\" (ids "
     "as they are), and what differs from the flags: \"temperature\", \"top_k\", \"top_p\", "
     "\"min_p\", \"repetition_penalty\", \"presence_penalty\", \"frequency_penalty\", \"seed\", "
     "\"max_tokens\", \"min_tokens\", \"stop\" (a text or texts that end the answer and are no "
     "part "
     "of it), \"stop_token_ids\", \"ignore_eos\", \"logit_bias\" ({\"ID\": number}, -100: never), "
     "\"bad_words\" (texts or lists of ids), \"allowed_token_ids\", \"logprobs\" and "
     "\"prompt_logprobs\" (K: of each token and of the K most probable ones), \"tools\", "
     "\"tool_choice\", \"response_format\" or one of \"json_schema\", \"json_object\", \"regex\", "
     "\"choice\" and \"grammar\", \"thinking\" or \"effort\", and \"thinking_budget\". Other keys "
     "are refused.\n\n"
     "The answers come as JSON Lines in order of the input, each with the members of --json and "
     "its \"id\", and are those that run gives one by one. A line that cannot be answered gives "
     "{\"id\", \"error\": {\"code\", \"message\"}} in its place; the others are answered, and the "
     "exit code is 1 at the end. With --output FILE a batch that was stopped, even by kill -9, "
     "goes on behind its last whole answer when it is started again with the same arguments; a "
     "file that holds other answers is refused. Without --context a file (not a pipe) is read "
     "once beforehand to find what its longest line needs.",
     run_command},
    {"score", kInScore, "",
     "log-probabilities of given tokens or text, with --trace router picks and selected blocks",
     "The input is --tokens, --tokens-file, --text or --file. For each position one JSON object a "
     "line: \"id\" if the input had one, \"index\", \"token\", \"logprob\" (of this token after "
     "those before it; null at index 0) and, with --top K, \"top\", the K most probable tokens "
     "there. With --trace also \"experts\", per layer the chosen experts in order of choice (null "
     "where a layer has no routing), and \"blocks\", per layer and KV group the cache blocks that "
     "were read (null where attention is dense).\n\n"
     "After the last position \"next\" holds the K most probable tokens that would follow (one "
     "when K is 0), and \"summary\" the number of tokens, the sum of the log-probabilities and the "
     "perplexity.\n\n"
     "The distribution is the model's own, before any sampling rule, over the ids that have a "
     "token; an id without one has the log-probability null. A model folder without a tokenizer "
     "can score --tokens and --tokens-file: then all ids count.",
     score_command},
    {"tokenize", kInTokenize, "", "text to token ids",
     "Reads JSON Lines {\"text\", \"parse_special\"} from standard input or --file, or takes "
     "--text; "
     "writes {\"tokens\": [...]} for each. With \"parse_special\": true special tokens written in "
     "the "
     "text become their ids; by default all is ordinary text.",
     tokenize_command},
    {"detokenize", kInDetokenize, "", "token ids to text, at once or as a stream",
     "Reads JSON Lines {\"tokens\": [...], \"stream\"} from standard input or --file, or takes "
     "--tokens; writes {\"text\"} for each. With \"stream\": true it writes {\"deltas\": [...]}: "
     "what "
     "each token adds, and one more if something was held back at the end. A character that is not "
     "finished is held back, "
     "bytes that are no UTF-8 become U+FFFD.",
     detokenize_command},
    {"template", kInTemplate, "", "renders a conversation with the model's chat template",
     "Reads JSON Lines {\"messages\": [...], \"tools\", \"chat_template_kwargs\", "
     "\"add_generation_prompt\"} from standard input or --file; writes {\"text\"} for each, or "
     "{\"error\"} for a conversation that the template refuses. \"chat_template_kwargs\" are "
     "variables of "
     "the template (thinking_mode and others); \"add_generation_prompt\" is true by default.",
     template_command},
    {"parse", kInParse, "", "takes a model's reply apart: reasoning, content, tool calls",
     "Reads JSON Lines {\"tokens\": [...], \"thinking_mode\", \"tools\", \"engine_finish\"} from "
     "standard input or --file. A token is an id, or a string: text of ordinary tokens. "
     "\"thinking_mode\" is that of the request (enabled: the reply begins with thinking), "
     "\"tools\" the tools that it offered, \"engine_finish\" why the reply ended: stop (the model "
     "ended it, the default), length or content_filter. docs/output.md has the rules.\n\n"
     "For each reply one object is written: \"reasoning\" and \"content\" (null where there is "
     "none), \"tool_calls\" ([{\"name\", \"arguments\", \"complete\"}], the arguments as JSON "
     "text), \"finish\" and \"order\", the sequence of the pieces. With --events it is a list of "
     "events instead, as a stream gets them: {\"e\": \"reasoning\" or \"text\", \"d\"}, {\"e\": "
     "\"tool_start\", \"i\", \"name\"}, {\"e\": \"args\", \"i\", \"d\"}, {\"e\": \"tool_end\", "
     "\"i\", \"complete\"}, {\"e\": \"finish\", \"kind\"}.",
     parse_command},
    {"grammar", kInGrammar, "",
     "says which texts a JSON schema, a regular expression, a list or a grammar allows",
     "Reads JSON Lines {\"schema\": ...}, {\"regex\": ...}, {\"choice\": [...]} or {\"ebnf\": "
     "...}, "
     "each with \"texts\": [...], from standard input or --file; writes {\"accepts\": [true, "
     "false, "
     "...]} for each: whether a reply under that constraint may be the text. A constraint that "
     "cannot be enforced as a whole gives {\"refused\": why}, with the keyword and its place in "
     "the "
     "schema. docs/structured_output.md says what is supported.",
     grammar_command},
    {"doctor", kInDoctor, "",
     "looks at processor, memory, disk and model folder, and says whether the model can run",
     "Checks the processor and its instruction-set tiers (the long self-test), memory, huge pages, "
     "the read speed of the model's disk, and whether the checkpoint is complete and understood; "
     "lists every problem, and says what a --context needs. The exit code is 0 if the model can "
     "run here and 1 if not.",
     doctor_command},
};

constexpr std::string_view kLaterCommands[] = {"serve",  "plan",     "bench",
                                               "replay", "manifest", "pack"};

int generate(const std::string& form) {
  if (form == "markdown")
    write_out(markdown_reference());
  else if (form == "man")
    write_out(man_page());
  else if (form == "bash")
    write_out(bash_completion());
  else
    return usage_error(fmt::format("--generate '{}': wanted: markdown|man|bash", form));
  return finish_output();
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(program_help().c_str(), stderr);
    return kUsage;
  }
  const std::string& first = words[0];
  if (first == "--help" || first == "-h" || first == "help") {
    write_out(program_help());
    return finish_output();
  }
  if (first == "--version") {
    write_out(fmt::format("minim {}\n", MINIM_VERSION));
    return finish_output();
  }
  if (first == "--generate") return generate(words.size() > 1 ? words[1] : "");
  for (const std::string_view later : kLaterCommands) {
    if (first == later) {
      return usage_error(
          fmt::format("'{}' is not part of this version; minim --help lists the "
                      "commands",
                      first));
    }
  }
  const Command* command = find_command(first);
  if (command == nullptr) {
    const std::string what = first[0] == '-'
                                 ? "unknown flag in front of the command; flags go behind it"
                                 : "unknown command";
    return usage_error(fmt::format("{}: '{}'; minim --help lists the commands", what, first));
  }
  Result<Arguments> arguments = Arguments::parse(*command, {words.begin() + 1, words.end()});
  if (!arguments) {
    return usage_error(fmt::format("{}; minim {} --help lists the flags", arguments.error().message,
                                   command->name));
  }
  if (arguments->help()) {
    write_out(command_help(*command));
    return finish_output();
  }
  const size_t allowed = *command->words == '\0' ? 0 : 1;
  if (arguments->words().size() > allowed) {
    return usage_error(fmt::format("unexpected word '{}'; minim {} takes {}",
                                   arguments->words()[allowed], command->name,
                                   allowed == 0 ? "flags only" : "one prompt: put it in quotes"));
  }
  return command->run(*arguments);
}

}  // namespace

std::span<const Command> command_table() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int run_program(int argc, char** argv) {
  report_bus_errors();
  // Nothing of ours throws; the standard library does when memory is short.
  try {
    return dispatch({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::bad_alloc&) {
    return fail({Code::kExhausted, "out of memory; a smaller --context or --chunk needs less"});
  } catch (const std::exception& e) {
    return fail({Code::kIo, fmt::format("unexpected failure: {}", e.what())});
  }
}

}  // namespace minim
