// Speed of loading a checkpoint against a plain read of its files.
//
// usage: load_bench MODEL_DIR [THREADS [ROUNDS]]
//
// Three things take turns, so that a machine whose speed drifts slows all of them:
//   read  the shards by pread into one small buffer a thread, used again and again: what the page
//         cache gives to a program that keeps nothing. (Summing a mapping of the same bytes is
//         about as fast; copying out is the usual way, and needs no care about faults.)
//   copy  the shards by pread straight into new memory in large pages: what keeping the bytes costs
//         by plain copying. The system clears each new page before it hands it out, so
//         that every byte is written twice.
//   load  open, check and repack by the library.
// Each is given as GB/s by the clock and by processor time (bytes * threads / seconds used), which
// other programs on the machine disturb less. Before copy and load, and now and then within a load
// while the clocks stand, memory is touched and given back: a virtual machine returns free memory
// to its host, and first touches of such memory measure the host. Last, if the system drops the
// files from its cache when asked: read and load from the disk.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "engine/measure.h"
#include "kernels/kernels.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

namespace minim {
namespace {

constexpr size_t kPiece = size_t{256} << 10;  // of a read: fits the second-level cache
constexpr size_t kTouchEvery = size_t{64} << 20;
constexpr size_t kLargePage = size_t{2} << 20;

struct Times {
  double wall = 0, cpu = 0;
};
Times operator-(Times a, Times b) { return {a.wall - b.wall, a.cpu - b.cpu}; }
Times operator+(Times a, Times b) { return {a.wall + b.wall, a.cpu + b.cpu}; }

template <typename Body>
Times timed(const Body& body) {
  const double wall = now_seconds(), cpu = cpu_seconds();
  body();
  return {now_seconds() - wall, cpu_seconds() - cpu};
}

// The shards of a folder, open for reading.
class Files {
 public:
  explicit Files(const std::string& dir) {
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      if (entry.path().extension() != ".safetensors") continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      CHECK(fd >= 0, "cannot open %s", entry.path().c_str());
      files_.push_back({fd, entry.file_size()});
      bytes_ += entry.file_size();
    }
  }
  ~Files() {
    for (const File& file : files_) ::close(file.fd);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  size_t bytes() const { return bytes_; }

  // Calls body(fd, offset, size, place among all bytes, thread) for pieces of at most kPiece, large
  // page by large page.
  template <typename Body>
  void for_pieces(ThreadPool& pool, const Body& body) const {
    size_t place = 0;
    for (const File& file : files_) {
      pool.parallel_for((file.size + kLargePage - 1) / kLargePage, [&](size_t page, size_t thread) {
        const size_t end = std::min(file.size, (page + 1) * kLargePage);
        for (size_t at = page * kLargePage; at < end; at += kPiece) {
          body(file.fd, at, std::min(kPiece, end - at), place + at, thread);
        }
      });
      place += (file.size + kLargePage - 1) / kLargePage * kLargePage;
    }
  }
  size_t span() const { return bytes_ + files_.size() * kLargePage; }

  // Asks for the pages to go; false when some stayed.
  bool drop_from_cache() const {
    bool dropped = true;
    for (const File& file : files_) {
      fdatasync(file.fd);
      posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
      void* map = mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
      if (map == MAP_FAILED) return false;
      std::vector<unsigned char> resident((file.size + 4095) / 4096);
      mincore(map, file.size, resident.data());
      munmap(map, file.size);
      const auto n = std::count_if(resident.begin(), resident.end(), [](int r) { return r & 1; });
      dropped = dropped && static_cast<size_t>(n) * 20 < resident.size();
    }
    return dropped;
  }

 private:
  struct File {
    int fd;
    size_t size;
  };
  std::vector<File> files_;
  size_t bytes_ = 0;
};

void read_piece(int fd, size_t at, size_t size, uint8_t* to) {
  const ssize_t got = ::pread(fd, to, size, static_cast<off_t>(at));
  CHECK(got == static_cast<ssize_t>(size), "a read of %zu gave %zd", size, got);
}

class LoadBench {
 public:
  LoadBench(const std::string& dir, int n_threads, const Kernels& kernels)
      : dir_(dir), files_(dir), pool_(n_threads), kernels_(kernels) {
    for (int i = 0; i < n_threads; ++i) buffers_.push_back(new_memory(kPiece));
  }

  size_t bytes() const { return files_.bytes(); }
  size_t loaded_bytes() const { return loaded_bytes_; }
  bool drop_from_cache() const { return files_.drop_from_cache(); }

  Times read() {
    return timed([&] {
      files_.for_pieces(pool_, [&](int fd, size_t at, size_t size, size_t, size_t thread) {
        read_piece(fd, at, size, buffers_[thread].data());
      });
    });
  }

  Times copy() {
    touch_memory(files_.span());
    AlignedBuffer memory;
    const Times times = timed([&] {
      memory = new_memory(files_.span());
      files_.for_pieces(pool_, [&](int fd, size_t at, size_t size, size_t place, size_t) {
        read_piece(fd, at, size, memory.data() + place);
      });
    });
    return times;
  }

  Result<Times> load() {
    touch_memory(2 * kTouchEvery);
    paused_ = {};
    touched_bytes_ = 0;
    std::unique_ptr<Checkpoint> checkpoint;
    std::unique_ptr<Device> device;
    Error error;
    const Times times = timed([&] { error = load_once(checkpoint, device); });
    if (!error.message.empty()) return error;
    return times - paused_;
  }

 private:
  // Aligned to pages: copies into other places are several times slower on some processors.
  static AlignedBuffer new_memory(size_t bytes) {
    Result<AlignedBuffer> memory = AlignedBuffer::make(bytes);
    CHECK(memory, "%s", memory.error().message.c_str());
    return std::move(*memory);
  }

  void touch_memory(size_t bytes) {
    const AlignedBuffer memory = new_memory(bytes);
    pool_.parallel_for(memory.size() / kLargePage,
                       [&](size_t i) { memory.data()[i * kLargePage] = 1; });
  }

  Error load_once(std::unique_ptr<Checkpoint>& checkpoint, std::unique_ptr<Device>& device) {
    Result<Checkpoint> opened = Checkpoint::open(dir_);
    if (!opened) return opened.error();
    checkpoint = std::make_unique<Checkpoint>(std::move(*opened));
    const Result<Config> config = load_config(dir_);
    if (!config) return config.error();
    device = make_cpu_device(model_shape(*config),
                             {.kernels = &kernels_, .n_threads = pool_.n_threads()});
    const Result<Weights> weights =
        load_weights(*checkpoint, *config, *device, [&](size_t done, size_t total) {
          loaded_bytes_ = total;
          if (done < touched_bytes_ + kTouchEvery) return true;
          touched_bytes_ = done;
          paused_ = paused_ + timed([&] { touch_memory(2 * kTouchEvery); });
          return true;
        });
    return weights ? Error{} : weights.error();
  }

  std::string dir_;
  Files files_;
  ThreadPool pool_;
  const Kernels& kernels_;
  std::vector<AlignedBuffer> buffers_;
  size_t loaded_bytes_ = 0, touched_bytes_ = 0;
  Times paused_;
};

struct Rates {
  std::vector<double> wall, cpu;
  void add(double bytes, Times times, int n_threads) {
    wall.push_back(bytes / times.wall * 1e-9);
    cpu.push_back(bytes * n_threads / times.cpu * 1e-9);
  }
};

// The median of the paired ratios a[i] / b[i].
double ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

Result<Ok> warm_rounds(LoadBench& bench, int n_threads, int n_rounds) {
  const double bytes = static_cast<double>(bench.bytes());
  Rates read, copy, load;
  bench.read();
  std::printf("round,read_gb_per_s,copy_gb_per_s,load_gb_per_s,load_to_read,cpu_waiting\n");
  for (int i = 0; i < n_rounds; ++i) {
    const double start = now_seconds(), pressure = cpu_pressure_us();
    read.add(bytes, bench.read(), n_threads);
    copy.add(bytes, bench.copy(), n_threads);
    const Result<Times> times = bench.load();
    if (!times) return times.error();
    load.add(static_cast<double>(bench.loaded_bytes()), *times, n_threads);
    std::printf("%d,%.2f,%.2f,%.2f,%.3f,%.3f\n", i, read.wall.back(), copy.wall.back(),
                load.wall.back(), load.wall.back() / read.wall.back(),
                (cpu_pressure_us() - pressure) * 1e-6 / (now_seconds() - start));
    std::fflush(stdout);
  }
  const auto report = [](const char* clock, const std::vector<double>& r,
                         const std::vector<double>& c, const std::vector<double>& l) {
    std::printf(
        "# page cache, by %s: read %.2f, copy to new memory %.2f, load %.2f GB/s; medians "
        "of ratios: load / read %.3f, copy / read %.3f, load / copy %.3f\n",
        clock, median(r), median(c), median(l), ratio(l, r), ratio(c, r), ratio(l, c));
  };
  report("the clock", read.wall, copy.wall, load.wall);
  report("processor time", read.cpu, copy.cpu, load.cpu);
  return Ok{};
}

Result<Ok> cold_rounds(LoadBench& bench, int n_threads, int n_rounds) {
  const double bytes = static_cast<double>(bench.bytes());
  Rates read, load;
  for (int i = 0; i < n_rounds; ++i) {
    if (!bench.drop_from_cache()) {
      std::printf("# disk: not measured, the system kept the files in its cache\n");
      return Ok{};
    }
    read.add(bytes, bench.read(), n_threads);
    if (!bench.drop_from_cache()) continue;
    const Result<Times> times = bench.load();
    if (!times) return times.error();
    load.add(static_cast<double>(bench.loaded_bytes()), *times, n_threads);
  }
  if (load.wall.size() != read.wall.size()) return Ok{};
  std::printf("# disk, by the clock: buffered read %.2f, load %.2f GB/s; median of ratios %.3f\n",
              median(read.wall), median(load.wall), ratio(load.wall, read.wall));
  return Ok{};
}

int run(const std::string& dir, int n_threads, int n_rounds) {
  const Result<KernelChoice> choice = choose_kernels("auto");
  if (!choice) {
    std::fprintf(stderr, "load_bench: %s\n", choice.error().message.c_str());
    return 1;
  }
  LoadBench bench(dir, n_threads, *choice->kernels);
  std::printf("# cpu %s, tier %s, threads %d, %.2f GB in %s\n", cpu_model().c_str(),
              choice->kernels->name, n_threads, static_cast<double>(bench.bytes()) * 1e-9,
              dir.c_str());
  Result<Ok> done = warm_rounds(bench, n_threads, n_rounds);
  if (done) done = cold_rounds(bench, n_threads, 3);
  if (done) return 0;
  std::fprintf(stderr, "load_bench: %s\n", done.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: load_bench MODEL_DIR [THREADS [ROUNDS]]\n");
    return 2;
  }
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 9;
  return minim::run(argv[1], threads > 0 ? threads : cores, rounds);
}
