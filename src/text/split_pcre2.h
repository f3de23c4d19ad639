// A compiled split pattern: the one place that speaks PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace minim {

// A run of text that the pattern matched, or one between matches.
struct Segment {
  size_t begin, end;
  bool matched;
};

class SplitPattern {
 public:
  // `pattern` is in the tokenizer's dialect (see pattern_rewrite.h). The error names what is wrong
  // and where, but no file.
  static Result<SplitPattern> compile(std::string_view pattern);

  // Appends segments that cover `text`, which must be well-formed UTF-8; matches of length 0 give
  // segments of length 0. If matching gives up (a pattern that backtracks without bound), the rest
  // of the text becomes one segment with matched = `give_up_as`: late boundaries, but no lost text.
  // Safe from several threads at once.
  void segment(std::string_view text, bool give_up_as, std::vector<Segment>& out) const;

 private:
  struct Code;
  struct CodeFree {
    void operator()(Code* code) const;
  };
  using CodePtr = std::unique_ptr<Code, CodeFree>;
  explicit SplitPattern(CodePtr code, bool jit) : code_(std::move(code)), jit_(jit) {}

  CodePtr code_;
  bool jit_ = false;
};

}  // namespace minim
