// A small pool of persistent threads that share out the range of a loop.
//
// - The pool starts no thread before the first loop longer than its grain, and none beyond num_threads() - 1.
// - A loop started while the pool is busy (another Python thread, or a loop inside a loop) runs serially on its caller.
// - The caller takes part and never waits for a worker that has not begun: a sleeping pool costs a wake-up call, no
//   latency.
// - A child after fork() starts with an empty pool.
// - Bodies must not throw and must not touch Python.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// Threads that a loop may use, the caller included. Initially TORCHLITE_NUM_THREADS, else OMP_NUM_THREADS, else the
// processors that this process may run on.
int num_threads();
// Takes effect from the next loop on; values below 1 count as 1.
void set_num_threads(int threads);

namespace detail {
using LoopBody = void (*)(const void* context, int64_t begin, int64_t end);
void run_parallel(int64_t n, int64_t grain, LoopBody body, const void* context);
}  // namespace detail

// Calls fn(begin, end) over disjoint ranges that together cover [0, n); all but the last are at least `grain` long and
// begin at multiples of `grain`. Runs fn(0, n) directly when n <= grain; does not call fn when n <= 0.
template <class Fn>
inline void parallel_for(int64_t n, int64_t grain, const Fn& fn) {
  if (n <= 0) return;
  if (n <= grain || num_threads() == 1) {
    fn(int64_t{0}, n);
    return;
  }
  detail::run_parallel(
      n, grain, [](const void* context, int64_t begin, int64_t end) { (*static_cast<const Fn*>(context))(begin, end); },
      &fn);
}

}  // namespace torchlite::kernels
