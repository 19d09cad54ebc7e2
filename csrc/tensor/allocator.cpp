#include "tensor/allocator.h"

#include <bit>
#include <cstdlib>
#include <vector>

namespace torchlite {

namespace {

constexpr int64_t kAlignment = 64;
// Larger blocks come in steps of 1/8 of a power of two, so that at most an eighth is wasted.
constexpr int kClasses = 64 * 8;
// What the cache may keep per size class, and over all.
constexpr int64_t kCacheLimit = int64_t{1} << 31;
constexpr size_t kSmallBlocksPerClass = 4096;

struct SizeClass {
  std::vector<void*> free;
};

SizeClass classes[kClasses];
AllocatorStats stats;
int64_t fail_after = -1;

// The size class of `bytes` and its block size: multiples of 64 up to 512, then eighths of a power of two.
int class_of(int64_t bytes, int64_t* size) {
  if (bytes <= 8 * kAlignment) {
    int64_t steps = (bytes + kAlignment - 1) / kAlignment;
    *size = steps * kAlignment;
    return static_cast<int>(steps - 1);
  }
  int log = std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1;  // 2^log < bytes <= 2^(log + 1)
  int64_t step = int64_t{1} << (log - 3);
  int64_t eighths = (bytes + step - 1) / step;  // 9 to 16
  *size = eighths * step;
  return (log - 8) * 8 + static_cast<int>(eighths - 9);
}

}  // namespace

void* allocate(int64_t bytes) noexcept {
  if (fail_after >= 0 && fail_after-- == 0) {
    fail_after = 0;
    return nullptr;
  }
  if (bytes > (int64_t{1} << 56)) return nullptr;
  int64_t size;
  SizeClass& c = classes[class_of(bytes, &size)];
  void* block;
  if (!c.free.empty()) {
    block = c.free.back();
    c.free.pop_back();
    stats.cached_bytes -= size;
  } else {
    block = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
    if (!block) {
      empty_cache();
      block = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
      if (!block) return nullptr;
    }
  }
  ++stats.total_allocations;
  ++stats.allocated_blocks;
  stats.allocated_bytes += size;
  if (stats.allocated_bytes > stats.peak_bytes) stats.peak_bytes = stats.allocated_bytes;
  return block;
}

void deallocate(void* block, int64_t bytes) noexcept {
  int64_t size;
  [[maybe_unused]] SizeClass& c = classes[class_of(bytes, &size)];
  --stats.allocated_blocks;
  stats.allocated_bytes -= size;
#ifndef TORCHLITE_NO_FREELISTS
  bool keep = stats.cached_bytes + size <= kCacheLimit && (size > 4096 || c.free.size() < kSmallBlocksPerClass);
  if (keep) {
    try {
      c.free.push_back(block);
      stats.cached_bytes += size;
      return;
    } catch (...) {
    }
  }
#endif
  std::free(block);
}

void empty_cache() noexcept {
  for (SizeClass& c : classes) {
    for (void* block : c.free) std::free(block);
    c.free.clear();
  }
  stats.cached_bytes = 0;
}

AllocatorStats allocator_stats() noexcept { return stats; }
void reset_peak() noexcept { stats.peak_bytes = stats.allocated_bytes; }
void fail_allocations_after(int64_t n) noexcept { fail_after = n; }

}  // namespace torchlite
