// Detects the processor's vector level once, when the module is loaded.
#include "tensor/kernels/simd.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

CpuLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return CpuLevel::Avx512;
  if (__builtin_cpu_supports("avx2")) return CpuLevel::Avx2;
#endif
  return CpuLevel::Base;
}

}  // namespace

CpuLevel detail::active_level = detect();

CpuLevel cpu_level() { return detail::active_level; }

CpuLevel set_cpu_level(CpuLevel level) { return detail::active_level = std::min(level, detect()); }

}  // namespace torchlite::kernels
