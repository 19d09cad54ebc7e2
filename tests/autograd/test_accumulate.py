"""What AccumulateGrad does with a gradient: the first one, further ones, those of leaves that are gone or changed."""

import gc
import re
import weakref

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale, new_style

import torchlite
from torchlite.autograd import Variable, backward, grad, no_grad

run_backward = Variable._execution_engine.run_backward
one = constant([1.0, 1.0])


def accumulator_of(x):
    return (x * 1).grad_fn.next_functions[0][0]


# ---- the node -----------------------------------------------------------------------------------------------------


def test_a_leaf_has_one_accumulator_while_a_graph_holds_it():
    x = leaf([1.0])
    y, z = x * 2, Scale.apply(x, 3)
    a, b = y.grad_fn.next_functions[0], z.grad_fn.next_functions[0]
    assert a[0] is b[0] and a[1] == b[1] == 0
    assert type(a[0]).__name__ == "AccumulateGrad" and a[0].variable is x and a[0].next_functions == ()


def test_an_accumulator_dies_with_the_last_graph():
    x = leaf([1.0])
    y = x * 2
    reference = weakref.ref(y.grad_fn.next_functions[0][0])
    del y
    assert reference() is None
    (x * 2).backward()
    assert values(x.grad) == [2]


def test_a_leaf_that_needs_no_gradient_has_none():
    y = leaf([1.0]) * constant([1.0])
    assert y.grad_fn.next_functions[1] == (None, 0)


# ---- the first gradient -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("volatile", [True, False])
def test_the_first_gradient_is_a_copy_of_one_that_somebody_else_holds(volatile):
    x = leaf([1.0, 1.0])
    seed = leaf([1.0, 2.0], False, volatile=volatile)
    run_backward((x,), (seed,), False)
    assert x.grad is not seed and x.grad.data is not seed.data
    x.grad.data.fill_(7)
    assert values(seed) == [1, 2]
    assert x.grad.volatile is volatile and (x.grad.grad_fn is None) is volatile


def test_one_gradient_for_several_leaves_is_not_shared():
    x, y = leaf([1.0, 1.0]), leaf([1.0, 1.0])
    (x + y).sum().backward()
    x.grad.data.fill_(7)
    assert values(y.grad) == [1, 1]


@pytest.mark.parametrize("operation", [
    lambda x: x.view(4, 1), lambda x: x.t(), lambda x: x.expand(2, 2), lambda x: x + 0, lambda x: x.sum(),
    lambda x: torchlite.cat([x, x]), lambda x: x[0], lambda x: x * 1, lambda x: x.mean(0),
])
def test_a_gradient_has_memory_of_its_own(operation):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = operation(x)
    seed = Variable(np.ones(tuple(y.size())))
    kept = []
    y.register_hook(lambda g: kept.append(g))
    run_backward((y,), (seed,), False)
    x.grad.data.fill_(7)
    assert values(seed) == np.ones(tuple(y.size())).tolist() == values(kept[0])
    assert x.grad.data.is_contiguous() and values(x.grad) == [[7, 7], [7, 7]]


def test_a_first_gradient_with_history_descends_from_identity():
    x = leaf([1.0, 1.0])
    y = x * x
    y.backward(one)
    assert type(x.grad.grad_fn).__name__ == "Identity" and not x.grad.volatile
    (second,) = grad(x.grad.sum(), x)
    assert values(second) == [2, 2]
    x.grad = None


# ---- further gradients --------------------------------------------------------------------------------------------


def test_a_plain_gradient_is_added_to_in_place():
    x = leaf([1.0, 2.0])
    y = Mul.apply(x, x)
    y.backward(one.data, retain_graph=True)
    g, d, version = x.grad, x.grad.data, x.grad._version
    y.backward(one.data, retain_graph=True)
    assert x.grad is g and x.grad.data is d and values(g) == [4, 8] and g._version == version + 1


def test_a_gradient_with_history_is_added_out_of_place():
    x = leaf([1.0, 2.0])
    y = Mul.apply(x, x)
    y.backward(one, retain_graph=True)
    g = x.grad
    y.backward(one, retain_graph=True)
    assert x.grad is not g and values(g) == [2, 4] and values(x.grad) == [4, 8] and g._version == 0
    (second,) = grad(x.grad.sum(), x)
    assert values(second) == [4, 4]
    x.grad = None


@pytest.mark.parametrize("first", [True, False])
def test_the_first_gradient_decides_whether_further_ones_keep_a_history(first):
    x = leaf([1.0, 2.0])
    y = x * x
    seeds = [one.data, one] if first else [one, one.data]
    for seed in seeds:
        y.backward(seed, retain_graph=True)
    assert x.grad.volatile is first and values(x.grad) == [4, 8]
    x.grad = None


def test_views_of_a_gradient_see_what_is_added():
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    view = x.grad.data.numpy()
    (x * 3).sum().backward()
    assert view.tolist() == [5, 5]


def test_a_gradient_saved_by_an_operation_is_noticed_when_it_is_added_to():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    (x * 2).sum().backward()
    x.grad.volatile = False
    loss = (x.grad * w).sum()
    x.grad.volatile = True
    (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation: MulBackward saved it at version 0"):
        loss.backward()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (3, 1), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradients_of_every_size_and_type_add_up(shape, dtype):
    x = leaf(np.full(shape, 2.0), dtype=dtype)
    for _ in range(3):
        (x * x).backward(np.ones(shape, dtype))
    assert values(x.grad) == np.full(shape, 12.0).tolist()
    assert type(x.grad.data) is type(x.data) and tuple(x.grad.size()) == shape


def test_many_small_gradients_are_added_exactly():
    x = leaf([1.0])
    for _ in range(1000):
        (x * 3).backward()
    assert values(x.grad) == [3000]


# ---- leaves that changed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("volatile", [True, False])
def test_gradients_of_another_size_are_never_added_by_broadcasting(volatile):
    x = leaf([1.0])
    seed = Variable(np.ones(1), volatile=volatile)
    run_backward((x * 2,), (seed,), False)
    x.data = torchlite.DoubleTensor(20).fill_(1)
    seed = Variable(np.ones(1), volatile=volatile)
    message = "the gradient has size (20,), but the accumulated gradient has size (1,)"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        run_backward((x.sum(),), (seed,), False)
    assert values(x.grad) == [2]
    x.grad = None
    run_backward((x.sum(),), (seed,), False)
    assert tuple(x.grad.size()) == (20,)


def test_a_graph_of_former_data_of_another_size_is_refused():
    x = leaf([1.0])
    y = x * 2
    x.data = torchlite.DoubleTensor(20)
    with pytest.raises(RuntimeError, match=re.escape("the gradient has size (1,), but the variable has size (20,)")):
        y.backward()
    assert x.grad is None


def test_a_graph_of_former_data_of_another_type_is_refused():
    x = leaf([1.0])
    y = x * 2
    x.data = torchlite.FloatTensor([1.0])
    with pytest.raises(RuntimeError, match="the gradient has type .*[dD]ouble.*, but the variable has type .*[fF]loat"):
        y.backward()
    assert x.grad is None


def test_data_of_the_same_kind_may_be_replaced_in_between():
    x = leaf([1.0])
    y = x * 2
    x.data = torchlite.DoubleTensor([5.0])
    y.backward()
    assert values(x.grad) == [2]


def test_a_leaf_that_moved_into_the_graph_gets_nothing():
    x = leaf([1.0])
    accumulator = accumulator_of(x)
    y = x * 2
    x.requires_grad = False
    Scale.apply(leaf([1.0]), 2)
    x.add_(1)
    assert not x.is_leaf
    backward([y], [constant([1.0])])
    assert x.grad is None and accumulator.variable is None


def test_steps_under_no_grad_do_not_disturb_training():
    w = leaf([4.0])
    old = []
    for _ in range(3):
        loss = w * w
        old.append(loss)
        loss.backward(retain_graph=True)
        with no_grad():
            w.sub_(w.grad * 0.25)
        w.grad = None
    assert values(w) == [0.5]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        old[0].backward()


def test_a_leaf_written_under_no_grad_still_gets_gradients_that_do_not_depend_on_it():
    w = leaf([4.0])
    y = w * 3
    with no_grad():
        w.mul_(2)
    y.backward()
    assert values(w.grad) == [3]


# ---- leaves that are gone -----------------------------------------------------------------------------------------


def test_a_gradient_of_a_dead_leaf_is_dropped():
    x, w = leaf([1.0]), leaf([2.0])
    y = x + w
    del x
    y.backward()
    assert values(w.grad) == [1]


def test_the_living_grad_of_a_dead_leaf_is_still_added_to():
    x = leaf([1.0])
    y = x + 1
    y.backward()
    g = x.grad
    del x
    y.backward()
    assert values(g) == [2]


def test_the_living_grad_of_a_dead_leaf_with_history_is_left_alone():
    x = leaf([1.0])
    y = x + 1
    y.backward(constant([1.0]))
    g = x.grad
    del x
    y.backward(constant([1.0]))
    y.backward()
    assert values(g) == [1]


def test_the_dead_grad_of_a_dead_leaf_is_gone():
    x = leaf([1.0])
    y = x + 1
    y.backward()
    g = x.grad
    del x
    del g
    y.backward()


def test_a_replaced_grad_is_let_go_at_once():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = x * x
        y.backward(constant([1.0]), retain_graph=True)
        first = weakref.ref(x.grad)
        x.grad = None
        assert first() is None
    finally:
        gc.enable()


# ---- hooks of a leaf ----------------------------------------------------------------------------------------------


def test_the_hooks_of_a_leaf_run_before_it_is_added():
    x = leaf([1.0])
    x.grad = constant([100.0])
    x.register_hook(lambda g: g + x.grad)
    (x * 2).backward()
    assert values(x.grad) == [202]


def test_a_hook_may_replace_the_grad_and_the_data_of_its_leaf():
    x = leaf([1.0])

    def hook(g):
        x.data = torchlite.DoubleTensor([9.0])
        x.grad = constant([100.0])

    x.register_hook(hook)
    (x * 2).backward()
    assert values(x.grad) == [102] and values(x) == [9]


def test_a_hook_may_drop_the_last_reference_to_its_leaf():
    box = [leaf([1.0])]
    box[0].register_hook(lambda g: box.clear())
    y = box[0] + 1
    y.backward()
    assert box == []


def test_a_hook_may_take_its_own_hooks_away():
    x = leaf([1.0])
    x.register_hook(lambda g: setattr(x, "_backward_hooks", None))
    x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    (x * 2).backward()
    assert values(x.grad) == [22]


# ---- hooks that write ---------------------------------------------------------------------------------------------


def test_a_hook_that_writes_into_a_gradient_that_others_get_is_refused():
    a, b = leaf([1.0]), leaf([1.0])
    x, y = a * 1, b * 1

    def scribble(g):
        g.data.mul_(0)

    y.register_hook(scribble)
    with pytest.raises(RuntimeError, match="hook 'scribble' writes into its gradient, whose memory others use too"):
        (x + y).backward()
    assert a.grad is None or values(a.grad) == [1]


def test_a_hook_cannot_write_into_the_callers_seed():
    x = leaf([1.0])
    y = x * 1
    y.register_hook(lambda g: g.data.fill_(0) and None)
    seed = constant([1.0])
    with pytest.raises(RuntimeError, match="writes into its gradient"):
        y.backward(seed)
    assert values(seed) == [1]


def test_a_hook_may_write_into_a_gradient_of_its_own():
    x = leaf([2.0])

    def clip(g):
        g.data.clamp_(-1, 1)

    x.register_hook(clip)
    (x * 5 + x * 3).backward()
    assert values(x.grad) == [1]


def test_a_hook_may_write_into_other_memory():
    x = leaf([2.0])
    total = torchlite.DoubleTensor(1).fill_(0)

    def add_up(g):
        total.add_(g.data)

    y = x * 1
    y.register_hook(add_up)
    (y + y * 2).backward()
    assert values(total) == [3] and values(x.grad) == [3]


def test_functions_that_write_into_their_gradient_are_left_alone_outside_hooks():
    def gradient(ctx, g):
        g.data.mul_(2)
        return g

    x = leaf([1.0])
    (new_style(lambda ctx, x: x * 1, gradient).apply(x) * 3).backward()
    assert values(x.grad) == [6]
