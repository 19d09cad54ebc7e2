"""Variable, with its methods written over the Functions of this package."""
# ruff: noqa: F401, F403, F405

import warnings
import weakref
from collections import OrderedDict

import torch
import torch._C as _C
import torch.utils.hooks as hooks


class Variable(_C._VariableBase):
    _fallthrough = {"size", "stride", "nelement", "ndimension", "element_size", "is_contiguous", "is_set_to",
                    "is_signed", "numel", "dim", "get_device", "is_cuda", "shape"}  # fmt: skip

    def __getattr__(self, name):
        if name in self._fallthrough:
            return getattr(self.data, name)
        raise AttributeError(name)

    # ---- protocols ----

    def __getitem__(self, key):
        key = Variable(key) if torch.is_tensor(key) else key
        if isinstance(key, Variable):
            if type(key.data).__name__ == "ByteTensor":
                return MaskedSelect.apply(self, key)
            if type(key.data).__name__ == "LongTensor":
                return IndexSelect.apply(self, 0, key)
        return Index.apply(self, key)

    def __setitem__(self, key, value):
        if isinstance(key, Variable) and type(key.data).__name__ == "ByteTensor":
            if isinstance(value, Variable):
                return MaskedScatter.apply(self, key, value, True)
            return MaskedFill.apply(self, key, value, True)
        return SetItem.apply(self, key, value)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Variables created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol at the moment")
        result = type(self)(self.data.clone())
        result.requires_grad, result.volatile = self.requires_grad, self.volatile
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol):
        state = self.requires_grad, self.volatile, self._backward_hooks
        if protocol > 1:
            return type(self), (self.data,), state
        from copyreg import __newobj__
        return __newobj__, (type(self), self.data), state

    def __setstate__(self, state):
        if self.grad_fn is not None:
            raise RuntimeError("__setstate__ can be only called on leaf variables")
        self.requires_grad, self.volatile, self._backward_hooks = state

    def __repr__(self):
        return "Variable containing:" + repr(self.data)

    def __bool__(self):
        if self.data.numel() == 0:
            return False
        raise RuntimeError("bool value of Variable objects containing non-empty " + torch.typename(self.data)
                           + " is ambiguous")

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        return iter([self[i] for i in range(self.size(0))])

    def __hash__(self):
        return id(self)

    def __dir__(self):
        return sorted(set(dir(type(self))) | set(self.__dict__) | self._fallthrough)

    # ---- the graph ----

    def backward(self, gradient=None, retain_graph=None, create_graph=None, retain_variables=None):
        torch.autograd.backward(self, gradient, retain_graph, create_graph, retain_variables)

    def register_hook(self, hook):
        if self.volatile:
            raise RuntimeError("cannot register a hook on a volatile variable")
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a variable that doesn't require gradient")
        if self._backward_hooks is None:
            self._backward_hooks = OrderedDict()
            if self.grad_fn is not None:
                self.grad_fn._register_hook_dict(self)
        handle = hooks.RemovableHandle(self._backward_hooks)
        self._backward_hooks[handle.id] = hook
        return handle

    def reinforce(self, reward):
        if not isinstance(self.grad_fn, StochasticFunction):
            raise RuntimeError("reinforce() can be only called on outputs of stochastic functions")
        self.grad_fn._reinforce(reward)

    def detach(self):
        result = NoGrad()(self)
        result._grad_fn = None
        return result

    def detach_(self):
        self._grad_fn = None
        self.requires_grad = False

    def retain_grad(self):
        if self.grad_fn is None or hasattr(self, "_retains"):
            return
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Variable that has requires_grad=False")
        weak = weakref.ref(self)

        def keep(gradient):
            v = weak()
            if v is not None:
                v._grad = gradient if v._grad is None else v._grad + gradient

        self.register_hook(keep)
        self._retains = True

    def contiguous(self):
        self.data = self.data.contiguous()
        return self

    def clone(self):
        return Clone.apply(self)

    # ---- types ----

    def type(self, t):
        return self if type(self.data) is t else Type.apply(self, t)

    def type_as(self, other):
        return self.type(type(other.data if isinstance(other, Variable) else other))

    def cpu(self):
        return self

    def double(self):
        return self.type(torch.DoubleTensor)

    def float(self):
        return self.type(torch.FloatTensor)

    def half(self):
        return self.type(torch.HalfTensor)

    def long(self):
        return self.type(torch.LongTensor)

    def int(self):
        return self.type(torch.IntTensor)

    def short(self):
        return self.type(torch.ShortTensor)

    def char(self):
        return self.type(torch.CharTensor)

    def byte(self):
        return self.type(torch.ByteTensor)

    # ---- arithmetic ----

    def _arithmetic(self, with_variable, with_number, other, *inplace):
        if isinstance(other, Variable):
            return with_variable.apply(self, other, *inplace)
        assert not torch.is_tensor(other)
        return with_number.apply(self, other, *inplace)

    def add(self, other):
        return self._arithmetic(Add, AddConstant, other)

    def add_(self, other):
        return self._arithmetic(Add, AddConstant, other, True)

    def sub(self, other):
        return self._arithmetic(Sub, SubConstant, other)

    def sub_(self, other):
        return self._arithmetic(Sub, SubConstant, other, True)

    def mul(self, other):
        return self._arithmetic(Mul, MulConstant, other)

    def mul_(self, other):
        if not isinstance(other, Variable) and not torch.is_tensor(other):
            return MulConstant.apply(self, other, True)
        raise RuntimeError("mul_ only supports scalar multiplication")

    def div(self, other):
        return self._arithmetic(Div, DivConstant, other)

    def div_(self, other):
        if not isinstance(other, Variable) and not torch.is_tensor(other):
            return DivConstant.apply(self, other, True)
        raise RuntimeError("div_ only supports scalar multiplication")

    def pow(self, other):
        return self._arithmetic(Pow, PowConstant, other)

    __add__ = __radd__ = add
    __iadd__ = add_
    __sub__ = sub
    __isub__ = sub_
    __mul__ = __rmul__ = mul
    __imul__ = mul_
    __truediv__ = __div__ = div
    __pow__ = pow

    def __rsub__(self, other):
        return SubConstant.apply(other, self)

    def __rtruediv__(self, other):
        return DivConstant.apply(other, self)

    __rdiv__ = __rtruediv__

    def __rpow__(self, other):
        return PowConstant.apply(other, self)

    def __ipow__(self, other):
        raise NotImplementedError("in-place pow not implemented")

    def __neg__(self):
        return Negate.apply(self)

    def __matmul__(self, other):
        return self.matmul(other)

    def __mod__(self, other):
        return self.remainder(other)

    def _compare(self, function, other):
        if torch.is_tensor(other):
            raise AssertionError("can't compare Variable and tensor")
        return function.apply(self, other)

    def __eq__(self, other):
        return self.eq(other)

    def __ne__(self, other):
        return self.ne(other)

    def __lt__(self, other):
        return self.lt(other)

    def __le__(self, other):
        return self.le(other)

    def __gt__(self, other):
        return self.gt(other)

    def __ge__(self, other):
        return self.ge(other)

    # ---- pointwise ----

    def neg(self):
        return Negate.apply(self)

    def neg_(self):
        return Negate.apply(self, True)

    def clamp(self, min=None, max=None):
        if min is None and max is None:
            raise ValueError("clamp requires specifying at least one of min and max arguments")
        if min is None:
            return CminConstant.apply(self, max)
        return CmaxConstant.apply(self, min) if max is None else Clamp.apply(self, min, max)

    def lerp(self, end, weight):
        return Lerp.apply(self, end, weight)

    def atan2(self, x):
        return Atan2.apply(self, x)

    def fmod(self, other):
        return Fmod.apply(self, other)

    def remainder(self, other):
        return Remainder.apply(self, other)

    def _scaled(self, function, args, inplace):
        scale, t1, t2 = args if len(args) == 3 else (1,) + args
        return function.apply(self, t1, t2, scale, inplace)

    def addcmul(self, *args):
        return self._scaled(Addcmul, args, False)

    def addcmul_(self, *args):
        return self._scaled(Addcmul, args, True)

    def addcdiv(self, *args):
        return self._scaled(Addcdiv, args, False)

    def addcdiv_(self, *args):
        return self._scaled(Addcdiv, args, True)

    # ---- reductions ----

    def max(self, dim=None, keepdim=None):
        return Cmax.apply(self, dim) if isinstance(dim, Variable) else Max.apply(self, dim, keepdim)

    def min(self, dim=None, keepdim=None):
        return Cmin.apply(self, dim) if isinstance(dim, Variable) else Min.apply(self, dim, keepdim)

    def kthvalue(self, k, dim=None, keepdim=None):
        return Kthvalue.apply(self, k, dim, keepdim)

    def norm(self, p=2, dim=None, keepdim=None):
        return Norm.apply(self, p, dim, keepdim)

    def var(self, dim=None, keepdim=None, unbiased=True):
        if dim is None:
            mean, n = self.mean().expand_as(self), self.numel()
            squares = (self - mean).pow(2).sum()
        else:
            mean = self.mean(dim, keepdim).contiguous()
            if not keepdim and self.dim() > 1:
                mean = mean.unsqueeze(dim)
            n = self.size(dim)
            squares = (self - mean.expand_as(self)).pow(2).sum(dim, keepdim)
        return squares / (n - 1 if unbiased else n)

    def std(self, dim=None, keepdim=None, unbiased=True):
        return self.var(dim, keepdim, unbiased).sqrt()

    def dist(self, other, p=2):
        return (self - other).norm(p)

    def sort(self, dim=None, descending=False):
        return Sort.apply(self, dim, descending, True)

    def topk(self, k, dim=None, largest=True, sorted=True):
        return Topk.apply(self, k, dim, largest, sorted, True)

    def cumsum(self, dim):
        return Cumsum.apply(self, dim)

    def cumprod(self, dim):
        return Cumprod.apply(self, dim)

    # ---- shape ----

    def view(self, *sizes):
        return View.apply(self, _sizes(sizes))

    def view_as(self, other):
        return View.apply(self, other.size())

    def expand(self, *sizes):
        return Expand.apply(self, _sizes(sizes))

    def expand_as(self, other):
        return Expand.apply(self, other.size())

    def t(self):
        if self.dim() != 2:
            raise RuntimeError(f"t() expects a 2D Variable, but self is {self.dim()}D")
        return Transpose.apply(self, 0, 1)

    def transpose(self, d1, d2):
        return Transpose.apply(self, d1, d2)

    def permute(self, *dims):
        return Permute.apply(self, dims)

    def select(self, dim, index):
        dim = dim % self.dim()
        key = tuple(slice(None) for _ in range(dim)) + (index,)
        return Index.apply(self, key)

    def narrow(self, dim, start, length):
        dim = dim % self.dim()
        key = tuple(slice(None) for _ in range(dim)) + (slice(start, start + length),)
        return Index.apply(self, key)

    def squeeze(self, dim=None):
        return Squeeze.apply(self, dim)

    def squeeze_(self, dim=None):
        return Squeeze.apply(self, dim, True)

    def unsqueeze(self, dim):
        return Unsqueeze.apply(self, dim)

    def unfold(self, dim, size, step):
        return Unfold.apply(self, dim, size, step)

    def repeat(self, *repeats):
        return Repeat.apply(self, _sizes(repeats))

    def chunk(self, n, dim=0):
        return Chunk.apply(self, n, dim)

    def split(self, size, dim=0):
        n = self.size(dim)
        return tuple(self.narrow(dim, start, min(size, n - start)) for start in range(0, n, size))

    def resize(self, *sizes):
        return Resize.apply(self, _sizes(sizes))

    def resize_as(self, other):
        return Resize.apply(self, other.size())

    # ---- linear algebra ----

    def _product(self, function, args, inplace):
        numbers, (x, y) = args[:-2], args[-2:]
        alpha, beta = numbers if len(numbers) == 2 else (numbers + (1, 1))[:2]
        return function.apply(self, x, y, alpha, beta, inplace)

    def _of_zeros(self, function, x, y, *sizes):
        return function.apply(Variable(x.data.new(*sizes).zero_()), x, y, 0, 1)

    def mm(self, other):
        return self._of_zeros(Addmm, self, other, self.size(0), other.size(1))

    def bmm(self, other):
        return self._of_zeros(Baddbmm, self, other, self.size(0), self.size(1), other.size(2))

    def mv(self, other):
        return self._of_zeros(Addmv, self, other, self.size(0))

    def ger(self, other):
        return self._of_zeros(Addr, self, other, self.size(0), other.size(0))

    def dot(self, other):
        return Dot.apply(self, other)

    def matmul(self, other):
        return torch.matmul(self, other)

    def diag(self, k=0):
        return Diag.apply(self, k)

    def tril(self, k=0):
        return Tril.apply(self, k)

    def triu(self, k=0):
        return Triu.apply(self, k)

    def trace(self):
        return Trace.apply(self)

    def cross(self, other, dim=-1):
        return Cross.apply(self, other, dim)

    def inverse(self):
        return Inverse.apply(self)

    def gesv(self, a):
        return Gesv.apply(self, a)

    def potrf(self, upper=True):
        return Potrf.apply(self, upper)

    # ---- indices and masks ----

    def index_select(self, dim, index):
        return IndexSelect.apply(self, dim, index)

    def gather(self, dim, index):
        return Gather.apply(self, dim, index)

    def masked_select(self, mask):
        return MaskedSelect.apply(self, mask)

    def masked_copy(self, mask, source):
        warnings.warn("masked_copy is deprecated and renamed to masked_scatter", stacklevel=2)
        return self.masked_scatter(mask, source)

    # ---- random ----

    def multinomial(self, num_samples=1, replacement=False):
        return Multinomial(num_samples, replacement)(self)

    def bernoulli(self):
        return Bernoulli()(self)

    class _torch:
        @staticmethod
        def cat(iterable, dim=0):
            return Concat.apply(dim, *iterable)

        @staticmethod
        def normal(means, std=1):
            if isinstance(std, Variable):
                return Normal()(means, std)
            return Normal(std)(means)


def _sizes(args):
    return args[0] if len(args) == 1 and not isinstance(args[0], int) else args


from ._functions import *  # noqa: E402
from .stochastic_function import StochasticFunction  # noqa: E402


def _method(function, *after):
    def method(self, *args):
        return function.apply(self, *(args + after))
    return method


# Methods whose arguments are those of the Function; some of them also in place.
for _class in (Exp, Rsqrt, Tanh, Sigmoid):
    setattr(Variable, _class.__name__.lower(), _method(_class))
for _class in (Exp, Tanh, Sigmoid):
    setattr(Variable, _class.__name__.lower() + "_", _method(_class, True))
for _class in (Log, Log1p, Sinh, Cosh, Abs, Sqrt, Sin, Cos, Tan, Asin, Acos, Atan, Reciprocal, Floor, Ceil, Round,
               Sign, Trunc, Frac):
    setattr(Variable, _class.__name__.lower(), _method(_class))
for _name, _class in {"index_add": IndexAdd, "index_copy": IndexCopy, "index_fill": IndexFill, "scatter": Scatter,
                      "scatter_add": ScatterAdd, "masked_fill": MaskedFill, "masked_scatter": MaskedScatter}.items():
    setattr(Variable, _name, _method(_class))
    setattr(Variable, _name + "_", _method(_class, True))
for _class in (Addmm, Addbmm, Baddbmm, Addmv, Addr):
    _name = _class.__name__.lower()
    setattr(Variable, _name, lambda self, *args, _class=_class: self._product(_class, args, False))
    setattr(Variable, _name + "_", lambda self, *args, _class=_class: self._product(_class, args, True))
for _class in (Sum, Prod, Mean, Median, Mode):
    setattr(Variable, _class.__name__.lower(),
            lambda self, dim=None, keepdim=None, _class=_class: _class.apply(self, dim, keepdim))
for _class in (Eq, Ne, Gt, Ge, Lt, Le):
    setattr(Variable, _class.__name__.lower(), lambda self, other, _class=_class: self._compare(_class, other))
for _name in dir(Variable):
    if not _name.startswith("_") and not _name.endswith("_") and not hasattr(Variable._torch, _name):
        setattr(Variable._torch, _name, staticmethod(getattr(Variable, _name)))

Variable._execution_engine = _C._ImperativeEngine()
