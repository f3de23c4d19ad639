// What each token id stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minim {

using TokenId = int32_t;

// Ids at or above this are refused at load: no vocabulary is near it, and tables are indexed by id.
inline constexpr TokenId kTokenIdLimit = 1 << 24;

class Vocabulary {
 public:
  enum Kind : uint8_t {
    kAbsent,
    kOrdinary,
    kAdded,
    kSpecial
  };  // special tokens are added ones too

  // `id` in [0, kTokenIdLimit). Total bytes below 4 GiB. Replaces what the id had.
  void set(TokenId id, std::string_view bytes, Kind kind);

  int32_t n_ids() const { return static_cast<int32_t>(entries_.size()); }  // highest id + 1
  // Any id may be asked for; one without token is kAbsent and has no bytes.
  Kind kind(TokenId id) const;
  // Valid as long as the vocabulary is, and across moves of it.
  std::string_view bytes(TokenId id) const;

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t length = 0;
    Kind kind = kAbsent;
  };
  std::vector<Entry> entries_;
  std::vector<char> arena_;  // all tokens' bytes in one run; a std::string would move short ones
};

}  // namespace minim
