#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/select.h"

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 65536;

// `left` and `right` are functions of the index. Both are read for every element, so that the choice needs no branch.
template <class T, class Left, class Right>
inline void choose(const uint8_t* mask, const Left& left, const Right& right, T* y, int64_t n) {
  parallel_for(n, grain, [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      TL_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        T chosen = left(i), other = right(i);
        y[i] = mask[i] ? chosen : other;
      }
    });
  });
}

}  // namespace

template <class T>
void select(const uint8_t* mask, const T* a, int a_step, const T* b, int b_step, T* y, int64_t n) {
  if (n <= 0) return;
  auto whole = [](const T* p) { return [p](int64_t i) TL_LAMBDA { return p[i]; }; };
  auto one = [](const T* p) { return [v = *p](int64_t) TL_LAMBDA { return v; }; };
  if (a_step && b_step) {
    choose(mask, whole(a), whole(b), y, n);
  } else if (a_step) {
    choose(mask, whole(a), one(b), y, n);
  } else if (b_step) {
    choose(mask, one(a), whole(b), y, n);
  } else {
    choose(mask, one(a), one(b), y, n);
  }
}

template void select(const uint8_t*, const float*, int, const float*, int, float*, int64_t);
template void select(const uint8_t*, const double*, int, const double*, int, double*, int64_t);

}  // namespace torchlite::kernels
