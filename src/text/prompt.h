// A rendered prompt as token ids.
#pragma once

#include <span>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace minim {

// Added tokens count only where the template wrote the whole literal: the same characters from a
// user or a tool, and a literal that lies across a border between the two, are ordinary text. What
// lies between two added tokens, template and data together, is split and merged as one run, as if
// it had been typed in one piece. The ids of a segment stand as they are and part the text around
// them as added tokens do. Nothing is added at the ends.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer,
                                   std::span<const PromptSegment> segments);

}  // namespace minim
