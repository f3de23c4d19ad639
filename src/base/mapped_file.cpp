// mmap and madvise behind a value type. The mapping is private and read-only: nothing here can
// change a model's file, and clean pages cost no swap.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace minim {
namespace {

Error system_error(const std::string& path, int reason) {
  return Error{reason == ENOENT || reason == ENOTDIR ? Code::kNotFound : Code::kIo,
               fmt::format("cannot read {}: {}", path, std::generic_category().message(reason))};
}

uintptr_t page_bytes() {
  static const uintptr_t bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// `inside`: only pages wholly in the part; otherwise every page that it touches.
void advise(std::span<const uint8_t> part, int advice, bool inside) {
  if (part.empty()) return;
  const uintptr_t mask = page_bytes() - 1;
  uintptr_t begin = reinterpret_cast<uintptr_t>(part.data());
  uintptr_t end = begin + part.size();
  begin = inside ? (begin + mask) & ~mask : begin & ~mask;
  end = inside ? end & ~mask : (end + mask) & ~mask;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, errno);
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    const int reason = errno;
    ::close(fd);
    return system_error(path, reason);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    return Error{Code::kIo, fmt::format("cannot read {}: not a plain file", path)};
  }
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) {
    ::close(fd);
    return MappedFile(nullptr, 0);
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int reason = errno;
  ::close(fd);
  if (data == MAP_FAILED) return system_error(path, reason);
  return MappedFile(static_cast<const uint8_t*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

void advise_will_need(std::span<const uint8_t> part) { advise(part, MADV_WILLNEED, false); }

void advise_release(std::span<const uint8_t> part) { advise(part, MADV_DONTNEED, true); }

void advise_scattered(std::span<const uint8_t> part) { advise(part, MADV_RANDOM, false); }

void advise_in_order(std::span<const uint8_t> part) { advise(part, MADV_NORMAL, false); }

}  // namespace minim
