// Leftmost-longest search by a trie that is entered anew at each place whose byte starts some
// literal. Literals are short and few start bytes occur in prose, so this is a scan in practice;
// the bound on their length keeps hostile text linear. An Aho-Corasick automaton would drop that
// bound for failure links and the care that leftmost-longest takes there.
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
  std::sort(tokens.begin(), tokens.end(), by_literal);
  const auto middle = std::stable_partition(tokens.begin(), tokens.end(),
                                            [](const AddedToken& t) { return !t.normalized; });
  normalized_ = Set({middle, tokens.end()});
  plain_ = Set({tokens.begin(), middle});
}

// Each node stands for the run of sorted literals that begin with its bytes; `runs` are the nodes
// whose children are not made yet, or all nodes seen so far, since they are made in that order.
AddedTokens::Set::Set(std::vector<AddedToken> sorted) : tokens(std::move(sorted)) {
  roots.fill(-1);
  struct Run {
    size_t begin, end, depth;
  };
  std::vector<Run> runs = {{0, tokens.size(), 0}};
  nodes.push_back({-1, 0, 0, -1});
  for (size_t node = 0; node < runs.size(); ++node) {
    auto [begin, end, depth] = runs[node];
    if (begin < end && tokens[begin].literal.size() == depth) {
      CHECK(depth > 0 && depth <= kMaxAddedLiteral);
      nodes[node].token = static_cast<int32_t>(begin++);
    }
    nodes[node].first_child = static_cast<int32_t>(nodes.size());
    while (begin < end) {
      const char byte = tokens[begin].literal[depth];
      size_t behind = begin + 1;
      while (behind < end && tokens[behind].literal[depth] == byte) ++behind;
      if (depth == 0) roots[static_cast<uint8_t>(byte)] = static_cast<int32_t>(nodes.size());
      nodes.push_back({-1, 0, static_cast<uint8_t>(byte), -1});
      ++nodes[node].n_children;
      runs.push_back({begin, behind, depth + 1});
      begin = behind;
    }
  }
}

const AddedToken* AddedTokens::Set::longest_at(std::string_view text) const {
  int32_t token = -1;
  int32_t at = roots[static_cast<uint8_t>(text[0])];
  for (size_t depth = 1; at >= 0; ++depth) {
    const Node& node = nodes[static_cast<size_t>(at)];
    if (node.token >= 0) token = node.token;
    at = -1;
    if (depth == text.size()) break;
    const uint8_t byte = static_cast<uint8_t>(text[depth]);
    for (int32_t i = node.first_child; i < node.first_child + node.n_children; ++i) {
      if (nodes[static_cast<size_t>(i)].byte == byte) at = i;
    }
  }
  return token < 0 ? nullptr : &tokens[static_cast<size_t>(token)];
}

void AddedTokens::Set::cut(std::string_view text, std::vector<Stretch>& out) const {
  size_t covered = 0;
  for (size_t at = 0; at < text.size();) {
    const bool possible = roots[static_cast<uint8_t>(text[at])] >= 0;
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
