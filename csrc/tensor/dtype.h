// The element types of tensors, and what NumPy calls them.
#pragma once

#include <cstdint>

namespace torchlite {

enum class DType : uint8_t { Byte, Char, Short, Int, Long, Half, Float, Double };
inline constexpr int kDTypes = 8;

struct DTypeInfo {
  const char* name;        // "Float": prefix of the class names FloatTensor, FloatStorage
  const char* numpy_name;  // "float32"
  int itemsize;
  int numpy_type;             // NPY_FLOAT32
  const char* typestr;        // array interface, little-endian: "<f4"
  const char* buffer_format;  // struct module: "f"
  bool floating;
};

extern const DTypeInfo kDTypeInfo[kDTypes];

inline const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<int>(t)]; }
inline int itemsize(DType t) { return info(t).itemsize; }
inline bool is_floating(DType t) { return t >= DType::Half; }

// The element type of a NumPy type number, bool being Byte; false if there is none.
bool dtype_of_numpy(int numpy_type, DType* out);

// Where memory lives: -1 is the host, 0 and up a CUDA device.
using Device = int16_t;
inline constexpr Device kCPU = -1;
// Where the class of an element type stands among the sixteen: those of the host come first.
inline int class_index(DType t, Device device) { return static_cast<int>(t) + (device == kCPU ? 0 : kDTypes); }

}  // namespace torchlite
