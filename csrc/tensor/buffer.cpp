// The buffer protocol: memoryview(tensor), np.frombuffer, file.readinto.
#include "tensor/sparse.h"
#include "tensor/exports.h"
#include "tensor/python_tensor.h"

namespace torchlite {

namespace {

// What a filled Py_buffer points to. It keeps the memory itself: the tensor's own view of it may be re-pointed.
struct Export {
  StoragePin storage;
  Py_ssize_t shape[kMaxDim], strides[kMaxDim];
};

int tensor_bf_getbuffer(PyObject* o, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guard(-1, [&] {
    Tensor* t = as_tensor(o);
    auto refuse = [](const char* why) { raise(PyExc_BufferError, "the tensor cannot be exported: %s", why); };
    if (t->device() != kCPU) refuse("its memory lies on a CUDA device");
    if (is_sparse(t)) refuse("it is sparse");
    if ((flags & PyBUF_WRITABLE) && t->readonly()) refuse("its memory is read-only");
    bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || !strided) {
      if (!t->contiguous) refuse("it is not contiguous");
    }
    int item = itemsize(t->dtype);
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS || (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS) {
      int64_t expected = 1;
      bool fortran = true;
      for (int d = 0; d < t->ndim; ++d) {
        if (t->size(d) != 1 && t->stride(d) != expected) fortran = false;
        expected *= t->size(d);
      }
      fortran = fortran || t->numel == 0;
      bool any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
      if (!fortran && !(any && t->contiguous)) refuse("it is not contiguous in the order asked for");
    }
    Export* e = new Export;
    e->storage = StoragePin(t->storage.copy());
    for (int d = 0; d < t->ndim; ++d) {
      e->shape[d] = static_cast<Py_ssize_t>(t->size(d));
      e->strides[d] = static_cast<Py_ssize_t>(t->stride(d) * item);
    }
    view->buf = t->bytes();
    view->len = static_cast<Py_ssize_t>(t->numel * item);
    view->itemsize = item;
    view->readonly = t->readonly();
    view->ndim = t->ndim;
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(info(t->dtype).buffer_format) : nullptr;
    view->shape = (flags & PyBUF_ND) && t->ndim ? e->shape : nullptr;
    view->strides = strided && t->ndim ? e->strides : nullptr;
    view->suboffsets = nullptr;
    view->internal = e;
    view->obj = new_ref(o);
    return 0;
  });
}

void tensor_bf_releasebuffer(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

}  // namespace

PyBufferProcs tensor_buffer = {.bf_getbuffer = tensor_bf_getbuffer, .bf_releasebuffer = tensor_bf_releasebuffer};

}  // namespace torchlite
