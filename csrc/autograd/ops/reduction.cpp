#include "autograd/ops/reduction.h"

#include "tensor/kernels/reduce.h"
#include "utils/numpy_api.h"

namespace torchlite {

Reduction::Reduction(Dims sizes, PyObject* dim, bool keepdim, const char* function) {
  full = dim == Py_None;
  if (full) {
    dims = sizes.n == 64 ? ~uint64_t{0} : (uint64_t{1} << sizes.n) - 1;
  } else {
    if (!PyIndex_Check(dim) && !PyTuple_Check(dim) && !PyList_Check(dim))
      type_error("%s: dim must be None, an int or a sequence of ints, but got %.100s", function, type_name(dim));
    for (int64_t d : parse_dims(dim)) {
      int w = wrap_dim(d, sizes.n, function);
      uint64_t bit = uint64_t{1} << w;
      if (dims & bit) runtime_error("%s: dim %d appears more than once in the dimensions to reduce", function, w);
      dims |= bit;
    }
    if (sizes.n == 0) dims = 0;
  }
  for (int d = 0; d < sizes.n; ++d) {
    kept.push_back(reduces(d) ? 1 : sizes[d]);
    if (reduces(d)) count *= sizes[d];
    if (keepdim || !reduces(d)) result.push_back(kept.back());
  }
  if (result.empty()) result.push_back(1);
}

bool reduction_block(const Tensor* x, const Reduction& r, int64_t* outer, int64_t* inner) {
  *outer = *inner = 1;
  int state = 0;  // before, inside, after the reduced dimensions
  for (int d = 0; d < x->ndim; ++d) {
    if (r.reduces(d)) {
      if (state == 2) return false;
      state = 1;
    } else {
      if (state == 1) state = 2;
      (state == 2 ? *inner : *outer) *= x->size(d);
    }
  }
  return true;
}

PyRef<Tensor> with_sizes(PyRef<Tensor> t, Dims sizes) {
  if (t->sizes() == sizes) return t;
  PyRef<Tensor> c = contiguous(t.get());
  return new_tensor_on(c->storage.copy(), c->dtype, sizes, {}, c->offset);
}

PyRef<Tensor> reduction_rows(Tensor* x, const Reduction& r) {
  int64_t sizes[kMaxDim], strides[kMaxDim];
  int n = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int d = 0; d < x->ndim; ++d) {
      if (r.reduces(d) != (pass == 1)) continue;
      sizes[n] = x->size(d);
      strides[n++] = x->stride(d);
    }
  }
  PyRef<Tensor> moved = new_view(x, {sizes, n}, {strides, n}, x->offset);
  return loop_operand(moved.get());
}

PyObject* ufunc_method(const char* name, const char* method) {
  return check(PyObject_GetAttrString(numpy_function(name), method)).release();
}

DType accumulation_type(DType t) { return t == DType::Half ? DType::Float : is_floating(t) ? t : DType::Long; }

PyRef<Tensor> numpy_reduce(PyObject* reduce, Tensor* x, const Reduction& r, DType dtype) {
  std::vector<int64_t> axes;
  for (int d = 0; d < x->ndim; ++d)
    if (r.reduces(d)) axes.push_back(d);
  PyRef<> axis = int_tuple(axes);
  PyRef<> type = check(reinterpret_cast<PyObject*>(PyArray_DescrFromType(info(dtype).numpy_type)));
  PyRef<> keywords = check(Py_BuildValue("{s:O,s:O}", "axis", axis.get(), "dtype", type.get()));
  return with_sizes(tensor_from_result(call_numpy(reduce, {numpy_view(x)}, keywords.get())), r.result);
}

PyRef<Tensor> sum_over(Tensor* x, const Reduction& r) {
  int64_t outer, inner;
  if (is_loop_type(x->dtype) && x->contiguous && on_host(x) && reduction_block(x, r, &outer, &inner)) {
    PyRef<Tensor> y = new_tensor(x->dtype, r.result);
    GilRelease unlocked(x->numel);
    with_elements(y.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      const T* p = x->ptr<T>();
      if (inner == 1) {
        kernels::sum_cols(p, outer, r.count, q);
      } else {
        for (int64_t o = 0; o < outer; ++o)
          kernels::sum_rows(p + o * r.count * inner, r.count, inner, false, q + o * inner);
      }
    });
    return y;
  }
  static PyObject* const reduce = ufunc_method("add", "reduce");
  PyRef<Tensor> y = numpy_reduce(reduce, x, r, accumulation_type(x->dtype));
  return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

namespace {
// The elements in the opposite order along a dimension.
PyRef<Tensor> flipped(const Tensor* t, int dim) {
  std::vector<int64_t> strides(t->strides().begin(), t->strides().end());
  size_t d = static_cast<size_t>(dim);
  int64_t offset = t->numel ? t->offset + strides[d] * (t->size(dim) - 1) : t->offset;
  strides[d] = -strides[d];
  return new_view(t, t->sizes(), strides, offset);
}
}  // namespace

PyRef<Tensor> accumulate(Call& c, const char* ufunc, bool reverse) {
  Tensor* x = c.tensor(0);
  int dim = c.dim(1, x->ndim);
  const int64_t one = 1;
  PyRef<Tensor> source = x->ndim == 0 ? with_sizes(PyRef<Tensor>::borrow(x), {&one, 1}) : PyRef<Tensor>::borrow(x);
  if (reverse) source = flipped(source.get(), dim);
  static PyObject* const add = ufunc_method("add", "accumulate");
  static PyObject* const multiply = ufunc_method("multiply", "accumulate");
  PyRef<> type =
      check(reinterpret_cast<PyObject*>(PyArray_DescrFromType(info(accumulation_type(x->dtype)).numpy_type)));
  PyRef<> keywords = check(Py_BuildValue("{s:i,s:O}", "axis", dim, "dtype", type.get()));
  PyObject* f = ufunc[0] == 'a' ? add : multiply;
  PyRef<Tensor> y = tensor_from_result(call_numpy(f, {numpy_view(source.get())}, keywords.get()));
  if (reverse) y = flipped(y.get(), dim);
  y = with_sizes(contiguous(y.get()), x->sizes());
  return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

Value to_kept(const Value& g, const Reduction& r) { return g.sizes() == Dims(r.kept) ? g : call<"reshape">(g, r.kept); }

Value to_input(const Value& g, const Reduction& r, const std::vector<int64_t>& sizes) {
  // The gradient of a full reduction, of size (1,), expands as it is.
  if (r.full && !sizes.empty() && g.sizes() == Dims(r.result)) return call<"expand">(g, sizes);
  return r.kept == sizes ? to_kept(g, r) : call<"expand">(to_kept(g, r), sizes);
}

}  // namespace torchlite
