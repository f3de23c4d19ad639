// Two queues and one thread. One, because a disk is one thing and the store has no locks; the queue
// of writes is bounded by whoever fills it, that of reads by the blocks there are. The thread takes
// no signals: a file-size limit must be an error of write(), not the end of the program, and
// interrupts belong to the main thread.
#include "engine/disk_worker.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace minim {

DiskWorker::DiskWorker(std::unique_ptr<DiskStore> store)
    : store_(std::move(store)), stats_(store_->stats()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DiskWorker::~DiskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    reads_.clear();
  }
  work_.notify_one();
  thread_.join();
}

void DiskWorker::push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    (job.write ? writes_ : reads_).push_back(std::move(job));
    ++n_pending_;
  }
  work_.notify_one();
}

std::vector<DiskWorker::Report> DiskWorker::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait && n_pending_ > 0) done_.wait(lock, [this] { return !reports_.empty(); });
  n_pending_ -= reports_.size();
  return std::exchange(reports_, {});
}

bool DiskWorker::takes_writes(size_t most) const {
  const std::lock_guard lock(mutex_);
  return writes_.size() < most && !stats_.read_only;
}

DiskStats DiskWorker::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void DiskWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !reads_.empty() || !writes_.empty(); });
    std::deque<Job>& queue = reads_.empty() ? writes_ : reads_;
    if (queue.empty()) return;
    Report report{.job = std::move(queue.front()), .ok = false, .dropped = {}};
    queue.pop_front();
    lock.unlock();
    const Job& job = report.job;
    report.ok = job.write ? store_->write(job.key, job.pieces) : store_->read(job.key, job.pieces);
    report.dropped = store_->take_dropped();
    const DiskStats stats = store_->stats();
    lock.lock();
    stats_ = stats;
    reports_.push_back(std::move(report));
    done_.notify_one();
  }
}

}  // namespace minim
