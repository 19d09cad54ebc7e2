// Softmax family over the last dimension of contiguous [rows, cols] arrays, and cross entropy fused with it.
//
// T is float or double; rows, cols >= 0. Outputs are an input exactly (where the shapes agree) or disjoint from it.
// Exponentials are taken of x - max(row), so finite inputs never overflow; NaN propagates along its row. Sums are
// joined in double. Large inputs use several threads with the same result. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

template <class T>
void softmax(const T* x, T* y, int64_t rows, int64_t cols);
// dx = y (g - sum(g y)), y the output
template <class T>
void softmax_backward(const T* g, const T* y, T* dx, int64_t rows, int64_t cols);

template <class T>
void log_softmax(const T* x, T* y, int64_t rows, int64_t cols);
// dx = g - exp(y) sum(g), y the output
template <class T>
void log_softmax_backward(const T* g, const T* y, T* dx, int64_t rows, int64_t cols);

// out: [rows]; -inf for cols == 0 and for rows of -inf, +inf where a row holds +inf.
template <class T>
void logsumexp(const T* x, T* out, int64_t rows, int64_t cols);

inline constexpr int64_t cross_entropy_ok = -1;

// Cross entropy of logits x: [rows, cols] with class indices target: [rows].
//
// Rows whose target is ignore_index contribute nothing. weight: [cols] or null. *loss is the weighted sum of the rows'
// losses, divided by the sum of their weights if size_average (0 / 0, so NaN, if every row is ignored). lse: [rows]
// receives the rows' logsumexp and *total_weight the sum of weights, both for the backward pass. Returns
// cross_entropy_ok, or the first row whose target lies outside [0, cols) and is not ignore_index; outputs are untouched
// then.
template <class T>
int64_t cross_entropy(const T* x, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                      int64_t rows, int64_t cols, T* loss, T* lse, double* total_weight);

// dx = g w[target] (softmax(x) - onehot(target)), over total_weight if size_average; rows that are ignored get 0. The
// arguments are those of a cross_entropy call that returned cross_entropy_ok, and what it wrote; g is the loss's
// gradient. dx may be x.
template <class T>
void cross_entropy_backward(T g, const T* x, const int64_t* target, const T* weight, int64_t ignore_index,
                            bool size_average, int64_t rows, int64_t cols, const T* lse, double total_weight, T* dx);

// The same pieces on log-probabilities: *loss = -sum(w[t] x[row, t]), averaged if size_average. Return value as of
// cross_entropy.
template <class T>
int64_t nll_loss(const T* log_prob, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                 int64_t rows, int64_t cols, T* loss, double* total_weight);
// dx: [rows, cols] is written in full: -g w[t] (/ total_weight) at the targets, 0 elsewhere.
template <class T>
void nll_loss_backward(T g, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                       int64_t rows, int64_t cols, double total_weight, T* dx);

}  // namespace torchlite::kernels
