#include "autograd/ops/elementwise.h"

#include "autograd/observer.h"

namespace torchlite {

using kernels::BinaryKernel;
using kernels::BinaryKind;

PyObject* NumpyFunction::numpy_attribute(const char* name) { return numpy_function(name); }

// ---- rung 2 -------------------------------------------------------------------------------------------------------

PyRef<> call_numpy(PyObject* f, std::initializer_list<PyObject*> arguments, PyObject* keywords) {
  QuietNumpy quiet;
  PyObject* const* args = arguments.size() ? &*arguments.begin() : nullptr;
  return check(PyObject_VectorcallDict(f, args, arguments.size(), keywords));
}

PyRef<Tensor> apply_ufunc(NumpyFunction& f, std::initializer_list<PyObject*> operands, Tensor* out) {
  static PyObject* const order_names = check(Py_BuildValue("(s)", "order")).release();
  static PyObject* const order = check(PyUnicode_FromString("C")).release();
  static PyObject* const out_names = check(Py_BuildValue("(ss)", "out", "casting")).release();
  static PyObject* const casting = check(PyUnicode_FromString("same_kind")).release();
  PyObject* args[8];
  size_t n = 0;
  for (PyObject* o : operands) args[n++] = is_tensor(o) ? numpy_view(as_tensor(o)) : o;
  if (out) require_writable(out, f.name());
  // NumPy would refuse many results for an integer tensor; the caller copies those that fit and names the others.
  if (out && !is_floating(out->dtype)) out = nullptr;
  if (out) {
    args[n] = numpy_view(out);
    args[n + 1] = casting;
  } else {
    args[n] = order;
  }
  PyRef<> result;
  {
    QuietNumpy quiet;
    result = check(PyObject_Vectorcall(f.get(), args, n, out ? out_names : order_names));
  }
  return out ? PyRef<Tensor>::borrow(out) : tensor_from_result(std::move(result));
}

PyRef<Tensor> apply_binary(const char* name, NumpyFunction& f, PyObject* a, PyObject* b, Tensor* out) {
  PyRef<Tensor> other = paired(a, b, out);
  if (other) b = other.object();
  require_broadcast(name, a, b, out);
  return apply_ufunc(f, {a, b}, out);
}

// ---- helpers ------------------------------------------------------------------------------------------------------

bool overlaps_partially(const Tensor* a, const Tensor* b) {
  if (!a->numel || !b->numel) return false;
  const char* first = b->bytes();
  if (b->contiguous && first == a->bytes() && a->dtype == b->dtype && a->numel == b->numel) return false;
  int64_t low = 0, high = 1;
  for (int d = 0; d < b->ndim; ++d) (b->stride(d) < 0 ? low : high) += b->stride(d) * (b->size(d) - 1);
  int64_t item = itemsize(b->dtype);
  const char* a_end = a->bytes() + a->numel * itemsize(a->dtype);
  return first + low * item < a_end && a->bytes() < first + high * item;
}

bool exact_number(PyObject* o, double* value) {
  if (PyFloat_CheckExact(o)) {
    *value = PyFloat_AS_DOUBLE(o);
    return true;
  }
  if (!PyLong_CheckExact(o)) return false;
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  *value = static_cast<double>(v);
  return !overflow;
}

bool is_one(PyObject* o) {
  double v;
  return exact_number(o, &v) && v == 1.0;
}

void refuse_integer_zero(const char* name, PyObject* divisor) {
  bool zero = false;
  if (is_tensor(divisor)) {
    if (is_floating(as_tensor(divisor)->dtype)) return;
    static NumpyFunction all("all");
    PyRef<> nonzero = call_numpy(all.get(), {numpy_view(as_tensor(divisor))});
    zero = !check(PyObject_IsTrue(nonzero.get()));
  } else if (PyLong_Check(divisor)) {
    zero = !check(PyObject_IsTrue(divisor));
  }
  if (zero) raise(PyExc_ZeroDivisionError, "%s: integer division by zero", name);
}

void require_broadcast(const char* name, PyObject* a, PyObject* b, const Tensor* out) {
  if (is_tensor(a) && is_tensor(b)) {
    std::vector<int64_t> sizes = broadcast_sizes(as_tensor(a)->sizes(), as_tensor(b)->sizes(), name);
    if (out && !(Dims(sizes) == out->sizes()))
      runtime_error("%s_: the operand of size %s does not broadcast to self of size %s", name,
                    format_dims(as_tensor(b)->sizes()).c_str(), format_dims(out->sizes()).c_str());
  }
}

PyRef<Tensor> loop_operand(Tensor* t) {
  if (is_loop_type(t->dtype)) return contiguous(t);
  PyRef<Tensor> cast = to_dtype(t, t->dtype == DType::Half ? DType::Float : DType::Double);
  return contiguous(cast.get());
}

PyRef<Tensor> loop_operand(Tensor* t, DType dtype, Dims sizes) {
  if (t->dtype == dtype && t->contiguous && t->sizes() == sizes) return PyRef<Tensor>::borrow(t);
  PyRef<Tensor> out = new_tensor(dtype, sizes);
  copy_into(out.get(), t);
  return out;
}

Value zeros_like(const Value& g) {
  if (!is_variable(g.object())) return Value(new_zeros(g.dtype(), g.sizes(), g.tensor()->device()));
  return call<"zeros_of">(g, std::vector<int64_t>(g.sizes().begin(), g.sizes().end()));
}

Value constant_beside(const Value& x, PyRef<Tensor> t) {
  if (is_variable(x.object())) return Value(new_constant(std::move(t)));
  return Value(std::move(t));
}

// ---- binary -------------------------------------------------------------------------------------------------------

namespace {

// How the operands of a binary loop lie.
enum class Form { None, Same, LeftNumber, RightNumber, LeftRow, RightRow };

// A tensor that repeats one element: all strides are 0 where they matter.
bool is_uniform(const Tensor* t) {
  if (t->numel == 0) return false;
  for (int d = 0; d < t->ndim; ++d)
    if (t->size(d) > 1 && t->stride(d) != 0) return false;
  return true;
}

// Whether `small` broadcasts to `big` without changing its size, its leading dimensions being 1.
bool is_trailing_row(const Tensor* big, const Tensor* small) {
  if (small->numel <= 1 || big->numel == 0) return false;
  int skip = 0;
  while (small->size(skip) == 1) ++skip;
  int n = small->ndim - skip;
  if (small->ndim > big->ndim) return false;
  for (int i = 0; i < n; ++i)
    if (small->size(skip + i) != big->size(big->ndim - n + i)) return false;
  return true;
}

// Whether the sizes of `small`, a uniform tensor, broadcast to those of `big`.
bool fits_inside(const Tensor* big, const Tensor* small) {
  if (small->ndim > big->ndim) return false;
  for (int i = 1; i <= small->ndim; ++i) {
    int64_t s = small->size(small->ndim - i);
    if (s != 1 && s != big->size(big->ndim - i)) return false;
  }
  return true;
}

Form form_of(const Tensor* a, const Tensor* b) {
  if (a->contiguous && b->contiguous && a->sizes() == b->sizes()) return Form::Same;
  if (a->contiguous && is_uniform(b) && fits_inside(a, b)) return Form::RightNumber;
  if (b->contiguous && is_uniform(a) && fits_inside(b, a)) return Form::LeftNumber;
  if (!a->contiguous || !b->contiguous) return Form::None;
  if (is_trailing_row(a, b)) return Form::RightRow;
  if (is_trailing_row(b, a)) return Form::LeftRow;
  return Form::None;
}

// The loop, or nothing where it does not apply.
template <class T>
PyRef<Tensor> binary_loop(BinaryKind kind, Tensor* a, Tensor* b, double number, Form form, Tensor* out) {
  const BinaryKernel<T>& k = kernels::binary_kernel<T>(kind);
  Tensor* whole = form == Form::LeftNumber || form == Form::LeftRow ? b : a;
  if (out) {
    if (whole != out) return {};
    if (form != Form::RightNumber && overlaps_partially(out, b)) return {};
    if (form == Form::RightRow && overlaps_partially(out, b)) return {};
  }
  T left = a && form == Form::LeftNumber ? *a->ptr<T>() : static_cast<T>(number);
  T right = b && form == Form::RightNumber ? *b->ptr<T>() : static_cast<T>(number);
  PyRef<Tensor> y = out ? PyRef<Tensor>::borrow(out) : new_like(whole);
  int64_t n = whole->numel;
  GilRelease unlocked(n);
  switch (form) {
    case Form::Same: k.same(a->ptr<T>(), b->ptr<T>(), y->ptr<T>(), n); break;
    case Form::RightNumber: k.right_scalar(a->ptr<T>(), right, y->ptr<T>(), n); break;
    case Form::LeftNumber: k.left_scalar(left, b->ptr<T>(), y->ptr<T>(), n); break;
    case Form::RightRow: k.right_row(a->ptr<T>(), b->ptr<T>(), y->ptr<T>(), n / b->numel, b->numel); break;
    case Form::LeftRow: k.left_row(a->ptr<T>(), b->ptr<T>(), y->ptr<T>(), n / a->numel, a->numel); break;
    case Form::None: break;
  }
  return y;
}

}  // namespace

PyRef<Tensor> binary(const char* name, BinaryKind kind, NumpyFunction& f, PyObject* a, PyObject* b, Tensor* out) {
  Tensor* x = is_tensor(a) ? as_tensor(a) : nullptr;
  Tensor* y = is_tensor(b) ? as_tensor(b) : nullptr;
  Form form = Form::None;
  double number = 0;
  DType type = x ? x->dtype : y ? y->dtype : DType::Byte;
  if (is_loop_type(type)) {
    if (x && y) {
      if (x->dtype == y->dtype && on_host(x) && on_host(y)) form = form_of(x, y);
    } else if (x) {
      if (x->contiguous && on_host(x) && exact_number(b, &number)) form = Form::RightNumber;
    } else if (y->contiguous && on_host(y) && exact_number(a, &number)) {
      form = Form::LeftNumber;
    }
  }
  if (form != Form::None) {
    if (form != Form::Same && broadcast_warning) paired(a, b);
    if (out) require_writable(out, name);
    PyRef<Tensor> result = type == DType::Float ? binary_loop<float>(kind, x, y, number, form, out)
                                                : binary_loop<double>(kind, x, y, number, form, out);
    if (result) return result;
  }
  if (PyRef<Tensor> other = paired(a, b, out)) return binary(name, kind, f, a, other.get(), out);
  require_broadcast(name, a, b, out);
  return apply_ufunc(f, {a, b}, out);
}

// ---- unary --------------------------------------------------------------------------------------------------------

PyRef<Tensor> unary(kernels::UnaryKind kind, NumpyFunction& f, Tensor* x, Tensor* out) {
  if (!is_loop_type(x->dtype) || !x->contiguous || !on_host(x)) return apply_ufunc(f, {x}, out);
  if (out) require_writable(out, f.name());
  PyRef<Tensor> y = out ? PyRef<Tensor>::borrow(out) : new_like(x);
  GilRelease unlocked(x->numel);
  if (x->dtype == DType::Float) {
    kernels::unary_kernel<float>(kind)(x->ptr<float>(), y->ptr<float>(), x->numel);
  } else {
    kernels::unary_kernel<double>(kind)(x->ptr<double>(), y->ptr<double>(), x->numel);
  }
  return y;
}

}  // namespace torchlite
