// Rows on CUDA devices.
//
// A row's forward on the host is C++ over the memory of tensors. On a device it is a Python function over arrays, which
// torchlite.cuda registers by the row's name: (forward, backward, out), where forward takes what the signature says, with
// arrays in place of tensors, and returns arrays, hidden results included. The row's type rule checks the arguments
// beforehand and settles the element types and sizes of results, so that the functions need not: what they return is
// cast and reshaped.
//
// `out` says that forward takes an array to write the result into, by that name: in place, no memory is needed then.
//
// A forward of None says that the row's own serves devices as well: views, and what is made of copies and fills. A
// backward is registered where the row's own has kernels in it; it is not asked while the gradient's graph is recorded,
// since operations do that. Rows that are declared in Python compute with tensors and serve every place as they are.
#include <type_traits>
#include <vector>

#include "autograd/ops/backcompat.h"
#include "autograd/ops/op.h"
#include "autograd/ops/types.h"
#include "tensor/cuda.h"
#include "utils/errors.h"

namespace torchlite {

ArrayRows* array_rows = nullptr;

namespace {

struct ArrayRow {
  bool known = false, takes_out = false;
  PyRef<> forward, backward;  // empty: the row's own
};

PyRef<> array_or_constant(PyObject* o) { return PyRef<>::borrow(is_tensor(o) ? cuda->array(as_tensor(o)) : o); }

TypeInfo info_of(const Tensor* t) {
  return {t->dtype, t->device(), std::vector<int64_t>(t->sizes().begin(), t->sizes().end())};
}

bool may_pair(const Op& op) {
  for (auto rule :
       {types::binary, types::scaled_sum, types::divide, types::power, types::binary_floating, types::compare})
    if (op.row->types == rule) return true;
  return false;
}

class Rows final : public ArrayRows {
 public:
  Rows(PyObject* functions, size_t built_in) : rows_(built_in) {
    PyObject *name, *pair;
    for (Py_ssize_t at = 0; PyDict_Next(functions, &at, &name, &pair);) {
      const char* text = PyUnicode_AsUTF8(name);
      if (!text) throw PyError();
      if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 3)
        type_error("the implementation of %s must be a tuple (forward, backward, out)", text);
      ArrayRow& row = rows_.at(find_op(text).index);
      auto function = [](PyObject* o) { return o == Py_None ? PyRef<>() : PyRef<>::borrow(o); };
      row.known = true;
      row.forward = function(PyTuple_GET_ITEM(pair, 0));
      row.backward = function(PyTuple_GET_ITEM(pair, 1));
      row.takes_out = PyTuple_GET_ITEM(pair, 2) == Py_True;
    }
  }

  bool forward(Call& c, Outputs* out) override {
    const Op& op = c.op;
    Device device = first_device(c);
    if (device == kCPU) return false;
    if (op.index >= rows_.size()) {  // declared in Python, for arrays of both libraries
      with_types(c, require_one_place);
      return false;
    }
    ArrayRow& row = rows_[op.index];
    if (!row.known)
      raise(PyExc_NotImplementedError, "%s: not implemented for CUDA tensors: copy them to the host with cpu()",
            op.name.c_str());
    if (!row.forward) return false;
    // Throws where the arguments do not fit or lie in several places.
    TypeInfos expected = with_types(c, infer_types);
    DeviceScope scope(device);
    PyRef<> held[kMaxParams];
    PyObject* args[kMaxParams];
    std::vector<Tensor*> inputs;
    size_t n = op.params.size();
    for (size_t i = 0; i < n; ++i) {
      PyObject* a = c.args[i];
      if (static_cast<int>(i) == op.list_index) {
        held[i] = list_of_arrays(a, inputs);
      } else {
        if (is_tensor(a)) inputs.push_back(as_tensor(a));
        held[i] = array_or_constant(a);
      }
      args[i] = held[i].get();
    }
    // See Note [Pairing].
    PyRef<Tensor> other;
    if (inputs.size() == 2 && may_pair(op)) other = paired(c.args[0], c.args[n - 1], c.out != nullptr);
    if (other) args[n - 1] = cuda->array(other.get());
    if (row.takes_out && c.out && may_write(c.out, inputs, expected[0])) {
      static PyObject* const names = check(Py_BuildValue("(s)", "out")).release();
      PyObject* with_out[kMaxParams + 1];
      std::copy_n(args, n, with_out);
      with_out[n] = cuda->array(c.out);
      check(PyObject_Vectorcall(row.forward.get(), with_out, n, names));
      out->v[0] = PyRef<Tensor>::borrow(c.out);
      return true;
    }
    PyRef<> result = check(PyObject_Vectorcall(row.forward.get(), args, n, nullptr));
    if (!PyTuple_Check(result.get())) {
      out->v[0] = fit(op, std::move(result), expected, 0, inputs, device);
      return true;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(result.get()) && k < kMaxOutputs; ++k) {
      PyObject* o = PyTuple_GET_ITEM(result.get(), k);
      if (o != Py_None) out->v[k] = fit(op, PyRef<>::borrow(o), expected, static_cast<size_t>(k), inputs, device);
    }
    return true;
  }

  bool backward(const Op& op, Backward& b) override {
    if (op.index >= rows_.size() || !rows_[op.index].backward || b.recording() || b.on_host()) return false;
    int n_params = static_cast<int>(op.params.size()), n_results = op.row->outputs;
    int n_saved = n_results + op.row->hidden_outputs;
    Device device = kCPU;
    auto arrays = [&](int n, auto&& value) {
      PyRef<> tuple = check(PyTuple_New(n));
      for (int i = 0; i < n; ++i) {
        Value v = value(i);
        if (is_tensor(v.object())) device = v.tensor()->device();
        PyTuple_SET_ITEM(tuple.get(), i, array_or_constant(v.object()).release());
      }
      return tuple;
    };
    PyRef<> grads = arrays(n_results, [&](int i) { return b.has_grad(i) ? b.grad(i) : Value(nullptr); });
    PyRef<> values = arrays(n_params, [&](int i) { return b.has_value(i) ? b.value(i) : Value(nullptr); });
    PyRef<> results = arrays(n_saved, [&](int i) { return b.has_output(i) ? b.output(i) : Value(nullptr); });
    PyRef<> needs = arrays(n_params, [&](int i) { return Value(b.needs(i)); });
    DeviceScope scope(device);
    PyObject* args[] = {grads.get(), values.get(), results.get(), needs.get()};
    PyRef<> made = check(PyObject_Vectorcall(rows_[op.index].backward.get(), args, 4, nullptr));
    if (!PyTuple_Check(made.get()) || PyTuple_GET_SIZE(made.get()) != n_params)
      type_error("%s: the backward over arrays must return a tuple of %d", op.name.c_str(), n_params);
    for (int i = 0; i < n_params; ++i) {
      PyObject* g = PyTuple_GET_ITEM(made.get(), i);
      if (g != Py_None) b.set(i, Value(cuda->tensor(PyRef<>::borrow(g))));
    }
    return true;
  }

 private:
  static Device first_device(const Call& c) {
    for (size_t i = 0; i < c.op.params.size(); ++i) {
      PyObject* a = c.args[i];
      if (!((c.op.tensor_mask >> i) & 1)) continue;
      if (is_tensor(a)) {
        if (as_tensor(a)->device() != kCPU) return as_tensor(a)->device();
      } else if (static_cast<int>(i) == c.op.list_index) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k)
          if (Device d = as_tensor(PyTuple_GET_ITEM(a, k))->device(); d != kCPU) return d;
      }
    }
    return kCPU;
  }

  // Whether the result may be written over `out`: it has its type and size, and no argument is another part of its
  // memory.
  static bool may_write(const Tensor* out, const std::vector<Tensor*>& inputs, const TypeInfo& expected) {
    if (out->dtype != expected.dtype || !(out->sizes() == expected.dims())) return false;
    for (const Tensor* t : inputs)
      if (t != out && t->storage.get() == out->storage.get()) return false;
    return true;
  }

  // `f` of the arguments' types.
  template <class F>
  static std::invoke_result_t<F, TypeCall&> with_types(const Call& c, F f) {
    TypeCall call{c.op};
    TypeInfo types[kMaxParams];
    for (size_t i = 0; i < c.op.params.size(); ++i) {
      PyObject* a = c.args[i];
      if (static_cast<int>(i) == c.op.list_index) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k)
          call.list.push_back(info_of(as_tensor(PyTuple_GET_ITEM(a, k))));
      } else if (is_tensor(a)) {
        types[i] = info_of(as_tensor(a));
        call.types[i] = &types[i];
      } else {
        call.constants[i] = a;
      }
    }
    return f(call);
  }

  static PyRef<> list_of_arrays(PyObject* tuple, std::vector<Tensor*>& inputs) {
    PyRef<> list = check(PyList_New(PyTuple_GET_SIZE(tuple)));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); ++k) {
      inputs.push_back(as_tensor(PyTuple_GET_ITEM(tuple, k)));
      PyList_SET_ITEM(list.get(), k, new_ref(cuda->array(inputs.back())));
    }
    return list;
  }

  // Result k as a tensor of the expected type and size, contiguous and on memory of its own unless the row gives views.
  static PyRef<Tensor> fit(const Op& op, PyRef<> array, const TypeInfos& expected, size_t k,
                           const std::vector<Tensor*>& inputs, Device device) {
    PyRef<Tensor> t = cuda->tensor(std::move(array), inputs);
    if (t->device() != device)
      runtime_error("%s: the result lies on device %d, but the arguments on device %d", op.name.c_str(), t->device(),
                    device);
    if (k >= expected.size() || k >= static_cast<size_t>(op.row->outputs)) return t;
    if (t->dtype != expected[k].dtype) t = to_dtype(t.get(), expected[k].dtype);
    bool view = op.row->flags & kView;
    for (Tensor* input : inputs)
      if (!view && input->storage.get() == t->storage.get()) {
        t = clone(t.get());
        break;
      }
    bool open = false;
    for (int64_t s : expected[k].sizes) open = open || s == kOpenSize;
    if (!open && !(t->sizes() == expected[k].dims())) {
      if (t->numel != expected[k].numel())
        runtime_error("%s: the result has size %s, but its type rule says %s", op.name.c_str(),
                      format_dims(t->sizes()).c_str(), format_dims(expected[k].dims()).c_str());
      t = contiguous(t.get());
      t = new_tensor_on(t->storage.copy(), t->dtype, expected[k].dims(), {}, t->offset);
    }
    return view || t->contiguous ? std::move(t) : clone(t.get());
  }

  std::vector<ArrayRow> rows_;
};

size_t built_in = 0;

PyObject* connect_array_rows(PyObject*, PyObject* functions) {
  return guard([&]() -> PyObject* {
    if (!PyDict_Check(functions)) type_error("expected a dict, but got %.100s", type_name(functions));
    // A former one is never deleted: another thread may still be inside it.
    array_rows = new Rows(functions, built_in);
    return none();
  });
}

PyObject* disconnect_array_rows(PyObject*, PyObject*) {
  array_rows = nullptr;
  return none();
}

PyMethodDef functions[] = {
    {"_connect_array_rows", connect_array_rows, METH_O,
     "_connect_array_rows({name: (forward, backward, out)}): the rows' implementations over arrays."},
    {"_disconnect_array_rows", disconnect_array_rows, METH_NOARGS, "Undoes _connect_array_rows."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_array_rows(PyObject* module) {
  built_in = all_ops().size();
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace torchlite
