// Shared by the reducing rows: which dimensions a reduction runs over and what is left of the size.
//
// Note [Sizes of reductions]
// A reduction never gives a 0-d tensor: where no dimension would be left (all of them reduced, without keepdim, or a
// 0-d input) the result has size (1,). So a full reduction has size (1,), and so has a 1-d tensor reduced along its
// dimension.
#pragma once

#include "autograd/ops/elementwise.h"

namespace torchlite {

struct Reduction {
  bool full = true;             // no dimension was named
  uint64_t dims = 0;            // bit d: dimension d is reduced
  int64_t count = 1;            // elements that go into one result
  std::vector<int64_t> kept;    // the input's sizes with 1 for what is reduced
  std::vector<int64_t> result;  // see the Note

  // `dim` is None, an int or a sequence of ints.
  Reduction(Dims sizes, PyObject* dim, bool keepdim, const char* function = "reduction");
  bool reduces(int d) const { return (dims >> d) & 1; }
};

// A contiguous input as [outer, count, inner]: true if the reduced dimensions are neighbours.
bool reduction_block(const Tensor* x, const Reduction& r, int64_t* outer, int64_t* inner);
// The input, of a loop type, with the reduced dimensions last: contiguous rows of `count` elements, one per result.
PyRef<Tensor> reduction_rows(Tensor* x, const Reduction& r);
// The same elements as `t`, in order, in another size.
PyRef<Tensor> with_sizes(PyRef<Tensor> t, Dims sizes);

// `np.<name>.reduce` over the dimensions of `r`, computed in `dtype`.
PyRef<Tensor> numpy_reduce(PyObject* reduce, Tensor* x, const Reduction& r, DType dtype);
// The `method` of ufunc `name`, kept for good: for function-local statics.
PyObject* ufunc_method(const char* name, const char* method);
// The type a sum or product of `t` is computed in: half in float, integers in 64 bits.
DType accumulation_type(DType t);

// Sum over the dimensions of `r`.
PyRef<Tensor> sum_over(Tensor* x, const Reduction& r);

// Running sums or products (`ufunc` add or multiply) along the dimension of argument 1, from its end if `reverse`.
PyRef<Tensor> accumulate(Call& c, const char* ufunc, bool reverse);

// A gradient of the size of the result brought to `r.kept`, so that it broadcasts against the input.
Value to_kept(const Value& g, const Reduction& r);
// ... and expanded to the input's sizes.
Value to_input(const Value& g, const Reduction& r, const std::vector<int64_t>& sizes);

// ---- ranks (order.cpp) --------------------------------------------------------------------------------------------
// The dimension that `dim` names, None being the last; with `k`, least <= k <= its size. RuntimeError otherwise.
int ranked_dim(const char* name, Dims sizes, PyObject* dim);
int ranked_dim(const char* name, Dims sizes, PyObject* dim, int64_t k, int64_t least);
// Throws where there is nothing along `axis`; for -1, nothing at all.
void require_line(const char* name, Dims sizes, int axis);

// The parts of the family, one a file.
std::span<const Row> sum_family_rows();
std::span<const Row> extremum_rows();
std::span<const Row> product_rows();
std::span<const Row> order_rows();

}  // namespace torchlite
