// One pass from text to text. No JSON library: all that are at hand turn numbers into machine
// numbers (1e5 comes out as 100000.0, an integer of 30 digits as something else), and equal keys
// would need a document of their own. Recursion is bounded by the levels that are allowed.
#include "text/json_text.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace minim {
namespace {

constexpr int kMaxLevels = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Length of the number at the start of `text`; 0: none.
size_t number_length(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t first = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > first;
  };
  const auto one_of = [&](std::string_view set) {
    const bool found = at < text.size() && set.find(text[at]) != std::string_view::npos;
    at += found ? 1 : 0;
    return found;
  };
  one_of("-");
  if (!one_of("0") && !digits()) return 0;
  size_t end = at;
  if (one_of(".")) {
    if (!digits()) return end;
    end = at;
  }
  if (one_of("eE")) {
    one_of("+-");
    if (digits()) end = at;
  }
  return end;
}

class Respeller {
 public:
  explicit Respeller(std::string_view text) : rest_(text) {}

  std::optional<std::string> run() {
    space();
    if (rest_.empty() || (rest_[0] != '{' && rest_[0] != '[') || !value(0)) return std::nullopt;
    space();
    if (!rest_.empty()) return std::nullopt;
    return std::move(out_);
  }

 private:
  void space() {
    const size_t n = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    out_ += word;
    return true;
  }

  bool value(int levels) {
    if (rest_.empty()) return false;
    switch (rest_[0]) {
      case '{':
        return levels < kMaxLevels && object(levels + 1);
      case '[':
        return levels < kMaxLevels && array(levels + 1);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        const size_t n = number_length(rest_);
        return n > 0 && word(rest_.substr(0, n));
    }
  }

  bool array(int levels) {
    take('[');
    out_ += '[';
    space();
    bool first = true;
    while (!take(']')) {
      if (!first) {
        if (!take(',')) return false;
        out_ += ", ";
        space();
      }
      first = false;
      if (!value(levels)) return false;
      space();
    }
    out_ += ']';
    return true;
  }

  // A member's text in out_, from the first byte of its key to the last of its value.
  using Range = std::pair<size_t, size_t>;

  bool object(int levels) {
    take('{');
    out_ += '{';
    const size_t begin = out_.size();
    std::unordered_map<std::string, size_t> places;  // by key, as it is spelled in out_
    std::vector<Range> members;
    bool repeated = false;
    space();
    while (!take('}')) {
      if (!members.empty()) {
        if (!take(',')) return false;
        out_ += ", ";
        space();
      }
      const size_t first = out_.size();
      if (rest_.empty() || rest_[0] != '"' || !string()) return false;
      const auto place = places.emplace(out_.substr(first), members.size());
      space();
      if (!take(':')) return false;
      out_ += ": ";
      space();
      if (!value(levels)) return false;
      space();
      repeated |= !place.second;
      const Range range{first, out_.size()};
      if (!place.second) members[place.first->second] = range;
      members.push_back(place.second ? range : Range{});  // an empty range is left out
    }
    if (repeated) keep_last(begin, members);
    out_ += '}';
    return true;
  }

  void keep_last(size_t begin, const std::vector<Range>& members) {
    std::string kept;
    for (const auto& [first, end] : members) {
      if (first == end) continue;
      if (!kept.empty()) kept += ", ";
      kept.append(out_, first, end - first);
    }
    out_.replace(begin, std::string::npos, kept);
  }

  bool string() {
    take('"');
    out_ += '"';
    while (true) {
      const size_t plain = run_length();
      out_ += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (take('"')) break;
      if (!take('\\') || !escape()) return false;  // the end, or a control character
    }
    out_ += '"';
    return true;
  }

  size_t run_length() const {
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != '"' && rest_[n] != '\\' &&
           static_cast<unsigned char>(rest_[n]) >= 0x20) {
      ++n;
    }
    return n;
  }

  bool escape() {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
    if (take('u')) return unicode_escape();
    const size_t at = rest_.empty() ? std::string_view::npos : kLetters.find(rest_[0]);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    append_json_chars(out_, kMeaning.substr(at, 1));
    return true;
  }

  bool unicode_escape() {
    std::optional<char32_t> code = four_digits();
    if (!code || (*code >= 0xDC00 && *code < 0xE000)) return false;
    if (*code >= 0xD800 && *code < 0xDC00) {
      if (!take('\\') || !take('u')) return false;
      const std::optional<char32_t> low = four_digits();
      if (!low || *low < 0xDC00 || *low >= 0xE000) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    std::string character;
    append_utf8(character, *code);
    append_json_chars(out_, character);
    return true;
  }

  std::optional<char32_t> four_digits() {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
    if (rest_.size() < 4) return std::nullopt;
    char32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      size_t digit = kDigits.find(rest_[0]);
      if (digit == std::string_view::npos) return std::nullopt;
      if (digit >= 16) digit -= 6;
      code = code * 16 + static_cast<char32_t>(digit);
      rest_.remove_prefix(1);
    }
    return code;
  }

  std::string_view rest_;
  std::string out_;
};

}  // namespace

void append_json_chars(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kShort = "\b\t\n\f\r\"\\", kLetters = "btnfr\"\\";
  size_t done = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out += text.substr(done, i - done);
    done = i + 1;
    out += '\\';
    const size_t at = kShort.find(text[i]);
    if (at != std::string_view::npos) {
      out += kLetters[at];
    } else {
      out += "u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += text.substr(done);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_chars(out, text);
  out += '"';
}

bool is_json_number(std::string_view text) {
  return !text.empty() && number_length(text) == text.size();
}

std::optional<std::string> respell_json(std::string_view text) { return Respeller(text).run(); }

}  // namespace minim
