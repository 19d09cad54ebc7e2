#include "tensor/dtype.h"

#include "utils/numpy_api.h"

namespace torchlite {

const DTypeInfo kDTypeInfo[kDTypes] = {
    {"Byte", "uint8", 1, NPY_UINT8, "|u1", "B", false},     {"Char", "int8", 1, NPY_INT8, "|i1", "b", false},
    {"Short", "int16", 2, NPY_INT16, "<i2", "h", false},    {"Int", "int32", 4, NPY_INT32, "<i4", "i", false},
    {"Long", "int64", 8, NPY_INT64, "<i8", "q", false},     {"Half", "float16", 2, NPY_FLOAT16, "<f2", "e", true},
    {"Float", "float32", 4, NPY_FLOAT32, "<f4", "f", true}, {"Double", "float64", 8, NPY_FLOAT64, "<f8", "d", true},
};

bool dtype_of_numpy(int numpy_type, DType* out) {
  switch (numpy_type) {
    case NPY_BOOL:
    case NPY_UINT8: *out = DType::Byte; return true;
    case NPY_INT8: *out = DType::Char; return true;
    case NPY_INT16: *out = DType::Short; return true;
    case NPY_INT32: *out = DType::Int; return true;
    case NPY_FLOAT16: *out = DType::Half; return true;
    case NPY_FLOAT32: *out = DType::Float; return true;
    case NPY_FLOAT64: *out = DType::Double; return true;
    default:
      // NPY_LONG and NPY_LONGLONG are two numbers for the same 64-bit type.
      if (numpy_type == NPY_INT64 || numpy_type == NPY_LONGLONG) {
        *out = DType::Long;
        return true;
      }
      return false;
  }
}

}  // namespace torchlite
