// Host memory for tensors: 64-byte aligned blocks in power-of-two size classes, freed blocks kept for reuse.
//
// All calls hold the GIL, which is the allocator's lock. Counts are exact: every byte handed out and not returned is
// in `allocated_bytes`, every byte kept for reuse in `cached_bytes`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torchlite {

struct AllocatorStats {
  int64_t allocated_bytes;  // in use now, as size classes
  int64_t allocated_blocks;
  int64_t cached_bytes;  // free, kept for reuse
  int64_t peak_bytes;    // highest allocated_bytes since the start or the last reset
  int64_t total_allocations;
};

// At least `bytes` (> 0) of memory, or nullptr; `deallocate` is given the same number.
void* allocate(int64_t bytes) noexcept;
void deallocate(void* block, int64_t bytes) noexcept;

// Returns the cached blocks to the system.
void empty_cache() noexcept;
AllocatorStats allocator_stats() noexcept;
void reset_peak() noexcept;

// Test hook: the n-th allocation from now on fails, and all after it, until called with a negative number.
void fail_allocations_after(int64_t n) noexcept;

}  // namespace torchlite
