// The pointwise halves of the LSTM and GRU cells: everything but the matrix products.
//
// T is float or double. All arrays are contiguous and row-major: gates [batch, G H], state [batch, H], biases [G H]; G
// gates stand side by side in each row. Null is allowed where said. Outputs are disjoint from each other and from the
// inputs, unless said otherwise. Large batches use several threads. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// Gates i, f, g, o from a = input_part + hidden_part + input_bias + hidden_bias; all but the first may be null.
//   i, f, o = sigmoid(a), g = tanh(a), c = f c_prev + i g, h = o tanh(c)
// gates: [batch, 4H] receives i, f, g, o (may be input_part or hidden_part); tanh_c: [batch, H]. Both are what the
// backward pass needs. c may be c_prev.
template <class T>
void lstm_cell(const T* input_part, const T* hidden_part, const T* input_bias, const T* hidden_bias, const T* c_prev,
               int64_t batch, int64_t hidden, T* h, T* c, T* gates, T* tanh_c);

// dh and dc are the gradients of h and c; a null one is zero. dgates: [batch, 4H] is the gradient of a, hence of each
// of its parts (may be gates); dc_prev: [batch, H] (may be dc).
template <class T>
void lstm_cell_backward(const T* dh, const T* dc, const T* gates, const T* tanh_c, const T* c_prev, int64_t batch,
                        int64_t hidden, T* dgates, T* dc_prev);

// Gates r, z, n from a = input_part + input_bias and b = hidden_part + hidden_bias; the biases may be null.
//   r, z = sigmoid(a + b), n = tanh(a + r b), h = n + z (h_prev - n)
// gates: [batch, 3H] receives r, z, n (may be input_part); hidden_n: [batch, H] receives b's n part. h may be h_prev.
template <class T>
void gru_cell(const T* input_part, const T* hidden_part, const T* input_bias, const T* hidden_bias, const T* h_prev,
              int64_t batch, int64_t hidden, T* h, T* gates, T* hidden_n);

// dinput, dhidden: [batch, 3H] are the gradients of a and b; dh_prev: [batch, H] the direct part of h_prev's (may be
// dh).
template <class T>
void gru_cell_backward(const T* dh, const T* gates, const T* hidden_n, const T* h_prev, int64_t batch, int64_t hidden,
                       T* dinput, T* dhidden, T* dh_prev);

}  // namespace torchlite::kernels
