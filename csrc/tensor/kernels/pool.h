// Pooling. T is float or double; images are contiguous [channels, depth, height, width]. Thread-safe; touches no Python
// state.
#pragma once

#include "tensor/kernels/window.h"

namespace torchlite::kernels {

// Largest element under the window at each position (per channel), and where it is: the flat index in its volume. The
// first of equals wins; a NaN wins over all. The border never does.
template <class T>
void max_pool(const Window& w, const T* image, T* out, int64_t* index);

// Mean of the elements under the window at each position: the border counts as zeros if `count_border`, else not at
// all. What a last window has beyond the border counts in neither case.
template <class T>
void avg_pool(const Window& w, bool count_border, const T* image, T* out);
// The transpose: adds every element of `out` back to the elements that it is the mean of. image: zeroed by the caller.
template <class T>
void avg_pool_backward(const Window& w, bool count_border, const T* out, T* image);

}  // namespace torchlite::kernels
