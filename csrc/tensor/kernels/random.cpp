// Words are made in groups of 16 blocks side by side, word w of block b at [16 w + b], so that vectors of any width
// make the same group. A generator's functions differ in how they turn a group into numbers. See Note [Same bits
// everywhere] in simd.h.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/random.h"
#include "tensor/kernels/scalar_math.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

constexpr int lanes = 16;
constexpr int group_words = 4 * lanes;
constexpr int64_t grain_groups = 32768 / group_words;

TL_INLINE void philox_group(uint64_t seed, uint64_t counter, uint32_t* words) {
  uint32_t x0[lanes], x1[lanes], x2[lanes], x3[lanes];
  TL_NOT_UNROLLED
  for (int i = 0; i < lanes; ++i) {
    uint64_t block = counter + static_cast<uint64_t>(i);
    x0[i] = static_cast<uint32_t>(block);
    x1[i] = static_cast<uint32_t>(block >> 32);
    x2[i] = 0;
    x3[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  TL_NOT_UNROLLED
  for (int round = 0; round < 10; ++round) {
    TL_INDEPENDENT
    TL_NOT_UNROLLED
    for (int i = 0; i < lanes; ++i) {
      uint64_t a = uint64_t{0xD2511F53} * x0[i];
      uint64_t b = uint64_t{0xCD9E8D57} * x2[i];
      uint32_t y1 = x1[i], y3 = x3[i];
      x0[i] = static_cast<uint32_t>(b >> 32) ^ y1 ^ k0;
      x1[i] = static_cast<uint32_t>(b);
      x2[i] = static_cast<uint32_t>(a >> 32) ^ y3 ^ k1;
      x3[i] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  TL_NOT_UNROLLED
  for (int i = 0; i < lanes; ++i) {
    words[i] = x0[i];
    words[lanes + i] = x1[i];
    words[2 * lanes + i] = x2[i];
    words[3 * lanes + i] = x3[i];
  }
}

// Fills n elements, `Per` from each group: emit(words, values) turns a group into its Per values; store(first,
// values, count) takes `count` of them for the elements from `first` on.
template <int Per, class T, class Emit, class Store>
inline void generate(Generator& generator, int64_t n, const Emit& emit, const Store& store) {
  int64_t groups = (n + Per - 1) / Per;
  Generator from = generator;
  generator.counter += static_cast<uint64_t>(groups) * lanes;
  parallel_for(groups, grain_groups, [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t group = begin; group < end; ++group) {
        uint32_t words[group_words];
        T values[Per];
        philox_group(from.seed, from.counter + static_cast<uint64_t>(group) * lanes, words);
        emit(words, values);
        int64_t first = group * Per;
        if (first + Per <= n) store(first, values, int64_t{Per});
        else store(first, values, n - first);
      }
    });
  });
}

template <class T>
struct StoreTo {
  T* out;
  TL_INLINE void operator()(int64_t first, const T* values, int64_t count) const {
    TL_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[first + i] = values[i];
  }
};

template <class T>
constexpr int per_group = sizeof(T) == 4 ? group_words : group_words / 2;

// [1, 2) from 64 bits.
TL_INLINE double one_to_two(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t{high} << 32 | low) >> 12;
  return std::bit_cast<double>(bits | std::bit_cast<uint64_t>(1.0));
}

TL_INLINE float unit_float(uint32_t word) { return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f; }

TL_INLINE void emit_uniform(const uint32_t* words, float* values) {
  TL_NOT_UNROLLED
  for (int i = 0; i < group_words; ++i) values[i] = unit_float(words[i]);
}
TL_INLINE void emit_uniform(const uint32_t* words, double* values) {
  TL_NOT_UNROLLED
  for (int i = 0; i < group_words / 2; ++i) values[i] = one_to_two(words[i], words[i + group_words / 2]) - 1.0;
}

// Radius from u in (0, 1], angle from t in [0, 1).
template <class T>
TL_INLINE void box_muller(T u, T t, T* a, T* b) {
  T radius = std::sqrt(T(-2) * scalar_log(u));
  T c, s;
  scalar_cos_sin_turn(t, &c, &s);
  *a = radius * c;
  *b = radius * s;
}

TL_INLINE void emit_normal(const uint32_t* words, float* values) {
  constexpr int half = group_words / 2;
  TL_INDEPENDENT
  TL_NOT_UNROLLED
  for (int i = 0; i < half; ++i) {
    float u = static_cast<float>(static_cast<int32_t>(words[i] >> 1 | 1)) * 0x1p-31f;
    box_muller(u, unit_float(words[i + half]), &values[i], &values[i + half]);
  }
}
TL_INLINE void emit_normal(const uint32_t* words, double* values) {
  TL_INDEPENDENT
  TL_NOT_UNROLLED
  for (int i = 0; i < lanes; ++i) {
    double u = 2.0 - one_to_two(words[i], words[i + lanes]);
    double t = one_to_two(words[i + 2 * lanes], words[i + 3 * lanes]) - 1.0;
    box_muller(u, t, &values[i], &values[i + lanes]);
  }
}

// A word is a hit if it is <= limit; `none` for probabilities below the resolution.
struct Threshold {
  uint32_t limit;
  bool none;
};

Threshold threshold(double p) {
  double scaled = std::clamp(p, 0.0, 1.0) * 0x1p32 + 0.5;
  uint64_t hits = std::min<uint64_t>(static_cast<uint64_t>(scaled), uint64_t{1} << 32);
  return {static_cast<uint32_t>(hits - (hits > 0)), hits == 0};
}

// By value: a conditional load from a capture would keep the loop scalar.
template <class T>
TL_INLINE void emit_hits(const uint32_t* words, uint32_t limit, T present, T* values) {
  TL_INDEPENDENT
  TL_NOT_UNROLLED
  for (int i = 0; i < group_words; ++i) values[i] = words[i] <= limit ? present : T(0);
}

}  // namespace

uint64_t random_bits(Generator& generator) {
  uint32_t words[group_words];
  philox_group(generator.seed, generator.counter, words);
  generator.counter += 1;
  return uint64_t{words[0]} << 32 | words[lanes];
}

uint64_t random_below(Generator& generator, uint64_t bound) {
  // The draws below 2^64 mod bound would make some results likelier than others.
  uint64_t reject = (0 - bound) % bound;
  for (;;) {
    uint64_t bits = random_bits(generator);
    if (bits >= reject) return bits % bound;
  }
}

template <class T>
void uniform(Generator& generator, T low, T high, T* out, int64_t n) {
  T width = high - low;
  generate<per_group<T>, T>(
      generator, n,
      [=](const uint32_t* words, T* values) TL_LAMBDA {
        emit_uniform(words, values);
        TL_NOT_UNROLLED
        for (int i = 0; i < per_group<T>; ++i) {
          T v = low + width * values[i];
          values[i] = v < high ? v : low;  // rounding may reach high
        }
      },
      StoreTo<T>{out});
}

template <class T>
void normal(Generator& generator, T mean, T std, T* out, int64_t n) {
  generate<per_group<T>, T>(
      generator, n,
      [=](const uint32_t* words, T* values) TL_LAMBDA {
        emit_normal(words, values);
        TL_NOT_UNROLLED
        for (int i = 0; i < per_group<T>; ++i) values[i] = mean + std * values[i];
      },
      StoreTo<T>{out});
}

template <class T>
void bernoulli(Generator& generator, double p, T value, T* out, int64_t n) {
  Threshold hit = threshold(p);
  T present = hit.none ? T(0) : value;
  generate<group_words, T>(
      generator, n, [=](const uint32_t* words, T* values) TL_LAMBDA { emit_hits(words, hit.limit, present, values); },
      StoreTo<T>{out});
}

template <class T>
void dropout(Generator& generator, double p, const T* x, T* y, T* mask, int64_t n) {
  Threshold kept = threshold(1.0 - p);
  T present = kept.none ? T(0) : static_cast<T>(1.0 / (1.0 - p));
  generate<group_words, T>(
      generator, n, [=](const uint32_t* words, T* values) TL_LAMBDA { emit_hits(words, kept.limit, present, values); },
      [=](int64_t first, const T* values, int64_t count) TL_LAMBDA {
        TL_INDEPENDENT
        for (int64_t i = 0; i < count; ++i) {
          mask[first + i] = values[i];
          y[first + i] = x[first + i] * values[i];
        }
      });
}

#define TL_INSTANTIATE(T)                                         \
  template void uniform<T>(Generator&, T, T, T*, int64_t);        \
  template void normal<T>(Generator&, T, T, T*, int64_t);         \
  template void bernoulli<T>(Generator&, double, T, T*, int64_t); \
  template void dropout<T>(Generator&, double, const T*, T*, T*, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
