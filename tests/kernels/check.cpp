// Checks of the kernels that Python cannot make: accuracy over the whole range of inputs, the same bits at every vector
// level, place and number of threads, and the thread pool. Prints what fails; exits with the number of failures.
#include "tensor/kernels/parallel.h"
#include "tensor/kernels/random.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/simd.h"
#include "tensor/kernels/softmax.h"
#include "tensor/kernels/vecmath.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <type_traits>
#include <vector>

namespace tk = torchlite::kernels;

namespace {

int failures = 0;

void expect(bool ok, const char* what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Random bit patterns, which reach every exponent, then ranges where the functions curve, then the edges.
template <class T>
std::vector<T> inputs() {
  std::vector<T> x;
  tk::Generator generator{7, 0};
  for (int i = 0; i < 200000; ++i) x.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(tk::random_bits(generator))));
  for (double range : {0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1100.0}) {
    std::vector<T> part(200000);
    tk::uniform(generator, static_cast<T>(-range), static_cast<T>(range), part.data(), 200000);
    x.insert(x.end(), part.begin(), part.end());
  }
  using Limits = std::numeric_limits<T>;
  for (T edge : {Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::min(), Limits::max(), T(0),
                 T(88.7228), T(103.97), T(709.7827), T(745.13)}) {
    x.push_back(edge);
    x.push_back(-edge);
  }
  return x;
}

// Distance in units of the last place of the exact value; infinite where only one of the two is NaN or infinite.
template <class T>
double ulp_error(T got, long double exact) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  T rounded = static_cast<T>(exact);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : wrong;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : wrong;
  int exponent = std::numeric_limits<T>::min_exponent;
  if (rounded != 0) exponent = std::max(exponent, std::ilogb(rounded) + 1);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

template <class T>
bool same_bits(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (std::memcmp(a + i, b + i, sizeof(T)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

// Runs `body` at each vector level of the processor and with one and two threads.
void everywhere(const std::function<void()>& body) {
  for (auto level : {tk::CpuLevel::Base, tk::CpuLevel::Avx2, tk::CpuLevel::Avx512})
    for (int threads : {1, 2}) {
      tk::set_cpu_level(level);
      tk::set_num_threads(threads);
      body();
    }
}

template <class T>
void check_function(const char* name, void (*function)(const T*, T*, int64_t), long double (*exact)(long double),
                    double allowed) {
  std::vector<T> x = inputs<T>();
  auto n = static_cast<int64_t>(x.size());
  std::vector<T> y(x.size());
  function(x.data(), y.data(), n);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulp_error(y[i], exact(x[i])));
  std::printf("%-8s %zu bytes: %.3f ulp\n", name, sizeof(T), worst);
  expect(worst <= allowed, name);
  everywhere([&] {
    std::vector<T> in_place = x;
    function(in_place.data(), in_place.data(), n);
    expect(same_bits(y.data(), in_place.data(), n), "the same bits at every level and number of threads");
    for (int64_t offset = 0; offset + 40 < n; offset += 997)
      for (int64_t length = 1; length < 40; length += 6) {
        T part[40];
        function(x.data() + offset, part, length);
        expect(same_bits(part, y.data() + offset, length), "the same bits at every place");
      }
  });
}

template <class T>
void check_functions() {
  check_function<T>(
      "exp", tk::exp<T>, [](long double x) { return std::exp(x); }, 1.0);
  check_function<T>(
      "log", tk::log<T>, [](long double x) { return x < 0 ? NAN : std::log(x); }, 1.0);
  // 2 ulp from the correctly rounded value is at most 2.5 from the exact one.
  check_function<T>(
      "tanh", tk::tanh<T>, [](long double x) { return std::tanh(x); }, 2.5);
  check_function<T>(
      "sigmoid", tk::sigmoid<T>,
      [](long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 2.0);
}

template <class T>
void check_same_bits_of_sums_and_draws() {
  constexpr int64_t rows = 70, cols = 1013, n = rows * cols;
  std::vector<T> first[6];
  everywhere([&] {
    tk::Generator generator{3, 11};
    std::vector<T> x(n), soft(n), lse(rows), by_row(cols), mask(n), dropped(n);
    tk::normal(generator, T(0), T(3), x.data(), n);
    tk::softmax(x.data(), soft.data(), rows, cols);
    tk::logsumexp(x.data(), lse.data(), rows, cols);
    tk::sum_rows(x.data(), rows, cols, false, by_row.data());
    tk::dropout(generator, 0.3, x.data(), dropped.data(), mask.data(), n);
    by_row.push_back(static_cast<T>(tk::sum_squares(x.data(), n)));
    const std::vector<T>* results[6] = {&x, &soft, &lse, &by_row, &mask, &dropped};
    for (int i = 0; i < 6; ++i) {
      if (first[i].empty()) first[i] = *results[i];
      expect(same_bits(first[i].data(), results[i]->data(), static_cast<int64_t>(first[i].size())),
             "sums and draws have the same bits everywhere");
    }
  });
}

void check_generator() {
  // The reference vector of Philox4x32-10 for a key and a counter of zeros: 6627e8d5 e169c58d ...
  tk::Generator generator{0, 0};
  expect(tk::random_bits(generator) == 0x6627e8d5e169c58dULL, "Philox4x32-10 matches its reference vector");
  tk::Generator saved = generator;
  std::vector<float> a(1000), b(1000);
  tk::uniform(generator, 0.0f, 1.0f, a.data(), 1000);
  tk::uniform(saved, 0.0f, 1.0f, b.data(), 1000);
  expect(a == b && generator.counter == saved.counter, "a copied generator continues alike");
}

// Every index exactly once.
bool covers(int64_t n, int64_t grain) {
  std::vector<int> hits(static_cast<size_t>(n));
  tk::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    tk::parallel_for(end - begin, 16, [&](int64_t from, int64_t to) {
      for (int64_t i = begin + from; i < begin + to; ++i) ++hits[static_cast<size_t>(i)];
    });
  });
  for (int hit : hits)
    if (hit != 1) return false;
  return true;
}

void check_pool() {
  tk::set_num_threads(3);
  expect(covers(0, 10) && covers(1, 10) && covers(1000, 7) && covers(100000, 1000), "a loop covers its range once");
  std::atomic<bool> ok{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round)
        if (!covers(20000, 500)) ok = false;
    });
  for (std::thread& thread : threads) thread.join();
  expect(ok, "loops of several threads at a time");
  pid_t child = fork();
  if (child == 0) _exit(covers(100000, 1000) ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  expect(status == 0, "the pool works in a forked child");
  expect(covers(100000, 1000), "and still in its parent");
}

}  // namespace

int main() {
  check_pool();
  check_generator();
  check_functions<float>();
  check_functions<double>();
  check_same_bits_of_sums_and_draws<float>();
  check_same_bits_of_sums_and_draws<double>();
  return failures;
}
