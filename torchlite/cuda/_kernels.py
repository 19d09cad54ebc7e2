"""Fused kernels, compiled by CuPy on first use for each element type. What each computes is stated by the composite
beside its caller; here it takes one pass over memory, or two.

Launches read no element on the host. Arguments are contiguous arrays of one floating type, float32 or float64.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

REALS = {"float32": "float", "float64": "double"}
BLOCK = 256  # threads; a power of two, as the reductions need

SOURCE = r"""
#define BLOCK 256
#define NEGATIVE_INFINITY real(-1e308 * 10.0)

__device__ inline real sigmoid(real x) { return real(1) / (real(1) + exp(-x)); }

// The sum and the largest of what the threads of a block bring; every thread gets it.
__device__ real block_sum(real v) {
  __shared__ real scratch[BLOCK];
  scratch[threadIdx.x] = v;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) scratch[threadIdx.x] += scratch[threadIdx.x + s];
    __syncthreads();
  }
  real r = scratch[0];
  __syncthreads();
  return r;
}

__device__ real block_max(real v) {
  __shared__ real scratch[BLOCK];
  scratch[threadIdx.x] = v;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      real a = scratch[threadIdx.x], b = scratch[threadIdx.x + s];
      scratch[threadIdx.x] = a > b || a != a ? a : b;
    }
    __syncthreads();
  }
  real r = scratch[0];
  __syncthreads();
  return r;
}

// The largest of x[0], x[step] ... (n of them; NaN if there is one), and the sum of exp(x - largest) over them.
__device__ inline void exponentials(const real* x, long long n, long long step, real& top, real& sum) {
  top = NEGATIVE_INFINITY;
  for (long long k = threadIdx.x; k < n; k += blockDim.x) {
    real v = x[k * step];
    top = v > top || v != v ? v : top;
  }
  top = block_max(top);
  sum = 0;
  for (long long k = threadIdx.x; k < n; k += blockDim.x) sum += exp(x[k * step] - top);
  sum = block_sum(sum);
}

// ---- softmax: x is [outer, n, inner], and a block takes one line of n elements ------------------------------------

extern "C" __global__ void softmax(const real* x, real* y, long long n, long long inner, int log_of) {
  long long start = (long long)(blockIdx.x) / inner * n * inner + (long long)(blockIdx.x) % inner;
  real top, sum;
  exponentials(x + start, n, inner, top, sum);
  real log_sum = log(sum);
  for (long long k = threadIdx.x; k < n; k += blockDim.x) {
    real d = x[start + k * inner] - top;
    y[start + k * inner] = log_of ? d - log_sum : exp(d) / sum;
  }
}

extern "C" __global__ void softmax_backward(const real* g, const real* y, real* dx, long long n, long long inner,
                                            int log_of) {
  long long start = (long long)(blockIdx.x) / inner * n * inner + (long long)(blockIdx.x) % inner;
  real sum = 0;
  for (long long k = threadIdx.x; k < n; k += blockDim.x) {
    long long at = start + k * inner;
    sum += log_of ? g[at] : g[at] * y[at];
  }
  sum = block_sum(sum);
  for (long long k = threadIdx.x; k < n; k += blockDim.x) {
    long long at = start + k * inner;
    dx[at] = log_of ? g[at] - exp(y[at]) * sum : y[at] * (g[at] - sum);
  }
}

// ---- cross entropy: a block takes one row of n classes ------------------------------------------------------------

extern "C" __global__ void cross_entropy(const real* x, const long long* target, real* term, real* log_sums,
                                         long long n) {
  const real* row = x + (long long)(blockIdx.x) * n;
  real top, sum;
  exponentials(row, n, 1, top, sum);
  if (threadIdx.x == 0) {
    real log_sum = log(sum) + top;
    log_sums[blockIdx.x] = log_sum;
    term[blockIdx.x] = log_sum - row[target[blockIdx.x]];
  }
}

extern "C" __global__ void cross_entropy_backward(const real* x, const long long* target, const real* factor, real* dx,
                                                  long long n) {
  const real* row = x + (long long)(blockIdx.x) * n;
  real* out = dx + (long long)(blockIdx.x) * n;
  real f = factor[blockIdx.x];
  real top, sum;
  exponentials(row, n, 1, top, sum);
  long long t = target[blockIdx.x];
  for (long long k = threadIdx.x; k < n; k += blockDim.x)
    out[k] = f == real(0) ? real(0) : f * (exp(row[k] - top) / sum - (k == t ? real(1) : real(0)));
}

// ---- one thread an element ----------------------------------------------------------------------------------------

#define EACH(i, n) \
  long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x; \
  if (i >= n) return

// out[index[k], :] += g[k, :], n = rows of g times columns.
extern "C" __global__ void add_rows(const real* g, const long long* index, real* out, long long columns, long long rows,
                                    long long n) {
  EACH(i, n);
  long long row = index[i / columns];
  if (row < 0) row += rows;
  if (row >= 0 && row < rows) atomicAdd(&out[row * columns + i % columns], g[i]);
}

// Gates i, f, g, o before their functions: [batch, 4, hidden]; n = batch hidden.
extern "C" __global__ void lstm_cell(const real* gates, const real* c, real* h, real* c_next, real* active,
                                     real* tanh_c, long long hidden, long long n) {
  EACH(at, n);
  long long first = at / hidden * 4 * hidden + at % hidden;
  real i = sigmoid(gates[first]), f = sigmoid(gates[first + hidden]);
  real g = tanh(gates[first + 2 * hidden]), o = sigmoid(gates[first + 3 * hidden]);
  real cell = f * c[at] + i * g, t = tanh(cell);
  active[first] = i;
  active[first + hidden] = f;
  active[first + 2 * hidden] = g;
  active[first + 3 * hidden] = o;
  c_next[at] = cell;
  tanh_c[at] = t;
  h[at] = o * t;
}

extern "C" __global__ void lstm_cell_backward(const real* dh, const real* dc, const real* active, const real* tanh_c,
                                              const real* c, real* dgates, real* dc_before, long long hidden,
                                              long long n) {
  EACH(at, n);
  long long first = at / hidden * 4 * hidden + at % hidden;
  real i = active[first], f = active[first + hidden], g = active[first + 2 * hidden], o = active[first + 3 * hidden];
  real t = tanh_c[at], d = dc[at] + dh[at] * o * (real(1) - t * t);
  dgates[first] = d * g * (i * (real(1) - i));
  dgates[first + hidden] = d * c[at] * (f * (real(1) - f));
  dgates[first + 2 * hidden] = d * i * (real(1) - g * g);
  dgates[first + 3 * hidden] = dh[at] * t * (o * (real(1) - o));
  dc_before[at] = d * f;
}

// The two parts of the gates r, z, n: [batch, 3, hidden].
extern "C" __global__ void gru_cell(const real* a, const real* b, const real* h, real* h_next, real* active,
                                    real* hidden_n, long long hidden, long long n) {
  EACH(at, n);
  long long first = at / hidden * 3 * hidden + at % hidden;
  real r = sigmoid(a[first] + b[first]), z = sigmoid(a[first + hidden] + b[first + hidden]);
  real bn = b[first + 2 * hidden], v = tanh(a[first + 2 * hidden] + r * bn);
  active[first] = r;
  active[first + hidden] = z;
  active[first + 2 * hidden] = v;
  hidden_n[at] = bn;
  h_next[at] = v + z * (h[at] - v);
}

extern "C" __global__ void gru_cell_backward(const real* dh, const real* active, const real* hidden_n, const real* h,
                                             real* da, real* db, real* dh_before, long long hidden, long long n) {
  EACH(at, n);
  long long first = at / hidden * 3 * hidden + at % hidden;
  real r = active[first], z = active[first + hidden], v = active[first + 2 * hidden];
  real dn = dh[at] * (real(1) - z) * (real(1) - v * v);
  real dz = dh[at] * (h[at] - v) * (z * (real(1) - z));
  real dr = dn * hidden_n[at] * (r * (real(1) - r));
  da[first] = db[first] = dr;
  da[first + hidden] = db[first + hidden] = dz;
  da[first + 2 * hidden] = dn;
  db[first + 2 * hidden] = dn * r;
  dh_before[at] = dh[at] * z;
}

// ---- random numbers -----------------------------------------------------------------------------------------------

// Word w (0 to 3) of a block of Philox4x32-10.
__device__ unsigned int philox(unsigned long long seed, unsigned long long block, int w) {
  unsigned int x0 = (unsigned int)(block), x1 = (unsigned int)(block >> 32), x2 = 0, x3 = 0;
  unsigned int k0 = (unsigned int)(seed), k1 = (unsigned int)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = 0xD2511F53ull * x0, b = 0xCD9E8D57ull * x2;
    x0 = (unsigned int)(b >> 32) ^ x1 ^ k0;
    x1 = (unsigned int)(b);
    x2 = (unsigned int)(a >> 32) ^ x3 ^ k1;
    x3 = (unsigned int)(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return w == 0 ? x0 : w == 1 ? x1 : w == 2 ? x2 : x3;
}

// Groups of 16 blocks; word w of block b of a group lies at [16 w + b].
extern "C" __global__ void words(unsigned int* out, unsigned long long seed, unsigned long long first, long long n) {
  EACH(i, n);
  long long group = i / 64, within = i % 64;
  out[i] = philox(seed, first + (unsigned long long)(group * 16 + within % 16), (int)(within / 16));
}

// ---- optimisers ---------------------------------------------------------------------------------------------------

extern "C" __global__ void sgd(real* p, real* g, real* momentum, real lr, real decay, real mu, real dampening,
                               int nesterov, int has_momentum, long long n) {
  EACH(i, n);
  real d = g[i];
  if (decay != real(0)) g[i] = d = d + decay * p[i];
  if (has_momentum) {
    real m = momentum[i] = mu * momentum[i] + (real(1) - dampening) * d;
    d = nesterov ? d + mu * m : m;
  }
  p[i] -= lr * d;
}

extern "C" __global__ void adam(real* p, const real* g, real* mean, real* square, real step, real beta1, real beta2,
                                real eps, real decay, long long n) {
  EACH(i, n);
  real d = g[i] + decay * p[i];
  real m = mean[i] = beta1 * mean[i] + (real(1) - beta1) * d;
  real s = square[i] = beta2 * square[i] + (real(1) - beta2) * d * d;
  p[i] -= step * m / (sqrt(s) + eps);
}
"""


def source(kind: Any) -> str:
    """The kernels for one element type."""
    return f"typedef {REALS[np.dtype(kind).name]} real;\n{SOURCE}"


def compiles(xp: Any) -> bool:
    """Whether the array library compiles kernels: CuPy does, NumPy does not."""
    return hasattr(xp, "RawModule")


@cache
def _module(xp: Any, kind: str) -> Any:
    return xp.RawModule(code=source(kind), options=("--std=c++14",))


def launch(xp: Any, name: str, kind: Any, blocks: int, *args: Any) -> None:
    if blocks:
        _module(xp, np.dtype(kind).name).get_function(name)((blocks,), (BLOCK,), args)


def launch_each(xp: Any, name: str, kind: Any, n: int, *args: Any) -> None:
    """One thread for each of n elements; ``n`` is also the last argument."""
    launch(xp, name, kind, (n + BLOCK - 1) // BLOCK, *args, np.int64(n))


def _lines(x: Any, dim: int) -> tuple[int, np.int64, np.int64]:
    """How many lines along ``dim`` there are, their length, and the step between their elements."""
    dim %= x.ndim
    n, inner = x.shape[dim], math.prod(x.shape[dim + 1:])
    return (x.size // n if n else 0), np.int64(n), np.int64(inner)


def softmax(xp: Any, x: Any, dim: int, log: bool) -> Any:
    x = xp.ascontiguousarray(x)
    y = xp.empty_like(x)
    blocks, n, inner = _lines(x, dim)
    launch(xp, "softmax", x.dtype, blocks, x, y, n, inner, np.int32(log))
    return y


def softmax_backward(xp: Any, g: Any, y: Any, dim: int, log: bool) -> Any:
    g, y = xp.ascontiguousarray(g), xp.ascontiguousarray(y)
    dx = xp.empty_like(y)
    blocks, n, inner = _lines(y, dim)
    launch(xp, "softmax_backward", y.dtype, blocks, g, y, dx, n, inner, np.int32(log))
    return dx


def cross_entropy(xp: Any, rows: Any, target: Any) -> tuple[Any, Any]:
    """Of each row (the last dimension holds the classes): log sum exp less the target's element, and log sum exp."""
    rows, target = xp.ascontiguousarray(rows), xp.ascontiguousarray(target)
    terms, log_sums = xp.empty(target.shape, rows.dtype), xp.empty(target.shape, rows.dtype)
    launch(xp, "cross_entropy", rows.dtype, target.size, rows, target, terms, log_sums, np.int64(rows.shape[-1]))
    return terms, log_sums


def cross_entropy_backward(xp: Any, rows: Any, target: Any, factors: Any) -> Any:
    rows, target, factors = (xp.ascontiguousarray(a) for a in (rows, target, factors))
    dx = xp.empty_like(rows)
    launch(xp, "cross_entropy_backward", rows.dtype, target.size, rows, target, factors, dx, np.int64(rows.shape[-1]))
    return dx


def add_rows(xp: Any, out: Any, index: Any, g: Any) -> None:
    g, index = xp.ascontiguousarray(g), xp.ascontiguousarray(index)
    columns, rows = np.int64(g.shape[1]), np.int64(len(out))
    launch_each(xp, "add_rows", g.dtype, g.size, g, index, out, columns, rows)


def lstm_cell(xp: Any, gates: Any, c: Any) -> tuple[Any, Any, Any, Any]:
    gates, c = xp.ascontiguousarray(gates), xp.ascontiguousarray(c)
    h, c_next, tanh_c, active = xp.empty_like(c), xp.empty_like(c), xp.empty_like(c), xp.empty_like(gates)
    launch_each(xp, "lstm_cell", c.dtype, c.size, gates, c, h, c_next, active, tanh_c, np.int64(c.shape[1]))
    return h, c_next, active, tanh_c


def lstm_cell_backward(xp: Any, dh: Any, dc: Any, active: Any, tanh_c: Any, c: Any) -> tuple[Any, Any]:
    dh, dc, active, tanh_c, c = (xp.ascontiguousarray(a) for a in (dh, dc, active, tanh_c, c))
    dgates, dc_before = xp.empty_like(active), xp.empty_like(c)
    launch_each(xp, "lstm_cell_backward", c.dtype, c.size, dh, dc, active, tanh_c, c, dgates, dc_before,
                np.int64(c.shape[1]))
    return dgates, dc_before


def gru_cell(xp: Any, a: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
    a, b, h = (xp.ascontiguousarray(v) for v in (a, b, h))
    h_next, hidden_n, active = xp.empty_like(h), xp.empty_like(h), xp.empty_like(a)
    launch_each(xp, "gru_cell", h.dtype, h.size, a, b, h, h_next, active, hidden_n, np.int64(h.shape[1]))
    return h_next, active, hidden_n


def gru_cell_backward(xp: Any, dh: Any, active: Any, hidden_n: Any, h: Any) -> tuple[Any, Any, Any]:
    dh, active, hidden_n, h = (xp.ascontiguousarray(v) for v in (dh, active, hidden_n, h))
    da, db, dh_before = xp.empty_like(active), xp.empty_like(active), xp.empty_like(h)
    launch_each(xp, "gru_cell_backward", h.dtype, h.size, dh, active, hidden_n, h, da, db, dh_before,
                np.int64(h.shape[1]))
    return da, db, dh_before


def words(xp: Any, groups: int, seed: int, first: int) -> Any:
    """(groups, 64) words of Philox, uint32."""
    out = xp.empty((groups, 64), np.uint32)
    launch_each(xp, "words", np.float32, out.size, out, np.uint64(seed), np.uint64(first))
    return out


def sgd_step(xp: Any, p: Any, g: Any, momentum: Any, lr: float, decay: float, mu: float, dampening: float,
             nesterov: bool, has_momentum: bool) -> None:
    """Weight decay is added into ``g``. ``momentum`` is any array where there is none."""
    real = p.dtype.type
    launch_each(xp, "sgd", p.dtype, p.size, p, g, momentum, real(lr), real(decay), real(mu), real(dampening),
                np.int32(nesterov), np.int32(has_momentum))


def adam_step(xp: Any, p: Any, g: Any, mean: Any, square: Any, step: float, beta1: float, beta2: float, eps: float,
              decay: float) -> None:
    real = p.dtype.type
    launch_each(xp, "adam", p.dtype, p.size, p, g, mean, square, real(step), real(beta1), real(beta2), real(eps),
                real(decay))
