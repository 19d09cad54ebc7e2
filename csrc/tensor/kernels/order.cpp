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
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>

#include "tensor/kernels/parallel.h"

namespace torchlite::kernels {

namespace {

constexpr int64_t kElementsPerThread = 16384;
constexpr int64_t kShort = 256;  // up to which comparing beats counting
constexpr int kDigitBits = 11;   // of a pass
constexpr int kBuckets = 1 << kDigitBits;

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

template <class Key>
TL_INLINE Key differing_bits(const Key* keys, int64_t n) {
  Key bits = 0;
  for (int64_t i = 1; i < n; ++i) bits |= keys[i] ^ keys[0];
  return bits;
}

// ---- working memory -----------------------------------------------------------------------------------------------

// Of one thread, for lines of up to n elements.
template <class Key>
struct Workspace {
  std::unique_ptr<Key[]> keys, narrowed;
  std::unique_ptr<uint64_t[]> words, others;
  std::unique_ptr<int64_t[]> places, chosen;
  std::unique_ptr<uint32_t[]> counts;

  bool allocate(int64_t size, const Selection& s) {
    bool enough = true;
    auto make = [&]<class U>(std::unique_ptr<U[]>& p, int64_t n) {
      p.reset(new (std::nothrow) U[static_cast<size_t>(n)]);
      enough = enough && p;
    };
    bool sorts = s.rank == Rank::Sorted || s.rank == Rank::Frequent;
    int64_t sorted = sorts ? size : s.rank == Rank::Best && s.ordered ? s.k : 0;
    make(keys, size);
    make(places, std::max(sorted, s.count(size)));
    if (!sorts) make(narrowed, size);
    if (s.rank == Rank::Best) make(chosen, s.k);
    make(words, sorted);
    if (sorted > kShort) {
      make(others, sorted);
      make(counts, 3 * kBuckets);
    }
    return enough;
  }
};

// ---- sorting ------------------------------------------------------------------------------------------------------

// Sorts words whose upper halves differ in their lowest `bits` bits only, and are in the order of their lower halves.
// Returns the buffer that holds the result.
uint64_t* sort_words(uint64_t* words, uint64_t* others, uint32_t* counts, int64_t n, int bits) {
  if (bits == 0) return words;
  if (n <= kShort) {
    std::sort(words, words + n);
    return words;
  }
  int passes = (bits + kDigitBits - 1) / kDigitBits, digit = (bits + passes - 1) / passes;
  const uint32_t mask = (1u << digit) - 1;
  std::fill_n(counts, passes * kBuckets, 0u);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t key = static_cast<uint32_t>(words[i] >> 32);
    for (int p = 0; p < passes; ++p) ++counts[p * kBuckets + static_cast<int>((key >> (p * digit)) & mask)];
  }
  for (int p = 0; p < passes; ++p) {
    uint32_t* at = counts + p * kBuckets;
    uint32_t sum = 0;
    for (uint32_t d = 0; d <= mask; ++d) sum += std::exchange(at[d], sum);
    const int shift = 32 + p * digit;
    for (int64_t i = 0; i < n; ++i) others[at[(words[i] >> shift) & mask]++] = words[i];
    std::swap(words, others);
  }
  return words;
}

// The places of w.keys[0, n) in the order of the keys, in w.places; `at(i)` is the place of key i, ascending in i.
template <class Key, class At>
void sort_places(Workspace<Key>& w, int64_t n, const At& at) {
  const Key* keys = w.keys.get();
  int64_t* places = w.places.get();
  if (n > int64_t{UINT32_MAX}) {
    std::iota(places, places + n, int64_t{0});
    std::stable_sort(places, places + n, [keys](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    for (int64_t i = 0; i < n; ++i) places[i] = at(places[i]);
    return;
  }
  const int differ = std::bit_width(differing_bits(keys, n));
  const int shift = std::max(differ - 32, 0);
  uint64_t* words = w.words.get();
  const uint32_t keep = differ >= 32 ? ~0u : (1u << differ) - 1;
  for (int64_t i = 0; i < n; ++i)
    words[i] = uint64_t{static_cast<uint32_t>(keys[i] >> shift) & keep} << 32 | static_cast<uint64_t>(i);
  words = sort_words(words, w.others.get(), w.counts.get(), n, std::min(differ, 32));
  if (shift > 0) {
    auto place = [](uint64_t word) { return static_cast<uint32_t>(word); };
    for (int64_t i = 1; i < n; ++i) {
      if (words[i] >> 32 != words[i - 1] >> 32) continue;
      int64_t first = i - 1;
      while (i < n && words[i] >> 32 == words[first] >> 32) ++i;
      std::sort(words + first, words + i, [&](uint64_t a, uint64_t b) {
        Key x = keys[place(a)], y = keys[place(b)];
        return x != y ? x < y : a < b;
      });
    }
  }
  for (int64_t i = 0; i < n; ++i) places[i] = at(static_cast<int64_t>(static_cast<uint32_t>(words[i])));
}

// ---- selecting ----------------------------------------------------------------------------------------------------

// The key at position k of the sorted keys, 0 <= k < n. `keys` are left alone; `narrowed` is written over.
template <class Key>
Key kth_key(const Key* keys, Key* narrowed, int64_t n, int64_t k) {
  int64_t counts[kBuckets];
  while (n > kShort) {
    const int differ = std::bit_width(differing_bits(keys, n)), shift = std::max(differ - kDigitBits, 0);
    if (differ == 0) return keys[0];
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

// The places of the k smallest of w.keys[0, n), the first ones of equals.
template <class Key>
void best_places(Workspace<Key>& w, int64_t n, int64_t k, bool ordered) {
  if (k == 0) return;
  Key* keys = w.keys.get();
  const Key bound = kth_key(keys, w.narrowed.get(), n, k - 1);
  int64_t ties = k;  // how many of those at the bound are taken
  for (int64_t i = 0; i < n; ++i) ties -= keys[i] < bound;
  int64_t* chosen = ordered ? w.chosen.get() : w.places.get();
  int64_t count = 0;
  for (int64_t i = 0; count < k; ++i) {
    Key key = keys[i];
    if (key > bound || (key == bound && ties-- <= 0)) continue;
    keys[count] = key;
    chosen[count++] = i;
  }
  if (ordered) sort_places(w, k, [chosen](int64_t i) { return chosen[i]; });
}

template <class Key>
int64_t place_of(const Key* keys, int64_t n, Key key) {
  return std::find(keys, keys + n, key) - keys;
}

template <class Key>
int64_t frequent_place(Workspace<Key>& w, int64_t n) {
  sort_places(w, n, [](int64_t i) { return i; });
  const int64_t* places = w.places.get();
  int64_t best = 0, longest = 0, first = 0;
  for (int64_t i = 1; i <= n; ++i) {
    if (i < n && w.keys[places[i]] == w.keys[places[first]]) continue;
    if (i - first > longest) {
      longest = i - first;
      best = places[i - 1];
    }
    first = i;
  }
  return best;
}

// Fills w.places from w.keys. `nan` is the key of NaN, if there is one.
template <class Key>
void select_places(Workspace<Key>& w, int64_t n, const Selection& s, const Key* nan) {
  const Key* keys = w.keys.get();
  switch (s.rank) {
    case Rank::Sorted: return sort_places(w, n, [](int64_t i) { return i; });
    case Rank::Best: return best_places(w, n, s.k, s.ordered);
    case Rank::Frequent: w.places[0] = frequent_place(w, n); return;
    case Rank::Median:
      if (int64_t first = nan ? place_of(keys, n, *nan) : n; first < n) {
        w.places[0] = first;
        return;
      }
      [[fallthrough]];
    case Rank::Kth:
      int64_t k = s.rank == Rank::Kth ? s.k : (n - 1) / 2;
      w.places[0] = place_of(keys, n, kth_key(keys, w.narrowed.get(), n, k));
  }
}

}  // namespace

template <class T>
bool select_by_rank(const T* x, const Lines& lines, const Selection& selection, T* values, int64_t* places) {
  using Key = KeyOf<T>;
  const auto [outer, n, inner] = lines;
  const int64_t m = selection.count(n), step = inner;
  const Key flip = selection.descending ? key_mask<T> : Key{0}, nan = key_mask<T>;
  std::atomic<bool> enough = true;
  parallel_for(outer * inner, std::max<int64_t>(kElementsPerThread / std::max<int64_t>(n, 1), 1),
               [&](int64_t begin, int64_t end) {
                 Workspace<Key> w;
                 if (!w.allocate(n, selection)) {
                   enough = false;
                   return;
                 }
                 for (int64_t line = begin; line < end; ++line) {
                   const T* from = x + line / step * n * step + line % step;
                   int64_t to = line / step * m * step + line % step;
                   Key* keys = w.keys.get();
                   for (int64_t i = 0; i < n; ++i) keys[i] = to_key(from[i * step]) ^ flip;
                   select_places(w, n, selection, has_nan<T> ? &nan : nullptr);
                   for (int64_t j = 0; j < m; ++j) {
                     places[to + j * step] = w.places[j];
                     values[to + j * step] = from[w.places[j] * step];
                   }
                 }
               });
  return enough;
}

#define TL_INSTANTIATE(T) template bool select_by_rank(const T*, const Lines&, const Selection&, T*, int64_t*);
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
