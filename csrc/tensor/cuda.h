// What the library asks of the CUDA side, which csrc/cuda implements over CuPy.
//
// `cuda` is nullptr until a CUDA tensor is first asked for, so that a program on the host pays for none of it: no
// import, and at most a test of this pointer. A tensor on a device exists only while it is set.
//
// The array of a CUDA tensor is a cupy.ndarray on its memory, as an ndarray is for a host tensor: cached in the tensor,
// its memory kept alive by the Storage. Nothing here moves elements between host and device but what says so.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace torchlite {

class Cuda {
 public:
  virtual ~Cuda() = default;

  // ---- arrays -----------------------------------------------------------------------------------------------------
  // The array on the tensor's memory, cached in the tensor. Borrowed.
  virtual PyObject* array(Tensor* t) = 0;
  // Whether `o` is a cupy.ndarray.
  virtual bool is_array(PyObject* o) = 0;
  // What an index or a value that Python gives means beside CUDA tensors: an ndarray or a sequence as a new array.
  virtual PyRef<> as_array(PyObject* o) = 0;
  // A tensor on the memory of a cupy.ndarray (bool becomes Byte), which joins the Storage of that memory where one of
  // `relatives` has it. TypeError for element types that no tensor has.
  virtual PyRef<Tensor> tensor(PyRef<> array, std::span<Tensor* const> relatives = {}) = 0;

  // ---- memory -----------------------------------------------------------------------------------------------------
  // Uninitialised, contiguous, from CuPy's pool.
  virtual PyRef<Tensor> empty(DType dtype, Dims sizes, Device device) = 0;
  // Every element becomes a Python number, which fits the type.
  virtual void fill(Tensor* t, PyObject* number) = 0;
  // dst[...] = src, cast and broadcast as NumPy does. At least one of them is on a device; the one move of elements
  // between places.
  virtual void copy(Tensor* dst, Tensor* src) = 0;
  // A copy on the host of the only element, as a Python number: waits for the device.
  virtual PyRef<> number(Tensor* t) = 0;
  // The storage takes `nbytes` and keeps its contents.
  virtual void resize(Storage* storage, int64_t nbytes) = 0;
  // The device that is current on this thread.
  virtual Device current_device() = 0;
  virtual void set_device(Device device) = 0;

  // ---- streams ----------------------------------------------------------------------------------------------------
  // The stream that is current on this thread, or nothing for the default one.
  virtual PyRef<> stream() = 0;
  // What is launched on the current stream from now on comes after what `stream` (None: the default one) holds now, or
  // the other way round.
  virtual void wait_for(PyObject* stream) = 0;
  virtual void let_wait(PyObject* stream) = 0;
  // The current device and its stream, and making them current again.
  virtual PyRef<> state() = 0;
  virtual void restore(PyObject* state) = 0;
};

extern Cuda* cuda;

// Imports CuPy where that has not happened. ImportError or RuntimeError that says what is missing.
Cuda& require_cuda();

// Makes a device current, and the former one again at its end. Nothing for the host.
class DeviceScope {
 public:
  explicit DeviceScope(Device device) {
    if (device == kCPU || !cuda) return;
    Device now = cuda->current_device();
    if (now == device) return;
    cuda->set_device(device);
    former_ = now;
  }
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device former_ = kCPU;
};

// For messages: "device 1" or "the host", and "torchlite.cuda.FloatTensor on device 1".
std::string place_name(Device device);
std::string place_of(DType dtype, Device device);

}  // namespace torchlite
