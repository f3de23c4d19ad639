// One row of logits and what may come of it: the searches that a sampler needs. Private to the
// engine.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace minim {

// (logit or weight, id). The order between candidates is total: value descending, then id
// ascending.
using Candidate = std::pair<double, int32_t>;
bool ahead(const Candidate& a, const Candidate& b);

class LogitRow {
 public:
  // For rows of `vocab` logits and lists of up to `n_candidates`. Memory is taken here and by
  // copying; a copy holds no row.
  LogitRow(size_t vocab, size_t n_candidates);
  LogitRow(const LogitRow& other);
  LogitRow(LogitRow&&) = default;
  LogitRow& operator=(const LogitRow&) = delete;
  LogitRow& operator=(LogitRow&&) = default;

  // How many candidates best_candidates(k) may gather.
  static size_t candidates_of_best(size_t vocab, size_t k);

  // Which ids may come, one bit each, to be filled in before start(); bits behind the vocabulary
  // are 0.
  std::span<uint32_t> open() { return open_; }

  // Looks at a row. Ids that are not open or not finite are out; `adjusted` (ids ascending, not
  // open) are in with the values given. Both must stay while the row is used.
  void start(std::span<const float> logits, std::span<const Candidate> adjusted);
  bool empty() const;  // nothing may come
  int32_t best() const;

  // The k best in order, or, where there are at most k, all in order of their ids.
  std::vector<Candidate>& best_candidates(size_t k);

  // From here on: weights e^((logit - largest) / temperature), those below `least` counting as 0.
  // Sums them in order of the ids.
  void sum_weights(double temperature, double least);
  int32_t draw(double uniform) const;  // by weight, ids ascending
  // The shortest list, weight descending, that holds `share` of the sum.
  std::vector<Candidate>& heaviest_candidates(double share);

 private:
  void read(size_t block, double* out) const;
  void read_weights(size_t block, double* out) const;
  void gather(double least);
  double nth_largest(const std::vector<double>& values, size_t n);

  size_t vocab_;
  std::vector<uint32_t> open_;
  std::vector<double> block_max_;     // largest logit
  std::vector<double> block_weight_;  // not less than any weight
  std::vector<double> block_sum_;     // of the weights before and in it
  std::vector<double> order_;         // scratch of nth_largest()
  std::vector<Candidate> candidates_;
  std::span<const float> logits_;
  std::span<const Candidate> adjusted_;
  double largest_ = 0.0, temperature_ = 1.0, least_ = 0.0;
};

// Shortens a list of weights, in any order, to the least prefix by order that reaches `wanted`;
// false: all of it does not, and all of it is in order.
bool keep_mass(std::vector<Candidate>& candidates, double wanted);

}  // namespace minim
