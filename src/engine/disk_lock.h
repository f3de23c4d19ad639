// A directory that one process uses at a time.
#pragma once

#include <string>

#include "base/result.h"

namespace minim {

class DiskLock {
 public:
  // Makes the directory (for its owner alone) and the folders above it where they are missing, and
  // locks it until this object or the process ends. kBusy: another has it, named by its number.
  // kIo: the system's reason.
  static Result<DiskLock> take(const std::string& dir);
  DiskLock(DiskLock&& other) noexcept;
  DiskLock& operator=(DiskLock&& other) noexcept;
  ~DiskLock();

  int dir_fd() const { return dir_fd_; }

 private:
  DiskLock(int dir_fd, int lock_fd) : dir_fd_(dir_fd), lock_fd_(lock_fd) {}
  int dir_fd_, lock_fd_;
};

}  // namespace minim
