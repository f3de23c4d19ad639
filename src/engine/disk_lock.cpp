// flock on a file in the directory: it goes with the process however that ends, and, unlike fcntl's
// record locks, it holds between two users in one process too and is not lost when some other
// descriptor of the file is closed. The file holds the number of the process for the message only.
#include "engine/disk_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace minim {
namespace {

constexpr const char* kLockName = "lock";

Error failed(const std::string& dir, const char* doing, int error) {
  return Error{Code::kIo, fmt::format("cannot {} the cache directory {}: {}", doing, dir,
                                      std::strerror(error))};
}

// What the holder wrote; 0: nothing of use.
int read_holder(int fd) {
  std::array<char, 16> text{};
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  int pid = 0;
  if (n > 0) std::from_chars(text.data(), text.data() + n, pid);
  return pid;
}

Error busy(const std::string& dir, int pid) {
  const std::string who = pid > 0 ? fmt::format("process {}", pid) : "another process";
  return Error{
      Code::kBusy,
      fmt::format("the cache directory {} is used by {}, wanted one for this process alone "
                  "(stop the other or name another directory)",
                  dir, who)};
}

}  // namespace

Result<DiskLock> DiskLock::take(const std::string& dir) {
  std::error_code ignored;  // the next call says what is wrong
  const std::filesystem::path path(dir);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return failed(dir, "make", errno);
  DiskLock lock(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
  if (lock.dir_fd_ < 0) return failed(dir, "open", errno);
  lock.lock_fd_ =
      openat(lock.dir_fd_, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (lock.lock_fd_ < 0) return failed(dir, "write", errno);
  if (flock(lock.lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return busy(dir, read_holder(lock.lock_fd_));
    return failed(dir, "lock", errno);
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(lock.lock_fd_, 0) != 0 ||
      pwrite(lock.lock_fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return failed(dir, "write", errno);
  }
  return lock;
}

DiskLock::DiskLock(DiskLock&& other) noexcept
    : dir_fd_(std::exchange(other.dir_fd_, -1)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

DiskLock& DiskLock::operator=(DiskLock&& other) noexcept {
  std::swap(dir_fd_, other.dir_fd_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

DiskLock::~DiskLock() {
  if (lock_fd_ >= 0) close(lock_fd_);
  if (dir_fd_ >= 0) close(dir_fd_);
}

}  // namespace minim
