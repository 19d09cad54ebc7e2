// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011).
//
// A Generator is 16 plain bytes: copying them saves, and restores, the whole state. For a given state every function
// gives the same bits on every processor and with any number of threads. Each call consumes whole groups of blocks, a
// number that depends on n and T alone. A Generator is not locked: concurrent calls on the same one need the caller's
// lock (the GIL, or a copy and advance).
//
// T is float or double.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

struct Generator {
  uint64_t seed = 0;
  uint64_t counter = 0;  // blocks of 128 bits consumed
};
static_assert(sizeof(Generator) == 16);

// 64 random bits.
uint64_t random_bits(Generator& generator);
// Uniform in [0, bound), without bias; bound > 0.
uint64_t random_below(Generator& generator, uint64_t bound);

// Uniform in [low, high): low + (high - low) u with u in [0, 1) of 24 (float) or 52 (double) bits. low if low == high.
template <class T>
void uniform(Generator& generator, T low, T high, T* out, int64_t n);
// Normal of the given mean and standard deviation (Box-Muller).
template <class T>
void normal(Generator& generator, T mean, T std, T* out, int64_t n);
// `value` with probability p in [0, 1], else 0; p is resolved to 2^-32.
template <class T>
void bernoulli(Generator& generator, double p, T value, T* out, int64_t n);
// mask = 0 with probability p, else 1 / (1 - p) (0 everywhere if p == 1); y = x mask. y may be x; mask is disjoint from
// both. The draws are those of bernoulli(1 - p).
template <class T>
void dropout(Generator& generator, double p, const T* x, T* y, T* mask, int64_t n);

}  // namespace torchlite::kernels
