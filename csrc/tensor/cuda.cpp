#include "tensor/cuda.h"

#include "tensor/python_tensor.h"
#include "utils/errors.h"

namespace torchlite {

Cuda* cuda = nullptr;

Cuda& require_cuda() {
  if (!cuda) {
    PyRef<> module = check(PyImport_ImportModule("torchlite.cuda"));
    check(PyObject_CallMethod(module.get(), "_connect", nullptr));
    if (!cuda) runtime_error("torchlite.cuda has not connected CuPy");
  }
  return *cuda;
}

DeviceScope::~DeviceScope() {
  if (former_ == kCPU) return;
  ErrorGuard keep;
  try {
    cuda->set_device(former_);
  } catch (...) {
    translate_exception();
    PyErr_WriteUnraisable(nullptr);
  }
}

std::string place_name(Device device) { return device == kCPU ? "the host" : "device " + std::to_string(device); }

std::string place_of(DType dtype, Device device) {
  return class_name(&TensorTypes[class_index(dtype, device)]) + " on " + place_name(device);
}

}  // namespace torchlite
