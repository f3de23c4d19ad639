// How close each hot kernel comes to what this machine allows: memory reads for decode, fused
// multiply-adds for prefill.
//
// Every figure is a ratio of two short sections run one after the other in this process, median
// over many pairs, because absolute speeds of shared machines drift by a third within minutes.
// Memory sections walk a region far larger than the last-level cache, on huge pages. CPU pressure
// (/proc/pressure/cpu, "some avg10") before and after says how busy the rest of the machine was.
// Output: CSV.
//
// usage: kernels_bench [tier [part of a kernel's name]]   (default auto, all)
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/fp_env.h"
#include "kernels/differential.h"
#include "kernels/kernels.h"

namespace minim {
namespace {

constexpr size_t kRegion = size_t{512} << 20;  // 16 times a 32 MiB last-level cache
constexpr size_t kSection = size_t{8} << 20;   // about a millisecond: usually not preempted
constexpr int kPairs = 21;
constexpr size_t kWidth = 6144;

// Processor time of this thread: being preempted on a busy machine does not count.
double now() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& body) {
  const double start = now();
  body();
  return now() - start;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

double cpu_pressure() {
  std::ifstream in("/proc/pressure/cpu");
  std::string word;
  while (in >> word) {
    if (word.rfind("avg10=", 0) == 0) return std::atof(word.c_str() + 6);
  }
  return -1;
}

// Bytes on huge pages where the system gives them, filled with drawn bytes.
uint8_t* make_region(size_t size) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  madvise(p, size, MADV_HUGEPAGE);
  Draw draw(1);
  const std::vector<uint8_t> pattern = draw.bytes(1 << 20);
  for (size_t i = 0; i < size; i += pattern.size()) {
    std::memcpy(static_cast<uint8_t*>(p) + i, pattern.data(), std::min(pattern.size(), size - i));
  }
  return static_cast<uint8_t*>(p);
}

volatile uint64_t g_sink;  // keeps results alive

__attribute__((target("avx2,fma"))) void read_section(const uint8_t* p, size_t size) {
  __m256i sums[4] = {};
  for (size_t i = 0; i + 128 <= size; i += 128) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(p + i + 32 * j);
      sums[j] = _mm256_add_epi64(sums[j], _mm256_load_si256(at));
    }
  }
  const __m256i all =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  g_sink = static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

// n steps of ten independent chains of eight lanes: 80 n multiply-adds. (AVX-512 machines do more;
// the row says ymm.)
__attribute__((target("avx2,fma"))) void fma_section(size_t n) {
  __m256 acc[10];
  for (auto& a : acc) a = _mm256_set1_ps(1.0f);
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (size_t i = 0; i < n; ++i) {
#pragma GCC unroll 10
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, y);
    asm volatile("" : "+x"(x), "+x"(y));
  }
  __m256 sum = acc[0];
  for (int i = 1; i < 10; ++i) sum = _mm256_add_ps(sum, acc[i]);
  g_sink = static_cast<uint64_t>(_mm256_cvtss_f32(sum));
}

struct Bench {
  const Kernels& k;
  uint8_t* region;
  std::string cpu;
  std::string filter;
  size_t at = 0;

  const uint8_t* next(size_t size) {
    if (at + size > kRegion) at = 0;
    const uint8_t* p = region + at;
    at += (size + 4095) / 4096 * 4096;
    return p;
  }

  void row(const std::string& name, const char* limit, double rate, const char* unit,
           std::vector<double> ratios, double pressure) {
    std::sort(ratios.begin(), ratios.end());
    std::printf("\"%s\",%s,%s,%.2f,%s,%s,%.3f,%.3f,%.3f,%zu,%.1f,%.1f\n", cpu.c_str(), k.name,
                name.c_str(), rate, unit, limit, ratios[ratios.size() / 2],
                ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4], ratios.size(), pressure,
                cpu_pressure());
    std::fflush(stdout);
  }

  // body(bytes) reads `size` bytes; paired with a plain read of as many others.
  void against_read(const std::string& name, size_t size,
                    const std::function<void(const uint8_t*)>& body) {
    if (name.find(filter) == std::string::npos) return;
    const double pressure = cpu_pressure();
    std::vector<double> ratios, rates;
    for (int i = 0; i < kPairs; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const double plain = seconds_of([&, p = next(size)] { read_section(p, size); });
      const double own = seconds_of([&, p = next(size)] { body(p); });
      ratios.push_back(plain / own);
      rates.push_back(static_cast<double>(size) / own * 1e-9);
    }
    row(name, "read", median(rates), "GB/s", ratios, pressure);
  }

  // body() makes `n` multiply-adds.
  void against_fma(const std::string& name, double n, const std::function<void()>& body) {
    if (name.find(filter) == std::string::npos) return;
    const double pressure = cpu_pressure();
    std::vector<double> ratios, rates;
    body();
    for (int i = 0; i < kPairs; ++i) {
      const double plain = seconds_of([&] { fma_section(static_cast<size_t>(n / 80)); });
      const double own = seconds_of(body);
      ratios.push_back(plain / own);
      rates.push_back(2 * n / own * 1e-9);
    }
    row(name, "fma_ymm", median(rates), "Gop/s", ratios, pressure);
  }
};

void limits(Bench& b) {
  for (const size_t threads : {1, 2}) {
    const double pressure = cpu_pressure();
    std::vector<double> rates;
    for (int i = 0; i < 7; ++i) {
      std::vector<std::thread> pool;
      const size_t share = kRegion / threads;
      const auto start = std::chrono::steady_clock::now();
      for (size_t t = 0; t < threads; ++t) {
        pool.emplace_back([&b, t, share] { read_section(b.region + t * share, share); });
      }
      for (std::thread& t : pool) t.join();
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      rates.push_back(static_cast<double>(kRegion) * 1e-9 / wall.count());
    }
    b.row("read_" + std::to_string(threads) + "_threads", "read", median(rates), "GB/s", {1.0},
          pressure);
  }
  b.against_fma("fma_peak", 8e6, [] { fma_section(100000); });
}

std::string format_name(PanelFormat f) {
  return f == PanelFormat::kBf16 ? "bf16" : f == PanelFormat::kNvfp4 ? "nvfp4" : "mxfp8";
}

void linears(Bench& b) {
  Draw draw(2);
  const std::vector<float> x = draw.values(64 * kWidth, false);
  for (const PanelFormat format : {PanelFormat::kNvfp4, PanelFormat::kMxfp8, PanelFormat::kBf16}) {
    const size_t panel = panel_bytes(format, kWidth);
    const size_t n_panels = kSection / panel;
    std::vector<float> y(n_panels * kPanelRows * 64);
    Panels w = {
        .format = format, .n_in = kWidth, .n_panels = n_panels, .data = nullptr, .global = 1.0f};
    b.against_read("linear_" + format_name(format) + "_1", n_panels * panel, [&](const uint8_t* p) {
      w.data = p;
      b.k.linear(w, x.data(), kWidth, 1, y.data(), n_panels * kPanelRows);
    });
    for (const size_t n : {2, 4, 16, 64}) {
      w.n_panels = 64 / n + 1;
      const auto products = static_cast<double>(w.n_panels * kPanelRows * kWidth * n);
      b.against_fma("linear_" + format_name(format) + "_" + std::to_string(n), products, [&] {
        w.data = b.next(w.n_panels * panel);
        b.k.linear(w, x.data(), kWidth, n, y.data(), w.n_panels * kPanelRows);
      });
    }
  }
}

void attention(Bench& b) {
  Draw draw(3);
  const std::vector<float> q = draw.values(128 * kLanes, false);
  std::vector<float> k(128 * 128), v(128 * 128);
  AttentionPartial partial;
  const std::vector<int32_t> all(kLanes, 128),
      ragged = {1, 128, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73};
  const double products = 2.0 * 128 * 128 * kLanes;
  constexpr int kBlocks = 16;
  for (const bool masked : {false, true}) {
    const int32_t* n_visible = masked ? ragged.data() : all.data();
    b.against_fma(masked ? "attend_block_ragged" : "attend_block", products * kBlocks, [&] {
      for (int i = 0; i < kBlocks; ++i) {
        b.k.attend_block(q.data(), k.data(), v.data(), 128, n_visible, AttentionMode::kDirect,
                         &partial);
      }
    });
  }
  for (const TileFormat format : {TileFormat::kBf16, TileFormat::kFp8E4m3, TileFormat::kNvfp4}) {
    const size_t bytes = 128 * (format == TileFormat::kBf16      ? 256
                                : format == TileFormat::kFp8E4m3 ? 128
                                                                 : 72);
    const std::string name = format == TileFormat::kBf16      ? "bf16"
                             : format == TileFormat::kFp8E4m3 ? "fp8"
                                                              : "nvfp4";
    b.against_fma("load_and_attend_" + name, products * kBlocks, [&] {
      for (int i = 0; i < kBlocks; ++i) {
        b.k.load_vectors(format, AttentionMode::kDirect, b.next(bytes), 128, k.data());
        b.k.load_vectors(format, AttentionMode::kDirect, b.next(bytes), 128, v.data());
        b.k.attend_block(q.data(), k.data(), v.data(), 128, all.data(), AttentionMode::kDirect,
                         &partial);
      }
    });
    const size_t tiles = kSection / bytes;
    for (const size_t rows : {1, 4}) {
      float best[4];
      b.against_read("index_scores_" + name + "_" + std::to_string(rows), tiles * bytes,
                     [&](const uint8_t* p) {
                       for (size_t i = 0; i < tiles; ++i) {
                         b.k.index_scores(format, AttentionMode::kDirect, p + i * bytes, q.data(),
                                          rows, all.data(), best);
                       }
                     });
    }
  }
}

void packing(Bench& b) {
  uint8_t* out = make_region(kSection);
  for (const PanelFormat format : {PanelFormat::kNvfp4, PanelFormat::kMxfp8, PanelFormat::kBf16}) {
    const size_t row = format == PanelFormat::kBf16    ? 2 * kWidth
                       : format == PanelFormat::kMxfp8 ? kWidth
                                                       : kWidth / 2;
    const size_t panels = kSection / 2 / (row * kPanelRows);
    PackSource s = {.format = format,
                    .n_out = panels * kPanelRows,
                    .n_in = kWidth,
                    .values = nullptr,
                    .scales = nullptr};
    b.against_read("pack_" + format_name(format), panels * kPanelRows * row, [&](const uint8_t* p) {
      s.values = p;
      s.scales = b.region;
      for (size_t i = 0; i < panels; ++i)
        b.k.pack_panel(s, i, out + i * panel_bytes(format, kWidth));
    });
  }
}

int run(const char* tier, const char* filter) {
  const Result<KernelChoice> choice = choose_kernels(tier);
  if (!choice) {
    std::fprintf(stderr, "%s\n", choice.error().message.c_str());
    return 1;
  }
  if (!__builtin_cpu_supports("avx2")) {
    std::fprintf(stderr,
                 "this benchmark measures its limits with AVX2, which this processor lacks\n");
    return 1;
  }
  const FlushDenormals flush;
  Bench bench = {.k = *choice->kernels,
                 .region = make_region(kRegion),
                 .cpu = cpu_model(),
                 .filter = filter,
                 .at = 0};
  std::printf(
      "cpu,tier,kernel,rate,unit,limit,ratio_median,ratio_q1,ratio_q3,pairs,pressure_before,"
      "pressure_after\n");
  limits(bench);
  linears(bench);
  attention(bench);
  packing(bench);
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  return minim::run(argc > 1 ? argv[1] : "auto", argc > 2 ? argv[2] : "");
}
