// Matching runs in the JIT where the system allows executable pages, with the input already known
// to be UTF-8. The JIT's 32 KiB stack suffices for patterns of this kind (repeats of a class keep a
// counter, not a frame); a pattern that does exhaust it is run again by the interpreter, which uses
// the heap.
//
// Untrusted patterns may backtrack exponentially. The match limit bounds one search, and after the
// first search that hits it the text is not searched further: one bad text costs one limit, not one
// limit a character.
//
// Successive matches follow the reference's rule: an empty match directly behind the previous match
// is not accepted, the search then moves on by one character.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split_pcre2.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "text/pattern_rewrite.h"
#include "text/utf8.h"

namespace minim {

struct SplitPattern::Code {
};  // stands for pcre2_code, which is a typedef and cannot be forward-declared

namespace {

constexpr size_t kMaxPattern = 16384;
// Backtracking steps of one search: a pattern of the usual kind takes a few a character at most.
constexpr size_t kSteps = 10'000;
constexpr size_t kStepsPerByte = 64;

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;

// Finds matches in one text.
class Search {
 public:
  Search(const pcre2_code* code, bool jit, std::string_view text)
      : code_(code),
        jit_(jit),
        text_(text),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    CHECK(data_ && context_, "out of memory");
    const size_t steps = kSteps + kStepsPerByte * text.size();
    pcre2_set_match_limit(context_.get(),
                          static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
  }

  enum class Outcome { kMatch, kNone, kGaveUp };

  // The first match that begins at or behind `from`.
  Outcome find(size_t from, size_t& begin, size_t& end) {
    int status = PCRE2_ERROR_JIT_STACKLIMIT;
    if (jit_) {
      status =
          pcre2_jit_match(code_, subject(), text_.size(), from, 0, data_.get(), context_.get());
    }
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) {
      status = pcre2_match(code_, subject(), text_.size(), from, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK,
                           data_.get(), context_.get());
    }
    if (status == PCRE2_ERROR_NOMATCH) return Outcome::kNone;
    if (status < 0) return Outcome::kGaveUp;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    begin = offsets[0];
    end = offsets[1];
    // \K can move the start before `from` or behind the end.
    return begin >= from && end >= begin && end <= text_.size() ? Outcome::kMatch
                                                                : Outcome::kGaveUp;
  }

 private:
  PCRE2_SPTR subject() const { return reinterpret_cast<PCRE2_SPTR>(text_.data()); }

  const pcre2_code* code_;
  bool jit_;
  std::string_view text_;
  MatchData data_;
  MatchContext context_;
};

}  // namespace

void SplitPattern::CodeFree::operator()(Code* code) const {
  pcre2_code_free(reinterpret_cast<pcre2_code*>(code));
}

Result<SplitPattern> SplitPattern::compile(std::string_view pattern) {
  if (pattern.empty()) return Error{minim::Code::kInvalid, "split pattern is empty"};
  if (pattern.size() > kMaxPattern) {
    return Error{minim::Code::kInvalid, fmt::format("split pattern has {} bytes, more than {}",
                                                    pattern.size(), kMaxPattern)};
  }
  Result<std::string> rewritten = rewrite_for_pcre2(pattern);
  if (!rewritten) return rewritten.error();
  const CompileContext context(pcre2_compile_context_create(nullptr));
  CHECK(context, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // The reference's ^ and $ are always those of lines.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK;
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten->data()),
                                   rewritten->size(), kOptions, &error, &where, context.get());
  if (code == nullptr) {
    char reason[160] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(reason), sizeof reason);
    return Error{minim::Code::kInvalid,
                 fmt::format("split pattern does not compile: {} (near byte {} of {})", reason,
                             where, rewritten->size())};
  }
  CodePtr owner(reinterpret_cast<Code*>(code));
  const bool jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  return SplitPattern(std::move(owner), jit);
}

void SplitPattern::segment(std::string_view text, bool give_up_as,
                           std::vector<Segment>& out) const {
  Search search(reinterpret_cast<const pcre2_code*>(code_.get()), jit_, text);
  size_t covered = 0;
  size_t from = 0;
  std::optional<size_t> last_end;
  while (from <= text.size()) {
    size_t begin = 0, end = 0;
    const Search::Outcome outcome = search.find(from, begin, end);
    if (outcome == Search::Outcome::kNone) break;
    if (outcome == Search::Outcome::kGaveUp) {
      if (covered < text.size()) out.push_back({covered, text.size(), give_up_as});
      return;
    }
    if (begin == end && last_end == end) {
      if (from >= text.size()) break;
      from += utf8_first(text.substr(from)).length;
      continue;
    }
    if (covered < begin) out.push_back({covered, begin, false});
    out.push_back({begin, end, true});
    covered = from = end;
    last_end = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

}  // namespace minim
