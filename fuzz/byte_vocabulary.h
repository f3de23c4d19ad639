// A tokenizer of the 256 bytes and some added tokens, for fuzz targets that need no real one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/json.h"
#include "text/byte_map.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

// Byte b has the id b; the literals follow from 256 on. Those with odd ids are special.
inline minim::Tokenizer byte_vocabulary(std::initializer_list<const char*> literals) {
  minim::Json vocab = minim::Json::object(), added = minim::Json::array();
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    minim::append_utf8(name, minim::byte_to_character(static_cast<uint8_t>(byte)));
    vocab[name] = id++;
  }
  for (const char* literal : literals) {
    added.push_back({{"id", id},
                     {"content", literal},
                     {"special", id % 2 == 1},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
    ++id;
  }
  const minim::Json file{
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", minim::Json::array()}}}};
  minim::Result<minim::Tokenizer> tokenizer =
      minim::Tokenizer::parse(minim::dump_json(file), "fuzz");
  if (!tokenizer) std::abort();
  return *std::move(tokenizer);
}
