// How lines are ordered:
//
//   element --to_key--> unsigned key --rank--> places --> elements
//
// Keys are unsigned integers that compare as the elements do, equal where they are equal; for a descending order they
// are complemented, which keeps equal ones in order. A key and its place fit one 64-bit word: 32 bits of the key above
// 32 of the place. Words are distinct, so that any sort of them is stable. They are sorted by digits, from the lowest.
//
// Of a wider key the word holds the highest 32 bits in which the keys of the line differ; runs of words that agree in
// them are put in order by the whole keys afterwards. Places beyond 32 bits take the plain way of std::stable_sort.
//
// The k-th key is found by narrowing: the keys are counted by their leading differing bits, and only those of the
// bucket that holds the k-th one go on.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/order.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "tensor/kernels/parallel.h"

namespace torchlite::kernels {

namespace {

constexpr int64_t kElementsPerThread = 16384;
constexpr int64_t kShort = 256;  // up to which comparing beats counting
constexpr int kDigitBits = 11;   // of a pass
constexpr int kBuckets = 1 << kDigitBits;
constexpr int kMaxPasses = 3;  // over the 32 bits of a key in a word

// ---- keys ---------------------------------------------------------------------------------------------------------

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class Bits>
TL_INLINE Bits float_key(Bits bits, Bits infinity) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  Bits magnitude = static_cast<Bits>(bits & ~sign);
  if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
  return bits & sign ? static_cast<Bits>(sign - magnitude) : static_cast<Bits>(sign + magnitude);
}

TL_INLINE uint32_t to_key(float x) { return float_key(std::bit_cast<uint32_t>(x), uint32_t{0x7f800000}); }
TL_INLINE uint64_t to_key(double x) { return float_key(std::bit_cast<uint64_t>(x), uint64_t{0x7ff0000000000000}); }
TL_INLINE uint32_t to_key(Half x) { return float_key(x.bits, uint16_t{0x7c00}); }
template <class T>
requires std::is_integral_v<T> TL_INLINE KeyOf<T> to_key(T x) {
  using Bits = std::make_unsigned_t<T>;
  constexpr Bits flip = std::is_signed_v<T> ? static_cast<Bits>(Bits{1} << (sizeof(T) * 8 - 1)) : Bits{0};
  return static_cast<Bits>(static_cast<Bits>(x) ^ flip);
}

// All bits of a key: the key that only NaN has.
template <class T>
constexpr KeyOf<T> key_mask = sizeof(T) >= 4 ? ~KeyOf<T>{0} : static_cast<KeyOf<T>>((uint64_t{1} << sizeof(T) * 8) - 1);
template <class T>
constexpr bool has_nan = std::is_floating_point_v<T> || std::is_same_v<T, Half>;

// ---- working memory -----------------------------------------------------------------------------------------------

// Of one thread, for one line at a time.
template <class Key>
struct Workspace {
  Key *keys, *narrowed;      // n of each; `narrowed` for selections
  uint64_t *words, *others;  // for what is sorted; `others` beyond kShort
  uint32_t* counts;          // with `others`

  // Lays it out in `memory`; returns the end. A null start measures.
  uintptr_t lay_out(uintptr_t memory, int64_t n, const Selection& s) {
    auto take = [&]<class U>(U*& p, int64_t count) {
      p = reinterpret_cast<U*>(memory);
      memory += (static_cast<uintptr_t>(count) * sizeof(U) + 63) / 64 * 64;
    };
    const bool sorts = s.rank == Rank::Sorted || s.rank == Rank::Frequent;
    const int64_t sorted = sorts ? n : s.rank == Rank::Best ? s.k : 0, passed = sorted > kShort ? sorted : 0;
    take(keys, n);
    take(narrowed, sorts ? 0 : n);
    take(words, sorted);
    take(others, passed);
    take(counts, passed ? kMaxPasses * kBuckets : 0);
    return memory;
  }
};

// ---- sorting ------------------------------------------------------------------------------------------------------

// Where places do not fit half a word, words are the places themselves.
inline bool fits_words(int64_t n) { return n <= int64_t{UINT32_MAX}; }
TL_INLINE int64_t place_in(uint64_t word) { return static_cast<int64_t>(static_cast<uint32_t>(word)); }

// Sorts words whose keys differ in their lowest `bits` bits only, and that are in the order of their places. The result
// is in w.words.
template <class Key>
void sort_by_digits(Workspace<Key>& w, int64_t n, int bits) {
  const int passes = (bits + kDigitBits - 1) / kDigitBits, digit = (bits + passes - 1) / passes;
  const uint32_t mask = (1u << digit) - 1;
  std::fill_n(w.counts, passes * kBuckets, 0u);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t key = static_cast<uint32_t>(w.words[i] >> 32);
    for (int p = 0; p < passes; ++p) ++w.counts[p * kBuckets + static_cast<int>((key >> (p * digit)) & mask)];
  }
  for (int p = 0; p < passes; ++p) {
    uint32_t *at = w.counts + p * kBuckets, sum = 0;
    for (uint32_t d = 0; d <= mask; ++d) sum += std::exchange(at[d], sum);
    const int shift = 32 + p * digit;
    const uint64_t* from = w.words;
    uint64_t* to = w.others;
    for (int64_t i = 0; i < n; ++i) to[at[(from[i] >> shift) & mask]++] = from[i];
    std::swap(w.words, w.others);
  }
}

// Puts `count` ascending places, place(0), place(1) ..., into w.words in the order of their keys in w.keys[0, n).
// `place(i)` may read w.words[i].
template <class Key, class Place>
void sort_places(Workspace<Key>& w, int64_t n, int64_t count, const Place& place) {
  const Key* keys = w.keys;
  if (!fits_words(n)) {
    for (int64_t i = 0; i < count; ++i) w.words[i] = static_cast<uint64_t>(place(i));
    std::stable_sort(w.words, w.words + count, [keys](uint64_t a, uint64_t b) { return keys[a] < keys[b]; });
    return;
  }
  if (count == 0) return;
  const Key first = keys[place(0)];
  Key differing = 0;
  for (int64_t i = 1; i < count; ++i) differing |= keys[place(i)] ^ first;
  const int bits = std::bit_width(differing), shift = std::max(bits - 32, 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = place(i);
    w.words[i] = uint64_t{static_cast<uint32_t>(keys[at] >> shift)} << 32 | static_cast<uint64_t>(at);
  }
  if (bits == 0) return;
  if (count <= kShort) {
    std::sort(w.words, w.words + count);
  } else {
    sort_by_digits(w, count, std::min(bits, 32));
  }
  if (shift == 0) return;
  uint64_t* words = w.words;
  for (int64_t i = 1; i < count; ++i) {
    const int64_t start = i - 1;
    if (words[i] >> 32 != words[start] >> 32) continue;
    while (i < count && words[i] >> 32 == words[start] >> 32) ++i;
    std::sort(words + start, words + i, [keys](uint64_t a, uint64_t b) {
      const Key x = keys[place_in(a)], y = keys[place_in(b)];
      return x != y ? x < y : a < b;
    });
  }
}

// Calls emit(j, place) for the first `count` words of a line of n.
template <class Key, class Emit>
void emit_words(const Workspace<Key>& w, int64_t n, int64_t count, Emit&& emit) {
  const bool halves = fits_words(n);
  for (int64_t j = 0; j < count; ++j) emit(j, halves ? place_in(w.words[j]) : static_cast<int64_t>(w.words[j]));
}

// ---- selecting ----------------------------------------------------------------------------------------------------

// The key at position k of the sorted keys, 0 <= k < n. `keys` are left alone; `narrowed` is written over.
template <class Key>
Key kth_key(const Key* keys, Key* narrowed, int64_t n, int64_t k) {
  int64_t counts[kBuckets];
  while (n > kShort) {
    Key differing = 0;
    for (int64_t i = 1; i < n; ++i) differing |= keys[i] ^ keys[0];
    if (differing == 0) return keys[0];
    const int shift = std::max(static_cast<int>(std::bit_width(differing)) - kDigitBits, 0);
    auto bucket_of = [shift](Key key) { return static_cast<int>((key >> shift) & Key{kBuckets - 1}); };
    std::fill_n(counts, kBuckets, int64_t{0});
    for (int64_t i = 0; i < n; ++i) ++counts[bucket_of(keys[i])];
    int bucket = 0;
    while (counts[bucket] <= k) k -= counts[bucket++];
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      Key key = keys[i];
      narrowed[kept] = key;
      kept += bucket_of(key) == bucket;
    }
    keys = narrowed;
    n = kept;
  }
  if (keys != narrowed) std::copy(keys, keys + n, narrowed);
  std::nth_element(narrowed, narrowed + k, narrowed + n);
  return narrowed[k];
}

template <class Key>
int64_t place_of(const Key* keys, int64_t n, Key key) {
  return std::find(keys, keys + n, key) - keys;
}

// Calls emit(j, place) for the k smallest of w.keys[0, n), the first ones of equals.
template <class Key, class Emit>
void select_best(Workspace<Key>& w, int64_t n, int64_t k, bool ordered, const Emit& emit) {
  if (k == 0) return;
  const Key* keys = w.keys;
  const Key bound = kth_key(keys, w.narrowed, n, k - 1);
  int64_t ties = k;  // how many of those at the bound are taken
  for (int64_t i = 0; i < n; ++i) ties -= keys[i] < bound;
  int64_t count = 0;
  for (int64_t i = 0; count < k; ++i) {
    if (keys[i] > bound || (keys[i] == bound && ties-- <= 0)) continue;
    w.words[count++] = static_cast<uint64_t>(i);
  }
  if (!ordered) {
    for (int64_t j = 0; j < k; ++j) emit(j, static_cast<int64_t>(w.words[j]));
    return;
  }
  sort_places(w, n, k, [&w](int64_t j) { return static_cast<int64_t>(w.words[j]); });
  emit_words(w, n, k, emit);
}

template <class Key>
int64_t frequent_place(Workspace<Key>& w, int64_t n) {
  sort_places(w, n, n, [](int64_t i) { return i; });
  int64_t best = 0, longest = 0;
  emit_words(w, n, n, [&, start = int64_t{0}, first = Key{0}](int64_t j, int64_t place) mutable {
    const Key key = w.keys[place];
    if (j == 0 || key != first) {
      start = j;
      first = key;
    }
    // A run takes over once it is longer than the longest before it, and ends with its last place.
    if (j - start < longest) return;
    longest = j - start + 1;
    best = place;
  });
  return best;
}

// Calls emit(j, place) for what is selected from w.keys[0, n). `nan` is the key of NaN, if there is one.
template <class Key, class Emit>
void select_from(Workspace<Key>& w, int64_t n, const Selection& s, const Key* nan, const Emit& emit) {
  switch (s.rank) {
    case Rank::Sorted:
      sort_places(w, n, n, [](int64_t i) { return i; });
      emit_words(w, n, n, emit);
      return;
    case Rank::Best: return select_best(w, n, s.k, s.ordered, emit);
    case Rank::Frequent: return emit(0, frequent_place(w, n));
    case Rank::Median:
      if (int64_t first = nan ? place_of(w.keys, n, *nan) : n; first < n) return emit(0, first);
      return emit(0, place_of(w.keys, n, kth_key(w.keys, w.narrowed, n, (n - 1) / 2)));
    case Rank::Kth: return emit(0, place_of(w.keys, n, kth_key(w.keys, w.narrowed, n, s.k)));
  }
}

}  // namespace

template <class T>
RankPlan plan_ranks(const Lines& lines, const Selection& selection) {
  const int64_t count = lines.outer * lines.inner, shares = count * lines.n / kElementsPerThread;
  const int64_t threads = std::max<int64_t>(std::min({int64_t{num_threads()}, count, shares}), 1);
  Workspace<KeyOf<T>> w;
  return {threads, threads * static_cast<int64_t>(w.lay_out(0, lines.n, selection))};
}

template <class T>
void select_by_rank(const T* x, const Lines& lines, const Selection& selection, const RankPlan& plan, char* workspace,
                    T* values, int64_t* places) {
  using Key = KeyOf<T>;
  const int64_t n = lines.n, m = selection.count(n), step = lines.inner, count = lines.outer * lines.inner;
  const Key nan = key_mask<T>, flip = selection.descending ? key_mask<T> : Key{0};
  auto share = [&](int64_t thread) {
    Workspace<Key> w;
    w.lay_out(reinterpret_cast<uintptr_t>(workspace + thread * (plan.workspace / plan.threads)), n, selection);
    const int64_t end = count * (thread + 1) / plan.threads;
    for (int64_t line = count * thread / plan.threads; line < end; ++line) {
      const T* from = x + line / step * n * step + line % step;
      const int64_t to = line / step * m * step + line % step;
      for (int64_t i = 0; i < n; ++i) w.keys[i] = to_key(from[i * step]) ^ flip;
      select_from(w, n, selection, has_nan<T> ? &nan : nullptr, [=](int64_t j, int64_t place) {
        places[to + j * step] = place;
        values[to + j * step] = from[place * step];
      });
    }
  };
  parallel_for(plan.threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) share(thread);
  });
}

#define TL_INSTANTIATE(T)                                          \
  template RankPlan plan_ranks<T>(const Lines&, const Selection&); \
  template void select_by_rank(const T*, const Lines&, const Selection&, const RankPlan&, char*, T*, int64_t*);
TL_INSTANTIATE(uint8_t)
TL_INSTANTIATE(int8_t)
TL_INSTANTIATE(int16_t)
TL_INSTANTIATE(int32_t)
TL_INSTANTIATE(int64_t)
TL_INSTANTIATE(Half)
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
