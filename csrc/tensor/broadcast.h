// Which sizes broadcast, by NumPy's rule: compared from the last dimension, with missing ones counting as 1.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// Whether `a` and `b` have a common broadcast (broadcast_sizes gives it).
inline bool broadcastable(Dims a, Dims b) {
  for (int i = 1; i <= a.n && i <= b.n; ++i) {
    int64_t x = a[a.n - i], y = b[b.n - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

// Whether `small` broadcasts to `big` itself.
inline bool expands_to(Dims small, Dims big) {
  if (small.n > big.n) return false;
  for (int i = 1; i <= small.n; ++i)
    if (int64_t s = small[small.n - i]; s != 1 && s != big[big.n - i]) return false;
  return true;
}

}  // namespace torchlite
