// Classification follows the table of well-formed byte sequences: the lead byte fixes the length
// and the range of the second byte, every later byte is 80..BF. Overlong forms, surrogates and
// values above U+10FFFF thus already fail at their second byte, and the bad part ends before it:
// that is what "one U+FFFD per maximal subpart" means. A table-driven automaton is as short but
// hides the ranges.
#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace minim {
namespace {

struct Lead {
  int length;  // 0: can start nothing
  uint8_t second_low, second_high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

constexpr uint64_t kHighBits = 0x8080808080808080u;

uint64_t eight_bytes(const char* at) {
  uint64_t eight;
  std::memcpy(&eight, at, sizeof eight);
  return eight;
}

// Without a way out of the loop, which compilers can make vectors of.
bool is_ascii(std::string_view bytes) {
  uint64_t all = 0;
  if (bytes.size() < sizeof all) {
    for (const char c : bytes) all |= static_cast<uint8_t>(c);
    return (all & kHighBits) == 0;
  }
  const char* const last = bytes.data() + (bytes.size() - sizeof all);
  for (const char* at = bytes.data(); at < last; at += sizeof all) all |= eight_bytes(at);
  return ((all | eight_bytes(last)) & kHighBits) == 0;
}

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

Utf8Element utf8_first(std::string_view bytes) {
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {Utf8Kind::kIllFormed, 1};
  for (int i = 1; i < lead.length; ++i) {
    if (static_cast<size_t>(i) == bytes.size()) {
      return {Utf8Kind::kIncomplete, static_cast<uint8_t>(i)};
    }
    const uint8_t byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kIllFormed, static_cast<uint8_t>(i)};
  }
  return {Utf8Kind::kCharacter, static_cast<uint8_t>(lead.length)};
}

size_t valid_utf8_length(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at >= sizeof(uint64_t) &&
        (eight_bytes(bytes.data() + at) & kHighBits) == 0) {
      at += sizeof(uint64_t);
      continue;
    }
    const Utf8Element element = utf8_first(bytes.substr(at));
    if (element.kind != Utf8Kind::kCharacter) break;
    at += element.length;
  }
  return at;
}

bool valid_utf8(std::string_view bytes) {
  return is_ascii(bytes) || valid_utf8_length(bytes) == bytes.size();
}

char32_t utf8_code_point(std::string_view character) {
  const uint8_t first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first;
  char32_t value = first & (0x7Fu >> character.size());
  for (const char c : character.substr(1)) value = (value << 6) | (static_cast<uint8_t>(c) & 0x3Fu);
  return value;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t pos = 0;
  while (pos < text.size() && index > 0) {
    ++pos;
    while (pos < text.size() && is_continuation(text[pos])) ++pos;
    --index;
  }
  return pos;
}

char32_t next_code_point(std::string_view text, size_t* pos) {
  const uint8_t lead = static_cast<uint8_t>(text[*pos]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const std::string_view character = text.substr(*pos, length);
  *pos += character.size();
  return utf8_code_point(character);
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace minim
