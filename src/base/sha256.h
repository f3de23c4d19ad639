// SHA-256 (FIPS 180-4): names of known files, and keys that nobody can make collide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace minim {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  void update(std::string_view bytes);
  // Eight bytes, little-endian.
  void update_number(uint64_t value);
  // Length and bytes: a list of fields has one encoding, and no other list has the same.
  void update_field(std::string_view bytes);
  // The digest of all bytes so far; the object is of no further use.
  Digest finish();

  static Digest of(std::string_view bytes);

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> held_{};  // the first size_ % 64 bytes of an unfinished block
  uint64_t size_ = 0;               // bytes so far
};

// 64 lower-case hexadecimal digits: of a digest, and of the digest of bytes.
std::string to_hex(const Sha256::Digest& digest);
std::string sha256_hex(std::string_view bytes);

}  // namespace minim
