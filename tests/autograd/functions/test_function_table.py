"""Every class of `torchlite.autograd._functions`, on the inputs of the table: first and second derivatives, in place,
and through a context.
"""

import numpy as np
import pytest
import table_arithmetic
import table_reductions
import table_tensors
from function_inputs import make_inputs

from torchlite.autograd import Variable, _functions, gradcheck, gradgradcheck
from torchlite.autograd._functions import Function, InplaceFunction, StochasticFunction

ENTRIES = table_arithmetic.ENTRIES + table_reductions.ENTRIES + table_tensors.ENTRIES
CLASSES = [
    cls
    for cls in (getattr(_functions, name) for name in _functions.__all__)
    if isinstance(cls, type) and issubclass(cls, Function) and cls.__module__.startswith(_functions.__name__)
]

every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.id)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def arrays(result):
    return [np.array(r.data.numpy()) for r in as_tuple(result)]


def on_variables(cls, inputs):
    """`cls.apply` as a function of the Variables among `inputs`, and these."""

    def apply(*variables):
        given = iter(variables)
        return cls.apply(*(next(given) if isinstance(i, Variable) else i for i in inputs))

    return apply, tuple(i for i in inputs if isinstance(i, Variable))


def strided_gradients(outputs):
    """Random gradients of the differentiable outputs, on memory with gaps."""
    rng = np.random.default_rng(0)
    gradients = []
    for o in outputs:
        values = rng.standard_normal(tuple(o.size()) + (2,))[..., 0]
        gradients.append(Variable(values, requires_grad=o.requires_grad))
    return tuple(gradients)


def test_no_entry_has_the_name_of_another():
    names = [e.id for e in ENTRIES]
    assert sorted(names) == sorted(set(names))


# These cannot be in the table: they write, they draw, they need a GPU, they stop gradients.
APART = {"SetItem", "NoGrad", "CudaTransfer"}


def test_the_table_has_every_class():
    missing = {c.__name__ for c in CLASSES if not issubclass(c, StochasticFunction)} - {e.cls.__name__ for e in ENTRIES}
    assert missing == APART


@every_entry
def test_gradients_agree_with_differences(entry):
    assert gradcheck(*on_variables(entry.cls, make_inputs(entry)), raise_exception=True)


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.cls._op is None or e.cls._op.differentiable], ids=lambda e: e.id
)
def test_second_derivatives_agree_with_differences_of_gradients(entry):
    inputs = make_inputs(entry)
    outputs = as_tuple(entry.cls.apply(*inputs))
    assert gradgradcheck(*on_variables(entry.cls, inputs), strided_gradients(outputs), raise_exception=True)


@every_entry
def test_values_do_not_depend_on_strides_and_forward_works_on_tensors(entry):
    expected = arrays(entry.cls.apply(*make_inputs(entry)))
    for got in (
        arrays(entry.cls.apply(*make_inputs(entry, strided=False))),
        arrays(run_forward(entry.cls, make_inputs(entry))),
    ):
        assert [a.shape for a in got] == [a.shape for a in expected]
        assert all(np.allclose(a, b, rtol=1e-13, atol=1e-15) for a, b in zip(got, expected, strict=True))


class _Holder:
    """What a forward that is called by hand is given as context."""

    def save_for_backward(self, *tensors):
        self.saved = tensors

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self.constants = tensors


def run_forward(cls, inputs):
    result = cls.forward(_Holder(), *(i.data if isinstance(i, Variable) else i for i in inputs))
    return tuple(Variable(r) for r in as_tuple(result))


# ---- in place ------------------------------------------------------------------------------------------------


def written_in_place(entry):
    """Index of the argument that an in-place call writes: the first one that is a Variable."""
    return next(i for i, a in enumerate(make_inputs(entry)) if isinstance(a, Variable))


IN_PLACE = [e for e in ENTRIES if issubclass(e.cls, InplaceFunction) and e.in_place]


def in_place_call(entry, inputs, by_keyword=False):
    """The in-place result on interior copies of the inputs, and the copy that was written."""
    copies = [i + 0 if isinstance(i, Variable) and i.requires_grad else i for i in inputs]
    target = copies[written_in_place(entry)]
    count = entry.cls.arguments.__code__.co_argcount
    if by_keyword or len(copies) < count:
        return entry.cls.apply(*copies, inplace=True), target
    return entry.cls.apply(*copies, True), target


@pytest.mark.parametrize("entry", IN_PLACE, ids=lambda e: e.id)
def test_in_place_the_argument_gets_the_result_and_a_new_version(entry):
    expected = arrays(entry.cls.apply(*make_inputs(entry)))
    for by_keyword in (False, True):
        result, target = in_place_call(entry, make_inputs(entry), by_keyword)
        assert result is target and target._version >= 1
        assert arrays(result)[0].shape == expected[0].shape
        assert np.allclose(arrays(result)[0], expected[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("entry", IN_PLACE, ids=lambda e: e.id)
def test_in_place_the_gradients_are_the_same(entry):
    def gradients(call):
        inputs = make_inputs(entry)
        result = call(inputs)
        rng = np.random.default_rng(1)
        result.backward(Variable(rng.standard_normal(tuple(result.size()))))
        return [np.array(i.grad.data.numpy()) for i in inputs if isinstance(i, Variable) and i.requires_grad]

    expected = gradients(lambda inputs: entry.cls.apply(*inputs))
    got = gradients(lambda inputs: in_place_call(entry, inputs)[0])
    assert all(np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(got, expected, strict=True))


# ---- through a context ---------------------------------------------------------------------------------------


def first_of_each_class():
    found = {}
    for e in ENTRIES:
        found.setdefault(e.cls, e)
    return list(found.values())


@pytest.mark.parametrize("entry", first_of_each_class(), ids=lambda e: e.id)
def test_a_subclass_may_call_the_forward_and_backward_that_it_inherits(entry):
    base = entry.cls
    calls = []

    class Derived(base):
        @staticmethod
        def forward(ctx, *args):
            calls.append("forward")
            return base.forward(ctx, *args)

        @staticmethod
        def backward(ctx, *grads):
            calls.append("backward")
            return base.backward(ctx, *grads)

    inputs = make_inputs(entry)
    outputs = as_tuple(Derived.apply(*inputs))
    assert type(outputs[0].grad_fn).__name__ == "DerivedBackward"
    assert all(np.array_equal(a, b) for a, b in zip(arrays(outputs), arrays(base.apply(*inputs)), strict=True))
    if any(o.requires_grad for o in outputs):
        assert gradcheck(*on_variables(Derived, inputs), raise_exception=True)
        assert gradgradcheck(*on_variables(Derived, inputs), strided_gradients(outputs), raise_exception=True)
        assert "backward" in calls
    assert "forward" in calls
