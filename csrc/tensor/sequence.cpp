// Tensors from nested lists and tuples of numbers.
#include "tensor/python_tensor.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

bool is_nested(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }

std::string position(const std::vector<Py_ssize_t>& index) {
  std::string s = "(";
  for (size_t i = 0; i < index.size(); ++i) s += (i ? ", " : "") + std::to_string(index[i]);
  return s + ")";
}

// Fills row-major memory from the sequence, whose shape is that of its first items all the way down.
struct Filler {
  DType dtype;
  const std::vector<int64_t>& sizes;
  char* p;
  std::vector<Py_ssize_t> index;

  [[noreturn]] void refuse_item(PyObject* item) {
    runtime_error("tried to construct a tensor from a %s%s sequence, but found an item of type %.100s at index %s",
                  sizes.size() > 1 ? "nested " : "", is_floating(dtype) ? "float" : "int", type_name(item),
                  position(index).c_str());
  }

  void number(PyObject* item) {
    bool real = PyFloat_Check(item) || PyArray_IsScalar(item, Floating);
    bool whole = PyLong_Check(item) || PyArray_IsScalar(item, Integer) || PyArray_IsScalar(item, Bool);
    if (!whole && !(real && is_floating(dtype))) refuse_item(item);
    store_number(p, dtype, item);
    p += itemsize(dtype);
  }

  // As deep as the tensor has dimensions, so at most kMaxDim.
  void fill(PyObject* sequence, size_t depth) {
    // A list may change while its items are converted; a tuple cannot.
    PyRef<> items = check(PySequence_Tuple(sequence));
    Py_ssize_t n = PyTuple_GET_SIZE(items.get());
    if (n != sizes[depth])
      runtime_error("inconsistent sequence length at index %s - expected %lld but got %zd", position(index).c_str(),
                    static_cast<long long>(sizes[depth]), n);
    index.push_back(0);
    for (Py_ssize_t i = 0; i < n; ++i) {
      index.back() = i;
      PyObject* item = PyTuple_GET_ITEM(items.get(), i);
      if (depth + 1 == sizes.size()) {
        number(item);
      } else {
        if (!is_nested(item)) refuse_item(item);
        fill(item, depth + 1);
      }
    }
    index.pop_back();
  }
};

}  // namespace

PyRef<Tensor> tensor_from_sequence(DType dtype, PyObject* sequence) {
  std::vector<int64_t> sizes;
  PyRef<> first = PyRef<>::borrow(sequence);
  while (is_nested(first.get())) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(first.get());
    sizes.push_back(n);
    if (sizes.size() > static_cast<size_t>(kMaxDim))
      runtime_error("tried to construct a tensor from a sequence nested more than %d deep", kMaxDim);
    if (n == 0) break;
    first = PyRef<>::borrow(PySequence_Fast_GET_ITEM(first.get(), 0));
  }
  if (PyArray_Check(first.get()) || is_tensor(first.get())) {
    // Arrays inside lists: NumPy stacks them.
    PyRef<> array = check(PyArray_FromAny(sequence, PyArray_DescrFromType(info(dtype).numpy_type), 0, 0,
                                          NPY_ARRAY_CARRAY | NPY_ARRAY_FORCECAST, nullptr));
    return tensor_from_numpy(array.get());
  }
  PyRef<Tensor> t = new_tensor(dtype, sizes);
  Filler filler{dtype, sizes, t->bytes(), {}};
  filler.fill(sequence, 0);
  return t;
}

}  // namespace torchlite
