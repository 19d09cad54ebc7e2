// How Python sees sizes: `Size`, a tuple that holds only ints and whose slices, sums and multiples are Sizes.
#include <algorithm>
#include <string>

#include "tensor/python_tensor.h"
#include "utils/errors.h"

namespace torchlite {

namespace {

// A Size with the items of a tuple of ints.
PyRef<> size_from_tuple(PyTypeObject* type, PyObject* tuple) {
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  PyRef<> out = check(type->tp_alloc(type, n));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(out.get(), i, new_ref(PyTuple_GET_ITEM(tuple, i)));
  return out;
}

// The Size of what tuple's own operation returned. NotImplemented passes; so does a plain tuple that no longer holds
// ints only (`Size + ('a',)`).
PyObject* rewrap(PyObject* tuple) {
  return guard([&]() -> PyObject* {
    PyRef<> result = check(tuple);
    if (!PyTuple_Check(result.get())) return result.release();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i)
      if (!PyLong_Check(PyTuple_GET_ITEM(result.get(), i))) return result.release();
    return size_from_tuple(&Size_Type, result.get()).release();
  });
}

PyObject* size_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyRef<> given = check(PyTuple_Type.tp_new(&PyTuple_Type, args, kwargs));
    Py_ssize_t n = PyTuple_GET_SIZE(given.get());
    PyRef<> out = check(type->tp_alloc(type, n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PyTuple_GET_ITEM(given.get(), i);
      if (PyLong_Check(item)) {
        PyTuple_SET_ITEM(out.get(), i, new_ref(item));
        continue;
      }
      PyRef<> index = PyRef<>::steal(PyIndex_Check(item) ? PyNumber_Index(item) : nullptr);
      if (!index) {
        PyErr_Clear();  // replaced by the error below, which names the position
        type_error("%s() takes an iterable of 'int' (item %zd is '%s')", Size_Type.tp_name, i, type_name(item));
      }
      PyTuple_SET_ITEM(out.get(), i, index.release());
    }
    return out.release();
  });
}

PyObject* size_tp_repr(PyObject* o) {
  return guard([&]() -> PyObject* {
    std::string s = std::string(Size_Type.tp_name) + "([";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
      PyRef<> item = check(PyObject_Repr(PyTuple_GET_ITEM(o, i)));
      const char* text = PyUnicode_AsUTF8(item.get());
      if (!text) throw PyError();
      s += (i ? ", " : "") + std::string(text);
    }
    s += "])";
    return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
  });
}

PyObject* size_sq_concat(PyObject* a, PyObject* b) { return rewrap(PyTuple_Type.tp_as_sequence->sq_concat(a, b)); }
PyObject* size_sq_repeat(PyObject* a, Py_ssize_t n) { return rewrap(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }

PyObject* size_mp_subscript(PyObject* o, PyObject* key) {
  PyObject* result = PyTuple_Type.tp_as_mapping->mp_subscript(o, key);
  return PySlice_Check(key) ? rewrap(result) : result;
}

PyObject* size_numel(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> product = check(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      product = check(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(o, i)));
    return product.release();
  });
}

PyObject* size_reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> items = check(PyTuple_GetSlice(o, 0, PyTuple_GET_SIZE(o)));
    PyRef<> plain = check(PySequence_List(items.get()));
    return Py_BuildValue("O(O)", Py_TYPE(o), plain.get());
  });
}

// tuple's item and length slots are inherited one by one; these two tables hold only what differs.
PySequenceMethods size_sequence = {.sq_concat = size_sq_concat, .sq_repeat = size_sq_repeat};
PyMappingMethods size_mapping = {.mp_subscript = size_mp_subscript};

PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "Number of elements of a tensor of this size: the product of the items."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject Size_Type = {
    .ob_base = PyVarObject_HEAD_INIT(&DataClass_Type, 0).tp_name = "torchlite.Size",
    .tp_basicsize = offsetof(PyTupleObject, ob_item),
    .tp_itemsize = sizeof(PyObject*),
    .tp_repr = size_tp_repr,
    .tp_as_sequence = &size_sequence,
    .tp_as_mapping = &size_mapping,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Size(iterable)\n--\n\nThe sizes of a tensor: a tuple of ints.",
    .tp_methods = size_methods,
    .tp_base = &PyTuple_Type,
    .tp_new = size_tp_new,
};

PyObject* infer_size(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(args) != 2) runtime_error("expected exactly 2 arguments");
    std::vector<int64_t> sizes[2];
    for (int i = 0; i < 2; ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      if (!PyObject_TypeCheck(o, &Size_Type)) runtime_error("expected a %s as argument %d", Size_Type.tp_name, i);
      sizes[i] = parse_dims(o);
      if (sizes[i].empty()) runtime_error("Can't expand empty tensor %c", "ab"[i]);
    }
    auto &a = sizes[0], &b = sizes[1];
    size_t n = std::max(a.size(), b.size());
    a.insert(a.begin(), n - a.size(), 1);
    b.insert(b.begin(), n - b.size(), 1);
    for (size_t d = 0; d < n; ++d) {
      if (a[d] != b[d] && a[d] != 1 && b[d] != 1)
        runtime_error(
            "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %zu.",
            static_cast<long long>(a[d]), static_cast<long long>(b[d]), d);
      if (a[d] == 1) a[d] = b[d];
    }
    return size_tuple(a).release();
  });
}

}  // namespace torchlite
