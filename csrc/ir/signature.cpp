// The key of a trace: all that Python code could branch on without looking at the data of a Variable.
//
// A key is a bytes object, or a tuple of one and the constants that don't fit into it. It encodes, each behind a tag:
// how the arguments nest, the value of constants, the type, device, sizes and flags of Variables, and of each Module in
// reach its identity, its plain attributes and how parameters are shared. What is encoded by address is listed, so that
// whoever keeps the key keeps it alive.
#include <string>
#include <unordered_map>

#include "autograd/engine.h"
#include "ir/ir.h"
#include "utils/method.h"

namespace torchlite::ir {

namespace {

PyObject* interned(const char* text) { return check(PyUnicode_InternFromString(text)).release(); }

class Key {
 public:
  Key() : inputs_(check(PyList_New(0))), kept_(check(PyList_New(0))) {}

  // An argument or a part of one. Throws TypeError for what a key can't hold.
  void add(PyObject* o, int depth = 0) {
    if (is_variable(o)) return variable(o);
    if (constant(o)) return;
    if (depth > 100) type_error("arguments of a jit function are nested too deeply");
    if (PyTuple_Check(o) || PyList_CheckExact(o)) {
      tag(PyTuple_CheckExact(o) ? 't' : PyTuple_Check(o) ? 'n' : 'l');
      if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) address(reinterpret_cast<PyObject*>(Py_TYPE(o)));
      Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      number(n);
      for (Py_ssize_t i = 0; i < n; ++i) add(PySequence_Fast_GET_ITEM(o, i), depth + 1);
      return;
    }
    if (PyDict_Check(o)) {
      tag('d');
      address(reinterpret_cast<PyObject*>(Py_TYPE(o)));
      PyRef<> items = check(PyMapping_Items(o));
      number(PyList_GET_SIZE(items.get()));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        add(PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 0), depth + 1);
        add(PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 1), depth + 1);
      }
      return;
    }
    if (PySlice_Check(o)) {
      tag('s');
      PySliceObject* s = reinterpret_cast<PySliceObject*>(o);
      for (PyObject* part : {s->start, s->stop, s->step}) add(part, depth + 1);
      return;
    }
    if (PyRef<> attributes = attributes_of_module(o)) {
      module(PyRef<>::borrow(o));
      return;
    }
    if (PyCallable_Check(o)) {
      tag('c');
      address(o);
      return;
    }
    if (PyObject_Hash(o) == -1) throw PyError();
    tag('o');
    if (!others_) others_ = check(PyList_New(0));
    check(PyList_Append(others_.get(), reinterpret_cast<PyObject*>(Py_TYPE(o))));
    check(PyList_Append(others_.get(), o));
  }

  // Encodes a Module and the Modules below it, but once each; its parameters become inputs, each once.
  void module(PyRef<> root) {
    std::vector<PyRef<>> stack;
    stack.push_back(std::move(root));
    while (!stack.empty()) {
      PyRef<> m = std::move(stack.back());
      stack.pop_back();
      tag('M');
      address(m.get());
      if (!modules_.emplace(m.get(), modules_.size()).second) continue;
      PyRef<> attributes = attributes_of_module(m.get());
      if (!attributes) type_error("a module of a jit function is a %.100s", type_name(m.get()));
      PyObject *name, *value;
      for (Py_ssize_t at = 0; PyDict_Next(attributes.get(), &at, &name, &value);) {
        size_t before = bytes_.size();
        if (!constant(value) && !(PyTuple_CheckExact(value) && constants(value))) bytes_.resize(before);
      }
      PyObject* parameters = PyDict_GetItemWithError(attributes.get(), name_parameters());
      for (Py_ssize_t at = 0; parameters && PyDict_Check(parameters) && PyDict_Next(parameters, &at, &name, &value);) {
        tag('P');
        if (!is_variable(value)) continue;
        auto [place, added] = places_.emplace(value, places_.size());
        if (added) parameters_.push_back(PyRef<>::borrow(value));
        number(static_cast<int64_t>(place->second));
      }
      PyObject* children = PyDict_GetItemWithError(attributes.get(), name_modules());
      size_t first = stack.size();
      for (Py_ssize_t at = 0; children && PyDict_Check(children) && PyDict_Next(children, &at, &name, &value);)
        if (value != Py_None) stack.push_back(PyRef<>::borrow(value));
      std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
    }
  }

  // (key, inputs, what to keep alive)
  PyRef<> finish() {
    tag(grad_enabled ? 'G' : 'g');
    for (PyRef<>& p : parameters_) variable(p.get());
    PyRef<> key = check(PyBytes_FromStringAndSize(bytes_.data(), static_cast<Py_ssize_t>(bytes_.size())));
    if (others_) {
      check(PyList_Append(others_.get(), key.get()));
      key = check(PyList_AsTuple(others_.get()));
    }
    return check(PyTuple_Pack(3, key.get(), inputs_.get(), kept_.get()));
  }

 private:
  void tag(char c) { bytes_.push_back(c); }
  void raw(const void* p, size_t n) { bytes_.append(static_cast<const char*>(p), n); }
  void number(int64_t n) { raw(&n, sizeof n); }
  void address(PyObject* o) {
    raw(&o, sizeof o);
    check(PyList_Append(kept_.get(), o));
  }

  void variable(PyObject* o) {
    const Variable* v = as_variable(o);
    const Tensor* t = v->data.get();
    const int32_t head[] = {'v' | static_cast<int32_t>(t->dtype) << 8 | t->ndim << 16,
                            (v->requires_grad ? 1 : 0) | (v->is_volatile ? 2 : 0) | (t->device() + 1) << 2};
    raw(head, sizeof head);
    raw(t->dims(), sizeof(int64_t) * t->ndim);
    check(PyList_Append(inputs_.get(), o));
  }

  // Encodes a plain constant; false, and nothing, for anything else.
  bool constant(PyObject* o) {
    if (o == Py_None || o == Py_True || o == Py_False) {
      tag(o == Py_None ? 'N' : o == Py_True ? 'T' : 'F');
    } else if (PyLong_CheckExact(o)) {
      int overflow;
      int64_t n = PyLong_AsLongLongAndOverflow(o, &overflow);
      if (overflow) return false;
      tag('i');
      number(n);
    } else if (PyFloat_CheckExact(o)) {
      double x = PyFloat_AS_DOUBLE(o);
      tag('f');
      raw(&x, sizeof x);
    } else if (PyUnicode_CheckExact(o)) {
      Py_ssize_t n;
      const char* text = PyUnicode_AsUTF8AndSize(o, &n);
      if (!text) {
        PyErr_Clear();  // lone surrogates
        return false;
      }
      tag('u');
      number(n);
      raw(text, static_cast<size_t>(n));
    } else {
      return false;
    }
    return true;
  }

  bool constants(PyObject* tuple) {
    tag('t');
    number(PyTuple_GET_SIZE(tuple));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyObject* o = PyTuple_GET_ITEM(tuple, i);
      if (!constant(o) && !(PyTuple_CheckExact(o) && constants(o))) return false;
    }
    return true;
  }

  static PyObject* name_parameters() {
    static PyObject* const name = interned("_parameters");
    return name;
  }
  static PyObject* name_modules() {
    static PyObject* const name = interned("_modules");
    return name;
  }

  // The attributes of a Module, or nothing for another object.
  static PyRef<> attributes_of_module(PyObject* o) {
    if (PyType_Check(o) || is_tensor(o)) return {};
    PyRef<> attributes = PyRef<>::steal(PyObject_GenericGetDict(o, nullptr));
    if (!attributes) {
      PyErr_Clear();  // an object without attributes of its own
      return {};
    }
    for (PyObject* name : {name_parameters(), name_modules()})
      if (!PyDict_GetItemWithError(attributes.get(), name)) return {};
    return attributes;
  }

  std::string bytes_;
  PyRef<> inputs_, kept_, others_;
  std::vector<PyRef<>> parameters_;
  std::unordered_map<PyObject*, size_t> places_, modules_;
};

PyObject* trace_key(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 3 || !PyList_Check(args[0]) || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
      type_error("_trace_key: expected a list of Modules, a tuple and a dict");
    Key key;
    key.add(args[1]);
    if (PyDict_GET_SIZE(args[2])) key.add(args[2]);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) key.module(PyRef<>::borrow(PyList_GET_ITEM(args[0], i)));
    return key.finish().release();
  });
}

PyMethodDef functions[] = {
    {"_trace_key", method(trace_key), METH_FASTCALL,
     "_trace_key(modules, args, kwargs) -> (key, inputs, kept)\n\nThe key of a call; the Variables among its arguments "
     "and then the parameters of all Modules in reach, each once; the objects that the key names by address. TypeError "
     "for an argument that can't be part of a key."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_signature(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace torchlite::ir
