// Function multi-versioning for the kernels' own .cpp files; must be their first include.
//
// Note [Multi-versioning]
// A kernel body is an always-inlined lambda. `multiversion(body)` inlines it into three functions that differ only in
// their target attribute, and calls the one that the running processor supports. One mechanism serves templates and
// plain functions, needs no ifunc (which sanitizers and musl reject) and leaves the binary portable. Whatever a body
// calls must be TL_INLINE as well: a call left in the body would run code of the lowest version.
//
// Note [Same bits everywhere]
// Multiply-adds are never contracted and no sum is reassociated by the compiler, so every version, every number of
// threads and every position in an array (vector body or scalar tail) gives bit for bit the same result.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math", "no-math-errno")
#endif

#include <cstdint>

#define TL_INLINE __attribute__((always_inline)) inline
// For a lambda: [&](args) TL_LAMBDA { ... }
#define TL_LAMBDA __attribute__((always_inline))
// Asserts that the next loop's iterations are independent: outputs are either one of the inputs exactly or disjoint
// from them.
#define TL_INDEPENDENT _Pragma("GCC ivdep")
// Keeps the next loop, whose length is a constant, a loop: unrolled code is not vectorised as well.
#define TL_NOT_UNROLLED _Pragma("GCC unroll 1")

namespace torchlite::kernels {

enum class CpuLevel { Base = 0, Avx2 = 1, Avx512 = 2 };

// The level that kernels run at: the processor's own, unless lowered by set_cpu_level.
CpuLevel cpu_level();
// Lowers the level, for tests; a level above the processor's is cut to it. Returns the level in force.
CpuLevel set_cpu_level(CpuLevel level);

namespace detail {

extern CpuLevel active_level;

#if defined(__x86_64__)
template <class Body>
__attribute__((noinline, target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))) void run_avx512(
    const Body& body) {
  body();
}
template <class Body>
__attribute__((noinline, target("avx2"))) void run_avx2(const Body& body) {
  body();
}
#endif

}  // namespace detail

template <class Body>
inline void multiversion(const Body& body) {
#if defined(__x86_64__)
  if (detail::active_level == CpuLevel::Avx512) return detail::run_avx512(body);
  if (detail::active_level == CpuLevel::Avx2) return detail::run_avx2(body);
#endif
  body();
}

}  // namespace torchlite::kernels
