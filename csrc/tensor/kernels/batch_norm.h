// Batch normalisation, channel by channel. T is float or double; images are contiguous [images, channels, length]; vectors
// have an element for each channel. Sums are accumulated in double, in an order that the sizes alone fix. Thread-safe;
// touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

struct Channels {
  int64_t images, channels, length;

  int64_t count() const { return images * length; }  // elements of a channel
  int64_t numel() const { return images * channels * length; }
};

// Mean and mean squared deviation from it.
template <class T>
void channel_moments(const Channels& s, const T* x, double* mean, double* var);

// y = (x - mean) * factor + shift. y: x itself or disjoint from it.
template <class T>
void channel_affine(const Channels& s, const T* x, const T* mean, const T* factor, const T* shift, T* y);

// sum = the sum of g, product = that of g * (x - mean).
template <class T>
void channel_gradient_sums(const Channels& s, const T* g, const T* x, const T* mean, double* sum, double* product);

// dx = (g - offset - (x - mean) * slope) * factor. dx: disjoint from the others.
template <class T>
void channel_gradient(const Channels& s, const T* g, const T* x, const T* mean, const T* factor, const T* offset,
                      const T* slope, T* dx);

}  // namespace torchlite::kernels
