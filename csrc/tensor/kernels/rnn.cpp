// Row by row: sums of the parts into the saved gates, then the nonlinearities in place while the row is in the cache.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/rnn.h"
#include "tensor/kernels/scalar_math.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 32768;

template <class Fn>
inline void for_batch(int64_t batch, int64_t gate_columns, const Fn& fn) {
  parallel_for(batch, std::max<int64_t>(1, grain / std::max<int64_t>(1, gate_columns)),
               [&](int64_t begin, int64_t end) {
                 multiversion([&]() TL_LAMBDA {
                   for (int64_t row = begin; row < end; ++row) fn(row);
                 });
               });
}

// out = a + b + c + d, the last three nullable.
template <class T>
TL_INLINE void sum_parts(const T* a, const T* b, const T* c, const T* d, T* out, int64_t n) {
  if (b && c && d) {
    TL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = ((a[i] + b[i]) + c[i]) + d[i];
    return;
  }
  for (const T* part : {b, c, d}) {
    if (!part) continue;
    TL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = a[i] + part[i];
    a = out;
  }
  if (a != out) std::copy(a, a + n, out);
}

template <class T>
TL_INLINE void sigmoid_row(T* v, int64_t n) {
  TL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) v[i] = scalar_sigmoid(v[i]);
}

template <class T>
TL_INLINE T at(const T* row, int64_t i) {
  return row ? row[i] : T(0);
}

}  // namespace

template <class T>
void lstm_cell(const T* input_part, const T* hidden_part, const T* input_bias, const T* hidden_bias, const T* c_prev,
               int64_t batch, int64_t hidden, T* h, T* c, T* gates, T* tanh_c) {
  for_batch(batch, 4 * hidden, [=](int64_t row) TL_LAMBDA {
    int64_t state = row * hidden, start = 4 * state;
    T* gate = gates + start;
    if (hidden_part == gates)
      sum_parts(hidden_part + start, input_part + start, input_bias, hidden_bias, gate, 4 * hidden);
    else
      sum_parts(input_part + start, hidden_part ? hidden_part + start : nullptr, input_bias, hidden_bias, gate,
                4 * hidden);
    T *i = gate, *f = gate + hidden, *g = gate + 2 * hidden, *o = gate + 3 * hidden;
    sigmoid_row(i, 2 * hidden);
    sigmoid_row(o, hidden);
    const T* c0 = c_prev + state;
    T *c1 = c + state, *tc = tanh_c + state, *h1 = h + state;
    TL_INDEPENDENT
    for (int64_t j = 0; j < hidden; ++j) {
      g[j] = scalar_tanh(g[j]);
      T cell = f[j] * c0[j] + i[j] * g[j];
      c1[j] = cell;
      T t = scalar_tanh(cell);
      tc[j] = t;
      h1[j] = o[j] * t;
    }
  });
}

template <class T>
void lstm_cell_backward(const T* dh, const T* dc, const T* gates, const T* tanh_c, const T* c_prev, int64_t batch,
                        int64_t hidden, T* dgates, T* dc_prev) {
  for_batch(batch, 4 * hidden, [=](int64_t row) TL_LAMBDA {
    int64_t state = row * hidden;
    const T* gate = gates + 4 * state;
    const T *gi = gate, *gf = gate + hidden, *gg = gate + 2 * hidden, *go = gate + 3 * hidden;
    T* dgate = dgates + 4 * state;
    T *di = dgate, *df = dgate + hidden, *dg = dgate + 2 * hidden, *dout = dgate + 3 * hidden;
    const T *tc = tanh_c + state, *c0 = c_prev + state;
    const T* dh_row = dh ? dh + state : nullptr;
    const T* dc_row = dc ? dc + state : nullptr;
    T* dc0 = dc_prev + state;
    auto step = [=](int64_t j, T dh_j, T dc_j) TL_LAMBDA {
      T i = gi[j], f = gf[j], g = gg[j], o = go[j], t = tc[j];
      T d = dc_j + dh_j * o * (T(1) - t * t);
      T c_old = c0[j];
      di[j] = d * g * (i * (T(1) - i));
      df[j] = d * c_old * (f * (T(1) - f));
      dg[j] = d * i * (T(1) - g * g);
      dout[j] = dh_j * t * (o * (T(1) - o));
      dc0[j] = d * f;
    };
    if (dh_row && dc_row) {
      TL_INDEPENDENT
      for (int64_t j = 0; j < hidden; ++j) step(j, dh_row[j], dc_row[j]);
    } else if (dh_row) {
      TL_INDEPENDENT
      for (int64_t j = 0; j < hidden; ++j) step(j, dh_row[j], T(0));
    } else {
      TL_INDEPENDENT
      for (int64_t j = 0; j < hidden; ++j) step(j, T(0), at(dc_row, j));
    }
  });
}

template <class T>
void gru_cell(const T* input_part, const T* hidden_part, const T* input_bias, const T* hidden_bias, const T* h_prev,
              int64_t batch, int64_t hidden, T* h, T* gates, T* hidden_n) {
  for_batch(batch, 3 * hidden, [=](int64_t row) TL_LAMBDA {
    int64_t state = row * hidden, start = 3 * state;
    T* gate = gates + start;
    const T *a = input_part + start, *b = hidden_part + start;
    sum_parts(a, b, input_bias, hidden_bias, gate, 2 * hidden);
    sigmoid_row(gate, 2 * hidden);
    T *n = gate + 2 * hidden, *bn = hidden_n + state;
    sum_parts<T>(a + 2 * hidden, input_bias ? input_bias + 2 * hidden : nullptr, nullptr, nullptr, n, hidden);
    sum_parts<T>(b + 2 * hidden, hidden_bias ? hidden_bias + 2 * hidden : nullptr, nullptr, nullptr, bn, hidden);
    const T *r = gate, *z = gate + hidden, *h0 = h_prev + state;
    T* h1 = h + state;
    TL_INDEPENDENT
    for (int64_t j = 0; j < hidden; ++j) {
      T value = scalar_tanh(n[j] + r[j] * bn[j]);
      n[j] = value;
      h1[j] = value + z[j] * (h0[j] - value);
    }
  });
}

template <class T>
void gru_cell_backward(const T* dh, const T* gates, const T* hidden_n, const T* h_prev, int64_t batch, int64_t hidden,
                       T* dinput, T* dhidden, T* dh_prev) {
  for_batch(batch, 3 * hidden, [=](int64_t row) TL_LAMBDA {
    int64_t state = row * hidden, start = 3 * state;
    const T *gr = gates + start, *gz = gr + hidden, *gn = gz + hidden;
    const T *d = dh + state, *bn = hidden_n + state, *h0 = h_prev + state;
    T *dar = dinput + start, *daz = dar + hidden, *dan = daz + hidden;
    T *dbr = dhidden + start, *dbz = dbr + hidden, *dbn = dbz + hidden;
    T* dh0 = dh_prev + state;
    TL_INDEPENDENT
    for (int64_t j = 0; j < hidden; ++j) {
      T r = gr[j], z = gz[j], n = gn[j], g = d[j];
      T dn = g * (T(1) - z) * (T(1) - n * n);
      T dr = dn * bn[j] * (r * (T(1) - r));
      T dz = g * (h0[j] - n) * (z * (T(1) - z));
      dar[j] = dr;
      dbr[j] = dr;
      daz[j] = dz;
      dbz[j] = dz;
      dan[j] = dn;
      dbn[j] = dn * r;
      dh0[j] = g * z;
    }
  });
}

#define TL_INSTANTIATE(T)                                                                                          \
  template void lstm_cell<T>(const T*, const T*, const T*, const T*, const T*, int64_t, int64_t, T*, T*, T*, T*);  \
  template void lstm_cell_backward<T>(const T*, const T*, const T*, const T*, const T*, int64_t, int64_t, T*, T*); \
  template void gru_cell<T>(const T*, const T*, const T*, const T*, const T*, int64_t, int64_t, T*, T*, T*);       \
  template void gru_cell_backward<T>(const T*, const T*, const T*, const T*, int64_t, int64_t, T*, T*, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
