// Row gather and its gradient. T is float or double; weight and gradients are contiguous and row-major, indices int64.
// Large inputs use several threads with the same result. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

inline constexpr int64_t embedding_ok = -1;

// out[k, :] = weight[index[k], :] for k in [0, n). weight: [num, dim], out: [n, dim], disjoint.
// Returns embedding_ok, or the first k whose index is negative or not below num; out is untouched then.
template <class T>
int64_t embedding(const T* weight, const int64_t* index, int64_t num, int64_t dim, int64_t n, T* out);

// dweight[index[k], :] += g[k, :]. g: [n, dim], dweight: [num, dim], zeroed by the caller (or holding what is to be
// added to). Positions whose index is padding_idx are skipped; a negative padding_idx means none. counts: null, or
// [num] of zeros, which receives how often each index occurs, and each contribution is divided by that. Contributions
// to a row are added in the order of k. Returns as embedding does; outputs are untouched after an error.
template <class T>
int64_t embedding_backward(const T* g, const int64_t* index, int64_t num, int64_t dim, int64_t n, int64_t padding_idx,
                           int64_t* counts, T* dweight);

}  // namespace torchlite::kernels
