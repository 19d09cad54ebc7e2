// Tensors on NumPy memory and NumPy arrays on tensors' memory.
#include "tensor/cuda.h"
#include "tensor/sparse.h"
#include "tensor/exports.h"
#include "tensor/tensor.h"
#include "utils/errors.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {
PyArrayObject* as_array(PyObject* o) { return reinterpret_cast<PyArrayObject*>(o); }

// The Storage whose memory an array views, or nullptr. Tensors on it join that Storage: they share it visibly, and
// turning a tensor into an array and back, over and over, builds no chain of owners.
Storage* storage_under(PyArrayObject* a) {
  PyObject* base = PyArray_BASE(a);
  while (base && PyArray_Check(base)) base = PyArray_BASE(as_array(base));
  if (base && PyMemoryView_Check(base)) base = PyMemoryView_GET_BUFFER(base)->obj;  // np.asarray of a tensor
  if (!base) return nullptr;
  if (is_tensor(base)) return as_tensor(base)->storage.get();
  return leased_storage(base);
}
}  // namespace

PyObject* numpy_view(Tensor* t) {
  if (t->device() != kCPU)
    type_error(
        "can't convert CUDA tensor to numpy (it doesn't support GPU arrays). Use .cpu() to move the tensor to "
        "host memory first.");
  if (t->array) return t->array.get();
  require_elements(t, "numpy");
  npy_intp sizes[kMaxDim], strides[kMaxDim];
  int64_t item = itemsize(t->dtype);
  for (int d = 0; d < t->ndim; ++d) {
    sizes[d] = t->size(d);
    strides[d] = t->stride(d) * item;
  }
  PyRef<> array =
      check(PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(info(t->dtype).numpy_type), t->ndim, sizes,
                                 strides, t->bytes(), t->readonly() ? 0 : NPY_ARRAY_WRITEABLE, nullptr));
  check(PyArray_SetBaseObject(as_array(array.get()), lease_of(t->storage.get()).release()));
  cache_array(t, std::move(array));
  return t->array.get();
}

bool is_cuda_array(PyObject* o) { return PyObject_HasAttrString(o, "__cuda_array_interface__"); }

PyRef<Tensor> tensor_from_cuda_array(PyObject* o) {
  require_cuda();
  PyRef<> module = check(PyImport_ImportModule("torchlite.cuda"));
  PyRef<> t = check(PyObject_CallMethod(module.get(), "from_cupy", "O", o));
  if (!is_tensor(t.get())) type_error("from_cupy returned a %.100s, not a tensor", type_name(t.get()));
  return std::move(t).cast<Tensor>();
}

PyRef<Tensor> tensor_from_numpy(PyObject* o) {
  if (!PyArray_Check(o)) {
    const char* hint = is_cuda_array(o) ? ", which is for torchlite.cuda.from_cupy" : "";
    type_error("from_numpy: expected an np.ndarray, but got %.100s%s", type_name(o), hint);
  }
  PyArrayObject* a = as_array(o);
  DType dtype;
  if (!dtype_of_numpy(PyArray_TYPE(a), &dtype)) {
    PyRef<> name = check(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(a))));
    type_error(
        "can't convert a given np.ndarray to a tensor - it has an invalid type: %U. The only supported types "
        "are: float64, float32, float16, int64, int32, int16, int8, uint8 and bool.",
        name.get());
  }
  int64_t item = itemsize(dtype);
  bool describable = PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a);
  int n = PyArray_NDIM(a);
  int64_t sizes[kMaxDim], strides[kMaxDim];
  int64_t low = 0, high = item;  // the bytes around the first element that the elements reach
  bool empty = false;
  for (int d = 0; d < n; ++d) {
    sizes[d] = PyArray_DIM(a, d);
    int64_t step = PyArray_STRIDE(a, d);
    if (step % item) describable = describable && sizes[d] <= 1;
    strides[d] = step / item;
    empty = empty || sizes[d] == 0;
    if (sizes[d] > 1) (step < 0 ? low : high) += step * (sizes[d] - 1);
  }
  if (!describable) {
    // A copy in NumPy's native form of the type: strides that do not count elements, swapped bytes, odd addresses.
    PyRef<> copy = check(
        PyArray_FromArray(a, PyArray_DescrFromType(info(dtype).numpy_type), NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY));
    return tensor_from_numpy(copy.get());
  }
  if (empty) low = high = 0;
  char* first = static_cast<char*>(PyArray_DATA(a));
  bool readonly = !PyArray_ISWRITEABLE(a);
  PyRef<> owner = PyRef<>::borrow(o);
  if (Storage* under = storage_under(a)) {
    int64_t start = first + low - under->data;
    if (under->device == kCPU && start >= 0 && start + high - low <= under->nbytes) {
      if (under->dtype == dtype && under->readonly == readonly && (first - under->data) % item == 0)
        return new_tensor_on(PyRef<Storage>::borrow(under), dtype, {sizes, n}, {strides, n},
                             (first - under->data) / item);
      // Another type or a read-only face of the memory: its first owner is the owner.
      bool indirect = under->owner && is_storage(under->owner.get());
      owner = PyRef<>::borrow(indirect ? under->owner.get() : under);
    }
  }
  PyRef<Storage> storage = wrap_memory(dtype, first + low, high - low, kCPU, readonly, std::move(owner));
  return new_tensor_on(std::move(storage), dtype, {sizes, n}, {strides, n}, -low / item);
}

bool is_array(PyObject* o) { return PyArray_Check(o) || (cuda && cuda->is_array(o)); }

PyRef<Tensor> tensor_from_array(PyObject* array) {
  return PyArray_Check(array) ? tensor_from_numpy(array) : require_cuda().tensor(PyRef<>::borrow(array));
}

PyRef<Tensor> tensor_from_result(PyRef<> result) {
  if (cuda && cuda->is_array(result.get())) return cuda->tensor(std::move(result));
  if (PyArray_Check(result.get())) return tensor_from_numpy(result.get());
  PyRef<> array = check(PyArray_FromAny(result.get(), nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr));
  return tensor_from_numpy(array.get());
}

void copy_into(Tensor* dst, Tensor* src) {
  require_writable(dst, "copy_");
  if (dst->device() != kCPU || src->device() != kCPU) return cuda->copy(dst, src);
  QuietNumpy quiet;
  // Held, since NumPy lets other threads run.
  PyRef<> to = PyRef<>::borrow(numpy_view(dst)), from = PyRef<>::borrow(numpy_view(src));
  check(PyArray_CopyInto(as_array(to.get()), as_array(from.get())));
}

thread_local WriteObserver* write_observers = nullptr;
thread_local void (*read_observer)(const Tensor* t, const char* how) = nullptr;

void require_writable(const Tensor* t, const char* function) {
  if (t->readonly())
    runtime_error("%s: the tensor of size %s shares read-only memory and cannot be written", function,
                  format_dims(t->sizes()).c_str());
  for (WriteObserver* o = write_observers; o; o = o->next) o->before_write(o, t);
}

}  // namespace torchlite
