"""What the classes of `torchlite.autograd._functions` share: names, bases, arguments, graph nodes and subclassing."""

import functools
import pickle

import numpy as np
import pytest
from function_inputs import make_inputs
from test_function_table import ENTRIES, as_tuple

import torchlite
from torchlite import _C
from torchlite.autograd import (
    Function,
    InplaceFunction,
    StochasticFunction,
    Variable,
    _functions,
    gradcheck,
    gradgradcheck,
    no_grad,
)
from torchlite.autograd._functions import *  # noqa: F403
from torchlite.autograd._functions.op_function import InplaceOpFunction, OpFunction

# ruff: noqa: F405  (the classes come by the star)

CLASSES = [
    cls
    for cls in (getattr(_functions, name) for name in _functions.__all__)
    if isinstance(cls, type) and cls.__module__.startswith(_functions.__name__)
]
LEGACY = {"Multinomial", "Bernoulli", "Normal", "NoGrad"}
WITH_SWITCH = {
    "Add", "Sub", "AddConstant", "SubConstant", "MulConstant", "DivConstant", "Negate",
    "Exp", "Tanh", "Sigmoid", "Rsqrt", "Addcmul", "Addcdiv",
    "Addmm", "Addbmm", "Baddbmm", "Addmv", "Addr",
    "IndexAdd", "IndexCopy", "IndexFill", "Squeeze", "MaskedScatter", "MaskedFill", "Scatter", "ScatterAdd",
}  # fmt: skip

every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)


def leaf(values, **flags):
    return Variable(np.array(values, dtype=np.float64), requires_grad=True, **flags)


def values(variable):
    return np.array(variable.data.numpy()).tolist()


# ---- names and bases -----------------------------------------------------------------------------------------


def test_a_star_import_leaves_the_functions_of_other_modules_alone():
    names = {}
    exec("from functools import reduce\nfrom torchlite.autograd._functions import *", names)
    assert names["reduce"] is functools.reduce
    assert not any(name in names for name in ("basic_ops", "pointwise", "tensor", "utils"))
    for name in ("Function", "InplaceFunction", "StochasticFunction", "Variable", "once_differentiable"):
        assert names[name] is getattr(torchlite.autograd, name, names[name])
    assert names["InplaceFunction"] is InplaceFunction


@every_class
def test_only_the_old_style_classes_are_legacy(cls):
    assert cls._is_legacy is (cls.__name__ in LEGACY)
    assert issubclass(cls, Function) and issubclass(cls, StochasticFunction) is (cls.__name__ in LEGACY - {"NoGrad"})


@every_class
def test_in_place_functions_are_those_with_the_switch_and_setitem(cls):
    assert issubclass(cls, InplaceFunction) is (cls.__name__ in WITH_SWITCH | {"SetItem"})


@every_class
def test_every_class_says_what_it_takes(cls):
    if cls.__name__ not in LEGACY:
        switch = "inplace=False" if cls.__name__ in WITH_SWITCH else ""
        call, _, text = cls.__doc__.partition("\n\n")
        assert call.strip().startswith(f"{cls.__name__}.apply(") and call.strip().endswith(f"{switch})") and text


def test_classes_are_pickled_by_name():
    for cls in CLASSES:
        assert pickle.loads(pickle.dumps(cls)) is cls


# ---- nodes ---------------------------------------------------------------------------------------------------

# These have no node of their own: a chunk, say, is a slice.
OTHER_NODES = {"Chunk", "Resize", "Type_same", "Type_name", "AdvancedIndexAdd", "Index"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.id)
def test_results_have_the_node_that_is_named_for_the_class(entry):
    for result in as_tuple(entry.cls.apply(*make_inputs(entry))):
        assert type(result) is Variable and result.grad_fn is not None
        if OTHER_NODES.isdisjoint((entry.cls.__name__, entry.id)):
            assert type(result.grad_fn) is entry.cls._backward_cls
            assert type(result.grad_fn).__name__ == f"{entry.cls.__name__}Backward"


def test_results_are_volatile_where_an_argument_is():
    y = Mul.apply(Variable(np.ones(2), volatile=True), leaf([1.0, 2.0]))
    assert y.volatile and y.grad_fn is None


def test_without_a_graph_results_are_leaves():
    with no_grad():
        assert Exp.apply(leaf([1.0])).is_leaf


def test_a_call_is_traced_under_its_name():
    x = leaf([1.0, 2.0])
    _C._tracer_enter((x,))
    lam = _C._tracer_exit((Negate.apply(Mul.apply(x, x)),))
    assert [let.name for let in lam.lets] == ["Mul", "Negate"]


def test_tensors_among_the_arguments_of_a_traced_call_are_constants_of_the_trace():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    _C._tracer_enter((x,))
    lam = _C._tracer_exit((IndexSelect.apply(x, 0, torchlite.LongTensor([1])),))
    (result,) = Variable._execution_engine.run_forward(lam, (x * 2,))
    assert values(result) == [[6, 8]]


VIEWS = ["Transpose", "Permute", "View", "Expand", "Squeeze", "Unsqueeze", "Unfold", "Resize", "Chunk"]


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.cls.__name__ in VIEWS or e.id in ("Index_slice", "Index_int")], ids=lambda e: e.id
)
def test_views_share_memory_and_version(entry):
    base = make_inputs(entry, strided=False)[0]
    for view in as_tuple(entry.cls.apply(base, *entry.args[1:])):
        assert view.data.storage().data_ptr() == base.data.storage().data_ptr()
        with pytest.raises(RuntimeError, match="don't share storage with any other variables"):
            (view * 1).add_(1), view.add_(1)


# ---- arguments -----------------------------------------------------------------------------------------------


def test_tensors_among_the_arguments_are_constants():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = Mul.apply(x, torchlite.from_numpy(np.array([2.0, 3.0])))
    y.sum().backward()
    assert values(x.grad) == [[2, 3], [2, 3]]
    assert values(IndexSelect.apply(x, 0, torchlite.LongTensor([1]))) == [[3, 4]]
    constant = Add.apply(torchlite.DoubleTensor([1]), torchlite.DoubleTensor([2]))
    assert type(constant) is Variable and values(constant) == [3] and not constant.requires_grad


def test_arguments_may_be_given_by_name():
    x = leaf([1.0, 2.0])
    assert values(Clamp.apply(x, min=1.5, max=5)) == [1.5, 2]
    assert values(Addcmul.apply(x, x, t2=x, scale=2)) == [3, 10]
    y = x * 1
    assert Exp.apply(i=y, inplace=True) is y


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: Clamp.apply(x, 1), r"Clamp.arguments\(\) missing 1 required positional argument: 'max'"),
        (lambda x: Log.apply(x, True), r"Unary.arguments\(\) takes 1 positional argument but 2 were given"),
        (lambda x: Exp.apply(x, True, 1), r"takes 1 positional argument but 2 were given"),
        (lambda x: Exp.apply(), r"missing 1 required positional argument: 'i'"),
        (lambda x: Mul.apply(2, 3), "Mul.apply: none of the arguments is a Variable or a tensor"),
    ],
    ids=["too few", "no switch", "too many", "none", "only numbers"],
)
def test_wrong_arguments_are_type_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call(leaf([1.0]))


def test_in_place_calls_follow_the_rules_of_in_place_operations():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Exp.apply(x, True)
    y = x * 1
    view = y.view(1, 1)
    with pytest.raises(RuntimeError, match="detected that there are 2 objects sharing it"):
        Exp.apply(y, True)
    assert values(x) == [1] and values(view) == [[1]]


def test_a_product_weighs_the_summand_by_alpha_and_itself_by_beta():
    t, x, y = leaf([[1.0]]), leaf([[10.0]]), leaf([[100.0]])
    assert values(Addmm.apply(t, x, y, 2, 3)) == [[2 * 1 + 3 * 1000]]


@pytest.mark.parametrize(
    "call, sizes",
    [
        (lambda x: Max.apply(x), [(1,)]),
        (lambda x: Median.apply(x), [(1,)]),
        (lambda x: Max.apply(x, 1), [(2,), (2,)]),
        (lambda x: Median.apply(x, 1, True), [(2, 1), (2, 1)]),
        (lambda x: Mode.apply(x), [(2,), (2,)]),
        (lambda x: Kthvalue.apply(x, 2), [(2,), (2,)]),
        (lambda x: Sort.apply(x), [(2, 3), (2, 3)]),
        (lambda x: Sort.apply(x, None, True, False), [(2, 3)]),
        (lambda x: Topk.apply(x, 2), [(2, 2), (2, 2)]),
        (lambda x: Topk.apply(x, 2, None, True, True, False), [(2, 2)]),
    ],
    ids=["max", "median", "max of rows", "median of rows", "mode", "kthvalue", "sort", "sort without", "topk",
         "topk without"],
)  # fmt: skip
def test_values_come_with_their_indices_where_there_is_a_dimension(call, sizes):
    x = leaf([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    results = call(x)
    assert isinstance(results, tuple) is (len(sizes) == 2)
    results = as_tuple(results)
    assert [tuple(r.size()) for r in results] == sizes and results[0].requires_grad
    for indices in results[1:]:
        assert type(indices.data) is torchlite.LongTensor and not indices.requires_grad


def test_largest_values_come_first_unless_the_smallest_are_asked_for():
    x = leaf([3.0, 1.0, 2.0])
    assert [values(v) for v in Topk.apply(x, 2)] == [[3, 2], [0, 2]]
    assert [values(v) for v in Topk.apply(x, 2, 0, False)] == [[1, 2], [1, 2]]
    assert [values(v) for v in Sort.apply(x, 0, True)] == [[3, 2, 1], [0, 2, 1]]


# ---- those that are not in the table -------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5.0, "variable", "tensor"])
def test_setitem_writes_and_returns_its_argument(value):
    source = leaf([5.0])
    given = {"variable": source, "tensor": source.data}.get(value, value)
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    z = SetItem.apply(y, 1, given)
    assert z is y and values(y) == [1, 5, 3] and y._version == 1
    assert type(y.grad_fn).__name__ == "SetItemBackward"
    (y * y).sum().backward()
    assert values(x.grad) == [2, 0, 6]
    assert source.grad is None or values(source.grad) == [10]


def test_setitem_of_a_slice_is_differentiable():
    def write(x, part):
        return SetItem.apply(x * 1, (slice(None), 1), part)

    assert gradcheck(write, (leaf(np.ones((2, 3))), leaf([3.0, 4.0])), raise_exception=True)


def test_nograd_stops_gradients_on_the_same_memory():
    x = leaf([1.0, 2.0]) * 1
    y = NoGrad()(x)
    assert not y.requires_grad and y.data.data_ptr() == x.data.data_ptr()
    assert type(y.grad_fn) is NoGrad and not (y * 2).requires_grad
    with pytest.raises(RuntimeError, match="detected that there are 2 objects sharing it"):
        y.add_(1)


def test_a_cast_to_a_float_type_casts_its_gradient_back():
    x = leaf([1.0, 2.0])
    y = Type.apply(x, torchlite.FloatTensor)
    assert type(y.data) is torchlite.FloatTensor and type(y.grad_fn).__name__ == "TypeBackward"
    y.sum().backward()
    assert type(x.grad.data) is torchlite.DoubleTensor and values(x.grad) == [1, 1]


def test_a_cast_to_an_integer_type_is_a_constant():
    assert not Type.apply(leaf([1.5]), "torchlite.LongTensor").requires_grad


def test_cuda_transfer_is_the_variables_own():
    x = leaf([1.0])
    try:
        x.cuda()
    except Exception as missing:
        with pytest.raises(type(missing), match="CUDA|cupy|CuPy"):
            CudaTransfer.apply(x)
    else:
        assert CudaTransfer.apply(x, 0).is_cuda


# ---- sizes of gradients --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, old", [((2, 3), (3,)), ((2, 3), (2, 1)), ((4, 2, 3), (1, 1)), ((2, 3), (1,)), ((2, 3), (2, 3))]
)
def test_gradients_of_broadcast_operands_are_summed_back(size, old):
    g = leaf(np.arange(np.prod(size)).reshape(size))
    for unexpand in (maybe_unexpand, maybe_unexpand_or_view):
        result = unexpand(g, torchlite.Size(old))
        assert result.size() == old
        extra = len(size) - len(old)
        summed = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(old) if n == 1)
        assert values(result) == np.sum(np.array(g.data.numpy()), summed).reshape(old).tolist()
    assert (maybe_unexpand(g, torchlite.Size(old)) is g) is (size == old)


def test_gradients_of_operands_that_were_paired_in_order_are_reshaped():
    g = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert values(maybe_unexpand_or_view(g, torchlite.Size([2, 3]))) == [[1, 2, 3], [4, 5, 6]]
    assert values(maybe_unexpand_or_view(g.t(), torchlite.Size([6]))) == [1, 3, 5, 2, 4, 6]


@pytest.mark.parametrize("old", [(2,), (3, 3), (2, 3, 4)])
def test_a_size_that_does_not_broadcast_is_an_error(old):
    with pytest.raises(RuntimeError, match=f"size {'x'.join(map(str, old))} does not broadcast to 2x3"):
        maybe_unexpand(leaf(np.ones((2, 3))), torchlite.Size(old))


def test_sizes_of_gradients_are_brought_back_differentiably():
    for old in ((3,), (2, 1), (6,)):
        assert gradcheck(lambda g, old=old: maybe_unexpand_or_view(g, old), (leaf(np.ones((2, 3))),))


# ---- subclasses ----------------------------------------------------------------------------------------------


def test_a_subclass_may_replace_the_gradient_alone():
    class StraightThrough(Sign):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    x = leaf([-2.0, 3.0])
    y = StraightThrough.apply(x)
    assert values(y) == [-1, 1] and type(y.grad_fn) is StraightThrough._backward_cls
    y.sum().backward()
    assert values(x.grad) == [1, 1]


def test_a_subclass_may_replace_the_forward_alone():
    class Noted(Exp):
        seen = []

        @staticmethod
        def forward(ctx, i):
            Noted.seen.append(i.size())
            return Exp.forward(ctx, i)

    assert gradcheck(Noted.apply, (leaf([0.5, 1.0]),)) and Noted.seen


def test_a_subclass_that_replaces_nothing_is_the_operation():
    class Plain(Exp):
        """The exponential function."""

    assert type(Plain.apply(leaf([1.0])).grad_fn) is Exp._backward_cls and Plain._backward_cls is Exp._backward_cls


def test_a_subclass_of_a_subclass_keeps_to_its_context():
    class First(Exp):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 0

    class Second(First):
        pass

    x = leaf([1.0])
    Second.apply(x).backward()
    assert values(x.grad) == [0] and Second._backward_cls._forward_cls is Second


def test_an_in_place_call_through_a_context_needs_a_gradient_of_its_own():
    class Inherits(Exp):
        @staticmethod
        def forward(ctx, *args):
            return Exp.forward(ctx, *args)

    x = leaf([1.0])
    y = x * 1
    z = Inherits.apply(y, True)
    assert z is y and y._version == 1 and values(y) == pytest.approx([np.exp(1.0)])
    with pytest.raises(RuntimeError, match="Inherits: the inherited backward cannot differentiate an in-place call"):
        z.backward()


def test_new_classes_are_declared_by_an_operation():
    class Difference(InplaceOpFunction, op="sub"):
        @staticmethod
        def arguments(a, b, factor=1):
            return a, factor, b

    x, y = leaf([5.0]) * 1, leaf([2.0])
    assert values(Difference.apply(x, y, 2)) == [1] and values(Difference.apply(x, y, 2, True)) == [1]
    assert values(x) == [1]
    assert Difference.__doc__.startswith("Difference.apply(a, b, factor=1, inplace=False)\n\n")
    with pytest.raises(KeyError, match="there is no operation named 'nonsense'"):

        class Nonsense(OpFunction, op="nonsense"):
            pass


# ---- operands that don't broadcast ---------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Add, Sub, Mul, Div, Pow, Atan2, Addcmul, Addcdiv], ids=lambda c: c.__name__)
@pytest.mark.filterwarnings("ignore:self and other not broadcastable")
def test_operands_of_as_many_elements_are_paired_in_order(cls):
    rng = np.random.default_rng(0)
    sizes = [(2, 3), (6,), (3, 2)] if cls in (Addcmul, Addcdiv) else [(2, 3), (3, 2)]
    inputs = tuple(leaf(rng.uniform(0.5, 1.5, size)) for size in sizes)
    with pytest.warns(UserWarning, match="self and other not broadcastable, but have the same number of elements"):
        result = cls.apply(*inputs)
    flat = cls.apply(*(i.view(6) for i in inputs))
    assert result.size() == (2, 3) and values(result.view(6)) == values(flat)
    assert gradcheck(cls.apply, inputs, raise_exception=True)
    assert gradgradcheck(cls.apply, inputs, raise_exception=True)


@pytest.mark.parametrize("cls", [Add, Mul, Eq, Cmax, Addcmul], ids=lambda c: c.__name__)
def test_operands_of_other_numbers_of_elements_are_an_error(cls):
    inputs = [leaf(np.ones(size)) for size in ((2, 3), (4,), (4,))][: 3 if cls is Addcmul else 2]
    with pytest.raises(RuntimeError, match="(?i)size|broadcast|shape"):
        cls.apply(*inputs)


@pytest.fixture
def warnings_of_old_programs():
    _C._set_backcompat_keepdim_warn(True)
    yield
    _C._set_backcompat_keepdim_warn(False)


@pytest.mark.parametrize("cls", [Sum, Prod, Mean, Max, Min, Mode, Median], ids=lambda c: c.__name__)
def test_keepdim_warns_once_where_it_is_left_out(cls, warnings_of_old_programs):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    for call in (lambda: cls.apply(x, 1), lambda: cls.apply(x, 1, None)):
        with pytest.warns(UserWarning, match=f'call to "{cls._op.name}" uses default value for keepdim') as caught:
            call()
        assert len(caught) == 1
    cls.apply(x, 1, False), cls.apply(x, 1, True)


def test_squeeze_takes_inplace_right_behind_the_tensor():
    x = Variable(torchlite.ones(2, 1, 3)) + 0
    assert Squeeze.apply(x, True) is x
    assert x.size() == (2, 3)
