// Where prompt injection by tokens is stopped. Segments are not encoded one by one: a border
// between template and data may lie inside a word, and the reference joins them before splitting.
#include "text/prompt.h"

namespace minim {

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer,
                                   std::span<const PromptSegment> segments) {
  Tokenizer::Scratch scratch;
  std::vector<TokenId> ids;
  std::string run;  // ordinary text since the last added token
  const auto flush = [&] {
    tokenizer.encode_append(run, false, scratch, ids);
    run.clear();
  };
  for (const PromptSegment& segment : segments) {
    if (!segment.ids.empty()) {
      flush();
      ids.insert(ids.end(), segment.ids.begin(), segment.ids.end());
      continue;
    }
    if (!segment.from_template) {
      run += segment.text;
      continue;
    }
    for (const AddedTokens::Stretch& stretch : tokenizer.find_added_tokens(segment.text)) {
      if (stretch.id < 0) {
        run += stretch.text;
      } else {
        flush();
        ids.push_back(stretch.id);
      }
    }
  }
  flush();
  return ids;
}

}  // namespace minim
