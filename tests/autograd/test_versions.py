"""Version counters: who shares one, what a write in place changes, what it is refused for, and what notices it."""

import re

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import AddInPlace, Exp, Mul, Scale, TenfoldIdentity

import torchlite
from torchlite import _C
from torchlite.autograd import Variable, grad, no_grad

MODIFIED = "modified by an inplace operation"
LEAF = "a leaf Variable that requires grad has been used in an in-place operation"


def interior(values=(1.0, 2.0)):
    return leaf(values) * 1


WRITES = {
    "add_": lambda v: v.add_(1),
    "mul_": lambda v: v.mul_(2),
    "+=": lambda v: v.__iadd__(1),
    "tanh_": lambda v: v.tanh_(),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(3),
    "clamp_": lambda v: v.clamp_(0, 1),
    "copy_": lambda v: v.copy_(constant([5.0, 6.0])),
    "item assignment": lambda v: v.__setitem__(0, 7.0),
    "mask assignment": lambda v: v.__setitem__(v.data.gt(1), 7.0),
    "python function": lambda v: AddInPlace.apply(v, 1),
}
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)

VIEWS = {
    "view": lambda v: v.view(2, 1),
    "index": lambda v: v[0],
    "slice": lambda v: v[:1],
    "narrow": lambda v: v.narrow(0, 0, 1),
    "select": lambda v: v.select(0, 1),
    "transpose": lambda v: v.view(1, 2).t(),
    "expand": lambda v: v.expand(3, 2),
    "squeeze": lambda v: v.view(1, 2).squeeze(),
    "unsqueeze": lambda v: v.unsqueeze(0),
    "detach": lambda v: v.detach(),
    "returned input": lambda v: TenfoldIdentity.apply(v),
    "view of a view": lambda v: v.view(2, 1)[1:].t(),
}
views = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


# ---- a write ------------------------------------------------------------------------------------------------------


@writes
@pytest.mark.parametrize("make", [interior, lambda: constant([1.0, 2.0])], ids=["interior", "leaf without gradient"])
def test_a_write_gives_a_new_version(write, make):
    v = make()
    assert v._version == 0
    write(v)
    assert v._version == 1
    write(v)
    assert v._version == 2


@writes
def test_a_write_into_a_leaf_is_refused_before_anything_changes(write):
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=LEAF):
        write(x)
    assert values(x) == [1, 2] and x._version == 0 and x.is_leaf and x.requires_grad
    (x * x).sum().backward()
    assert values(x.grad) == [2, 4]


@writes
@views
def test_a_write_into_shared_memory_is_refused_before_anything_changes(write, view):
    v = interior()
    shared = view(v)
    with pytest.raises(RuntimeError, match="detected that there are [23] objects sharing it"):
        write(v)
    assert values(v) == [1, 2] and v._version == shared._version == 0
    del shared
    write(v)
    assert v._version == 1


@views
def test_views_share_the_version_of_their_base(view):
    v = interior()
    shared = view(v)
    with pytest.raises(RuntimeError, match="objects sharing it"):
        shared.add_(1)
    function = v.grad_fn
    del v
    shared.add_(1)
    assert shared._version == 1
    del function


@views
def test_a_write_through_the_last_view_is_noticed_by_who_saved_the_base(view):
    v = interior()
    saved = Mul.apply(v, constant([1.0, 1.0]))
    shared = view(v).detach()
    del v
    shared.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        saved.sum().backward()


def test_copies_have_versions_of_their_own():
    v = interior()
    for copied in (v.clone(), v + 0, torchlite.cat([v]), v[torchlite.LongTensor([0, 1])], v[v.data.gt(0)]):
        copied.add_(1)
        assert copied._version == 1 and v._version == 0
    assert values(v) == [1, 2]


def test_every_view_operation_of_the_table_shares_memory_and_version():
    arguments = {"select": (0, 0), "narrow": (0, 0, 1), "transpose": (0, 1), "view": (4,), "expand": (3, 2, 2),
                 "permute": (1, 0), "unsqueeze": (0,), "squeeze": (), "t": ()}
    checked = 0
    for operation in _C._ops:
        if not operation.is_view or operation.name not in arguments:
            continue
        v = interior([[1.0, 2.0], [3.0, 4.0]])
        result = operation(v, *arguments[operation.name])
        assert np.shares_memory(result.data.numpy(), v.data.numpy())
        with pytest.raises(RuntimeError, match="2 objects sharing it"):
            v.add_(1)
        checked += 1
    assert checked >= 8


def test_a_result_never_is_its_input():
    v = interior()
    for result in (v.view(2), v.expand(2), v.squeeze(), v.clone(), v + 0, v.detach()):
        assert result is not v


def test_a_saved_variable_that_is_in_use_prevents_a_write():
    v = interior()
    y = Mul.apply(v, constant([1.0, 1.0]))
    saved = y.grad_fn.saved_variables[0]
    with pytest.raises(RuntimeError, match="objects sharing it"):
        v.add_(1)
    del saved
    v.add_(1)


def test_a_write_to_the_data_is_not_noticed():
    v = interior()
    y = v * v
    v.data.add_(1)
    assert v._version == 0
    y.sum().backward()


def test_a_write_rebases_the_history_and_drops_the_old_life():
    x = leaf([1.0, 2.0])
    v = x * 2
    seen = []
    v.register_hook(lambda g: seen.append("old"))
    v.grad = constant([1.0, 1.0])
    old = v.grad_fn
    assert v.mul_(3) is v
    assert v.grad_fn is not old and v.grad_fn.next_functions[0][0] is old
    assert v.grad is None and v._backward_hooks is None
    v.sum().backward()
    assert values(x.grad) == [6, 6] and seen == ["old"]


def test_a_leaf_that_a_gradient_is_written_into_becomes_interior():
    v, w = constant([1.0, 2.0]), leaf([3.0, 4.0])
    v.mul_(w)
    assert not v.is_leaf and v.requires_grad and values(v) == [3, 8]
    v.sum().backward()
    assert values(w.grad) == [1, 2]


def test_a_volatile_value_makes_its_target_volatile():
    v = interior()
    v.add_(leaf([1.0, 1.0], False, volatile=True))
    assert v.volatile and v.is_leaf and not v.requires_grad and values(v) == [2, 3]


def test_a_write_with_itself_as_the_other_operand():
    for write, expected, gradient in [
        (lambda v: v.mul_(v), [1, 4], [2, 4]),
        (lambda v: v.add_(v), [2, 4], [2, 2]),
        (lambda v: v.sub_(v), [0, 0], [0, 0]),
        (lambda v: v.div_(v), [1, 1], [0, 0]),
    ]:
        x = leaf([1.0, 2.0])
        v = x * 1
        write(v)
        assert values(v) == expected
        v.sum().backward()
        assert values(x.grad) == gradient


def test_the_gradients_of_writes_in_a_row():
    x = leaf([0.5, 0.25])
    v = x * 1
    v.mul_(3).add_(1).neg_().tanh_()
    v.sum().backward()
    out = leaf([0.5, 0.25])
    (-(out * 3 + 1)).tanh().sum().backward()
    np.testing.assert_allclose(x.grad.data.numpy(), out.grad.data.numpy(), rtol=1e-12)


def test_a_write_under_no_grad_keeps_the_history():
    x = leaf([1.0, 2.0])
    v = x * 2
    function = v.grad_fn
    with no_grad():
        v.add_(1)
        x.add_(1)
    assert v.grad_fn is function and v._version == 1 and x.is_leaf and x.requires_grad and x._version == 1


# ---- refused writes -----------------------------------------------------------------------------------------------

BAD_WRITES = {
    "larger operand": lambda v: v.add_(constant([[1.0, 1.0], [1.0, 1.0]])),
    "operand that does not broadcast": lambda v: v.mul_(constant([1.0, 1.0, 1.0])),
    "index out of range": lambda v: v.__setitem__(5, 1.0),
    "value of another size": lambda v: v.__setitem__(slice(0, 2), constant([1.0, 2.0, 3.0])),
    "text": lambda v: v.add_("text"),
    "unknown keyword": lambda v: v.add_(1, nothing=2),
}


@pytest.mark.parametrize("write", BAD_WRITES.values(), ids=BAD_WRITES)
@pytest.mark.parametrize("make", [interior, lambda: constant([1.0, 2.0])], ids=["interior", "leaf"])
def test_a_write_that_fails_changes_nothing(write, make):
    v = make()
    y = v * v
    function = v.grad_fn
    with pytest.raises((RuntimeError, TypeError, IndexError, ValueError)):
        write(v)
    assert values(v) == [1, 2] and v._version == 0 and v.grad_fn is function
    if y.requires_grad:
        y.sum().backward()


def test_floats_are_not_written_into_integers():
    v = Variable(np.array([1, 2]))
    with pytest.raises((TypeError, RuntimeError)):
        v.mul_(constant([1.5, 1.5]))
    assert values(v) == [1, 2] and v._version == 0


@pytest.mark.parametrize("write", [w for n, w in WRITES.items() if n != "python function"])
def test_read_only_memory_is_never_written(write):
    array = np.array([1.0, 2.0])
    array.flags.writeable = False
    v = Variable(array)
    with pytest.raises(RuntimeError, match="read-only"):
        write(v)
    assert array.tolist() == [1, 2] and v._version == 0 and v.is_leaf


# ---- saved values -------------------------------------------------------------------------------------------------

SAVERS = {
    "python function": (lambda v: Mul.apply(v, constant([1.0, 1.0])), "MulBackward"),
    "mul": (lambda v: v * leaf([1.0, 1.0]), "MulBackward"),
    "square": (lambda v: v * v, "MulBackward"),
    "exp's input is not saved": (lambda v: v.exp(), None),
    "add saves nothing": (lambda v: v + v, None),
    "scale saves a number": (lambda v: v * 3, None),
    "pow": (lambda v: v**2, "PowConstantBackward"),
    "log": (lambda v: v.log(), "LogBackward"),
    "mm": (lambda v: v.view(1, 2).mm(v.view(2, 1)), "MmBackward"),
    "cat saves nothing": (lambda v: torchlite.cat([v, v]), None),
    "prod": (lambda v: v.prod(), "ProdBackward"),
}


@pytest.mark.parametrize("saver", SAVERS.values(), ids=SAVERS)
def test_a_saved_input_that_is_written_is_an_error(saver):
    operation, name = saver
    x = leaf([1.0, 2.0])
    v = x * 1
    y = operation(v).sum()
    v.add_(1)
    if name is None:
        y.backward()
        return
    message = f"{MODIFIED}: {name} saved it at version 0, it is now at version 1"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        y.backward()
    assert x.grad is None


RESULT_SAVERS = ["exp", "tanh", "sigmoid", "sqrt", "reciprocal"]


@pytest.mark.parametrize("name", RESULT_SAVERS)
def test_a_saved_result_that_is_written_is_an_error(name):
    x = leaf([1.0, 2.0])
    y = getattr(x, name)()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()
    assert x.grad is None


def test_the_saved_result_of_a_python_function_that_is_written_is_an_error():
    y = Exp.apply(leaf([1.0, 2.0]))
    y.add_(1)
    with pytest.raises(RuntimeError, match="ExpBackward saved it at version 0, it is now at version 1"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["tanh_", "exp_", "sigmoid_", "sqrt_"])
def test_a_write_may_save_its_own_result_once(name):
    x = leaf([1.0, 2.0])
    v = x * 1
    getattr(v, name)().sum().backward()
    plain = leaf([1.0, 2.0])
    getattr(plain, name[:-1])().sum().backward()
    assert values(x.grad) == values(plain.grad)


def test_a_write_over_the_saved_result_of_a_write_is_an_error():
    v = (leaf([1.0, 2.0]) * 1).exp_()
    v.mul_(2)
    with pytest.raises(RuntimeError, match="ExpBackward saved it at version 1, it is now at version 2"):
        v.sum().backward()


def test_a_write_before_the_save_is_fine():
    x = leaf([1.0, 2.0])
    v = (x * 1).add_(1)
    (v * v).sum().backward()
    assert values(x.grad) == [4, 6]


def test_a_write_into_something_else_is_fine():
    x = leaf([1.0, 2.0])
    v, w = x * 1, x * 2
    y = v * v
    w.add_(1)
    y.sum().backward()


def test_the_check_holds_for_second_derivatives_too():
    x = leaf([1.0, 2.0])
    v = x * 1
    y = v * v * v
    (g,) = grad(y.sum(), v, create_graph=True)
    v.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        g.sum().backward()


def test_an_index_is_kept_as_it_was():
    for make in (np.array, list, lambda i: torchlite.LongTensor(i)):
        x = leaf([1.0, 2.0, 3.0])
        key = make([1, 1, 0])
        y = x[key]
        key[0] = 2
        y.backward(np.array([1.0, 10.0, 100.0]))
        assert values(x.grad) == [100, 11, 0]


def test_a_mask_is_kept_as_it_was():
    x = leaf([1.0, 2.0, 3.0])
    mask = np.array([True, False, True])
    y = x[mask]
    mask[:] = False
    y.backward(np.array([1.0, 10.0]))
    assert values(x.grad) == [1, 0, 10]


# ---- detached -----------------------------------------------------------------------------------------------------


def test_detach_gives_a_leaf_on_the_same_memory_and_version():
    v = interior()
    d = v.detach()
    assert d.is_leaf and not d.requires_grad and np.shares_memory(d.data.numpy(), v.data.numpy())
    del v
    d.add_(1)
    assert d._version == 1


def test_detach_of_a_volatile_variable_is_volatile():
    assert leaf([1.0], False, volatile=True).detach().volatile


def test_detach_in_place_cuts_the_history():
    x = leaf([1.0, 2.0])
    v = x * 2
    v.register_hook(lambda g: None)
    assert v.detach_() is v
    assert v.is_leaf and not v.requires_grad and v.output_nr == 0 and v._backward_hooks is None
    (v * leaf([1.0, 1.0])).sum().backward()
    assert x.grad is None


def test_a_detached_value_does_not_keep_the_graph():
    x = leaf([2.0])
    y = (x * 3).detach() * x
    y.backward()
    assert values(x.grad) == [6]


def test_scaling_a_returned_input_uses_its_own_backward():
    x = leaf([1.0, 2.0])
    y = TenfoldIdentity.apply(x)
    assert y is not x and x.is_leaf and y.grad_fn is not None
    Scale.apply(y, 1).sum().backward()
    assert values(x.grad) == [10, 10]
