// Stop strings: texts that end a reply and are not shown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minim {

// Searches the text, not the tokens: a match may begin and end inside tokens. The match that is
// completed first counts; of two that end at the same place the longer one. Work is linear in the
// text, whatever the strings.
class StopStrings {
 public:
  // Empty strings are left out.
  explicit StopStrings(std::vector<std::string> stops);

  // Adds text and returns what may be shown now: everything that can no longer be part of a match,
  // and once matched, what stands in front of the match (then nothing more, ever).
  std::string push(std::string_view text);
  // The end of the reply: what was held back.
  std::string flush();
  // The stop string found.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  std::optional<std::string> matched_;
};

}  // namespace minim
