// Milliseconds a row of 200,064 logits: each way to draw, and log-probabilities. Rows look like a
// model's (a few favourites before a bell of width 3) or are flat (the worst case of top-p).
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "engine/measure.h"
#include "engine/sampler.h"

namespace minim {
namespace {

constexpr int kVocab = 200064;
constexpr int kRows = 8;

std::vector<std::vector<float>> rows(float width, float favourite) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> out(kRows, std::vector<float>(kVocab));
  for (std::vector<float>& row : out) {
    for (float& x : row) x = width * normal(random);
    for (int i = 0; i < 30; ++i) row[random() % kVocab] = favourite - static_cast<float>(i) / 2;
  }
  return out;
}

// Median over `n` calls.
double milliseconds(int n, const std::function<void(int)>& call) {
  std::vector<double> times;
  for (int i = 0; i < n; ++i) {
    const double start = now_seconds();
    call(i);
    times.push_back((now_seconds() - start) * 1e3);
  }
  return median(times);
}

int run() {
  std::printf("%s, %d ids, median milliseconds a row\n", cpu_model().c_str(), kVocab);
  struct Case {
    const char* name;
    SamplingParams params;
  };
  const std::vector<Case> cases = {
      {"greedy", {.temperature = 0.0}},
      {"temperature 1", {}},
      {"temperature 0.6", {.temperature = 0.6}},
      {"top-k 40, top-p 0.95", {.top_k = 40, .top_p = 0.95}},
      {"top-k 1000", {.top_k = 1000}},
      {"top-p 0.95", {.top_p = 0.95}},
      {"min-p 0.05", {.min_p = 0.05}},
      {"top-k 40, penalties", {.top_k = 40, .repetition_penalty = 1.1, .presence_penalty = 0.5}}};
  const auto model = rows(3.0f, 25.0f), flat = rows(0.1f, 0.0f);
  std::vector<int32_t> prompt(10000);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 17 % kVocab);
  const std::vector<uint32_t> mixed(kVocab / 32, 0x5a5a5a5a);
  for (const Case& c : cases) {
    std::vector<double> times;
    for (const auto* logits : {&model, &flat}) {
      Sampler sampler(c.params, kVocab, {});
      sampler.observe_prompt(prompt);
      times.push_back(
          milliseconds(100, [&](int i) { (void)sampler.sample((*logits)[i % kRows], i); }));
    }
    Sampler sampler(c.params, kVocab, {});
    times.push_back(
        milliseconds(100, [&](int i) { (void)sampler.sample(model[i % kRows], i, mixed); }));
    std::printf("%-24s model %7.3f   flat %7.3f   half masked %7.3f\n", c.name, times[0], times[1],
                times[2]);
  }
  for (const int k : {0, 20}) {
    const auto of = [&](const auto& logits) {
      return milliseconds(100, [&](int i) { (void)token_logprobs(logits[i % kRows], {}, 5, k); });
    };
    std::printf("log-probabilities, %2d best  model %7.3f   flat %7.3f\n", k, of(model), of(flat));
  }
  std::printf("a sampler, made          %7.3f\n", milliseconds(20, [&](int) {
                (void)Sampler({.top_p = 0.95}, kVocab, TokenMask(kVocab, 1));
              }));
  return 0;
}

}  // namespace
}  // namespace minim

int main() { return minim::run(); }
