// The table in M3's order, which its tokenizer.json has without a gap behind 200,000 base tokens.
#include "text/m3_vocabulary.h"

#include <cstddef>
#include <iterator>

namespace minim {
namespace {

constexpr TokenId kFirst = 200000;
constexpr std::string_view kAdded[] = {
    "]!p~[",
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<fim_pad>",
    "<reponame>",
    "<filename>",
    "<gh_stars>",
    "<issue_start>",
    "<issue_comment>",
    "<issue_closed>",
    "<jupyter_start>",
    "<jupyter_text>",
    "<jupyter_code>",
    "<jupyter_output>",
    "<empty_output>",
    "<commit_before>",
    "<commit_msg>",
    "<commit_after>",
    "]~b]",
    "[e~[",
    "]!d~[",
    "<function_call>",
    "<code_interpreter>",
    "]<]speech[>[",
    "]<]image[>[",
    "]<]video[>[",
    "]<]start of speech[>[",
    "]<]end of speech[>[",
    "]<]start of image[>[",
    "]<]end of image[>[",
    "]<]start of video[>[",
    "]<]end of video[>[",
    "]<]vision pad[>[",
    "]~!b[",
    "<jupyter_error>",
    "<add_file>",
    "<delete_file>",
    "<rename_file>",
    "<edit_file>",
    "<commit_message>",
    "<empty_source_file>",
    "<repo_struct>",
    "<code_context>",
    "<file_content>",
    "<source_files>",
    "<pr_start>",
    "<review_comment>",
    "<filepath>",
    "<file_sep>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "]<]frame[>[",
    "]<]start of frame[>[",
    "]<]end of frame[>[",
    "<|content_altered_placeholder|>",
    "]<]minimax[>[",
    "<mm:think>",
    "</mm:think>",
};
static_assert(std::size(kAdded) == 61);

}  // namespace

std::optional<std::string_view> m3_added_token(TokenId id) {
  if (id < kFirst || id - kFirst >= static_cast<TokenId>(std::size(kAdded))) return std::nullopt;
  return kAdded[static_cast<size_t>(id - kFirst)];
}

}  // namespace minim
