// One table indexed by id over one arena of bytes: 200,000 tokens cost two allocations instead of
// 200,000 strings, and looking at a token touches two cache lines.
#include "text/vocabulary.h"

#include "base/check.h"

namespace minim {

void Vocabulary::set(TokenId id, std::string_view bytes, Kind kind) {
  CHECK(id >= 0 && id < kTokenIdLimit);
  CHECK(arena_.size() + bytes.size() < UINT32_MAX);
  if (id >= n_ids()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[static_cast<size_t>(id)] = {static_cast<uint32_t>(arena_.size()),
                                       static_cast<uint32_t>(bytes.size()), kind};
  arena_.insert(arena_.end(), bytes.begin(), bytes.end());
}

Vocabulary::Kind Vocabulary::kind(TokenId id) const {
  if (id < 0 || id >= n_ids()) return kAbsent;
  return entries_[static_cast<size_t>(id)].kind;
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (kind(id) == kAbsent) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return {arena_.data() + entry.begin, entry.length};
}

}  // namespace minim
