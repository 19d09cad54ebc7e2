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

std::string place_of(DType dtype, Device device) {
  if (device == kCPU) return std::string("torchlite.") + info(dtype).name + "Tensor on the host";
  return std::string("torchlite.cuda.") + info(dtype).name + "Tensor on device " + std::to_string(device);
}

}  // namespace torchlite
