#include "tensor/sum_to.h"

#include <algorithm>

#include "tensor/views.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// Column sums of [rows, columns]: blocks of rows are summed apart, so that the error grows with the block, not with
// the number of rows.
template <class T>
void sum_rows(const T* x, T* out, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 64;
  std::vector<T> part(static_cast<size_t>(columns));
  std::fill_n(out, columns, T(0));
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    std::fill(part.begin(), part.end(), T(0));
    T* sum = part.data();
    int64_t end = std::min(rows, begin + kBlock);
    for (int64_t i = begin; i < end; ++i) {
      const T* row = x + i * columns;
      for (int64_t j = 0; j < columns; ++j) sum[j] += row[j];
    }
    for (int64_t j = 0; j < columns; ++j) out[j] += sum[j];
  }
}

template <class T>
PyRef<Tensor> sum_leading(Tensor* t, Dims sizes, int64_t columns) {
  PyRef<Tensor> out = new_tensor(t->dtype, sizes);
  const T* x = t->ptr<T>();
  T* y = out->ptr<T>();
  int64_t rows = t->numel / columns;
  if (columns == 1) {
    // One long sum: as 64 interleaved columns it keeps the same accuracy.
    constexpr int64_t kLanes = 64;
    T lanes[kLanes] = {};
    if (rows >= kLanes) sum_rows(x, lanes, rows / kLanes, kLanes);
    double total = 0;
    for (T lane : lanes) total += static_cast<double>(lane);
    for (int64_t i = rows / kLanes * kLanes; i < rows; ++i) total += static_cast<double>(x[i]);
    *y = static_cast<T>(total);
  } else if (t->numel > 20000) {
    Py_BEGIN_ALLOW_THREADS
    sum_rows(x, y, rows, columns);
    Py_END_ALLOW_THREADS
  } else {
    sum_rows(x, y, rows, columns);
  }
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
