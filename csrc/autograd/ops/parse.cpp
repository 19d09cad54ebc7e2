#include "autograd/ops/parse.h"

#include <algorithm>

#include "autograd/observer.h"
#include "autograd/ops/backcompat.h"
#include "tensor/cuda.h"
#include "tensor/python_tensor.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

bool is_exact_number(PyObject* o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o); }

// Thrown where the arguments of a call do not fit the signature; says why.
struct InvalidCall {
  std::string why;
};

std::string name_of(PyObject* o) { return is_tensor(o) ? class_name(Py_TYPE(o)) : type_name(o); }

[[noreturn]] void bad_kind(const Param& p, const char* expected, PyObject* got) {
  throw InvalidCall{"argument '" + p.name + "' must be " + expected + (p.optional ? " or None" : "") + ", not " +
                    name_of(got)};
}

[[noreturn]] void bad_element(const Param& p, Py_ssize_t k, const char* expected, PyObject* got) {
  throw InvalidCall{"element " + std::to_string(k) + " of argument '" + p.name + "' must be " + expected + ", not " +
                    name_of(got)};
}

// The era's text, which lists the types that were given, and why they do not fit.
[[noreturn]] void invalid_call(const Op& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames,
                               const std::string& why) {
  std::string got;
  Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < n + n_keywords; ++k) {
    if (k) got += ", ";
    if (k >= n) {
      const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k - n));
      if (!name) throw PyError();
      got += std::string(name) + "=";
    }
    got += name_of(args[k]);
  }
  type_error("%s received an invalid combination of arguments - got (%s), but expected one of: %s (%s)",
             op.name.c_str(), got.c_str(), op.row->signature, why.c_str());
}

// Whether an object stands for one int. Tensors and arrays have the slot whatever they hold.
bool is_int(PyObject* o) {
  if (!PyIndex_Check(o)) return false;
  const Tensor* t = is_tensor(o) ? as_tensor(o) : is_variable(o) ? as_variable(o)->data.get() : nullptr;
  if (t) return t->numel == 1 && !is_floating(t->dtype);
  if (!PyArray_Check(o)) return true;
  auto* array = reinterpret_cast<PyArrayObject*>(o);
  return PyArray_NDIM(array) == 0 && PyArray_ISINTEGER(array);
}

Device device_of(PyObject* o) {
  if (o && is_variable(o)) return as_variable(o)->data->device();
  return o && is_tensor(o) ? as_tensor(o)->device() : kCPU;
}

// The first argument that lies on a device, or nullptr.
PyObject* first_on_device(PyObject* const* given, int n) {
  if (!cuda) return nullptr;
  PyObject* const* found = std::find_if(given, given + n, [](PyObject* o) { return device_of(o) != kCPU; });
  return found == given + n ? nullptr : *found;
}

// Argument of parameter `p`, borrowed or kept alive by `owned`. `beside` is an argument that lies on a device.
PyObject* convert(const Param& p, PyObject* a, PyObject* beside, PyRef<>& owned) {
  if (a == Py_None && p.optional) return a;
  switch (p.kind) {
    case Kind::Tensor:
    case Kind::TensorOrScalar: {
      if (is_variable(a) || is_tensor(a)) return a;
      bool scalar = p.kind == Kind::TensorOrScalar;
      if (scalar && is_exact_number(a)) return a;
      if (is_array(a) || (scalar && PyArray_CheckScalar(a))) {
        owned = as_operand(a, beside);
        return owned.get();
      }
      bad_kind(p, scalar ? "a Variable, a tensor or a number" : "a Variable or a tensor", a);
    }
    case Kind::TensorList: {
      if (is_variable(a) || is_tensor(a) || !PySequence_Check(a)) bad_kind(p, "a sequence of Variables or tensors", a);
      owned = check(PySequence_Tuple(a));
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(owned.get()); ++k) {
        PyObject* item = PyTuple_GET_ITEM(owned.get(), k);
        if (!is_variable(item) && !is_tensor(item)) bad_element(p, k, "a Variable or a tensor", item);
      }
      return owned.get();
    }
    case Kind::Scalar:
      if (is_exact_number(a)) return a;
      if (is_variable(a) || is_tensor(a) ||
          !(PyNumber_Check(a) && (PyFloat_Check(a) || PyArray_CheckScalar(a) || PyIndex_Check(a))))
        bad_kind(p, "a number", a);
      owned = check(PyIndex_Check(a) ? PyNumber_Index(a) : PyNumber_Float(a));
      return owned.get();
    case Kind::Int:
      if (PyLong_CheckExact(a)) return a;
      if (!is_int(a)) bad_kind(p, "an int", a);
      owned = check(PyNumber_Index(a));
      return owned.get();
    case Kind::Ints:
      if (!is_int(a) && !PyTuple_Check(a) && !PyList_Check(a)) bad_kind(p, "an int or a sequence of ints", a);
      if (!is_int(a)) {
        owned = check(PySequence_Tuple(a));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(owned.get()); ++k)
          if (PyObject* item = PyTuple_GET_ITEM(owned.get(), k); !is_int(item)) bad_element(p, k, "an int", item);
        a = owned.get();
      }
      owned = int_tuple(parse_dims(a));
      return owned.get();
    case Kind::Bool:
      if (PyBool_Check(a)) return a;
      if (!is_int(a) && !PyArray_IsScalar(a, Bool)) bad_kind(p, "a bool", a);
      return check(PyObject_IsTrue(a)) ? Py_True : Py_False;
    case Kind::Str:
      if (!PyUnicode_Check(a)) bad_kind(p, "a str", a);
      return a;
    case Kind::Any: return a;
  }
  return a;
}

// Names that the era had for parameters, where `name` is none of the operation's; -1 if it had none such.
int by_other_name(const Op& op, const char* name) {
  static constexpr std::pair<const char*, const char*> names[] = {
      {"input", "self"}, {"value", "other"}, {"value", "src"}, {"val", "value"},
      {"src", "source"}, {"diagonal", "k"},  {"other", "dim"}, {"tensor", "source"},
  };
  for (auto [other, own] : names) {
    if (std::strcmp(name, other) != 0) continue;
    for (size_t i = 0; i < op.params.size(); ++i) {
      const Param& p = op.params[i];
      // `dim` stands for an operand only where it takes one, in max and min.
      bool fits = std::strcmp(own, "dim") != 0 || p.kind == Kind::TensorOrScalar;
      if (p.name == own && fits) return static_cast<int>(i);
    }
  }
  return -1;
}

void take_keywords(const Op& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, PyObject** given) {
  bool scaled = op.params.size() == 3 && op.params[1].name == "alpha";  // add and sub
  PyObject* value = nullptr;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    int at = -1;
    for (int i = 0; i < static_cast<int>(op.params.size()); ++i)
      if (PyUnicode_CompareWithASCIIString(name, op.params[static_cast<size_t>(i)].name.c_str()) == 0) at = i;
    if (at < 0 && scaled && PyUnicode_CompareWithASCIIString(name, "value") == 0) {
      value = args[n + k];
      continue;
    }
    if (at >= 0 && !given[at]) {
      given[at] = args[n + k];
      continue;
    }
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PyError();
    if (at < 0) at = by_other_name(op, text);
    if (at < 0) throw InvalidCall{"unexpected keyword argument '" + std::string(text) + "'"};
    if (given[at]) throw InvalidCall{"multiple values for argument '" + std::string(text) + "'"};
    given[at] = args[n + k];
  }
  if (!value) return;
  // The era's `value` of add and sub: the factor of an operand that is given as well, else the operand.
  Py_ssize_t open = 0;
  for (size_t i = 0; i < op.params.size(); ++i) open += !given[i] && !op.params[i].default_value;
  int at = given[2] || n >= open ? 1 : 2;
  if (given[at]) throw InvalidCall{"multiple values for argument 'value'"};
  given[at] = value;
}

void parse(const Op& op, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, ParsedArgs& out) {
  int total = static_cast<int>(op.params.size());
  PyObject* given[kMaxParams] = {};
  int self_index = -1;
  if (self) {
    self_index = op.self_index >= 0 ? op.self_index : 0;
    given[self_index] = self;
  }
  // Keywords first: they take their parameters out of the positional count.
  if (kwnames) take_keywords(op, args, n, kwnames, given);
  int required = 0, open = 0;
  for (int i = 0; i < total; ++i) {
    if (given[i]) continue;
    ++open;
    required += !op.params[static_cast<size_t>(i)].default_value;
  }
  const Param* last = total ? &op.params.back() : nullptr;
  PyRef<> gathered;
  Py_ssize_t used = 0;
  Py_ssize_t spare = n - required;  // optional parameters that are given, from the left
  for (int i = 0; i < total && used < n; ++i) {
    const Param& p = op.params[static_cast<size_t>(i)];
    if (given[i]) continue;
    if (p.default_value && spare <= 0) continue;
    // A number that is left out in front of a tensor: addmm(self, alpha, mat1, mat2).
    if (p.leading && (is_variable(args[used]) || is_tensor(args[used]))) continue;
    if (p.variadic && (n - used > 1 || PyIndex_Check(args[used])) && &p == last) {
      gathered = check(PyTuple_New(n - used));
      for (Py_ssize_t k = 0; used < n; ++k, ++used) PyTuple_SET_ITEM(gathered.get(), k, new_ref(args[used]));
      given[i] = gathered.get();
      break;
    }
    if (p.default_value) --spare;
    given[i] = args[used++];
  }
  if (used != n)
    throw InvalidCall{std::to_string(n) + " positional arguments, but " + std::to_string(open) + " can be given"};
  if (op.keepdim_index >= 0) {
    // The era's Variables had None for it, which they did not hand on.
    if (given[op.keepdim_index] == Py_None) given[op.keepdim_index] = nullptr;
    if (keepdim_warning && !given[op.keepdim_index]) {
      PyObject* dim = op.dim_index >= 0 ? given[op.dim_index] : nullptr;
      // mode and kthvalue take the last dimension where none is given.
      bool one = !(op.row->flags & kReduceToNumber) && op.dim_index >= 0 &&
                 op.params[static_cast<size_t>(op.dim_index)].kind == Kind::Int;
      if (one || (dim && dim != Py_None && !is_variable(dim) && !is_tensor(dim))) warn_of_keepdim(op.name.c_str());
    }
  }
  bool any_variable = false;
  PyObject* beside = first_on_device(given, total);
  for (int i = 0; i < total; ++i) {
    const Param& p = op.params[static_cast<size_t>(i)];
    // None for a flag says that the caller has no opinion.
    if (given[i] == Py_None && p.kind == Kind::Bool && p.default_value) given[i] = nullptr;
    if (!given[i]) {
      if (!p.default_value) {
        if (p.variadic) {  // view() and the like: no sizes at all
          out.owned[i] = check(PyTuple_New(0));
          out.values[i] = out.owned[i].get();
          continue;
        }
        throw InvalidCall{"argument '" + p.name + "' is missing"};
      }
      out.values[i] = p.default_value.get();
      continue;
    }
    try {
      out.values[i] = convert(p, given[i], beside, out.owned[i]);
    } catch (const PyError&) {
      name_error(op.name.c_str(), p.name.c_str());
      throw;
    }
    any_variable = any_variable || is_variable(out.values[i]);
  }
  // An array among Variables is a constant of the graph.
  if (any_variable)
    for (int i = 0; i < total; ++i)
      if (out.owned[i] && is_tensor(out.owned[i].get())) {
        out.owned[i] = new_constant(std::move(out.owned[i]).cast<Tensor>());
        out.values[i] = out.owned[i].get();
      }
}

}  // namespace

PyRef<> as_operand(PyObject* o, PyObject* beside) {
  if (is_exact_number(o) || is_variable(o) || is_tensor(o)) return PyRef<>::borrow(o);
  if (is_array(o)) return tensor_from_array(o);
  if (PyArray_CheckScalar(o)) {
    PyRef<Tensor> number = tensor_from_result(PyRef<>::borrow(o));
    Device device = device_of(beside);
    if (device == kCPU) return number;
    PyRef<Tensor> there = new_tensor(number->dtype, number->sizes(), device);
    cuda->fill(there.get(), o);
    return there;
  }
  if (PyFloat_Check(o)) return check(PyNumber_Float(o));
  if (PyLong_Check(o)) return check(PyNumber_Index(o));
  return {};
}

void parse_args(const Op& op, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, ParsedArgs& out) {
  try {
    parse(op, self, args, n, kwnames, out);
  } catch (const InvalidCall& e) {
    invalid_call(op, args, n, kwnames, e.why);
  }
}

}  // namespace torchlite
