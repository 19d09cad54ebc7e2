// Products of matrices and vectors. The multiplication is NumPy's, written into our memory; NumPy hands transposed
// operands to BLAS without a copy. Matrices of a few elements are multiplied here, which costs less than the call.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"
#include "tensor/gemm.h"
#include "utils/numpy_api.h"

namespace torchlite {

using kernels::BinaryKind;

namespace {

NumpyFunction np_matmul("matmul"), np_add("add"), np_multiply("multiply");

inline constexpr int64_t kSmallProduct = 512;  // multiplications up to which the plain loop is faster

// ---- the product ----------------------------------------------------------------------------------------------------

// y[m, n] = a[m, k] b[k, n] with any strides of a and b.
template <class T>
void small_product(const Tensor* a, const Tensor* b, T* y) {
  int64_t m = a->size(0), k = a->size(1), n = b->size(1);
  int64_t ar = a->stride(0), ac = a->stride(1), br = b->stride(0), bc = b->stride(1);
  const T *pa = a->ptr<T>(), *pb = b->ptr<T>();
  for (int64_t i = 0; i < m; ++i) {
    T* row = y + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] = 0;
    for (int64_t l = 0; l < k; ++l) {
      T x = pa[i * ar + l * ac];
      const T* from = pb + l * br;
      if (bc == 1)  // a loop that the compiler vectorises
        for (int64_t j = 0; j < n; ++j) row[j] += x * from[j];
      else
        for (int64_t j = 0; j < n; ++j) row[j] += x * from[j * bc];
    }
  }
}

// A contiguous matrix or the transpose of one, as BLAS takes it.
bool as_matrix(const Tensor* t, MatrixRef* out) {
  if (t->contiguous) {
    *out = {t->dtype, t->bytes(), t->size(0), t->size(1)};
    return true;
  }
  *out = {t->dtype, t->bytes(), t->size(1), t->size(0), true};
  return t->stride(0) == 1 && t->stride(1) == t->size(0);
}

// np.matmul of two tensors with at least one dimension each, whose sizes agree.
PyRef<Tensor> multiply(Tensor* a, Tensor* b, Dims result) {
  bool loop = is_loop_type(a->dtype) && a->dtype == b->dtype && on_host(a) && on_host(b);
  // An outer product is memory-bound, and NumPy does not hand it to BLAS.
  bool outer = a->ndim == 2 && a->size(1) == 1;
  if (loop && a->ndim == 2 && b->ndim == 2 && (outer || a->numel * b->size(1) <= kSmallProduct)) {
    PyRef<Tensor> y = new_tensor(a->dtype, result);
    with_elements(y.get(), [&](auto* q) { small_product(a, b, q); });
    return y;
  }
  MatrixRef left, right;
  if (loop && a->ndim == 2 && b->ndim == 2 && as_matrix(a, &left) && as_matrix(b, &right)) {
    PyRef<Tensor> y = new_tensor(a->dtype, result);
    gemm(left, right, matrix_of(y.get(), y->size(1)));
    return y;
  }
  if (loop && result.n > 0) {
    PyRef<Tensor> y = new_tensor(a->dtype, result);
    apply_ufunc(np_matmul, {a, b}, y.get());
    return y;
  }
  return apply_ufunc(np_matmul, {a, b});
}

PyRef<Tensor> matrix_product(const char* name, Tensor* a, Tensor* b) {
  if (a->ndim != 2 || b->ndim != 2)
    runtime_error("%s: matrices expected, got %dD, %dD tensors", name, a->ndim, b->ndim);
  if (a->size(1) != b->size(0))
    runtime_error("%s: size mismatch, m1: %s, m2: %s", name, format_dims(a->sizes()).c_str(),
                  format_dims(b->sizes()).c_str());
  const int64_t sizes[] = {a->size(0), b->size(1)};
  return multiply(a, b, {sizes, 2});
}

PyRef<Tensor> matrix_vector(const char* name, Tensor* a, Tensor* v) {
  if (a->ndim != 2 || v->ndim != 1)
    runtime_error("%s: matrix and vector expected, got %dD, %dD tensors", name, a->ndim, v->ndim);
  if (a->size(1) != v->size(0))
    runtime_error("%s: size mismatch, m1: %s, v2: %s", name, format_dims(a->sizes()).c_str(),
                  format_dims(v->sizes()).c_str());
  const int64_t sizes[] = {a->size(0)};
  return multiply(a, v, {sizes, 1});
}

PyRef<Tensor> batch_product(const char* name, Tensor* a, Tensor* b) {
  if (a->ndim != 3 || b->ndim != 3)
    runtime_error("%s: batches of matrices expected, got %dD, %dD tensors", name, a->ndim, b->ndim);
  if (a->size(0) != b->size(0))
    runtime_error("%s: equal number of batches expected, got %lld, %lld", name, static_cast<long long>(a->size(0)),
                  static_cast<long long>(b->size(0)));
  if (a->size(2) != b->size(1))
    runtime_error("%s: size mismatch, batch1: %s, batch2: %s", name, format_dims(a->sizes()).c_str(),
                  format_dims(b->sizes()).c_str());
  const int64_t sizes[] = {a->size(0), a->size(1), b->size(2)};
  return multiply(a, b, {sizes, 3});
}

PyRef<Tensor> outer_product(const char* name, Tensor* a, Tensor* b) {
  if (a->ndim != 1 || b->ndim != 1) runtime_error("%s: vectors expected, got %dD, %dD tensors", name, a->ndim, b->ndim);
  const int64_t sizes[] = {a->size(0), 1}, strides[] = {a->stride(0), 0};
  PyRef<Tensor> column = new_view(a, {sizes, 2}, {strides, 2}, a->offset);
  return apply_ufunc(np_multiply, {column.get(), b});
}

// A dot product in double precision for float and double.
PyRef<Tensor> dot(const char* name, Tensor* a, Tensor* b) {
  if (a->ndim != 1 || b->ndim != 1) runtime_error("%s: vectors expected, got %dD, %dD tensors", name, a->ndim, b->ndim);
  if (a->numel != b->numel)
    runtime_error("%s: inconsistent tensor size, expected tensors of the same number of elements, but got %s and %s",
                  name, format_dims(a->sizes()).c_str(), format_dims(b->sizes()).c_str());
  const int64_t one = 1;
  if (is_loop_type(a->dtype) && a->dtype == b->dtype && on_host(a) && on_host(b)) {
    PyRef<Tensor> y = new_tensor(a->dtype, {&one, 1});
    GilRelease unlocked(a->numel);
    with_elements(y.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      const T *p = a->ptr<T>(), *r = b->ptr<T>();
      int64_t ps = a->stride(0), rs = b->stride(0), n = a->numel, i = 0;
      double sum[4] = {0, 0, 0, 0};  // independent sums keep the adder busy
      for (; i + 4 <= n; i += 4)
        for (int64_t l = 0; l < 4; ++l)
          sum[l] += static_cast<double>(p[(i + l) * ps]) * static_cast<double>(r[(i + l) * rs]);
      for (; i < n; ++i) sum[0] += static_cast<double>(p[i * ps]) * static_cast<double>(r[i * rs]);
      *q = static_cast<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
    });
    return y;
  }
  PyRef<Tensor> y = apply_ufunc(np_matmul, {a, b});
  return new_tensor_on(y->storage.copy(), y->dtype, {&one, 1}, {}, y->offset);
}

// ---- beta self + alpha product --------------------------------------------------------------------------------------

// `product` is ours to overwrite. self broadcasts to its size; in place the sizes agree.
PyRef<Tensor> add_to_product(Call& c, PyRef<Tensor> product) {
  PyObject *beta = c.args[0], *alpha = c.args[2];
  Tensor* self = c.tensor(1);
  std::vector<int64_t> sizes = broadcast_sizes(self->sizes(), product->sizes(), c.name());
  if (!(Dims(sizes) == product->sizes()) || (c.out && !(c.out->sizes() == product->sizes())))
    runtime_error("%s: self of size %s does not expand to the size %s of the product", c.name(),
                  format_dims(self->sizes()).c_str(), format_dims(product->sizes()).c_str());
  if (!is_one(alpha)) {
    bool fits = is_floating(product->dtype);
    product = binary(c.name(), BinaryKind::Mul, np_multiply, product.get(), alpha, fits ? product.get() : nullptr);
  }
  double b;
  // The era's rule: with beta 0 self is not read, so its NaNs do not spread.
  if (exact_number(beta, &b) && b == 0) return product;
  PyRef<Tensor> scaled =
      is_one(beta) ? PyRef<Tensor>::borrow(self) : binary(c.name(), BinaryKind::Mul, np_multiply, self, beta, nullptr);
  if (c.out) return binary(c.name(), BinaryKind::Add, np_add, scaled.get(), product.get(), nullptr);
  // Written over the product where the types agree: addition commutes.
  Tensor* out = scaled->dtype == product->dtype ? product.get() : nullptr;
  return binary(c.name(), BinaryKind::Add, np_add, product.get(), scaled.get(), out);
}

Value scaled(const Value& g, const Value& factor) { return is_one(factor.object()) ? g : g * factor; }
Value transposed(const Value& m) { return call<"transpose">(m, -2, -1); }
Value column(const Value& v) { return call<"unsqueeze">(v, -1); }
Value row(const Value& v) { return call<"unsqueeze">(v, -2); }
Value matmul(const Value& a, const Value& b) { return call<"matmul">(a, b); }

// ---- matmul: NumPy's rules for vectors, matrices and broadcast batches ------------------------------------------------

PyRef<Tensor> general_product(const char* name, Tensor* a, Tensor* b) {
  if (a->ndim == 0 || b->ndim == 0)
    runtime_error("%s: both arguments need at least 1 dimension, but they are %dD and %dD", name, a->ndim, b->ndim);
  if (a->ndim == 1 && b->ndim == 1) return dot(name, a, b);
  int64_t inner = b->size(b->ndim == 1 ? 0 : b->ndim - 2);
  if (a->size(a->ndim - 1) != inner)
    runtime_error("%s: size mismatch, m1: %s, m2: %s", name, format_dims(a->sizes()).c_str(),
                  format_dims(b->sizes()).c_str());
  Dims a_batch(a->dims(), a->ndim > 2 ? a->ndim - 2 : 0), b_batch(b->dims(), b->ndim > 2 ? b->ndim - 2 : 0);
  std::vector<int64_t> sizes = broadcast_sizes(a_batch, b_batch, name);
  if (a->ndim > 1) sizes.push_back(a->size(a->ndim - 2));
  if (b->ndim > 1) sizes.push_back(b->size(b->ndim - 1));
  if (a->ndim > 2 && b->ndim == 2 && a->contiguous && a->numel) {
    // One product of all rows instead of one for each matrix of the batch.
    const int64_t rows[] = {a->numel / inner, inner}, flat[] = {rows[0], b->size(1)};
    PyRef<Tensor> folded = new_tensor_on(a->storage.copy(), a->dtype, {rows, 2}, {}, a->offset);
    PyRef<Tensor> y = multiply(folded.get(), b, {flat, 2});
    return new_tensor_on(y->storage.copy(), y->dtype, sizes, {}, y->offset);
  }
  return multiply(a, b, sizes);
}

void matmul_backward(Backward& b) {
  Value g = b.grad();
  std::vector<int64_t> a_sizes = b.sizes(0), b_sizes = b.sizes(1);
  size_t an = a_sizes.size(), bn = b_sizes.size();
  if (an == 1 && bn == 1) {
    if (b.needs(0)) b.set(0, b.value(1) * g);
    if (b.needs(1)) b.set(1, b.value(0) * g);
  } else if (an == 1) {
    if (b.needs(0)) b.set(0, call<"squeeze">(matmul(b.value(1), column(g)), -1));
    if (b.needs(1)) b.set(1, column(b.value(0)) * row(g));
  } else if (bn == 1) {
    if (b.needs(0)) b.set(0, column(g) * b.value(1));
    if (b.needs(1)) b.set(1, call<"squeeze">(matmul(transposed(b.value(0)), column(g)), -1));
  } else {
    if (b.needs(0)) b.set(0, matmul(g, transposed(b.value(1))));
    if (!b.needs(1)) return;
    if (an > 2 && bn == 2) {
      // Summed over the batch by the product itself.
      std::vector<int64_t> rows = {-1, a_sizes[an - 1]}, columns = {-1, b_sizes[1]};
      if (Dims(a_sizes).product() == 0 || b_sizes[1] == 0) {
        b.set(1, matmul(transposed(b.value(0)), g));
      } else {
        b.set(1, call<"mm">(call<"t">(call<"reshape">(b.value(0), rows)), call<"reshape">(g, columns)));
      }
    } else {
      b.set(1, matmul(transposed(b.value(0)), g));
    }
  }
}

}  // namespace

std::span<const Row> blas_rows() {
  static const std::vector<Row> rows = {
      {.signature = "mm(Tensor self, Tensor mat2)",
       .doc = "The product of a (n, k) and a (k, m) matrix.",
       .types = types::matrix_product,
       .forward = [](Call& c) -> Outputs { return matrix_product(c.name(), c.tensor(0), c.tensor(1)); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"mm">(b.grad(), call<"t">(b.value(1))));
             if (b.needs(1)) b.set(1, call<"mm">(call<"t">(b.value(0)), b.grad()));
           },
       .uses = {in(1), in(0)}},
      {.signature = "mv(Tensor self, Tensor vec)",
       .doc = "The product of a (n, k) matrix and a (k,) vector.",
       .types = types::matrix_vector,
       .forward = [](Call& c) -> Outputs { return matrix_vector(c.name(), c.tensor(0), c.tensor(1)); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"ger">(b.grad(), b.value(1)));
             if (b.needs(1)) b.set(1, call<"mv">(call<"t">(b.value(0)), b.grad()));
           },
       .uses = {in(1), in(0)}},
      {.signature = "dot(Tensor self, Tensor tensor)",
       .doc = "The sum of the products of two vectors, of size (1,).",
       .types = types::dot,
       .forward = [](Call& c) -> Outputs { return dot(c.name(), c.tensor(0), c.tensor(1)); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, b.value(1) * b.grad());
             if (b.needs(1)) b.set(1, b.value(0) * b.grad());
           },
       .uses = {in(1), in(0)},
       .flags = kReduceToNumber},
      {.signature = "ger(Tensor self, Tensor vec2)",
       .doc = "The outer product (n, m) of a (n,) and a (m,) vector.",
       .types = types::outer_product,
       .forward = [](Call& c) -> Outputs { return outer_product(c.name(), c.tensor(0), c.tensor(1)); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"mv">(b.grad(), b.value(1)));
             if (b.needs(1)) b.set(1, call<"mv">(call<"t">(b.grad()), b.value(0)));
           },
       .uses = {in(1), in(0)}},
      {.signature = "bmm(Tensor self, Tensor mat2)",
       .doc = "The products of a batch of (n, k) and a batch of (k, m) matrices.",
       .types = types::batch_product,
       .forward = [](Call& c) -> Outputs { return batch_product(c.name(), c.tensor(0), c.tensor(1)); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"bmm">(b.grad(), transposed(b.value(1))));
             if (b.needs(1)) b.set(1, call<"bmm">(transposed(b.value(0)), b.grad()));
           },
       .uses = {in(1), in(0)}},
      {.signature = "matmul(Tensor self, Tensor other)",
       .doc = "The matrix product by NumPy's rules: vectors get a dimension for the time of the product, batches "
              "broadcast. Two vectors give size (1,), of tensors a number.",
       .types = types::general_product,
       .forward = [](Call& c) -> Outputs { return general_product(c.name(), c.tensor(0), c.tensor(1)); },
       .backward = matmul_backward,
       .uses = {in(1), in(0)},
       .flags = kKeepSizes | kDotNumber},
      {.signature = "addmm(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor mat1, Tensor mat2)",
       .doc = "beta * self + alpha * mat1 @ mat2; self broadcasts to the size of the product.",
       .types = types::addmm,
       .forward = [](Call& c) -> Outputs {
         return add_to_product(c, matrix_product(c.name(), c.tensor(3), c.tensor(4)));
       },
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, scaled(b.grad(), b.value(0)));
             if (!b.needs(3) && !b.needs(4)) return;
             Value g = scaled(b.grad(), b.value(2));
             if (b.needs(3)) b.set(3, call<"mm">(g, call<"t">(b.value(4))));
             if (b.needs(4)) b.set(4, call<"mm">(call<"t">(b.value(3)), g));
           },
       .uses = {0, in(0), 0, in(2) | in(4), in(2) | in(3)},
       .flags = kInPlace},
      {.signature = "addbmm(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor batch1, Tensor batch2)",
       .doc = "beta * self + alpha * sum_i batch1[i] @ batch2[i].",
       .types = types::addbmm,
       .forward = [](Call& c) -> Outputs {
         static PyObject* const reduce = check(PyObject_GetAttrString(np_add.get(), "reduce")).release();
         PyRef<Tensor> products = batch_product(c.name(), c.tensor(3), c.tensor(4));
         PyRef<> summed = call_numpy(reduce, {numpy_view(products.get())});
         return add_to_product(c, tensor_from_result(std::move(summed)));
       },
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, scaled(b.grad(), b.value(0)));
             if (!b.needs(3) && !b.needs(4)) return;
             Value g = scaled(b.grad(), b.value(2));
             if (b.needs(3)) b.set(3, matmul(g, transposed(b.value(4))));
             if (b.needs(4)) b.set(4, matmul(transposed(b.value(3)), g));
           },
       .uses = {0, in(0), 0, in(2) | in(4), in(2) | in(3)},
       .flags = kInPlace},
      {.signature = "baddbmm(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor batch1, Tensor batch2)",
       .doc = "beta * self + alpha * batch1 @ batch2, matrix by matrix.",
       .types = types::baddbmm,
       .forward = [](Call& c) -> Outputs {
         return add_to_product(c, batch_product(c.name(), c.tensor(3), c.tensor(4)));
       },
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, scaled(b.grad(), b.value(0)));
             if (!b.needs(3) && !b.needs(4)) return;
             Value g = scaled(b.grad(), b.value(2));
             if (b.needs(3)) b.set(3, call<"bmm">(g, transposed(b.value(4))));
             if (b.needs(4)) b.set(4, call<"bmm">(transposed(b.value(3)), g));
           },
       .uses = {0, in(0), 0, in(2) | in(4), in(2) | in(3)},
       .flags = kInPlace},
      {.signature = "addmv(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor mat, Tensor vec)",
       .doc = "beta * self + alpha * mat @ vec.",
       .types = types::addmv,
       .forward = [](Call& c) -> Outputs {
         return add_to_product(c, matrix_vector(c.name(), c.tensor(3), c.tensor(4)));
       },
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, scaled(b.grad(), b.value(0)));
             if (!b.needs(3) && !b.needs(4)) return;
             Value g = scaled(b.grad(), b.value(2));
             if (b.needs(3)) b.set(3, call<"ger">(g, b.value(4)));
             if (b.needs(4)) b.set(4, call<"mv">(call<"t">(b.value(3)), g));
           },
       .uses = {0, in(0), 0, in(2) | in(4), in(2) | in(3)},
       .flags = kInPlace},
      {.signature = "addr(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor vec1, Tensor vec2)",
       .doc = "beta * self + alpha * the outer product of vec1 and vec2.",
       .types = types::addr,
       .forward = [](Call& c) -> Outputs {
         return add_to_product(c, outer_product(c.name(), c.tensor(3), c.tensor(4)));
       },
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, scaled(b.grad(), b.value(0)));
             if (!b.needs(3) && !b.needs(4)) return;
             Value g = scaled(b.grad(), b.value(2));
             if (b.needs(3)) b.set(3, call<"mv">(g, b.value(4)));
             if (b.needs(4)) b.set(4, call<"mv">(call<"t">(g), b.value(3)));
           },
       .uses = {0, in(0), 0, in(2) | in(4), in(2) | in(3)},
       .flags = kInPlace},
  };
  return rows;
}

}  // namespace torchlite
