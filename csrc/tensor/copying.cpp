// Copies between tensors of different sizes, by the era's rules.
#include "tensor/broadcast.h"
#include "utils/errors.h"

namespace torchlite {

PyRef<Tensor> in_order(Tensor* src, Dims sizes, bool warn, const char* function) {
  if (src->numel != sizes.product())
    runtime_error(
        "%s: inconsistent tensor size, expected %s and %s to have the same number of elements, but got "
        "%lld and %lld elements respectively",
        function, format_dims(sizes).c_str(), format_dims(src->sizes()).c_str(),
        static_cast<long long>(sizes.product()), static_cast<long long>(src->numel));
  if (warn)
    check(PyErr_WarnEx(PyExc_UserWarning,
                       "src is not broadcastable to dst, but they have the same number of elements.  Falling back to "
                       "deprecated pointwise behavior.",
                       1));
  PyRef<Tensor> flat = contiguous(src);
  return new_tensor_on(flat->storage.copy(), flat->dtype, sizes, {}, flat->offset);
}

void copy_elements(Tensor* dst, Tensor* src, bool broadcast, const char* function) {
  require_writable(dst, function);
  if (broadcast ? expands_to(src->sizes(), dst->sizes()) : src->sizes() == dst->sizes()) return copy_into(dst, src);
  copy_into(dst, in_order(src, dst->sizes(), broadcast, function).get());
}

}  // namespace torchlite
