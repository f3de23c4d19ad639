// Leftmost-longest search over a sorted list of literals. At each place whose byte starts some
// literal, the run of literals that agree with the text is narrowed byte by byte with binary
// search; the last one that is used up whole is the longest. Literals are short and few start bytes
// occur in prose, so this is a scan in practice; the bound on their length keeps hostile text
// linear. An Aho-Corasick automaton would drop that bound for 256 table entries a node.
//
// Tokens marked "normalized" are looked for in a second pass over what the first left, as the
// reference does even where there is no normalizer.
#include "text/added_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "text/utf8.h"

namespace minim {
namespace {

// Bytes of white space at the end of `text`.
size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80)
      --begin;
    const std::string_view last = text.substr(begin, end - begin);
    if (valid_utf8_length(last) != last.size() || !is_white_space(utf8_code_point(last))) break;
    end = begin;
  }
  return text.size() - end;
}

// Bytes of white space at the start of `text`.
size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Element element = utf8_first(text.substr(at));
    if (element.kind != Utf8Kind::kCharacter) break;
    if (!is_white_space(utf8_code_point(text.substr(at, element.length)))) break;
    at += element.length;
  }
  return at;
}

bool by_literal(const AddedToken& a, const AddedToken& b) { return a.literal < b.literal; }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    (token.normalized ? normalized_ : plain_).add(std::move(token));
  }
  std::sort(plain_.tokens.begin(), plain_.tokens.end(), by_literal);
  std::sort(normalized_.tokens.begin(), normalized_.tokens.end(), by_literal);
}

void AddedTokens::Set::add(AddedToken token) {
  CHECK(!token.literal.empty() && token.literal.size() <= kMaxAddedLiteral);
  starts[static_cast<uint8_t>(token.literal[0])] = true;
  tokens.push_back(std::move(token));
}

const AddedToken* AddedTokens::Set::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto low = tokens.begin();
  auto high = tokens.end();
  for (size_t depth = 0; low != high; ++depth) {
    if (low->literal.size() == depth) longest = &*low++;
    if (depth == text.size()) break;
    const char byte = text[depth];
    low = std::lower_bound(low, high, byte, [depth](const AddedToken& token, char b) {
      return static_cast<uint8_t>(token.literal[depth]) < static_cast<uint8_t>(b);
    });
    high = std::upper_bound(low, high, byte, [depth](char b, const AddedToken& token) {
      return static_cast<uint8_t>(b) < static_cast<uint8_t>(token.literal[depth]);
    });
  }
  return longest;
}

void AddedTokens::Set::cut(std::string_view text, std::vector<Stretch>& out) const {
  size_t covered = 0;
  for (size_t at = 0; at < text.size();) {
    const bool possible = starts[static_cast<uint8_t>(text[at])];
    const AddedToken* token = possible ? longest_at(text.substr(at)) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->literal.size();
    if (token->strip_left) begin -= trailing_space(text.substr(covered, at - covered));
    if (token->strip_right) end += leading_space(text.substr(end));
    if (covered < begin) out.push_back({text.substr(covered, begin - covered), -1});
    out.push_back({text.substr(begin, end - begin), token->id});
    covered = at = end;
  }
  if (covered < text.size()) out.push_back({text.substr(covered), -1});
}

std::vector<AddedTokens::Stretch> AddedTokens::find(std::string_view text) const {
  std::vector<Stretch> stretches;
  plain_.cut(text, stretches);
  if (normalized_.tokens.empty()) return stretches;
  std::vector<Stretch> finer;
  for (const Stretch& stretch : stretches) {
    if (stretch.id >= 0) {
      finer.push_back(stretch);
    } else {
      normalized_.cut(stretch.text, finer);
    }
  }
  return finer;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view literal) const {
  if (literal.empty()) return std::nullopt;
  for (const Set* set : {&plain_, &normalized_}) {
    const AddedToken* token = set->longest_at(literal);
    if (token != nullptr && token->literal.size() == literal.size()) return token->id;
  }
  return std::nullopt;
}

}  // namespace minim
