#include "utils/gil.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <vector>

namespace torchlite {

namespace {
// Static mutexes only: they are never destroyed before the process ends.
std::vector<std::recursive_mutex*>& known() {
  static auto* mutexes = new std::vector<std::recursive_mutex*>();
  return *mutexes;
}
// A forked child has no other threads.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { kernels_running = 0; });
void unlock_all_in_child() {
  for (std::recursive_mutex* m : known()) new (m) std::recursive_mutex();
}
}  // namespace

void hang_thread() noexcept {
  for (;;) pause();
}

void restore_gil(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {
    hang_thread();
  }
}

void wait_for_kernels() {
  while (kernels_running) {
    PyThreadState* state = PyEval_SaveThread();
    usleep(20);
    restore_gil(state);
  }
}

GilFriendlyMutex::GilFriendlyMutex() {
  if (known().empty()) pthread_atfork(nullptr, nullptr, unlock_all_in_child);
  known().push_back(&mutex_);
}

void GilFriendlyMutex::lock() {
  if (mutex_.try_lock()) return;
  PyThreadState* state = PyEval_SaveThread();
  mutex_.lock();
  restore_gil(state);
}

}  // namespace torchlite
