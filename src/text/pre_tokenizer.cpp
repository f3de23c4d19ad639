// A pre-tokenizer is a list of steps, each of which cuts every piece of the step before. A step
// marks what its pattern matches and then disposes of the marked and unmarked segments by its
// behaviour: dropped, kept apart, or glued to a neighbour, as the reference defines. ByteLevel
// comes last; its map from bytes to characters needs no work here, since merging starts from bytes.
//
// The pattern that this family's files hold has a splitter by hand, which is several times as fast
// (split_o200k.h); every other pattern runs in PCRE2.
//
// Text that is not UTF-8 never reaches a pattern: it is taken out first, and the runs between are
// cut as if each were a text of its own.
#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/pattern_rewrite.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace minim {
namespace {

// What ByteLevel with use_regex stands for.
constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

using Pieces = std::vector<std::string_view>;

std::string_view view(std::string_view text, const Segment& s) {
  return text.substr(s.begin, s.end - s.begin);
}

void append_contiguous(std::string_view text, const std::vector<Segment>& segments,
                       Pieces& pieces) {
  for (size_t i = 0; i < segments.size();) {
    size_t j = i + 1;
    while (j < segments.size() && segments[j].matched == segments[i].matched) ++j;
    pieces.push_back(text.substr(segments[i].begin, segments[j - 1].end - segments[i].begin));
    i = j;
  }
}

// A match joins the segment before it unless that is a match too.
void append_merged_with_previous(std::string_view text, const std::vector<Segment>& segments,
                                 Pieces& pieces) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool takes_next =
        !segments[i].matched && i + 1 < segments.size() && segments[i + 1].matched;
    const size_t begin = segments[i].begin;
    if (takes_next) ++i;
    pieces.push_back(text.substr(begin, segments[i].end - begin));
  }
}

// A match joins the segment behind it unless that is a match too.
void append_merged_with_next(std::string_view text, const std::vector<Segment>& segments,
                             Pieces& pieces) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool joins_next =
        segments[i].matched && i + 1 < segments.size() && !segments[i + 1].matched;
    const size_t begin = segments[i].begin;
    if (joins_next) ++i;
    pieces.push_back(text.substr(begin, segments[i].end - begin));
  }
}

}  // namespace

Result<PreTokenizer::Behavior> PreTokenizer::parse_behavior(const SortedJson& spec,
                                                            std::string_view name) {
  Result<std::string> text = string_member(spec, "behavior", name);
  if (!text) return text.error();
  if (*text == "Removed") return Behavior::kRemoved;
  if (*text == "Isolated") return Behavior::kIsolated;
  if (*text == "Contiguous") return Behavior::kContiguous;
  if (*text == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (*text == "MergedWithNext") return Behavior::kMergedWithNext;
  return Error{Code::kUnsupported,
               fmt::format("{}: pre_tokenizer Split has behavior {}; known are Removed, Isolated, "
                           "Contiguous, MergedWithPrevious, MergedWithNext",
                           name, in_quotes(*text))};
}

Result<PreTokenizer::Step> PreTokenizer::parse_split(const SortedJson& spec,
                                                     std::string_view name) {
  const SortedJson* pattern = member(spec, "pattern");
  const SortedJson* regex = pattern ? member(*pattern, "Regex") : nullptr;
  const SortedJson* literal = pattern ? member(*pattern, "String") : nullptr;
  const SortedJson* source = regex ? regex : literal;
  if (source == nullptr || !source->is_string()) {
    return Error{
        Code::kInvalid,
        fmt::format("{}: pre_tokenizer Split has no pattern {{\"Regex\": …}} or {{\"String\": …}}",
                    name)};
  }
  const std::string& text = source->get_ref<const std::string&>();
  Result<SplitPattern> compiled = SplitPattern::compile(regex ? text : pattern_of_literal(text));
  if (!compiled) {
    return Error{compiled.error().code, fmt::format("{}: {}", name, compiled.error().message)};
  }
  Result<Behavior> behavior = parse_behavior(spec, name);
  if (!behavior) return behavior.error();
  Result<bool> invert = bool_member(spec, "invert", false, name);
  if (!invert) return invert.error();
  return Step{*std::move(compiled), *behavior, *invert};
}

std::optional<O200kSplitter> PreTokenizer::by_hand(const SortedJson& spec, const Step& step) {
  // The family's pattern matches everywhere: nothing lies between matches that could be dropped.
  const bool keeps_matches =
      step.behavior == Behavior::kIsolated || (step.behavior == Behavior::kRemoved && step.invert);
  const SortedJson* regex = keeps_matches ? member(*member(spec, "pattern"), "Regex") : nullptr;
  if (regex == nullptr) return std::nullopt;
  return O200kSplitter::for_pattern(regex->get_ref<const std::string&>());
}

Result<Ok> PreTokenizer::add_byte_level(const SortedJson& spec, std::string_view name) {
  Result<bool> prefix_space = bool_member(spec, "add_prefix_space", true, name);
  if (!prefix_space) return prefix_space.error();
  if (*prefix_space) {
    return Error{
        Code::kUnsupported,
        fmt::format("{}: pre_tokenizer ByteLevel with add_prefix_space is not supported", name)};
  }
  Result<bool> use_regex = bool_member(spec, "use_regex", true, name);
  if (!use_regex) return use_regex.error();
  if (*use_regex) {
    Result<SplitPattern> pattern = SplitPattern::compile(kGpt2Pattern);
    if (!pattern) return pattern.error();
    by_hand_.reset();
    steps_.push_back(Step{*std::move(pattern), Behavior::kIsolated, false});
  }
  has_byte_level_ = true;
  return Ok{};
}

Result<Ok> PreTokenizer::add(const SortedJson& spec, std::string_view name) {
  Result<std::string> type = string_member(spec, "type", name);
  if (!type) return type.error();
  if (has_byte_level_) {
    return Error{Code::kUnsupported,
                 fmt::format("{}: pre_tokenizer {} behind ByteLevel; ByteLevel must be the last",
                             name, in_quotes(*type))};
  }
  if (*type == "ByteLevel") return add_byte_level(spec, name);
  if (*type == "Split") {
    Result<Step> step = parse_split(spec, name);
    if (!step) return step.error();
    by_hand_ = steps_.empty() ? by_hand(spec, *step) : std::nullopt;
    steps_.push_back(*std::move(step));
    return Ok{};
  }
  return Error{
      Code::kUnsupported,
      fmt::format("{}: pre_tokenizer type {}; known are Split, ByteLevel and a Sequence of them",
                  name, in_quotes(*type))};
}

Result<PreTokenizer> PreTokenizer::parse(const SortedJson& spec, std::string_view name) {
  PreTokenizer result;
  const SortedJson* type = member(spec, "type");
  if (type != nullptr && *type == "Sequence") {
    const SortedJson* parts = member(spec, "pretokenizers");
    if (parts == nullptr || !parts->is_array()) {
      return Error{Code::kInvalid,
                   fmt::format("{}: pre_tokenizer Sequence has no list \"pretokenizers\"", name)};
    }
    for (const SortedJson& part : *parts) {
      if (Result<Ok> added = result.add(part, name); !added) return added.error();
    }
  } else if (Result<Ok> added = result.add(spec, name); !added) {
    return added.error();
  }
  if (!result.has_byte_level_) {
    return Error{
        Code::kUnsupported,
        fmt::format("{}: pre_tokenizer has no ByteLevel; only byte-level BPE is supported", name)};
  }
  return result;
}

void PreTokenizer::apply(const Step& step, std::string_view text, std::vector<Segment>& segments,
                         Pieces& pieces) {
  segments.clear();
  step.pattern.segment(text, step.invert, segments);
  if (step.invert) {
    for (Segment& s : segments) s.matched = !s.matched;
  }
  const size_t first = pieces.size();
  switch (step.behavior) {
    case Behavior::kRemoved:
      for (const Segment& s : segments) {
        if (!s.matched) pieces.push_back(view(text, s));
      }
      break;
    case Behavior::kIsolated:
      for (const Segment& s : segments) pieces.push_back(view(text, s));
      break;
    case Behavior::kContiguous:
      append_contiguous(text, segments, pieces);
      break;
    case Behavior::kMergedWithPrevious:
      append_merged_with_previous(text, segments, pieces);
      break;
    case Behavior::kMergedWithNext:
      append_merged_with_next(text, segments, pieces);
      break;
  }
  const auto is_empty = [](std::string_view piece) { return piece.empty(); };
  pieces.erase(
      std::remove_if(pieces.begin() + static_cast<std::ptrdiff_t>(first), pieces.end(), is_empty),
      pieces.end());
}

void PreTokenizer::apply_steps(std::string_view text, Scratch& scratch) const {
  scratch.pieces.assign(1, text);
  for (const Step& step : steps_) {
    scratch.next.clear();
    for (const std::string_view piece : scratch.pieces) {
      apply(step, piece, scratch.segments, scratch.next);
    }
    scratch.pieces.swap(scratch.next);
  }
}

Stretch first_stretch(std::string_view text) {
  size_t length = valid_utf8_length(text);
  if (length > 0) return {length, true};
  do {
    length += utf8_first(text.substr(length)).length;
  } while (length < text.size() && utf8_first(text.substr(length)).kind != Utf8Kind::kCharacter);
  return {length, false};
}

}  // namespace minim
