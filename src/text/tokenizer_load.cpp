// Reads a tokenizer.json into a Tokenizer. The file is somebody else's: every id, pair and flag is
// checked here, once, so that encoding has nothing left to check.
//
// Order matters: vocabulary (names to ids), single bytes, merges (pairs of names, in order of
// rank), added tokens, pre-tokenizer. A merge must give a token that exists, which bounds what it
// can name.
#include <fmt/format.h>

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/byte_map.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace minim {
namespace {

constexpr size_t kMaxFile = size_t{1} << 30;

}  // namespace

class TokenizerReader {
 public:
  TokenizerReader(const SortedJson& file, std::string_view name) : file_(file), name_(name) {}

  Result<Tokenizer> run() {
    using Stage = Result<Ok> (TokenizerReader::*)();
    constexpr Stage kStages[] = {
        &TokenizerReader::check_kind,  &TokenizerReader::read_vocabulary,
        &TokenizerReader::read_merges, &TokenizerReader::read_whole_pieces,
        &TokenizerReader::read_added,  &TokenizerReader::read_pre_tokenizer};
    for (const Stage stage : kStages) {
      if (Result<Ok> done = (this->*stage)(); !done) return done.error();
    }
    return std::move(tokenizer_);
  }

 private:
  template <typename... Args>
  Error invalid(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{Code::kInvalid,
                 fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...))};
  }
  template <typename... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{Code::kUnsupported,
                 fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...))};
  }

  Result<Ok> check_kind();
  Result<Ok> check_model_options();
  Result<Ok> read_vocabulary();
  Result<Ok> read_merges();
  Result<Ok> read_whole_pieces();
  Result<Ok> read_added();
  Result<Ok> read_pre_tokenizer();
  Result<Ok> add_entry(const std::string& literal, TokenId id);
  Result<std::array<TokenId, 256>> single_bytes() const;
  Result<std::pair<std::string_view, std::string_view>> merge_pair(const SortedJson& merge,
                                                                   size_t index) const;
  Result<AddedToken> added_token(const SortedJson& entry) const;
  Result<TokenId> token_id(const SortedJson& value, std::string_view literal) const;

  // -1 if vocab has no such token.
  TokenId id_of(std::string_view literal) const {
    return ids_.find(literal, hash_of_piece(literal));
  }

  const SortedJson& file_;
  std::string_view name_;
  const SortedJson* model_ = nullptr;
  PieceTable ids_;  // of literals as the file spells them
  std::vector<std::pair<std::string_view, TokenId>> literals_;  // the same, into the file
  Tokenizer tokenizer_;
};

Result<Ok> TokenizerReader::check_kind() {
  if (!file_.is_object()) return invalid("is {}, wanted a JSON object", file_.type_name());
  model_ = member(file_, "model");
  if (model_ == nullptr) return invalid("has no \"model\"; is this a tokenizer.json?");
  // Files of early versions leave the type out; then the members must be those of BPE.
  if (const SortedJson* type = member(*model_, "type"); type != nullptr && *type != "BPE") {
    return unsupported("model type {}; only BPE is supported",
                       type->is_string() ? in_quotes(type->get_ref<const std::string&>())
                                         : std::string(type->type_name()));
  }
  if (const SortedJson* normalizer = member(file_, "normalizer")) {
    Result<std::string> type = string_member(*normalizer, "type", name_);
    if (!type) return type.error();
    return unsupported("normalizer {}; only null is supported", in_quotes(*type));
  }
  if (const SortedJson* decoder = member(file_, "decoder")) {
    Result<std::string> type = string_member(*decoder, "type", name_);
    if (!type) return type.error();
    if (*type != "ByteLevel")
      return unsupported("decoder {}; only ByteLevel is supported", in_quotes(*type));
  }
  return check_model_options();
}

Result<Ok> TokenizerReader::check_model_options() {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const SortedJson* value = member(*model_, key);
    if (value != nullptr && *value != "")
      return unsupported("model has {}; only null is supported", key);
  }
  if (const SortedJson* dropout = member(*model_, "dropout"); dropout != nullptr && *dropout != 0) {
    return unsupported("model has dropout; only null is supported");
  }
  Result<bool> byte_fallback = bool_member(*model_, "byte_fallback", false, name_);
  if (!byte_fallback) return byte_fallback.error();
  if (*byte_fallback)
    return unsupported("model has byte_fallback; only byte-level BPE is supported");
  return Ok{};
}

Result<TokenId> TokenizerReader::token_id(const SortedJson& value, std::string_view literal) const {
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() < uint64_t{kTokenIdLimit};
  if (fits) return static_cast<TokenId>(value.get<uint64_t>());
  return invalid("token {} has id {}, wanted a whole number from 0 to {}", in_quotes(literal),
                 value.is_number() ? value.dump() : value.type_name(), kTokenIdLimit - 1);
}

Result<Ok> TokenizerReader::add_entry(const std::string& literal, TokenId id) {
  if (tokenizer_.has_token(id)) {
    return invalid("tokens {} and another share the id {}", in_quotes(literal), id);
  }
  const std::optional<std::string> bytes = spelled_bytes(literal);
  // Entries outside the byte map exist only as added tokens; the reference prints them as they are.
  tokenizer_.vocabulary_.set(id, bytes ? *bytes : literal, Vocabulary::kOrdinary);
  ids_.add(literal, id);
  literals_.emplace_back(literal, id);
  return Ok{};
}

Result<Ok> TokenizerReader::read_vocabulary() {
  const SortedJson* vocab = member(*model_, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return invalid("model has no object \"vocab\"");
  ids_ = PieceTable(vocab->size());
  literals_.reserve(vocab->size());
  for (auto entry = vocab->begin(); entry != vocab->end(); ++entry) {
    Result<TokenId> id = token_id(entry.value(), entry.key());
    if (!id) return id.error();
    if (Result<Ok> added = add_entry(entry.key(), *id); !added) return added.error();
  }
  return Ok{};
}

Result<std::array<TokenId, 256>> TokenizerReader::single_bytes() const {
  std::array<TokenId, 256> ids{};
  for (int byte = 0; byte < 256; ++byte) {
    std::string literal;
    append_utf8(literal, byte_to_character(static_cast<uint8_t>(byte)));
    const TokenId id = id_of(literal);
    if (id < 0) {
      return invalid("vocab has no token {} for the byte 0x{:02x}; byte-level BPE needs all 256",
                     in_quotes(literal), byte);
    }
    ids[static_cast<size_t>(byte)] = id;
  }
  return ids;
}

Result<std::pair<std::string_view, std::string_view>> TokenizerReader::merge_pair(
    const SortedJson& merge, size_t index) const {
  using Pair = std::pair<std::string_view, std::string_view>;
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return Pair(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
  }
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return Pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return invalid("merge {} is neither a list of two strings nor one string \"a b\"", index);
}

Result<Ok> TokenizerReader::read_merges() {
  Result<std::array<TokenId, 256>> byte_ids = single_bytes();
  if (!byte_ids) return byte_ids.error();
  const SortedJson* merges = member(*model_, "merges");
  if (merges == nullptr || !merges->is_array()) return invalid("model has no list \"merges\"");
  tokenizer_.bpe_ = Bpe(*byte_ids, merges->size());
  std::string joined;
  for (size_t i = 0; i < merges->size(); ++i) {
    Result<std::pair<std::string_view, std::string_view>> pair = merge_pair((*merges)[i], i);
    if (!pair) return pair.error();
    joined.assign(pair->first).append(pair->second);
    TokenId ids[3];
    const std::string_view names[3] = {pair->first, pair->second, joined};
    for (int k = 0; k < 3; ++k) {
      ids[k] = id_of(names[k]);
      if (ids[k] < 0) {
        return invalid("merge {} ({} + {}) needs the token {}, which vocab does not have", i,
                       in_quotes(pair->first), in_quotes(pair->second), in_quotes(names[k]));
      }
    }
    tokenizer_.bpe_.add_merge(ids[0], ids[1], ids[2]);
  }
  return Ok{};
}

// Without "ignore_merges" a token counts only if merging its bytes gives it: files may hold tokens
// that no merges reach.
Result<Ok> TokenizerReader::read_whole_pieces() {
  Result<bool> ignore_merges = bool_member(*model_, "ignore_merges", false, name_);
  if (!ignore_merges) return ignore_merges.error();
  tokenizer_.whole_pieces_ = PieceTable(literals_.size());
  Bpe::Scratch scratch;
  std::vector<TokenId> merged;
  for (const auto& [literal, id] : literals_) {
    const std::string_view bytes = tokenizer_.bytes(id);
    if (bytes.empty()) continue;
    if (*ignore_merges) {
      if (!spelled_bytes(literal)) continue;
    } else {
      merged.clear();
      tokenizer_.bpe_.encode(bytes, scratch, merged);
      if (merged.size() != 1 || merged[0] != id) continue;
    }
    tokenizer_.whole_pieces_.add(bytes, id);
  }
  return Ok{};
}

Result<AddedToken> TokenizerReader::added_token(const SortedJson& entry) const {
  Result<std::string> literal = string_member(entry, "content", name_);
  if (!literal) return literal.error();
  if (literal->empty() || literal->size() > kMaxAddedLiteral) {
    return invalid("added token {} has {} bytes, wanted 1 to {}", in_quotes(*literal),
                   literal->size(), kMaxAddedLiteral);
  }
  const SortedJson* id_value = member(entry, "id");
  if (id_value == nullptr) return invalid("added token {} has no \"id\"", in_quotes(*literal));
  Result<TokenId> id = token_id(*id_value, *literal);
  if (!id) return id.error();
  constexpr const char* kFlags[] = {"lstrip", "rstrip", "normalized", "special", "single_word"};
  bool flags[5];
  for (size_t i = 0; i < 5; ++i) {
    Result<bool> flag = bool_member(entry, kFlags[i], false, name_);
    if (!flag) return flag.error();
    flags[i] = *flag;
  }
  if (flags[4])
    return unsupported("added token {} has single_word, which is not supported",
                       in_quotes(*literal));
  return AddedToken{*id, *std::move(literal), flags[0], flags[1], flags[2], flags[3]};
}

Result<Ok> TokenizerReader::read_added() {
  const SortedJson* list = member(file_, "added_tokens");
  if (list == nullptr) return Ok{};
  if (!list->is_array()) return invalid("\"added_tokens\" is {}, wanted a list", list->type_name());
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, TokenId> seen;
  for (const SortedJson& entry : *list) {
    Result<AddedToken> token = added_token(entry);
    if (!token) return token.error();
    if (!seen.emplace(token->literal, token->id).second) {
      return invalid("added token {} comes twice", in_quotes(token->literal));
    }
    // A literal may also be a vocabulary entry; then both must mean the same id.
    const TokenId base = id_of(token->literal);
    if (base >= 0 && base != token->id) {
      return invalid("added token {} has id {}, but vocab gives it {}", in_quotes(token->literal),
                     token->id, base);
    }
    if (base < 0 && tokenizer_.has_token(token->id)) {
      return invalid("added token {} and another token share the id {}", in_quotes(token->literal),
                     token->id);
    }
    tokenizer_.vocabulary_.set(token->id, token->literal,
                               token->special ? Vocabulary::kSpecial : Vocabulary::kAdded);
    tokens.push_back(*std::move(token));
  }
  tokenizer_.added_ = AddedTokens(std::move(tokens));
  return Ok{};
}

Result<Ok> TokenizerReader::read_pre_tokenizer() {
  const SortedJson* spec = member(file_, "pre_tokenizer");
  if (spec == nullptr) return unsupported("has no pre_tokenizer; only byte-level BPE is supported");
  Result<PreTokenizer> pre_tokenizer = PreTokenizer::parse(*spec, name_);
  if (!pre_tokenizer) return pre_tokenizer.error();
  tokenizer_.pre_tokenizer_ = *std::move(pre_tokenizer);
  return Ok{};
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, std::string_view name) {
  if (json.size() > kMaxFile) {
    return Error{Code::kInvalid,
                 fmt::format("{}: has {} bytes, more than any tokenizer.json", name, json.size())};
  }
  Result<SortedJson> file = parse_sorted_json(json, name);
  if (!file) return file.error();
  return TokenizerReader(*file, name).run();
}

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  Result<std::string> text = require_plain_file(path);
  if (!text) return text.error();
  return parse(*text, path);
}

}  // namespace minim
