// Type rules of reductions and of products of matrices and vectors.
#include "autograd/ops/reduction.h"
#include "autograd/ops/types.h"

namespace torchlite::types {

namespace {

using Sizes = std::vector<int64_t>;

Reduction reduction(const TypeCall& c, int dim, int keepdim) {
  return {c.sizes(0), c.constant(dim), c.boolean(keepdim)};
}

void require_elements(const TypeCall& c, const Reduction& r) {
  if (c.type(0).numel() == 0 && r.count == 0)
    runtime_error("%s: cannot reduce a tensor of size %s over dimensions without elements", c.name(),
                  format_dims(c.sizes(0)).c_str());
}

}  // namespace

TypeInfos sum(TypeCall& c) { return c.result(summed(c.type(0).dtype), reduction(c, 1, 2).result); }
TypeInfos mean(TypeCall& c) { return c.result(double_unless_floating(c.type(0).dtype), reduction(c, 1, 2).result); }

TypeInfos variance(TypeCall& c) {
  PyObject* dim = PyBool_Check(c.constant(1)) ? Py_None : c.constant(1);
  return c.result(double_unless_floating(c.type(0).dtype), Reduction(c.sizes(0), dim, c.boolean(3)).result);
}

TypeInfos norm(TypeCall& c) { return c.result(double_unless_floating(c.type(0).dtype), reduction(c, 2, 3).result); }

TypeInfos dist(TypeCall& c) {
  broadcast(c, 0, 1);
  return c.result(double_unless_floating(promote(c, 0, 1)), {1});
}

TypeInfos running(TypeCall& c) {
  c.dim(1, c.type(0).ndim());
  return c.result(summed(c.type(0).dtype), c.type(0).sizes);
}

TypeInfos extremum(TypeCall& c) {
  if (c.is_tensor(1)) return binary(c);
  if (!c.is_none(1) && !PyIndex_Check(c.constant(1)))
    type_error("%s: dim must be None, an int or a tensor, but got %.100s", c.name(), type_name(c.constant(1)));
  Reduction r = reduction(c, 1, 2);
  require_elements(c, r);
  TypeInfos out = c.result(c.type(0).dtype, r.result);
  if (!r.full) out.push_back({DType::Long, c.device(), r.result});
  return out;
}

TypeInfos arg_extremum(TypeCall& c) {
  Reduction r = reduction(c, 1, 2);
  require_elements(c, r);
  return c.result(DType::Long, r.result);
}

TypeInfos truth(TypeCall& c) { return c.result(DType::Byte, reduction(c, 1, 2).result); }
TypeInfos take_along(TypeCall& c) { return c.result(c.type(0).dtype, c.type(1).sizes); }

TypeInfos put_along(TypeCall& c) {
  if (c.type(0).ndim() == 0 || c.type(0).sizes != c.type(1).sizes)
    runtime_error("%s: self of size %s must have the size of the index, %s", c.name(), format_dims(c.sizes(0)).c_str(),
                  format_dims(c.sizes(1)).c_str());
  Sizes sizes = c.type(0).sizes;
  sizes.at(static_cast<size_t>(c.dim(2, c.type(0).ndim()))) = c.integer(3);
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos prod_backward(TypeCall& c) {
  c.dim(2, c.type(1).ndim());
  return c.result(double_unless_floating(c.type(1).dtype), c.type(1).sizes);
}

// ---- ranks --------------------------------------------------------------------------------------------------------

namespace {

// Values of the argument's type and LongTensors of places.
TypeInfos with_places(TypeCall& c, const Sizes& sizes) {
  return {{c.type(0).dtype, c.device(), sizes}, {DType::Long, c.device(), sizes}};
}

TypeInfos one_of_a_line(TypeCall& c, int axis, int keepdim) {
  PyRef<> dim = check(PyLong_FromLong(axis));
  return with_places(c, Reduction(c.sizes(0), dim.get(), c.boolean(keepdim)).result);
}

}  // namespace

TypeInfos sort(TypeCall& c) {
  ranked_dim(c.name(), c.sizes(0), c.constant(1));
  return with_places(c, c.type(0).sizes);
}

TypeInfos topk(TypeCall& c) {
  int64_t k = c.integer(1);
  int axis = ranked_dim(c.name(), c.sizes(0), c.constant(2), k, 0);
  Sizes sizes = c.type(0).sizes;
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(axis)] = k;
  } else if (k == 0) {
    sizes = {0};
  }
  return with_places(c, sizes);
}

TypeInfos kthvalue(TypeCall& c) {
  return one_of_a_line(c, ranked_dim(c.name(), c.sizes(0), c.constant(2), c.integer(1), 1), 3);
}

TypeInfos mode(TypeCall& c) {
  int axis = ranked_dim(c.name(), c.sizes(0), c.constant(1));
  require_line(c.name(), c.sizes(0), axis);
  return one_of_a_line(c, axis, 2);
}

TypeInfos median(TypeCall& c) {
  if (!c.is_none(1)) return mode(c);
  require_line(c.name(), c.sizes(0), -1);
  return c.result(c.type(0).dtype, Reduction(c.sizes(0), Py_None, c.boolean(2)).result);
}

// ---- products -----------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void mismatch(const TypeCall& c, const char* what, int i, int j) {
  runtime_error("%s: size mismatch, %s: %s and %s", c.name(), what, format_dims(c.sizes(i)).c_str(),
                format_dims(c.sizes(j)).c_str());
}

void require_ndim(const TypeCall& c, const char* what, int i, int i_ndim, int j, int j_ndim) {
  if (c.type(i).ndim() != i_ndim || c.type(j).ndim() != j_ndim)
    runtime_error("%s: %s expected, got %dD, %dD tensors", c.name(), what, c.type(i).ndim(), c.type(j).ndim());
}

Sizes matrix_sizes(const TypeCall& c, int i, int j) {
  require_ndim(c, "matrices", i, 2, j, 2);
  if (c.sizes(i)[1] != c.sizes(j)[0]) mismatch(c, "m1 and m2", i, j);
  return {c.sizes(i)[0], c.sizes(j)[1]};
}

Sizes vector_sizes(const TypeCall& c, int i, int j) {
  require_ndim(c, "matrix and vector", i, 2, j, 1);
  if (c.sizes(i)[1] != c.sizes(j)[0]) mismatch(c, "m1 and v2", i, j);
  return {c.sizes(i)[0]};
}

Sizes batch_sizes(const TypeCall& c, int i, int j) {
  require_ndim(c, "batches of matrices", i, 3, j, 3);
  if (c.sizes(i)[0] != c.sizes(j)[0])
    runtime_error("%s: equal number of batches expected, got %lld, %lld", c.name(),
                  static_cast<long long>(c.sizes(i)[0]), static_cast<long long>(c.sizes(j)[0]));
  if (c.sizes(i)[2] != c.sizes(j)[1]) mismatch(c, "batch1 and batch2", i, j);
  return {c.sizes(i)[0], c.sizes(i)[1], c.sizes(j)[2]};
}

Sizes outer_sizes(const TypeCall& c, int i, int j) {
  require_ndim(c, "vectors", i, 1, j, 1);
  return {c.sizes(i)[0], c.sizes(j)[0]};
}

Sizes dot_sizes(const TypeCall& c, int i, int j) {
  require_ndim(c, "vectors", i, 1, j, 1);
  if (c.sizes(i)[0] != c.sizes(j)[0])
    runtime_error("%s: inconsistent tensor size, expected tensors of the same number of elements, but got %s and %s",
                  c.name(), format_dims(c.sizes(i)).c_str(), format_dims(c.sizes(j)).c_str());
  return {1};
}

DType scaled(const TypeCall& c, DType t, int factor) {
  PyObject* o = c.constant(factor);
  bool one = (PyFloat_CheckExact(o) || PyLong_CheckExact(o)) && constant_to_double(o) == 1.0;
  return !one && PyFloat_Check(o) && !is_floating(t) ? DType::Double : t;
}

// (beta, self, alpha, a, b) with the sizes of the product of a and b.
TypeInfos add_to_product(TypeCall& c, Sizes product, DType type) {
  Sizes sizes = broadcast_sizes(c.sizes(1), product, c.name());
  if (sizes != product)
    runtime_error("%s: self of size %s does not expand to the size %s of the product", c.name(),
                  format_dims(c.sizes(1)).c_str(), format_dims(product).c_str());
  type = scaled(c, type, 2);
  PyObject* beta = c.constant(0);
  bool zero = (PyFloat_CheckExact(beta) || PyLong_CheckExact(beta)) && constant_to_double(beta) == 0.0;
  if (!zero) type = promote(type, scaled(c, c.type(1).dtype, 0));
  return c.result(type, std::move(product));
}

}  // namespace

TypeInfos matrix_product(TypeCall& c) { return c.result(promote(c, 0, 1), matrix_sizes(c, 0, 1)); }
TypeInfos matrix_vector(TypeCall& c) { return c.result(promote(c, 0, 1), vector_sizes(c, 0, 1)); }
TypeInfos dot(TypeCall& c) { return c.result(promote(c, 0, 1), dot_sizes(c, 0, 1)); }
TypeInfos outer_product(TypeCall& c) { return c.result(promote(c, 0, 1), outer_sizes(c, 0, 1)); }
TypeInfos batch_product(TypeCall& c) { return c.result(promote(c, 0, 1), batch_sizes(c, 0, 1)); }

TypeInfos general_product(TypeCall& c) {
  const TypeInfo &a = c.type(0), &b = c.type(1);
  if (a.ndim() == 0 || b.ndim() == 0)
    runtime_error("%s: both arguments need at least 1 dimension, but they are %dD and %dD", c.name(), a.ndim(),
                  b.ndim());
  if (a.ndim() == 1 && b.ndim() == 1) return dot(c);
  if (a.sizes.back() != b.dims()[b.ndim() == 1 ? 0 : b.ndim() - 2]) mismatch(c, "m1 and m2", 0, 1);
  Dims a_batch(a.sizes.data(), std::max(a.ndim() - 2, 0)), b_batch(b.sizes.data(), std::max(b.ndim() - 2, 0));
  Sizes sizes = broadcast_sizes(a_batch, b_batch, c.name());
  if (a.ndim() > 1) sizes.push_back(a.dims()[a.ndim() - 2]);
  if (b.ndim() > 1) sizes.push_back(b.sizes.back());
  return c.result(promote(c, 0, 1), std::move(sizes));
}

TypeInfos addmm(TypeCall& c) { return add_to_product(c, matrix_sizes(c, 3, 4), promote(c, 3, 4)); }
TypeInfos baddbmm(TypeCall& c) { return add_to_product(c, batch_sizes(c, 3, 4), promote(c, 3, 4)); }
TypeInfos addmv(TypeCall& c) { return add_to_product(c, vector_sizes(c, 3, 4), promote(c, 3, 4)); }
TypeInfos addr(TypeCall& c) { return add_to_product(c, outer_sizes(c, 3, 4), promote(c, 3, 4)); }

TypeInfos addbmm(TypeCall& c) {
  Sizes sizes = batch_sizes(c, 3, 4);
  return add_to_product(c, {sizes[1], sizes[2]}, summed(promote(c, 3, 4)));
}

}  // namespace torchlite::types
