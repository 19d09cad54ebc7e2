// Elements of lines by their rank: sorted lines, the k best, the k-th, the median, the most frequent.
//
// One order for all of them: NaN is larger than every number, all NaN are equal, and so are 0 and -0. Equal elements
// are taken in the order of their places. Thread-safe; touches no Python state. Many
// lines use several threads.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// The bits of a half-precision number.
struct Half {
  uint16_t bits;
};

// A contiguous array seen as [outer, n, inner]: outer * inner lines of n elements each.
struct Lines {
  int64_t outer, n, inner;
};

enum class Rank {
  Sorted,    // all elements
  Best,      // `k` of them, 0 <= k <= n
  Kth,       // that at position `k` from 0 of the sorted line
  Median,    // the first NaN, else the lower one of those in the middle
  Frequent,  // the smallest of the most frequent elements, its last place
};

struct Selection {
  Rank rank;
  int64_t k = 0;
  bool descending = false;  // Sorted and Best: the largest first
  bool ordered = true;      // Best: by value, else by place
  // How many elements it takes from a line of n.
  int64_t count(int64_t n) const { return rank == Rank::Sorted ? n : rank == Rank::Best ? k : 1; }
};

// How the work is shared out: threads, and the bytes of working memory that they need together, aligned to 64.
struct RankPlan {
  int64_t threads, workspace;
};

template <class T>
RankPlan plan_ranks(const Lines& lines, const Selection& selection);

// Fills `values` and `places`, contiguous [outer, selection.count(n), inner], with the elements selected from each line
// and their places in it. Kth, Median and Frequent need n > 0. `workspace` is what the plan for the same lines asks for.
//
// T is uint8_t, int8_t, int16_t, int32_t, int64_t, Half, float or double.
template <class T>
void select_by_rank(const T* x, const Lines& lines, const Selection& selection, const RankPlan& plan, char* workspace,
                    T* values, int64_t* places);

}  // namespace torchlite::kernels
