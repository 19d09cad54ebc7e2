// Cuda over CuPy: tensors on CuPy's memory and CuPy's arrays on tensors' memory.
//
//   Tensor ──> Storage ──> owner: the cupy memory object (a block of its pool, or memory that somebody else owns)
//      └────> array (cached cupy.ndarray) ──> UnownedMemory ──> the same Storage
//
// An array that a CuPy function returns is cached as it is. One that is made here lies on an UnownedMemory whose owner
// is the Storage, so that whoever gets it keeps the memory alive, and a tensor made of it joins that Storage again.
#include "cuda/bridge.h"

#include <algorithm>
#include <vector>

#include "tensor/cuda.h"
#include "tensor/exports.h"
#include "tensor/python_tensor.h"
#include "utils/errors.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// An attribute by an interned name.
class Name {
 public:
  explicit Name(const char* text) : text_(text) {}
  PyRef<> of(PyObject* o) {
    if (!name_) name_ = check(PyUnicode_InternFromString(text_)).release();
    return check(PyObject_GetAttr(o, name_));
  }

 private:
  const char* text_;
  PyObject* name_ = nullptr;  // for the life of the process
};

long long integer(PyObject* o) {
  long long v = PyLong_AsLongLong(o);
  if (v == -1 && PyErr_Occurred()) throw PyError();
  return v;
}

std::vector<int64_t> integers(PyObject* tuple) {
  std::vector<int64_t> out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) out.push_back(integer(PyTuple_GET_ITEM(tuple, i)));
  return out;
}

PyRef<> dotted(PyObject* module, std::initializer_list<const char*> path) {
  PyRef<> o = PyRef<>::borrow(module);
  for (const char* name : path) o = check(PyObject_GetAttrString(o.get(), name));
  return o;
}

template <class... Args>
PyRef<> call(PyObject* f, Args... args) {
  PyObject* items[] = {args...};
  return check(PyObject_Vectorcall(f, items, sizeof...(args), nullptr));
}

PyRef<> number_of(int64_t v) { return check(PyLong_FromLongLong(v)); }
PyRef<> dtype_object(DType t) { return check(reinterpret_cast<PyObject*>(PyArray_DescrFromType(info(t).numpy_type))); }

class Bridge final : public Cuda {
 public:
  Bridge(PyObject* cupy, PyObject* memory)
      : array_type_(dotted(cupy, {"ndarray"})),
        unowned_(dotted(cupy, {"cuda", "UnownedMemory"})),
        pointer_(dotted(cupy, {"cuda", "MemoryPointer"})),
        get_device_(dotted(cupy, {"cuda", "runtime", "getDevice"})),
        set_device_(dotted(cupy, {"cuda", "runtime", "setDevice"})),
        get_stream_(dotted(cupy, {"cuda", "get_current_stream"})),
        as_array_(dotted(cupy, {"asarray"})),
        empty_(dotted(memory, {"empty"})),
        fill_(dotted(memory, {"fill"})),
        copy_(dotted(memory, {"copy"})),
        number_(dotted(memory, {"number"})),
        astype_(dotted(memory, {"as_described"})),
        wait_(dotted(memory, {"wait"})),
        state_(dotted(memory, {"state"})),
        restore_(dotted(memory, {"restore"})) {
    if (!PyType_Check(array_type_.get())) type_error("cupy.ndarray is no type");
    PyRef<> count = check(PyObject_CallNoArgs(dotted(cupy, {"cuda", "runtime", "getDeviceCount"}).get()));
    single_device_ = integer(count.get()) <= 1;
  }

  bool is_array(PyObject* o) override {
    return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(array_type_.get()));
  }

  PyRef<> as_array(PyObject* o) override { return call(as_array_.get(), o); }

  PyObject* array(Tensor* t) override {
    if (!t->array) cache_array(t, view(t));
    return t->array.get();
  }

  // A new array on the tensor's memory.
  PyRef<> view(Tensor* t) {
    Storage* storage = t->storage.get();
    PyRef<> address = number_of(reinterpret_cast<intptr_t>(storage->data)), bytes = number_of(storage->nbytes);
    PyRef<> device = number_of(storage->device), offset = number_of(t->offset * itemsize(t->dtype));
    PyRef<> memory = call(unowned_.get(), address.get(), bytes.get(), storage, device.get());
    PyRef<> pointer = call(pointer_.get(), memory.get(), offset.get());
    std::vector<int64_t> steps(t->strides().begin(), t->strides().end());
    for (int64_t& s : steps) s *= itemsize(t->dtype);
    PyRef<> sizes = int_tuple(t->sizes()), strides = int_tuple(steps), dtype = dtype_object(t->dtype);
    return call(array_type_.get(), sizes.get(), dtype.get(), pointer.get(), strides.get());
  }

  PyRef<Tensor> tensor(PyRef<> array, std::span<Tensor* const> relatives) override {
    static Name data_name("data"), memory_name("mem"), address_name("ptr"), device_name("device_id"),
        shape_name("shape"), strides_name("strides"), dtype_name("dtype"), owner_name("_owner");
    if (!is_array(array.get())) type_error("expected a cupy.ndarray, but got %.100s", type_name(array.get()));
    PyRef<> data = data_name.of(array.get()), memory = memory_name.of(data.get());
    PyRef<> descr = dtype_name.of(array.get());
    DType dtype;
    if (!PyArray_DescrCheck(descr.get()) ||
        !dtype_of_numpy(reinterpret_cast<PyArray_Descr*>(descr.get())->type_num, &dtype))
      type_error(
          "can't convert a given cupy.ndarray to a tensor - it has an invalid type: %S. The only supported types are: "
          "float64, float32, float16, int64, int32, int16, int8, uint8 and bool.",
          descr.get());
    std::vector<int64_t> sizes = integers(shape_name.of(array.get()).get());
    std::vector<int64_t> strides = integers(strides_name.of(array.get()).get());
    int64_t item = itemsize(dtype), low = 0, high = item;
    bool empty = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      empty = empty || sizes[d] == 0;
      if (sizes[d] > 1 && strides[d] % item)  // a field of records, say: only a copy has strides in whole elements
        return tensor(call(astype_.get(), array.get(), descr.get()), {});
      if (sizes[d] > 1) (strides[d] < 0 ? low : high) += strides[d] * (sizes[d] - 1);
      strides[d] /= item;
    }
    if (empty) low = high = 0;
    char* first = reinterpret_cast<char*>(static_cast<intptr_t>(integer(address_name.of(data.get()).get())));
    auto device = single_device_ ? Device{0} : static_cast<Device>(integer(device_name.of(data.get()).get()));
    PyRef<> lender;  // the Storage that the memory was lent by
    if (Py_TYPE(memory.get()) == reinterpret_cast<PyTypeObject*>(unowned_.get())) lender = owner_name.of(memory.get());
    auto joins = [&](Storage* s) {
      return s->dtype == dtype && s->device == device && first + low >= s->data &&
             first + high <= s->data + s->nbytes && (first - s->data) % item == 0 && !empty;
    };
    Storage* home = nullptr;
    if (lender && is_storage(lender.get())) home = static_cast<Storage*>(lender.get());
    for (Tensor* t : relatives)
      if (!home && t && t->storage->owner.get() == memory.get()) home = t->storage.get();
    PyRef<Tensor> t;
    if (home && joins(home)) {
      t = new_tensor_on(PyRef<Storage>::borrow(home), dtype, sizes, strides, (first - home->data) / item);
    } else {
      PyRef<Storage> storage = wrap_memory(dtype, first + low, high - low, device, false, std::move(memory));
      t = new_tensor_on(std::move(storage), dtype, sizes, strides, -low / item);
    }
    // A bool array is no array of the tensor's element type.
    if (reinterpret_cast<PyArray_Descr*>(descr.get())->type_num == info(dtype).numpy_type)
      cache_array(t.get(), std::move(array));
    return t;
  }

  PyRef<Tensor> empty(DType dtype, Dims sizes, Device device) override {
    PyRef<> shape = int_tuple(sizes), type = dtype_object(dtype), where = number_of(device);
    return tensor(call(empty_.get(), shape.get(), type.get(), where.get()), {});
  }

  void fill(Tensor* t, PyObject* number) override {
    DeviceScope scope(t->device());
    call(fill_.get(), array(t), number);
  }

  void copy(Tensor* dst, Tensor* src) override {
    // NumPy's assignment passes over leading dimensions of 1.
    PyRef<Tensor> narrow;
    if (int more = src->ndim - dst->ndim; more > 0 && Dims(src->dims(), more).product() == 1) {
      narrow = new_view(src, {src->dims() + more, dst->ndim}, {src->dims() + src->ndim + more, dst->ndim}, src->offset);
      src = narrow.get();
    }
    auto of = [&](Tensor* t) { return PyRef<>::borrow(t->device() == kCPU ? numpy_view(t) : array(t)); };
    PyRef<> to = of(dst), from = of(src);
    DeviceScope scope(dst->device() == kCPU ? src->device() : dst->device());
    call(copy_.get(), to.get(), from.get());
  }

  PyRef<> number(Tensor* t) override {
    DeviceScope scope(t->device());
    return call(number_.get(), array(t));
  }

  void resize(Storage* storage, int64_t nbytes) override {
    int64_t size = nbytes / itemsize(storage->dtype), one = 1, old_size = storage->size();
    PyRef<Tensor> larger = empty(storage->dtype, {&size, 1}, storage->device);
    PyRef<Storage> block = larger->storage.copy();
    if (old_size) {
      PyRef<Tensor> head = new_tensor_on(block.copy(), storage->dtype, {&old_size, 1}, {&one, 1}, 0);
      PyRef<Tensor> old = new_tensor_on(PyRef<Storage>::borrow(storage), storage->dtype, {&old_size, 1}, {&one, 1}, 0);
      copy(head.get(), old.get());
    }
    storage->data = block->data;
    storage->nbytes = storage->capacity = block->nbytes;
    // Arrays on the former memory, which others may have, keep it by way of this storage.
    storage->owner = check(PyTuple_Pack(2, block->owner.get(), storage->owner.get()));
    while (storage->cached) drop_array(storage->cached);
  }

  Device current_device() override {
    return single_device_ ? Device{0}
                          : static_cast<Device>(integer(check(PyObject_CallNoArgs(get_device_.get())).get()));
  }
  void set_device(Device device) override { call(set_device_.get(), number_of(device).get()); }

  PyRef<> stream() override {
    static Name address_name("ptr");
    PyRef<> now = check(PyObject_CallNoArgs(get_stream_.get()));
    return integer(address_name.of(now.get()).get()) ? std::move(now) : PyRef<>();
  }
  void wait_for(PyObject* stream) override {
    PyRef<> now = check(PyObject_CallNoArgs(get_stream_.get()));
    call(wait_.get(), now.get(), stream);
  }
  void let_wait(PyObject* stream) override {
    PyRef<> now = check(PyObject_CallNoArgs(get_stream_.get()));
    call(wait_.get(), stream, now.get());
  }

  PyRef<> state() override { return check(PyObject_CallNoArgs(state_.get())); }
  void restore(PyObject* state) override { call(restore_.get(), state); }

 private:
  PyRef<> array_type_, unowned_, pointer_, get_device_, set_device_, get_stream_, as_array_;
  PyRef<> empty_, fill_, copy_, number_, astype_, wait_, state_, restore_;  // of torchlite.cuda._memory
  bool single_device_;
};

Bridge* bridge = nullptr;

Tensor* cuda_tensor(PyObject* o, const char* function) {
  if (!is_tensor(o) || as_tensor(o)->device() == kCPU)
    type_error("%s: expected a CUDA tensor, but got %.100s", function, type_name(o));
  return as_tensor(o);
}

// ---- module functions ---------------------------------------------------------------------------------------------

PyObject* connect(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *cupy, *memory;
    if (!PyArg_ParseTuple(args, "OO:_cuda_connect", &cupy, &memory)) throw PyError();
    // A former one is never deleted: a tensor's destructor or another thread may still be inside it.
    bridge = new Bridge(cupy, memory);
    cuda = bridge;
    return none();
  });
}

PyObject* disconnect(PyObject*, PyObject*) {
  cuda = bridge = nullptr;
  return none();
}

PyObject* from_cupy(PyObject*, PyObject* array) {
  return guard([&]() -> PyObject* { return require_cuda().tensor(PyRef<>::borrow(array)).release(); });
}

PyObject* to_cupy(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* { return bridge->view(cuda_tensor(o, "cupy")).release(); });
}

PyObject* empty_on(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *type, *sizes;
    int device;
    if (!PyArg_ParseTuple(args, "OOi:_cuda_empty", &type, &sizes, &device)) throw PyError();
    if (!PyType_Check(type)) type_error("_cuda_empty: expected a tensor class, but got %.100s", type_name(type));
    DType dtype = dtype_of_class(reinterpret_cast<PyTypeObject*>(type));
    return require_cuda().empty(dtype, parse_dims(sizes), static_cast<Device>(device)).release();
  });
}

PyMethodDef functions[] = {
    {"_cuda_connect", connect, METH_VARARGS, "_cuda_connect(cupy, memory): CUDA tensors exist from now on."},
    {"_cuda_disconnect", disconnect, METH_NOARGS, "Undoes _cuda_connect, once every CUDA tensor is gone."},
    {"_from_cupy", from_cupy, METH_O, "A tensor on the memory of a cupy.ndarray."},
    {"_to_cupy", to_cupy, METH_O, "A new cupy.ndarray on the memory of a CUDA tensor."},
    {"_cuda_empty", empty_on, METH_VARARGS, "_cuda_empty(class, sizes, device): uninitialised memory of CuPy's pool."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_cuda(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace torchlite
