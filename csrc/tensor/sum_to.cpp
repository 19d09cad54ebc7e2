#include "tensor/sum_to.h"

#include "tensor/kernels/reduce.h"
#include "tensor/views.h"
#include "utils/errors.h"
#include "utils/gil.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

template <class T>
PyRef<Tensor> sum_leading(Tensor* t, Dims sizes, int64_t columns) {
  PyRef<Tensor> out = new_tensor(t->dtype, sizes);
  const T* x = t->ptr<T>();
  T* y = out->ptr<T>();
  GilRelease unlocked(t->numel);
  if (columns == 1) *y = static_cast<T>(kernels::sum(x, t->numel));
  else kernels::sum_rows(x, t->numel / columns, columns, false, y);
  return out;
}

}  // namespace

PyRef<Tensor> sum_to(Tensor* t, Dims sizes) {
  if (t->sizes() == sizes) return PyRef<Tensor>::borrow(t);
  int added = t->ndim - sizes.n;
  bool fits = added >= 0;
  bool leading = true;  // the summed dimensions all come before the kept ones
  bool kept = false;
  PyRef<> axes = check(PyList_New(0));
  for (int d = 0; fits && d < t->ndim; ++d) {
    int64_t target = d < added ? 1 : sizes[d - added];
    fits = target == t->size(d) || target == 1;
    if (d < added || target != t->size(d)) {
      if (kept) leading = false;
      check(PyList_Append(axes.get(), check(PyLong_FromLong(d)).get()));
    } else if (target != 1) {
      kept = true;
    }
  }
  if (!fits)
    runtime_error("sum_to: size %s does not broadcast to size %s", format_dims(sizes).c_str(),
                  format_dims(t->sizes()).c_str());
  int64_t numel = sizes.product();
  if (numel == 0) return new_tensor(t->dtype, sizes);
  if (t->numel == numel) return views::reshape(t, sizes);
  if (t->numel == 0) return new_zeros(t->dtype, sizes);
  if (leading && t->contiguous && t->dtype == DType::Float) return sum_leading<float>(t, sizes, numel);
  if (leading && t->contiguous && t->dtype == DType::Double) return sum_leading<double>(t, sizes, numel);

  // Half is summed in single precision; integers stay in their own type.
  static PyObject* reduce = check(PyObject_GetAttrString(numpy_function("add"), "reduce")).release();
  PyRef<> tuple = check(PyList_AsTuple(axes.get()));
  DType sum_type = t->dtype == DType::Half ? DType::Float : t->dtype;
  PyRef<> args = check(Py_BuildValue("(OOs)", numpy_view(t), tuple.get(), info(sum_type).numpy_name));
  PyRef<Tensor> sum = tensor_from_result(check(PyObject_CallObject(reduce, args.get())));
  PyRef<Tensor> out = new_tensor(t->dtype, sizes);
  copy_into(out.get(), views::reshape(sum.get(), sizes).get());
  return out;
}

}  // namespace torchlite
