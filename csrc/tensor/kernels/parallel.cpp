// The thread pool behind parallel_for.
//
// One job at a time: `owner` is held by the thread whose loop is running. `mutex` guards everything else but the claim
// counter. A worker joins a job only while it is open; the caller closes it once all pieces are claimed, then waits for
// the workers inside.
#include "tensor/kernels/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

namespace torchlite::kernels {

namespace {

struct Job {
  detail::LoopBody body;
  const void* context;
  int64_t n;
  int64_t step;
  std::atomic<int64_t> next{0};

  void work() {
    for (;;) {
      int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
      if (begin >= n) return;
      body(context, begin, std::min(n, begin + step));
    }
  }
};

struct Pool {
  std::mutex owner;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable idle;
  Job* open_job = nullptr;
  uint64_t generation = 0;
  int wanted = 0;   // workers that may still join the open job
  int inside = 0;   // workers in the job
  int started = 0;  // threads of this pool
  Pool* next_abandoned = nullptr;
};

// Never destroyed: detached workers sleep on it until the process ends.
std::atomic<Pool*> current_pool{nullptr};
// Pools of a forked child's ancestors. Their threads do not exist here, so they cannot be destroyed, only kept reachable.
Pool* abandoned = nullptr;
thread_local bool in_loop = false;

void worker(Pool* pool) {
  in_loop = true;
  uint64_t seen = 0;
  std::unique_lock lock(pool->mutex);
  for (;;) {
    pool->wake.wait(lock, [&] { return pool->open_job && pool->generation != seen && pool->wanted > 0; });
    seen = pool->generation;
    --pool->wanted;
    ++pool->inside;
    Job* job = pool->open_job;
    lock.unlock();
    job->work();
    lock.lock();
    if (--pool->inside == 0) pool->idle.notify_one();
  }
}

void abandon_after_fork() {
  in_loop = false;
  if (Pool* old = current_pool.exchange(nullptr)) {
    old->next_abandoned = abandoned;
    abandoned = old;
  }
}

// The pool, made on first use; null if there is no memory for it, and loops then run serially.
Pool* pool() {
  static const bool fork_safe = pthread_atfork(nullptr, nullptr, abandon_after_fork) == 0;
  if (!fork_safe) return nullptr;
  Pool* current = current_pool.load();
  if (!current) {
    Pool* fresh = new (std::nothrow) Pool;
    if (!fresh || current_pool.compare_exchange_strong(current, fresh)) return fresh;
    delete fresh;
  }
  return current;
}

// Called with `owner` held. Workers block all signals, so that the interpreter's handlers run on its own threads.
void start_workers(Pool* p, int count) {
  if (p->started >= count) return;
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    for (; p->started < count; ++p->started) std::thread(worker, p).detach();
  } catch (const std::exception&) {
    // No memory or no more threads: fewer of them, the same result.
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int initial_threads() {
  for (const char* name : {"TORCHLITE_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const char* text = std::getenv(name)) {
      int threads = std::atoi(text);
      if (threads > 0) return std::min(threads, 1024);
    }
  return processors();
}

std::atomic<int> thread_limit{0};

}  // namespace

int num_threads() {
  int threads = thread_limit.load(std::memory_order_relaxed);
  if (threads == 0) {
    int unset = 0;
    threads = initial_threads();
    if (!thread_limit.compare_exchange_strong(unset, threads)) threads = unset;
  }
  return threads;
}

void set_num_threads(int threads) { thread_limit.store(std::clamp(threads, 1, 1024)); }

void detail::run_parallel(int64_t n, int64_t grain, LoopBody body, const void* context) {
  grain = std::max<int64_t>(grain, 1);
  int64_t grains = (n + grain - 1) / grain;
  int threads = static_cast<int>(std::min<int64_t>(num_threads(), grains));
  if (threads <= 1 || in_loop) return body(context, 0, n);
  Pool* p = pool();
  if (!p) return body(context, 0, n);
  std::unique_lock ownership(p->owner, std::try_to_lock);
  if (!ownership) return body(context, 0, n);
  start_workers(p, threads - 1);

  // Four pieces a thread: enough to even out a core that another process slows down.
  int64_t pieces = std::min<int64_t>(grains, int64_t{4} * threads);
  Job job{body, context, n, (grains + pieces - 1) / pieces * grain};
  {
    std::lock_guard lock(p->mutex);
    p->open_job = &job;
    p->wanted = threads - 1;
    ++p->generation;
  }
  if (threads == 2 && p->started == 1) p->wake.notify_one();
  else p->wake.notify_all();
  in_loop = true;
  job.work();
  in_loop = false;
  std::unique_lock lock(p->mutex);
  p->open_job = nullptr;
  p->idle.wait(lock, [&] { return p->inside == 0; });
}

}  // namespace torchlite::kernels
