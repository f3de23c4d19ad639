// The map is GPT-2's: 188 bytes keep their own code point, the rest get code points from 256
// upwards in ascending byte order, so that a vocabulary is readable JSON without control characters
// or spaces.
#include "text/byte_map.h"

#include <array>

#include "text/utf8.h"

namespace minim {
namespace {

constexpr int kLastCharacter = 256 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<uint16_t, 256> make_characters() {
  std::array<uint16_t, 256> characters{};
  uint16_t next = 256;
  for (int b = 0; b < 256; ++b) {
    characters[static_cast<size_t>(b)] = stands_for_itself(b) ? static_cast<uint16_t>(b) : next++;
  }
  return characters;
}

constexpr std::array<uint16_t, 256> kCharacters = make_characters();

constexpr std::array<int16_t, kLastCharacter> make_bytes() {
  std::array<int16_t, kLastCharacter> bytes{};
  for (int16_t& b : bytes) b = -1;
  for (size_t b = 0; b < 256; ++b) bytes[kCharacters[b]] = static_cast<int16_t>(b);
  return bytes;
}

constexpr std::array<int16_t, kLastCharacter> kBytes = make_bytes();

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kCharacters[byte]; }

std::optional<std::string> spelled_bytes(std::string_view literal) {
  std::string bytes;
  bytes.reserve(literal.size());
  while (!literal.empty()) {
    const size_t length = utf8_first(literal).length;
    const char32_t character = utf8_code_point(literal.substr(0, length));
    if (character >= kLastCharacter || kBytes[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[character]));
    literal.remove_prefix(length);
  }
  return bytes;
}

}  // namespace minim
