// The added tokens of the MiniMax-M3 vocabulary, for replies that name them by its ids.
#pragma once

#include <optional>
#include <string_view>

#include "text/vocabulary.h"

namespace minim {

// nullopt: no added token of M3.
std::optional<std::string_view> m3_added_token(TokenId id);

}  // namespace minim
