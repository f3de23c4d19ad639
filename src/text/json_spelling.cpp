// Characters of JSON strings. Names that are left out are left out of a trie: at every node either
// a character that leaves the trie (then anything may follow) or one step further in.
#include "text/json_spelling.h"

#include <fmt/format.h>

#include <map>

#include "text/utf8.h"

namespace minim {
namespace {

using Kind = GrammarExpr::Kind;

CharSet raw_chars() { return CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement(); }

// What must be escaped and has a short form, by its letter.
struct ShortEscape {
  uint32_t c;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'}, {'\\', '\\'}, {8, 'b'}, {9, 't'},
                                         {10, 'n'},  {12, 'f'},    {13, 'r'}};

bool has_short_escape(uint32_t c) {
  for (const ShortEscape& escape : kShortEscapes) {
    if (escape.c == c) return true;
  }
  return false;
}

// One character of the set.
GrammarExpr one_of(const CharSet& set) {
  std::vector<GrammarExpr> cases{chars_expr(set.intersection(raw_chars()))};
  CharSet letters;
  for (const ShortEscape& escape : kShortEscapes) {
    if (!set.contains(escape.c)) continue;
    const auto letter = static_cast<uint32_t>(static_cast<unsigned char>(escape.letter));
    letters.add(letter, letter);
  }
  cases.push_back(sequence_expr({text_expr("\\"), chars_expr(letters)}));
  for (uint32_t high = 0; high < 2; ++high) {
    CharSet lows;
    for (uint32_t low = 0; low < 16; ++low) {
      const uint32_t c = high << 4 | low;
      if (!set.contains(c) || has_short_escape(c)) continue;
      const uint32_t hex = low < 10 ? '0' + low : 'a' + low - 10;
      lows.add(hex, hex);
    }
    cases.push_back(sequence_expr({text_expr(fmt::format("\\u00{}", high)), chars_expr(lows)}));
  }
  return choice_expr(std::move(cases));
}

std::string escaped(std::string_view text) {
  const std::string quoted =
      Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

struct TrieNode {
  std::map<char32_t, size_t> next;
  bool name_ends = false;
};

}  // namespace

std::string spaced_json(const Json& value) {
  if (value.is_array()) {
    std::string out = "[";
    for (const Json& element : value) out += (out.size() > 1 ? ", " : "") + spaced_json(element);
    return out + "]";
  }
  if (value.is_object()) {
    std::string out = "{";
    for (const auto& [key, member] : value.items()) {
      out += fmt::format("{}\"{}\": {}", out.size() > 1 ? ", " : "", escaped(key),
                         spaced_json(member));
    }
    return out + "}";
  }
  return dump_json(value);
}

GrammarExpr json_string_of(std::string_view value) {
  return text_expr(fmt::format("\"{}\"", escaped(value)));
}

GrammarExpr any_json_char() {
  const CharSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const CharSet d{{'D', 'D'}, {'d', 'd'}};
  const auto digits = [&](int64_t n) { return repeat_expr(chars_expr(hex), n, n); };
  const GrammarExpr below =
      sequence_expr({chars_expr(hex.without(d)), digits(3)});  // 0000..CFFF, E000..FFFF
  const GrammarExpr d000 = sequence_expr({chars_expr(d), chars_expr({{'0', '7'}}), digits(2)});
  const GrammarExpr pair = sequence_expr(
      {chars_expr(d), chars_expr({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), digits(2), text_expr("\\u"),
       chars_expr(d), chars_expr({{'C', 'F'}, {'c', 'f'}}), digits(2)});
  CharSet letters;
  for (const char letter : std::string_view("\"\\/bfnrt")) {
    letters.add(static_cast<uint32_t>(letter), static_cast<uint32_t>(letter));
  }
  const GrammarExpr number = sequence_expr({text_expr("u"), choice_expr({below, d000, pair})});
  return choice_expr(
      {chars_expr(raw_chars()),
       sequence_expr({text_expr("\\"), choice_expr({chars_expr(letters), number})})});
}

GrammarExpr raw_json_char() { return chars_expr(raw_chars()); }

GrammarExpr rest_of_json_string(size_t rule) {
  std::vector<GrammarExpr> cases{text_expr("\"")};
  for (const GrammarExpr& one : any_json_char().parts) {
    cases.push_back(sequence_expr({one, rule_expr(rule)}));
  }
  return choice_expr(std::move(cases));
}

GrammarExpr inside_json_string(const GrammarExpr& plain) {
  switch (plain.kind) {
    case Kind::kText:
      return text_expr(escaped(plain.text));
    case Kind::kChars:
      return one_of(plain.chars);
    case Kind::kRepeat:
      return repeat_expr(inside_json_string(plain.parts[0]), plain.min, plain.max);
    default:
      break;
  }
  std::vector<GrammarExpr> parts;
  for (const GrammarExpr& part : plain.parts) parts.push_back(inside_json_string(part));
  return plain.kind == Kind::kChoice ? choice_expr(std::move(parts))
                                     : sequence_expr(std::move(parts));
}

GrammarExpr other_name(const std::vector<std::string>& taken, std::vector<GrammarExpr>& rules) {
  std::vector<TrieNode> trie(1);  // children stand behind their parent
  for (const std::string& name : taken) {
    size_t node = 0;
    for (size_t i = 0; i < name.size();) {
      const auto [child, added] =
          trie[node].next.try_emplace(next_code_point(name, &i), trie.size());
      node = child->second;
      if (added) trie.emplace_back();
    }
    trie[node].name_ends = true;
  }
  const auto add_rule = [&](GrammarExpr expr) {
    rules.push_back(std::move(expr));
    return rule_expr(rules.size() - 1);
  };
  const GrammarExpr anything = add_rule(text_expr(""));
  std::vector<GrammarExpr> further{text_expr("\"")};
  for (const GrammarExpr& one : one_of(CharSet::all()).parts) {
    further.push_back(sequence_expr({one, anything}));
  }
  rules[anything.rule] = choice_expr(std::move(further));
  std::vector<GrammarExpr> rule_of(trie.size());
  for (size_t i = trie.size(); i-- > 0;) {
    CharSet inside;
    std::vector<GrammarExpr> cases;
    if (!trie[i].name_ends) cases.push_back(text_expr("\""));
    for (const auto& [c, child] : trie[i].next) {
      inside.add(c, c);
      cases.push_back(sequence_expr({one_of({{c, c}}), rule_of[child]}));
    }
    const GrammarExpr outside = one_of(inside.complement());
    cases.push_back(sequence_expr({outside, anything}));
    rule_of[i] = add_rule(choice_expr(std::move(cases)));
  }
  return sequence_expr({text_expr("\""), rule_of[0]});
}

}  // namespace minim
