#include "autograd/ops/composite.h"

#include <array>
#include <vector>

#include "autograd/observer.h"
#include "autograd/ops/op.h"
#include "autograd/variable.h"
#include "utils/method.h"

namespace torchlite {

namespace {

Value operand(PyObject* o, const char* function) {
  if (!is_variable(o) && !is_tensor(o))
    type_error("%s: expected a Variable or a tensor, but got %.100s", function, type_name(o));
  return Value(PyRef<>::borrow(o));
}

PyObject* tuple_of(const std::vector<Value>& items) { return Value(items).release().release(); }

// Slices of `size` (the last one of what is left) along `dim`.
PyObject* slices(const Value& self, int64_t size, int dim) {
  int64_t total = self.sizes()[dim];
  std::vector<Value> parts;
  for (int64_t at = 0; at < total; at += size)
    parts.push_back(call<"narrow">(self, dim, at, std::min(size, total - at)));
  if (parts.empty()) parts.push_back(call<"narrow">(self, dim, 0, 0));
  return tuple_of(parts);
}

int dim_argument(const Value& self, long long dim, const char* function) {
  if (self.sizes().n == 0) runtime_error("%s: a 0-d tensor has no dimension to take apart", function);
  return wrap_dim(dim, self.sizes().n, function);
}

PyObject* chunk(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("chunk", [&]() -> PyObject* {
    static const char* names[] = {"chunks", "dim", nullptr};
    long long chunks, dim = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|L:chunk", const_cast<char**>(names), &chunks, &dim))
      throw PyError();
    if (chunks <= 0) runtime_error("chunk: the number of chunks must be positive, but got %lld", chunks);
    Value x = operand(self, "chunk");
    int d = dim_argument(x, dim, "chunk");
    return slices(x, std::max<int64_t>(1, (x.sizes()[d] + chunks - 1) / chunks), d);
  });
}

PyObject* split(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("split", [&]() -> PyObject* {
    static const char* names[] = {"split_size", "dim", nullptr};
    PyObject* size_object;
    long long dim = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|L:split", const_cast<char**>(names), &size_object, &dim))
      throw PyError();
    Value x = operand(self, "split");
    int d = dim_argument(x, dim, "split");
    if (PyIndex_Check(size_object)) {
      int64_t size = parse_dims(size_object)[0];
      if (size <= 0)
        runtime_error("split: the size of the parts must be positive, but got %lld", static_cast<long long>(size));
      return slices(x, size, d);
    }
    std::vector<int64_t> sizes = parse_dims(size_object);
    int64_t at = 0;
    for (int64_t size : sizes) at += size;
    if (at != x.sizes()[d])
      runtime_error("split: the sizes %s sum to %lld, but dimension %d has size %lld", format_dims(sizes).c_str(),
                    static_cast<long long>(at), d, static_cast<long long>(x.sizes()[d]));
    std::vector<Value> parts;
    at = 0;
    for (int64_t size : sizes) {
      parts.push_back(call<"narrow">(x, d, at, size));
      at += size;
    }
    return tuple_of(parts);
  });
}

PyObject* unbind(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("unbind", [&]() -> PyObject* {
    static const char* names[] = {"dim", nullptr};
    long long dim = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|L:unbind", const_cast<char**>(names), &dim)) throw PyError();
    Value x = operand(self, "unbind");
    int d = dim_argument(x, dim, "unbind");
    std::vector<Value> parts;
    for (int64_t i = 0; i < x.sizes()[d]; ++i) parts.push_back(call<"select">(x, d, i));
    return tuple_of(parts);
  });
}

std::vector<int64_t> sizes_of(PyObject* o, const char* function) {
  Value x = operand(o, function);
  return {x.sizes().begin(), x.sizes().end()};
}

PyObject* view_as(PyObject* self, PyObject* other) {
  return guard([&]() -> PyObject* {
    return call<"view">(operand(self, "view_as"), sizes_of(other, "view_as")).release().release();
  });
}

PyObject* expand_as(PyObject* self, PyObject* other) {
  return guard([&]() -> PyObject* {
    return call<"expand">(operand(self, "expand_as"), sizes_of(other, "expand_as")).release().release();
  });
}

// `name_`: the object becomes the view that the operation `name` gives of it, on the same memory.
PyObject* become_view(PyObject* self, const char* name, PyObject* args, Py_ssize_t least, Py_ssize_t most) {
  return guard_named(name, [&]() -> PyObject* {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n < least || n > most) type_error("%s_: expected %zd to %zd arguments, but got %zd", name, least, most, n);
    std::vector<Value> values(1);
    // First of all, since it may run Python code that gives a Variable other data.
    for (Py_ssize_t i = 0; i < n; ++i) values.push_back(Value(check(PyNumber_Index(PyTuple_GET_ITEM(args, i)))));
    Variable* v = is_variable(self) ? as_variable(self) : nullptr;
    Tensor* t = operand(self, name).tensor();
    if (v) {
      require_in_place(v);
      counter_of(v);  // what may fail for want of memory comes before the change
      PyRef<Tensor> data = alias(t);
      // What the Variable has been so far: the input of the operation that becomes its history.
      values[0] = v->grad_fn       ? new_interior(std::move(data), v->grad_fn.copy(), v->output_nr, v->requires_grad)
                  : v->is_volatile ? new_volatile(std::move(data))
                                   : new_leaf(std::move(data));
      if (call_observer) call_observer->same_value(as_variable(values[0].object()), v);
    } else {
      values[0] = Value(PyRef<>::borrow(self));
    }
    Value result = call_values(find_op(name), values.data(), static_cast<int>(values.size()));
    Tensor* view = result.tensor();
    repoint(t, view->storage.copy(), view->sizes(), view->strides(), view->offset);
    if (v) {
      Variable* r = as_variable(result.object());
      bump_version(v);
      rebase_history(v, r->grad_fn.copy(), r->output_nr, r->requires_grad, r->is_volatile);
      if (call_observer) call_observer->same_value(v, r);
    }
    return new_ref(self);
  });
}

PyObject* t_in_place(PyObject* self, PyObject* args) { return become_view(self, "t", args, 0, 0); }
PyObject* transpose_in_place(PyObject* self, PyObject* args) { return become_view(self, "transpose", args, 2, 2); }
PyObject* squeeze_in_place(PyObject* self, PyObject* args) { return become_view(self, "squeeze", args, 0, 1); }
PyObject* unsqueeze_in_place(PyObject* self, PyObject* args) { return become_view(self, "unsqueeze", args, 1, 1); }

// The method returns the object itself where there is nothing to do, so that it stays free to be written in place.
PyObject* contiguous_method(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    Value x = operand(self, "contiguous");
    if (x.tensor()->contiguous) return new_ref(self);
    return call<"contiguous">(x).release().release();
  });
}

// The function form: the first argument is the tensor.
template <PyObject* (*Method)(PyObject*, PyObject*, PyObject*)>
PyObject* function_of(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(args) < 1) type_error("expected a Variable or a tensor as the first argument");
    PyRef<> rest = check(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
    return Method(PyTuple_GET_ITEM(args, 0), rest.get(), kwargs);
  });
}

constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;
constexpr const char* kChunkDoc =
    "chunk(chunks, dim=0) -> tuple\n\nAt most `chunks` views along `dim`, of equal size but for the last.";
constexpr const char* kSplitDoc =
    "split(split_size, dim=0) -> tuple\n\nViews along `dim` of a size (the last of what is left), or of given sizes.";
constexpr const char* kUnbindDoc = "unbind(dim=0) -> tuple\n\nThe slices along `dim`, as views without it.";

}  // namespace

std::span<PyMethodDef> composite_method_defs() {
  static PyMethodDef defs[] = {
      {"chunk", method(chunk), kKeywords, kChunkDoc},
      {"split", method(split), kKeywords, kSplitDoc},
      {"unbind", method(unbind), kKeywords, kUnbindDoc},
      {"contiguous", contiguous_method, METH_NOARGS,
       "contiguous()\n\nself if its elements lie row by row without gaps, else a copy for which they do."},
      {"t_", t_in_place, METH_VARARGS, "t_() -> self\n\nt() in place: the sizes change, the memory stays."},
      {"transpose_", transpose_in_place, METH_VARARGS, "transpose_(dim0, dim1) -> self\n\ntranspose() in place."},
      {"squeeze_", squeeze_in_place, METH_VARARGS, "squeeze_(dim=None) -> self\n\nsqueeze() in place."},
      {"unsqueeze_", unsqueeze_in_place, METH_VARARGS, "unsqueeze_(dim) -> self\n\nunsqueeze() in place."},
      {"view_as", view_as, METH_O, "view_as(other)\n\nview(other.size())."},
      {"expand_as", expand_as, METH_O, "expand_as(other)\n\nexpand(other.size())."},
      {nullptr, nullptr, 0, nullptr},
  };
  return {defs, std::size(defs) - 1};
}

std::span<PyMethodDef> composite_function_defs() {
  static PyMethodDef defs[] = {
      {"chunk", method(function_of<chunk>), kKeywords, kChunkDoc},
      {"split", method(function_of<split>), kKeywords, kSplitDoc},
      {"unbind", method(function_of<unbind>), kKeywords, kUnbindDoc},
      {nullptr, nullptr, 0, nullptr},
  };
  return {defs, std::size(defs) - 1};
}

}  // namespace torchlite
