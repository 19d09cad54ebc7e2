// CUDA's kernel language on the host: a block's threads are threads of the process, one block after the other.
#include <barrier>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static

struct Index {
  int x;
};
static thread_local Index threadIdx, blockIdx;
static Index blockDim;
static std::barrier<>* block_barrier;
static std::mutex atomics;

static void __syncthreads() { block_barrier->arrive_and_wait(); }

template <class T>
T atomicAdd(T* p, T v) {
  std::lock_guard<std::mutex> lock(atomics);
  T old = *p;
  *p += v;
  return old;
}

using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

template <class F>
void launch(int blocks, int threads, F f) {
  blockDim.x = threads;
  for (int b = 0; b < blocks; ++b) {
    std::barrier<> barrier(threads);
    block_barrier = &barrier;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([=] {
        blockIdx.x = b;
        threadIdx.x = t;
        f();
        block_barrier->arrive_and_drop();
      });
    for (std::thread& t : all) t.join();
  }
}
