#include "tensor/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tensor/cuda.h"
#include "utils/errors.h"
#include "utils/method.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

GeneratorObject* default_object = nullptr;  // for the life of the process

kernels::Generator& state_of(PyObject* generator) {
  if (!generator || generator == Py_None) return default_generator();
  if (!PyObject_TypeCheck(generator, &Generator_Type))
    type_error("generator must be a torchlite.Generator, not %.100s", type_name(generator));
  return static_cast<GeneratorObject*>(generator)->state;
}

// ---- filling tensors ----------------------------------------------------------------------------------------------

// Runs fill(T* out, n) on Float or Double memory for `self`; other types and layouts are filled by a cast of that.
template <class F>
PyObject* fill(PyObject* self_object, const char* function, F&& f) {
  Tensor* self = as_tensor(self_object);
  require_writable(self, function);
  bool single = self->dtype == DType::Float || self->dtype == DType::Half;
  bool direct = self->contiguous && self->dtype == (single ? DType::Float : DType::Double);
  PyRef<Tensor> target =
      direct ? PyRef<Tensor>::borrow(self) : new_tensor(single ? DType::Float : DType::Double, self->sizes());
  if (single) f(target->ptr<float>(), target->numel);
  else f(target->ptr<double>(), target->numel);
  if (!direct) {
    PyRef<Tensor> same = to_dtype(target.get(), self->dtype);
    copy_into(self, same.get());
  }
  return new_ref(self_object);
}

bool on_device(PyObject* self) { return as_tensor(self)->device() != kCPU; }

// What torchlite.cuda draws into a tensor on a device, from parameters that have been checked. TypeError for a generator:
// those of devices are their own.
template <class... Parameters>
PyObject* draw_on_device(PyObject* self, PyObject* generator, const char* function, Parameters... parameters) {
  if (generator && generator != Py_None)
    type_error("%s: a tensor on a CUDA device is filled by the generator of that device, not by one of the host",
               function);
  require_writable(as_tensor(self), function);
  PyRef<> module = check(PyImport_ImportModule("torchlite.cuda._random"));
  PyRef<> method = check(PyObject_GetAttrString(module.get(), function));
  PyObject* arguments[] = {self, parameters...};
  return PyObject_Vectorcall(method.get(), arguments, 1 + sizeof...(parameters), nullptr);
}

PyRef<> number(double v) { return check(PyFloat_FromDouble(v)); }

void require_floating(PyObject* self, const char* function) {
  if (!is_floating(as_tensor(self)->dtype))
    type_error("%s is only available for floating types, not for %s", function, info(as_tensor(self)->dtype).name);
}

void require(bool holds, double value, const char* function, const char* what) {
  if (holds) return;
  runtime_error("%s: %s, but got %R", function, what, number(value).get());
}

// The arguments (a, b) of a distribution, by the given names, and `generator`.
struct Parameters {
  double a, b;
  PyObject* generator = nullptr;

  Parameters(PyObject* args, PyObject* kwargs, const char* format, const char* a_name, const char* b_name,
             double a_default, double b_default)
      : a(a_default), b(b_default) {
    const char* names[] = {a_name, b_name, "generator", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &a, &b, &generator))
      throw PyError();
  }
};
struct Parameter {
  double a;
  PyObject* generator = nullptr;

  Parameter(PyObject* args, PyObject* kwargs, const char* format, const char* name, double a_default) : a(a_default) {
    const char* names[] = {name, "generator", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &a, &generator)) throw PyError();
  }
};

// The distance from `bound` to the next smaller number of Half, which has 11 bits from 2^-24 on.
float half_spacing_below(float bound) {
  int exponent;
  float fraction = std::frexp(std::fabs(bound), &exponent);
  bool shorter = bound > 0 && fraction == 0.5f;  // below a power of two
  return std::ldexp(1.0f, std::max(exponent - (shorter ? 12 : 11), -24));
}

PyObject* tensor_uniform(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("uniform_", [&]() -> PyObject* {
    Parameters p(args, kwargs, "|dd$O:uniform_", "from", "to", 0, 1);
    require_floating(self, "uniform_");
    if (!(p.a <= p.b))
      runtime_error("uniform_: from must not be above to, but got from %R to %R", number(p.a).get(), number(p.b).get());
    if (on_device(self)) return draw_on_device(self, p.generator, "uniform_", number(p.a).get(), number(p.b).get());
    kernels::Generator& g = state_of(p.generator);
    bool half = as_tensor(self)->dtype == DType::Half;
    return fill(self, "uniform_", [&]<class T>(T* out, int64_t n) {
      T low = static_cast<T>(p.a), high = static_cast<T>(p.b);
      kernels::uniform(g, low, high, out, n);
      if (!half || low == high) return;
      // What would be rounded up to the bound becomes the number before it.
      T spacing = static_cast<T>(half_spacing_below(static_cast<float>(high)));
      for (int64_t i = 0; i < n; ++i)
        if (out[i] >= high - spacing / 2) out[i] = std::max(high - spacing, low);
    });
  });
}

PyObject* tensor_normal(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("normal_", [&]() -> PyObject* {
    Parameters p(args, kwargs, "|dd$O:normal_", "mean", "std", 0, 1);
    require_floating(self, "normal_");
    require(p.b >= 0, p.b, "normal_", "std must not be negative");
    if (on_device(self)) return draw_on_device(self, p.generator, "normal_", number(p.a).get(), number(p.b).get());
    kernels::Generator& g = state_of(p.generator);
    return fill(self, "normal_", [&]<class T>(T* out, int64_t n) {
      kernels::normal(g, static_cast<T>(p.a), static_cast<T>(p.b), out, n);
    });
  });
}

void require_probability(double p, const char* function) {
  require(p >= 0 && p <= 1, p, function, "a probability must lie between 0 and 1");
}

PyObject* tensor_bernoulli(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("bernoulli_", [&]() -> PyObject* {
    const char* names[] = {"p", "generator", nullptr};
    PyObject *p = nullptr, *generator = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:bernoulli_", const_cast<char**>(names), &p, &generator))
      throw PyError();
    if (p && is_tensor(p)) {
      // One probability for each element.
      const Tensor *given = as_tensor(p), *t = as_tensor(self);
      if (given->device() != t->device())
        type_error("bernoulli_: the probabilities must lie where the tensor lies, but got %s for %s",
                   place_of(given->dtype, given->device()).c_str(), place_of(t->dtype, t->device()).c_str());
      if (given->numel != t->numel)
        runtime_error("bernoulli_: probabilities of size %s do not fit a tensor of size %s",
                      format_dims(given->sizes()).c_str(), format_dims(t->sizes()).c_str());
      if (on_device(self)) return draw_on_device(self, generator, "bernoulli_", p);
      kernels::Generator& g = state_of(generator);
      PyRef<Tensor> wide = to_dtype(as_tensor(p), DType::Double), each = contiguous(wide.get());
      const double* probability = each->ptr<double>();
      for (int64_t i = 0; i < each->numel; ++i) require_probability(probability[i], "bernoulli_");
      return fill(self, "bernoulli_", [&]<class T>(T* out, int64_t n) {
        kernels::uniform(g, T(0), T(1), out, n);
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(out[i]) < probability[i] ? T(1) : T(0);
      });
    }
    double probability = p ? PyFloat_AsDouble(p) : 0.5;
    if (probability == -1.0 && PyErr_Occurred()) throw PyError();
    require_probability(probability, "bernoulli_");
    if (on_device(self)) return draw_on_device(self, generator, "bernoulli_", number(probability).get());
    kernels::Generator& g = state_of(generator);
    return fill(self, "bernoulli_",
                [&]<class T>(T* out, int64_t n) { kernels::bernoulli(g, probability, T(1), out, n); });
  });
}

// The number of values that random_ without bounds draws from: those that the type holds exactly, from 0 on.
uint64_t default_range(DType dtype) {
  switch (dtype) {
    case DType::Byte: return uint64_t{1} << 8;
    case DType::Char: return uint64_t{1} << 7;
    case DType::Short: return uint64_t{1} << 15;
    case DType::Int: return uint64_t{1} << 31;
    case DType::Long: return uint64_t{1} << 63;
    case DType::Half: return (uint64_t{1} << 11) + 1;
    case DType::Float: return (uint64_t{1} << 24) + 1;
    default: return (uint64_t{1} << 53) + 1;
  }
}

// The smallest and the largest value of an integer type.
std::pair<int64_t, int64_t> limits(DType dtype) {
  if (dtype == DType::Byte) return {0, 255};
  int bits = static_cast<int>(8 * itemsize(dtype)) - 1;
  int64_t largest = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return {-largest - 1, largest};
}

PyObject* tensor_random(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("random_", [&]() -> PyObject* {
    const char* names[] = {"from", "to", "generator", nullptr};
    PyObject *first = nullptr, *second = nullptr, *generator = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$O:random_", const_cast<char**>(names), &first, &second,
                                     &generator))
      throw PyError();
    auto integer = [](PyObject* o) {
      PyRef<> index = check(PyNumber_Index(o));
      long long v = PyLong_AsLongLong(index.get());
      if (v == -1 && PyErr_Occurred()) throw PyError();
      return v;
    };
    Tensor* t = as_tensor(self);
    require_writable(t, "random_");
    long long low = 0;
    uint64_t range = default_range(t->dtype);
    if (first && !second && kwargs && PyDict_GetItemString(kwargs, "from")) type_error("random_: 'from' needs 'to'");
    if (first || second) {
      // One bound alone is the upper one.
      long long high = integer(second ? second : first);
      low = first && second ? integer(first) : 0;
      if (low >= high) runtime_error("random_: from must be below to, but got from %lld to %lld", low, high);
      if (!is_floating(t->dtype)) {
        auto [smallest, largest] = limits(t->dtype);
        if (low < smallest || high - 1 > largest)
          runtime_error("random_: a %s tensor holds values from %lld to %lld, but got from %lld to %lld",
                        info(t->dtype).name, static_cast<long long>(smallest), static_cast<long long>(largest), low,
                        high);
      }
      range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    }
    if (on_device(self))
      return draw_on_device(self, generator, "random_", check(PyLong_FromLongLong(low)).get(),
                            check(PyLong_FromUnsignedLongLong(range)).get());
    kernels::Generator& g = state_of(generator);
    PyRef<Tensor> drawn = new_tensor(DType::Long, t->sizes());
    for (int64_t i = 0; i < drawn->numel; ++i)
      drawn->ptr<int64_t>()[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + kernels::random_below(g, range));
    PyRef<Tensor> same = to_dtype(drawn.get(), t->dtype);
    copy_into(t, same.get());
    return new_ref(self);
  });
}

// u in (0, 1): never so small that its logarithm is infinite.
template <class F>
PyObject* fill_from_uniform(PyObject* self, const char* function, PyObject* generator, F&& f) {
  kernels::Generator& g = state_of(generator);
  return fill(self, function, [&]<class T>(T* out, int64_t n) {
    kernels::uniform(g, T(0), T(1), out, n);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(1.0 - static_cast<double>(out[i])));
  });
}

PyObject* tensor_exponential(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("exponential_", [&]() -> PyObject* {
    Parameter p(args, kwargs, "|d$O:exponential_", "lambd", 1);
    require_floating(self, "exponential_");
    require(p.a > 0, p.a, "exponential_", "lambd must be positive");
    if (on_device(self)) return draw_on_device(self, p.generator, "exponential_", number(p.a).get());
    return fill_from_uniform(self, "exponential_", p.generator, [&](double u) { return -std::log(u) / p.a; });
  });
}

PyObject* tensor_cauchy(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("cauchy_", [&]() -> PyObject* {
    Parameters p(args, kwargs, "|dd$O:cauchy_", "median", "sigma", 0, 1);
    require_floating(self, "cauchy_");
    require(p.b > 0, p.b, "cauchy_", "sigma must be positive");
    if (on_device(self)) return draw_on_device(self, p.generator, "cauchy_", number(p.a).get(), number(p.b).get());
    return fill_from_uniform(self, "cauchy_", p.generator,
                             [&](double u) { return p.a + p.b * std::tan(M_PI * (u - 0.5)); });
  });
}

PyObject* tensor_geometric(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("geometric_", [&]() -> PyObject* {
    Parameter p(args, kwargs, "d|$O:geometric_", "p", 0.5);
    require(p.a > 0 && p.a < 1, p.a, "geometric_", "p must lie between 0 and 1, without them");
    if (on_device(self)) return draw_on_device(self, p.generator, "geometric_", number(p.a).get());
    double base = std::log1p(-p.a);
    return fill_from_uniform(self, "geometric_", p.generator,
                             [&](double u) { return std::floor(std::log(u) / base) + 1; });
  });
}

PyObject* tensor_log_normal(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guard_named("log_normal_", [&]() -> PyObject* {
    Parameters p(args, kwargs, "|dd$O:log_normal_", "mean", "std", 1, 2);
    require_floating(self, "log_normal_");
    require(p.b > 0, p.b, "log_normal_", "std must be positive");
    if (on_device(self)) return draw_on_device(self, p.generator, "log_normal_", number(p.a).get(), number(p.b).get());
    kernels::Generator& g = state_of(p.generator);
    return fill(self, "log_normal_", [&]<class T>(T* out, int64_t n) {
      kernels::normal(g, static_cast<T>(p.a), static_cast<T>(p.b), out, n);
      for (int64_t i = 0; i < n; ++i) out[i] = std::exp(out[i]);
    });
  });
}

constexpr int kKeywords = METH_VARARGS | METH_KEYWORDS;

PyMethodDef tensor_methods[] = {
    {"uniform_", method(tensor_uniform), kKeywords,
     "uniform_(from=0, to=1, *, generator=None) -> self\n\nUniform numbers in [from, to)."},
    {"normal_", method(tensor_normal), kKeywords,
     "normal_(mean=0, std=1, *, generator=None) -> self\n\nNormal numbers."},
    {"bernoulli_", method(tensor_bernoulli), kKeywords,
     "bernoulli_(p=0.5, *, generator=None) -> self\n\nOnes with probability p (a number, or a tensor of as many), "
     "else zeros."},
    {"random_", method(tensor_random), kKeywords,
     "random_([from,] [to], *, generator=None) -> self\n\nWhole numbers in [from, to); without bounds from 0 up to "
     "what the type holds exactly."},
    {"exponential_", method(tensor_exponential), kKeywords,
     "exponential_(lambd=1, *, generator=None) -> self\n\nExponentially distributed numbers of rate lambd."},
    {"cauchy_", method(tensor_cauchy), kKeywords,
     "cauchy_(median=0, sigma=1, *, generator=None) -> self\n\nCauchy-distributed numbers."},
    {"geometric_", method(tensor_geometric), kKeywords,
     "geometric_(p, *, generator=None) -> self\n\nNumber of trials up to the first success of probability p."},
    {"log_normal_", method(tensor_log_normal), kKeywords,
     "log_normal_(mean=1, std=2, *, generator=None) -> self\n\nThe exponential of normal numbers."},
};

// ---- Generator ----------------------------------------------------------------------------------------------------

uint64_t seed_from(PyObject* o) {
  if (!PyIndex_Check(o)) type_error("manual_seed: argument 'seed' must be an int, not %.100s", type_name(o));
  PyRef<> index = check(PyNumber_Index(o));
  uint64_t seed = PyLong_AsUnsignedLongLongMask(index.get());
  if (seed == ~uint64_t{0} && PyErr_Occurred()) throw PyError();
  return seed;
}

PyObject* generator_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs))) type_error("Generator() takes no arguments");
    PyRef<> o = check(type->tp_alloc(type, 0));
    static_cast<GeneratorObject*>(o.get())->state = {};
    return o.release();
  });
}

PyObject* generator_manual_seed(PyObject* self, PyObject* seed) {
  return guard([&]() -> PyObject* {
    state_of(self) = {seed_from(seed), 0};
    return new_ref(self);
  });
}

PyObject* generator_seed(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> os = check(PyImport_ImportModule("os"));
    PyRef<> bytes = check(PyObject_CallMethod(os.get(), "urandom", "i", 8));
    uint64_t seed;
    std::memcpy(&seed, PyBytes_AS_STRING(bytes.get()), sizeof seed);
    seed &= (uint64_t{1} << 63) - 1;  // fits a LongTensor
    PyRef<> result = check(PyLong_FromUnsignedLongLong(seed));
    state_of(self) = {seed, 0};
    return result.release();
  });
}

PyObject* generator_initial_seed(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* { return PyLong_FromUnsignedLongLong(state_of(self).seed); });
}

PyObject* generator_get_state(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    int64_t size = sizeof(kernels::Generator);
    PyRef<Tensor> state = new_tensor(DType::Byte, {&size, 1});
    std::memcpy(state->bytes(), &state_of(self), sizeof(kernels::Generator));
    return state.release();
  });
}

PyObject* generator_set_state(PyObject* self, PyObject* value) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(value) || as_tensor(value)->dtype != DType::Byte)
      type_error("set_state: expected a ByteTensor, but got %.100s", type_name(value));
    PyRef<Tensor> state = contiguous(as_tensor(value));
    if (state->numel != static_cast<int64_t>(sizeof(kernels::Generator)))
      runtime_error("set_state: expected a state of %zu bytes, but got %lld", sizeof(kernels::Generator),
                    static_cast<long long>(state->numel));
    std::memcpy(&state_of(self), state->bytes(), sizeof(kernels::Generator));
    return new_ref(self);
  });
}

PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "manual_seed(seed) -> self\n\nStarts the sequence of `seed`."},
    {"seed", generator_seed, METH_NOARGS, "Seeds from the system's entropy and returns the seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The seed that was set last."},
    {"get_state", generator_get_state, METH_NOARGS, "The state as a ByteTensor."},
    {"set_state", generator_set_state, METH_O, "Continues from a state that get_state returned."},
    {nullptr, nullptr, 0, nullptr},
};

// ---- module functions ---------------------------------------------------------------------------------------------

PyObject* manual_seed(PyObject*, PyObject* seed) { return generator_manual_seed(default_object, seed); }
PyObject* get_rng_state(PyObject*, PyObject*) { return generator_get_state(default_object, nullptr); }
PyObject* set_rng_state(PyObject*, PyObject* state) { return generator_set_state(default_object, state); }

PyMethodDef module_methods[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed) -> Generator\n\nSeeds the default generator."},
    {"get_rng_state", get_rng_state, METH_NOARGS, "The default generator's state, a ByteTensor."},
    {"set_rng_state", set_rng_state, METH_O, "Puts the default generator into a state that get_rng_state returned."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject Generator_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Generator",
    .tp_basicsize = sizeof(GeneratorObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A source of random numbers. The same state gives the same numbers on every machine.",
    .tp_methods = generator_methods,
    .tp_new = generator_tp_new,
};

kernels::Generator& default_generator() { return default_object->state; }

void init_random(PyObject* module) {
  check(PyType_Ready(&Generator_Type));
  check(PyModule_AddObjectRef(module, "Generator", reinterpret_cast<PyObject*>(&Generator_Type)));
  PyRef<> generator = check(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&Generator_Type)));
  default_object = static_cast<GeneratorObject*>(new_ref(generator.get()));
  check(PyModule_AddObjectRef(module, "default_generator", generator.get()));
  check(PyModule_AddFunctions(module, module_methods));
  for (PyMethodDef& def : tensor_methods) {
    PyRef<> descriptor = check(PyDescr_NewMethod(&TensorBase_Type, &def));
    check(PyDict_SetItemString(TensorBase_Type.tp_dict, def.ml_name, descriptor.get()));
  }
  PyType_Modified(&TensorBase_Type);
}

}  // namespace torchlite
