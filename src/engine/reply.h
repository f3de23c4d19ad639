// What becomes of tokens once they are drawn: the reply's own rules, its end, its ticket.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"

namespace minim {

// A reply that has just come in: tokens that must come first are taken.
void begin_reply(Sequence& sequence, int context);
// Draws the next token from the logits of the last one, and takes it with all that must follow.
// `allowed`: of the rules. An error ends the reply (Finish::kError).
void draw_token(Sequence& sequence, std::span<const float> logits,
                std::span<const uint32_t> allowed, const TokenMask& mask, int context);
// The log-probabilities that were asked for of the token behind position `position`, if it is
// there; `logits` are those of the position.
void keep_logprobs(Sequence& sequence, int position, std::span<const float> logits,
                   const TokenMask& mask);
// Tells the ticket everything that is certain. True: the reply is over and its end was told.
bool tell(Sequence& sequence);
// Ends a reply at once, wherever it is.
void end_reply(Sequence& sequence, Finish finish);

}  // namespace minim
