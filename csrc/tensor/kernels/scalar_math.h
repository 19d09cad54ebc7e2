// exp, log, tanh, sigmoid and sin/cos of a turn on one float or double, branch-free, so that a loop over them
// vectorises. Within 2 ulp of the correctly rounded value everywhere, denormals, infinities and NaN included.
// Polynomials are near-minimax fits (Chebyshev nodes) made for this file; reductions are Cody and Waite's with an exact
// high part of ln 2. See Note [Same bits everywhere] in simd.h.
#pragma once

#include "tensor/kernels/simd.h"

#include <bit>
#include <cmath>
#include <limits>

namespace torchlite::kernels {

template <class T>
struct FloatTraits;

template <>
struct FloatTraits<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23;
  static constexpr Bits bias = 127;
  static constexpr float magic = 0x1.8p23f;  // x + magic rounds x to an integer, held in the low bits of the sum
  static constexpr float ln2_hi = 0x1.63p-1f;
  static constexpr float ln2_lo = -0x1.bd0106p-13f;
  static constexpr float exp_lo = -104.0f;
  static constexpr float exp_hi = 89.0f;
  // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2
  static constexpr float exp_poly[] = {0x1p-1f,        0x1.555556p-3f,  0x1.5554e8p-5f,
                                       0x1.1110e0p-7f, 0x1.6d43b0p-10f, 0x1.a12568p-13f};
  // (2 atanh(s) - 2 s) / s^3 in s^2, for log
  static constexpr float log_poly[] = {0x1.555556p-1f, 0x1.9999eep-2f, 0x1.245b28p-2f, 0x1.de0b02p-3f};
  // sin(2 pi t) / t and cos(2 pi t) in t^2 on |t| <= 1/8
  static constexpr float sin_poly[] = {0x1.921fb6p+2f, -0x1.4abbcep+5f, 0x1.466bcep+6f, -0x1.32ca9ep+6f,
                                       0x1.4bc85cp+5f};
  static constexpr float cos_poly[] = {1.0f, -0x1.3bd3ccp+4f, 0x1.03c1dcp+6f, -0x1.55c576p+6f, 0x1.d9c2e8p+5f};
};

template <>
struct FloatTraits<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52;
  static constexpr Bits bias = 1023;
  static constexpr double magic = 0x1.8p52;
  static constexpr double ln2_hi = 0x1.62e42fee00000p-1;
  static constexpr double ln2_lo = 0x1.a39ef35793c76p-33;
  static constexpr double exp_lo = -746.0;
  static constexpr double exp_hi = 710.0;
  static constexpr double exp_poly[] = {0x1p-1,
                                        0x1.5555555555557p-3,
                                        0x1.5555555555556p-5,
                                        0x1.11111111100bep-7,
                                        0x1.6c16c16c162c3p-10,
                                        0x1.a01a01abf85abp-13,
                                        0x1.a01a01a6e1e2ap-16,
                                        0x1.71de01fdbf9cap-19,
                                        0x1.27e4db46cddd1p-22,
                                        0x1.af4e554377204p-26,
                                        0x1.1f7340dbc337ep-29};
  static constexpr double log_poly[] = {0x1.5555555555558p-1, 0x1.9999999994e76p-2, 0x1.2492492e6dfddp-2,
                                        0x1.c71c6247410e3p-3, 0x1.7462e17b4cdd0p-3, 0x1.39f8963ccbdc2p-3,
                                        0x1.2b9f7fb3de73fp-3};
  static constexpr double sin_poly[] = {0x1.921fb54442d18p+2,  -0x1.4abbce625be53p+5, 0x1.466bc6775aad9p+6,
                                        -0x1.32d2cce62ac22p+6, 0x1.50783485cbd83p+5,  -0x1.e3074b4ff3058p+3,
                                        0x1.e8eed12ee00a3p+1,  -0x1.6c5b875d4e739p-1};
  static constexpr double cos_poly[] = {1.0,
                                        -0x1.3bd3cc9be45dep+4,
                                        0x1.03c1f081b5aacp+6,
                                        -0x1.55d3c7e3c90f8p+6,
                                        0x1.e1f5068355e15p+5,
                                        -0x1.a6d1ec7906c20p+4,
                                        0x1.f9cc41140bb60p+2,
                                        -0x1.b264ba152378ap+0};
};

template <class T, int N>
TL_INLINE T horner(const T (&c)[N], T z) {
  T p = c[N - 1];
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) p = p * z + c[i];
  return p;
}

// e^x = 2^n e^r: r = head + tail and the two factors whose product is 2^n (one alone could leave the exponent's range).
template <class T>
struct ExpReduced {
  T head, tail, scale1, scale2;
};

// x must lie within [exp_lo, exp_hi] or be NaN.
template <class T>
TL_INLINE ExpReduced<T> exp_reduce(T x) {
  using F = FloatTraits<T>;
  using Bits = typename F::Bits;
  T shifted = x * T(1.44269504088896340736) + F::magic;
  T n = shifted - F::magic;
  T exact = x - n * F::ln2_hi;
  T low = n * F::ln2_lo;
  T head = exact - low;
  T tail = (exact - head) - low;
  Bits biased = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(F::magic) + 2 * F::bias;
  Bits half = biased >> 1;
  return {head, tail, std::bit_cast<T>(half << F::mantissa), std::bit_cast<T>((biased - half) << F::mantissa)};
}

// The same restriction.
template <class T>
TL_INLINE T exp_in_range(T x) {
  auto [r, tail, scale1, scale2] = exp_reduce(x);
  T p = T(1) + (r + (r * r * horner(FloatTraits<T>::exp_poly, r) + tail));
  return p * scale1 * scale2;
}

template <class T>
TL_INLINE T scalar_exp(T x) {
  using F = FloatTraits<T>;
  x = x < F::exp_lo ? F::exp_lo : x;
  x = x > F::exp_hi ? F::exp_hi : x;
  return exp_in_range(x);
}

// e^x where the result is known not to leave the range of normal numbers except to 0: x <= 0. Results below the least
// normal number's neighbourhood become 0. Cheaper than scalar_exp; for sums of exponentials beside 1.
template <class T>
TL_INLINE T scalar_exp_negative(T x) {
  using F = FloatTraits<T>;
  using Bits = typename F::Bits;
  constexpr T lowest = sizeof(T) == 4 ? T(-87) : T(-708);
  T clamped = x < lowest ? lowest : x;
  T shifted = clamped * T(1.44269504088896340736) + F::magic;
  T n = shifted - F::magic;
  T r = (clamped - n * F::ln2_hi) - n * F::ln2_lo;
  Bits biased = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(F::magic) + F::bias;
  T p = T(1) + (r + r * r * horner(F::exp_poly, r));
  T result = p * std::bit_cast<T>(biased << F::mantissa);
  return x < lowest ? T(0) : result;
}

// With e = exp(-|x|) and q = e / (1 + e): 1 - q for positive x, e - e q (which is q, but loses less) for negative.
template <class T>
TL_INLINE T scalar_sigmoid(T x) {
  using F = FloatTraits<T>;
  T y = -std::fabs(x);
  y = y < F::exp_lo ? F::exp_lo : y;
  T e = exp_in_range(y);
  T q = e / (T(1) + e);
  T base = x < T(0) ? e : T(1);
  return base - base * q;
}

// E / (E + 2) with E = expm1(2 |x|), which is exact enough at small x and whose error fades at large.
template <class T>
TL_INLINE T scalar_tanh(T x) {
  using F = FloatTraits<T>;
  using Bits = typename F::Bits;
  constexpr T saturated = sizeof(T) == 4 ? T(20) : T(40);  // tanh is 1 to the last bit from here on
  T y = T(2) * std::fabs(x);
  y = y > saturated ? saturated : y;
  T shifted = y * T(1.44269504088896340736) + F::magic;
  T n = shifted - F::magic;
  T exact = y - n * F::ln2_hi;
  T low = n * F::ln2_lo;
  T r = exact - low;
  T tail = (exact - r) - low;
  T scale = std::bit_cast<T>((std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(F::magic) + F::bias) << F::mantissa);
  T em1 = scale * (r + (r * r * horner(F::exp_poly, r) + tail)) + (scale - T(1));
  return std::copysign(em1 / (em1 + T(2)), x);
}

template <class T>
TL_INLINE T scalar_log(T x) {
  using F = FloatTraits<T>;
  using Bits = typename F::Bits;
  constexpr T least_normal = std::numeric_limits<T>::min();
  constexpr T lift = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);
  bool tiny = x < least_normal;
  T lifted = tiny ? x * lift : x;
  // Splits x into 2^k m with m in [sqrt(1/2), sqrt(2)): offsets the bits so that the exponent field steps at sqrt(1/2).
  constexpr Bits root_half = std::bit_cast<Bits>(T(0.70710678118654752440));
  constexpr Bits mantissa_mask = (Bits(1) << F::mantissa) - 1;
  Bits bits = std::bit_cast<Bits>(lifted) - root_half + (F::bias << F::mantissa);
  T m = std::bit_cast<T>((bits & mantissa_mask) + root_half);
  // The field as a number, by way of the magic constant's low bits: no integer conversion, which AVX2 lacks for 64
  // bits.
  T k = std::bit_cast<T>((bits >> F::mantissa) + std::bit_cast<Bits>(F::magic)) - (F::magic + T(F::bias));
  k = tiny ? k - T(F::mantissa) : k;
  T f = m - T(1);
  T s = f / (T(2) + f);
  T z = s * s;
  T half_square = T(0.5) * f * f;
  T tail = s * (half_square + z * horner(F::log_poly, z)) + k * F::ln2_lo;
  T result = k * F::ln2_hi - ((half_square - tail) - f);
  constexpr T inf = std::numeric_limits<T>::infinity();
  result = x == inf ? inf : result;
  result = x == T(0) ? -inf : result;
  result = (x < T(0)) | (x != x) ? std::numeric_limits<T>::quiet_NaN() : result;
  return result;
}

// cos and sin of 2 pi t for t in [0, 1].
template <class T>
TL_INLINE void scalar_cos_sin_turn(T t, T* cos_out, T* sin_out) {
  using F = FloatTraits<T>;
  using Bits = typename F::Bits;
  T shifted = t * T(4) + F::magic;
  T u = t - (shifted - F::magic) * T(0.25);  // exact, |u| <= 1/8
  Bits quadrant = std::bit_cast<Bits>(shifted) & 3;
  T z = u * u;
  T s = u * horner(F::sin_poly, z);
  T c = horner(F::cos_poly, z);
  bool swap = (quadrant & 1) != 0;
  T cos_abs = swap ? s : c;
  T sin_abs = swap ? c : s;
  *cos_out = (quadrant == 1) | (quadrant == 2) ? -cos_abs : cos_abs;
  *sin_out = (quadrant & 2) != 0 ? -sin_abs : sin_abs;
}

}  // namespace torchlite::kernels
