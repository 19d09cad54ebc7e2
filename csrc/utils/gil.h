// Releasing the GIL around a kernel.
#pragma once

#include <cstdint>
#include <mutex>

#include "utils/py_ref.h"

namespace torchlite {

// Takes the GIL back. While the interpreter ends, CPython before 3.14 makes a daemon thread that waits for the GIL exit
// by unwinding its stack; such a thread stops here for good instead, with its C++ frames intact.
void restore_gil(PyThreadState* state) noexcept;
[[noreturn]] void hang_thread() noexcept;

// How many threads are inside a kernel without the GIL. Changed with the GIL held.
inline int kernels_running = 0;
// Returns when no thread is inside a kernel, with the GIL held: then memory may move. Other threads run meanwhile.
void wait_for_kernels();

// Lets other Python threads run for as long as it lives, if the kernel passes enough elements for that to pay. The
// scope must not touch Python state.
class GilRelease {
 public:
  static constexpr int64_t kAbove = 16384;
  explicit GilRelease(int64_t elements) : state_(nullptr) {
    if (elements <= kAbove) return;
    ++kernels_running;
    state_ = PyEval_SaveThread();
  }
  ~GilRelease() {
    if (!state_) return;
    restore_gil(state_);
    --kernels_running;
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// A mutex that is waited for without the GIL, so that its holder may take the GIL back. One thread may lock it again:
// what it guards can run a finalizer. A forked child starts with it unlocked.
class GilFriendlyMutex {
 public:
  GilFriendlyMutex();
  void lock();
  void unlock() { mutex_.unlock(); }

 private:
  std::recursive_mutex mutex_;
};

}  // namespace torchlite
