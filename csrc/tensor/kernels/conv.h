// Convolution by matrix products. T is float or double; images are contiguous [channels, depth, height, width] volumes
// of one sample. Thread-safe; touches no Python state.
#pragma once

#include "tensor/kernels/window.h"

namespace torchlite::kernels {

// columns[point, position] = the image under that point of the window, 0 in the border. columns: [points, positions].
template <class T>
void im2col(const Window& w, const T* image, T* columns);
// The transpose: adds every element of columns back to where it came from. image: zeroed by the caller.
template <class T>
void col2im(const Window& w, const T* columns, T* image);

}  // namespace torchlite::kernels
