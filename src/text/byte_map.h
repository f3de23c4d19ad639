// The byte map of byte-level BPE: tokenizer.json spells every byte as one printable character.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace minim {

// The character that stands for a byte: printable Latin-1 stands for itself, the other 68 bytes
// (controls, space, 7F..A0, AD) are U+0100, U+0101, … in byte order.
char32_t byte_to_character(uint8_t byte);

// The bytes that a vocabulary entry spells; nothing if it holds a character outside the map.
// `literal` is well-formed UTF-8.
std::optional<std::string> spelled_bytes(std::string_view literal);

}  // namespace minim
