#include "autograd/places.h"

#include "autograd/variable.h"
#include "utils/errors.h"

namespace torchlite {

namespace {

bool same_stream(PyObject* a, PyObject* b) { return a == b || check(PyObject_RichCompareBool(a, b, Py_EQ)); }

}  // namespace

void note_stream(Node* node) {
  if (PyRef<> stream = cuda->stream()) extra(node).stream = std::move(stream);
}

RunPlaces::RunPlaces() {
  if (cuda) former_ = cuda->state();
}

RunPlaces::~RunPlaces() {
  if (!former_ || !cuda) return;
  ErrorGuard keep;
  try {
    for (auto& [stream, device] : seen_) {
      DeviceScope scope(device);
      cuda->let_wait(stream.get());
    }
    cuda->restore(former_.get());
  } catch (...) {
    translate_exception();
    PyErr_WriteUnraisable(nullptr);
  }
}

void RunPlaces::order(Node* node) {
  PyRef<> now = cuda->stream(), own = node->extra ? node->extra->stream.copy() : PyRef<>();
  if (!now && !own) return;
  if (now && own && same_stream(now.get(), own.get())) return;
  if (!own) own = none_ref();
  Device device = cuda->current_device();
  for (const auto& [stream, where] : seen_)
    if (where == device && same_stream(stream.get(), own.get())) return;
  cuda->wait_for(own.get());
  seen_.emplace_back(std::move(own), device);
}

}  // namespace torchlite
