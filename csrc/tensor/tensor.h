// Tensor: a strided view (element type, sizes, strides, offset) of a Storage. The C++ object is the Python object.
//
// Invariants: every element lies inside the storage; `numel` is the product of the sizes; `contiguous` says that the
// elements lie row-major without gaps (always so when numel <= 1); strides count elements and may be 0 or negative.
// `array` caches a NumPy view of the same memory; its base is the Storage's lease, so no cycle leads back here.
// An exact Tensor holds only a Storage and that array, so it stays untracked unless the Storage's owner is an object
// that the collector knows, which may lead back; an instance of a Python subclass is tracked.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "tensor/storage.h"

namespace torchlite {

inline constexpr int kMaxDim = 64;  // NumPy's own limit
inline constexpr int kInlineDim = 2;

// A borrowed list of sizes or strides.
struct Dims {
  const int64_t* data;
  int n;
  Dims() : data(nullptr), n(0) {}
  Dims(const int64_t* d, int count) : data(d), n(count) {}
  Dims(const std::vector<int64_t>& v) : data(v.data()), n(static_cast<int>(v.size())) {}
  int64_t operator[](int i) const { return data[i]; }
  const int64_t* begin() const { return data; }
  const int64_t* end() const { return data + n; }
  int64_t product() const {
    int64_t p = 1;
    for (int64_t s : *this) p *= s;
    return p;
  }
  bool operator==(const Dims& o) const {
    if (n != o.n) return false;
    for (int i = 0; i < n; ++i)
      if (data[i] != o.data[i]) return false;
    return true;
  }
};

struct Tensor : PyObject {
  PyRef<Storage> storage;
  PyRef<> array;
  Tensor *next_cached, *previous_cached;  // in the storage's list; meaningful while there is an array
  PyObject* weakrefs;
  int64_t offset;  // in elements
  int64_t numel;
  DType dtype;
  uint8_t ndim;
  bool contiguous;
  union {
    int64_t inline_dims[2 * kInlineDim];
    int64_t* heap_dims;
  };

  int64_t* dims() { return ndim <= kInlineDim ? inline_dims : heap_dims; }
  const int64_t* dims() const { return ndim <= kInlineDim ? inline_dims : heap_dims; }
  Dims sizes() const { return {dims(), ndim}; }
  Dims strides() const { return {dims() + ndim, ndim}; }
  int64_t size(int d) const { return dims()[d]; }
  int64_t stride(int d) const { return dims()[ndim + d]; }
  Device device() const { return storage->device; }
  bool readonly() const { return storage->readonly; }
  char* bytes() const { return storage->data + offset * itemsize(dtype); }
  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(bytes());
  }
};

// `_TensorBase`, and its subclass for each element type: FloatTensor ...
extern PyTypeObject TensorBase_Type;
extern PyTypeObject TensorTypes[2 * kDTypes];  // on the host, then on CUDA devices: see class_index
// torch.Size: a tuple of ints.
extern PyTypeObject Size_Type;

// Whether it is one of the sixteen classes itself, as nearly every tensor's is.
inline bool is_plain_tensor_type(const PyTypeObject* type) {
  return type >= TensorTypes && type < TensorTypes + 2 * kDTypes;
}
inline bool is_tensor(PyObject* o) {
  return is_plain_tensor_type(Py_TYPE(o)) || PyObject_TypeCheck(o, &TensorBase_Type);
}
inline Tensor* as_tensor(PyObject* o) { return static_cast<Tensor*>(o); }

// ---- making tensors (each throws PyError) -------------------------------------------------------------------------
// Uninitialised, contiguous, on the host.
PyRef<Tensor> new_tensor(DType dtype, Dims sizes);
PyRef<Tensor> new_zeros(DType dtype, Dims sizes);
PyRef<Tensor> new_full(DType dtype, Dims sizes, double value);
// The same on the host or a CUDA device.
PyRef<Tensor> new_tensor(DType dtype, Dims sizes, Device device);
PyRef<Tensor> new_zeros(DType dtype, Dims sizes, Device device);
PyRef<Tensor> new_full(DType dtype, Dims sizes, double value, Device device);
// On the host, whatever `t` is.
inline PyRef<Tensor> new_like(const Tensor* t) { return new_tensor(t->dtype, t->sizes()); }
// A view of `base`'s storage; the caller has checked that it stays inside.
PyRef<Tensor> new_view(const Tensor* base, Dims sizes, Dims strides, int64_t offset);
PyRef<Tensor> new_tensor_on(PyRef<Storage> storage, DType dtype, Dims sizes, Dims strides, int64_t offset);
// A second Tensor object on the same memory.
PyRef<Tensor> alias(const Tensor* t);
// `t` becomes another view in place: its NumPy view is dropped, and with it the claim on the old memory.
void repoint(Tensor* t, PyRef<Storage> storage, Dims sizes, Dims strides, int64_t offset);
// `t` takes new sizes in place, contiguous from its offset on; the storage grows where it is too small. Elements keep
// their order in memory.
void resize(Tensor* t, Dims sizes);
// `t` itself if contiguous, else a contiguous copy.
PyRef<Tensor> contiguous(Tensor* t);
PyRef<Tensor> clone(const Tensor* t);
// A copy in another element type (`t` itself if it has it already). Casts as NumPy's astype does.
PyRef<Tensor> to_dtype(Tensor* t, DType dtype);

// ---- Copying between sizes (copying.cpp) --------------------------------------------------------------------------
// dst[...] = src, broadcast if that is asked for. Where the sizes do not fit but hold equally many elements, they are
// copied in order, with a UserWarning if `broadcast`. RuntimeError that names `function` where nothing fits.
void copy_elements(Tensor* dst, Tensor* src, bool broadcast, const char* function);
// The elements of `src` in another size that holds as many; errors and the warning as above.
PyRef<Tensor> in_order(Tensor* src, Dims sizes, bool warn, const char* function);

// ---- NumPy (numpy_bridge.cpp) -------------------------------------------------------------------------------------
// A NumPy array on the tensor's memory, cached in the tensor: writes are seen on both sides. Borrowed.
PyObject* numpy_view(Tensor* t);
// A tensor on the memory of an ndarray (bool becomes Byte), or of a copy where the memory cannot be described
// (strides that are no multiple of the item size, foreign byte order, unaligned). TypeError for other dtypes.
PyRef<Tensor> tensor_from_numpy(PyObject* array);
// Whether `o` describes memory on a CUDA device (`__cuda_array_interface__`).
bool is_cuda_array(PyObject* o);
// A tensor on that memory, by way of CuPy.
PyRef<Tensor> tensor_from_cuda_array(PyObject* o);
// Whether `o` is an array: NumPy's, or CuPy's where CUDA is in use.
bool is_array(PyObject* o);
// A tensor on the memory of such an array.
PyRef<Tensor> tensor_from_array(PyObject* array);
// The tensor of what a NumPy function returned: an ndarray or a NumPy scalar (which becomes 0-d).
PyRef<Tensor> tensor_from_result(PyRef<> result);
// dst[...] = src with NumPy's broadcasting and casting; refuses a read-only dst.
void copy_into(Tensor* dst, Tensor* src);
// Throws unless `t` may be written by `function`; tells the observers of this thread.
void require_writable(const Tensor* t, const char* function);
// Told before a tensor is written in place; may throw to prevent it. A stack per thread, the newest first.
struct WriteObserver {
  void (*before_write)(WriteObserver* self, const Tensor* t) = nullptr;
  WriteObserver* next = nullptr;
};
extern thread_local WriteObserver* write_observers;
// Told before Python turns elements of a tensor into a number or an array of its own, `how`; or nullptr. May throw.
extern thread_local void (*read_observer)(const Tensor* t, const char* how);
inline void elements_read(const Tensor* t, const char* how) {
  if (read_observer) read_observer(t, how);
}

// ---- helpers ------------------------------------------------------------------------------------------------------
// dim in [-ndim, ndim) to [0, ndim); the RuntimeError "dimension out of range" otherwise.
int wrap_dim(int64_t dim, int ndim, const char* function = nullptr);
// The broadcast of two shapes; RuntimeError naming `function` and both shapes where there is none.
std::vector<int64_t> broadcast_sizes(Dims a, Dims b, const char* function);
// "(2, 3)" and "torchlite.FloatTensor" for messages and printing.
std::string format_dims(Dims d);
PyRef<> size_tuple(Dims d);                    // a torchlite.Size
PyRef<> int_tuple(Dims d);                     // a plain tuple
std::vector<int64_t> parse_dims(PyObject* o);  // an int or a sequence of ints
// The only element as a Python number; of a CUDA tensor a copy that waits for the device.
PyRef<> only_number(Tensor* t);
// A Python number for a tensor's element at byte pointer `p`.
PyRef<> element_to_number(const char* p, DType dtype);

void init_tensor(PyObject* module);

}  // namespace torchlite
