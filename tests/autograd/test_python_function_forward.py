"""What a call of a Python Function does to its arguments, its results and the graph."""

import numpy as np
import pytest
from python_functions import (
    AddInPlace,
    Exp,
    Mul,
    OldMul,
    Scale,
    Split,
    TenfoldIdentity,
    array,
    new_style,
    ones_like,
    variable,
)

import torchlite
from torchlite.autograd import Function, Variable, no_grad


def test_result_descends_from_the_context():
    y = Scale.apply(variable([1.0, 2.0]), 3)
    assert type(y) is Variable
    assert type(y.grad_fn).__name__ == "ScaleBackward"
    assert (y.requires_grad, y.output_nr, y.grad_fn.k) == (True, 0, 3)
    np.testing.assert_array_equal(array(y), [3.0, 6.0])


def test_single_result_is_not_a_tuple_and_a_tuple_stays_one():
    one = new_style(lambda ctx, x: (x * 2,))
    assert type(one.apply(variable([1.0]))) is tuple
    assert one.apply(variable([1.0]))[0].output_nr == 0
    a, b = Split.apply(variable([1.0, 2.0]))
    assert (a.output_nr, b.output_nr, a.grad_fn is b.grad_fn) == (0, 1, True)
    assert new_style(lambda ctx, x: ()).apply(variable([1.0])) == ()


def test_forward_gets_tensors_and_other_arguments_unchanged():
    seen = []
    extras = [None, "text", 2.5, [1], np.ones(2), (variable([1.0]),)]

    def forward(ctx, *args):
        seen.extend(args)
        return args[0] * 1

    x = variable([1.0])
    fn = new_style(forward)
    y = fn.apply(x, *extras)
    assert seen[0] is x.data
    assert all(a is b for a, b in zip(seen[1:], extras, strict=True))
    assert y.grad_fn.needs_input_grad == (True,) + (False,) * len(extras)
    assert len(y.grad_fn.next_functions) == 1


def test_next_functions_has_the_variables_only():
    x, c = variable([1.0]), variable([1.0], requires_grad=False)
    y = Scale.apply(x, 2)
    fn = new_style(lambda ctx, *args: args[0] + args[2])
    z = fn.apply(y, "k", c, x)
    names = [None if f is None else type(f).__name__ for f, _ in z.grad_fn.next_functions]
    assert names == ["ScaleBackward", None, "AccumulateGrad"]
    assert [nr for _, nr in z.grad_fn.next_functions] == [0, 0, 0]


def test_many_arguments_pass_in_order():
    fn = new_style(lambda ctx, *args: sum(args[1:], args[0]))
    y = fn.apply(*[variable([float(i)]) for i in range(40)])
    assert array(y)[0] == sum(range(40))


def test_needs_input_grad_is_known_in_forward():
    seen = []

    def forward(ctx, *args):
        seen.append(ctx.needs_input_grad)
        return args[0] * 1

    new_style(forward).apply(variable([1.0]), 3, variable([1.0], requires_grad=False))
    assert seen == [(True, False, False)]
    assert Function().needs_input_grad is None


def test_keyword_argument_is_refused_by_name():
    with pytest.raises(TypeError, match="'k'"):
        Scale.apply(variable([1.0]), k=2)


def test_old_style_class_has_no_apply():
    with pytest.raises(AttributeError, match="_backward_cls"):
        OldMul.apply(variable([1.0]))


def test_old_style_call_takes_variables_only():
    with pytest.raises(RuntimeError, match="expected a Variable argument, but got float"):
        OldMul(2)(1.5)


def test_instances_of_new_style_functions_are_not_called():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(RuntimeError, match=r"Twice is a new-style Function .*: call Twice\.apply"):
        Twice()(variable([1.0]))


def test_old_style_instance_is_used_once():
    f = OldMul(2)
    a = f(variable([3.0]))
    with pytest.raises(RuntimeError, match="OldMul.*used once"):
        f(variable([4.0]))
    assert a.grad_fn is f
    assert f.saved_tensors[0].numpy()[0] == 3.0


def test_old_style_instance_may_run_again_after_a_volatile_call():
    f = OldMul(2)
    assert f(Variable(np.ones(1), volatile=True)).volatile
    assert f(variable([4.0])).grad_fn is f


def test_old_style_instance_that_failed_can_be_called_again():
    class Picky(Function):
        def forward(self, x):
            if x[0] < 0:
                raise ValueError("negative")
            return x * 1

    f = Picky()
    with pytest.raises(ValueError, match="negative"):
        f(variable([-1.0]))
    assert f.next_functions == () and f.needs_input_grad is None and not f.requires_grad
    assert f(variable([1.0])).grad_fn is f


# ---- what needs no gradient ------------------------------------------------------------------------------------------


def test_result_without_gradient_still_has_a_grad_fn():
    y = Mul.apply(variable([1.0], False), variable([2.0], False))
    assert y.grad_fn is not None and not y.requires_grad and not y.is_leaf
    assert y.grad_fn.saved_tensors == ()
    assert y.grad_fn.next_functions == ((None, 0), (None, 0))


def test_volatile_input_gives_a_volatile_result():
    y = Mul.apply(variable([1.0]), Variable(np.ones(1), volatile=True))
    assert (y.volatile, y.requires_grad, y.grad_fn) == (True, False, None)


def test_no_grad_gives_a_plain_leaf():
    with no_grad():
        y = Mul.apply(variable([1.0]), variable([2.0]))
    assert (y.volatile, y.requires_grad, y.grad_fn) == (False, False, None)


def test_integer_result_never_requires_grad():
    arg = new_style(lambda ctx, x: (x * 1, torchlite.LongTensor([1, 2])))
    y, index = arg.apply(variable([1.0, 2.0]))
    assert y.requires_grad and not index.requires_grad
    assert index.grad_fn is y.grad_fn


def test_non_differentiable_result_does_not_require_grad():
    def forward(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return x * 1, y

    a, b = new_style(forward).apply(variable([1.0]))
    assert a.requires_grad and not b.requires_grad and b.grad_fn is a.grad_fn


# ---- what forward may return -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.float32, lambda v: np.array(v, np.float32)], ids=["scalar", "0-d array"])
def test_numpy_result_is_wrapped(make):
    y = new_style(lambda ctx, x: make(3)).apply(variable([1.0]))
    assert isinstance(array(y), np.ndarray) and array(y).shape == () and array(y).dtype == np.float32
    assert y.requires_grad


def test_array_result_can_be_saved():
    def forward(ctx, x):
        y = np.exp(x.numpy())
        ctx.save_for_backward(y)
        return y

    y = new_style(forward).apply(variable([0.0]))
    assert y.grad_fn.saved_tensors[0] is y.data


@pytest.mark.parametrize("value", [None, [1], "text", (i for i in ()), 2.5, 3, object()])
def test_result_that_is_no_tensor_is_refused(value):
    with pytest.raises(TypeError, match="Odd.forward must return a tensor"):
        new_style(lambda ctx, x: value, name="Odd").apply(variable([1.0]))


def test_variable_result_is_refused():
    with pytest.raises(TypeError, match="forward works on tensors"):
        new_style(lambda ctx, x: variable([1.0])).apply(variable([1.0]))


def test_error_of_forward_keeps_its_type():
    def forward(ctx, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        new_style(forward).apply(variable([1.0]))


# ---- inputs that come back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interior", [False, True])
def test_returned_input_is_a_new_variable(interior):
    leaf = variable([1.0, 2.0])
    x = Scale.apply(leaf, 1) if interior else leaf
    y = TenfoldIdentity.apply(x)
    assert y is not x and type(y.grad_fn).__name__ == "TenfoldIdentityBackward"
    assert leaf.is_leaf and array(y) is not array(x)
    array(y)[0] = 5.0
    assert array(x)[0] == 5.0
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(leaf.grad), [10.0, 10.0])


def test_returned_input_shares_its_version():
    x = Scale.apply(variable([1.0]), 1)
    y = TenfoldIdentity.apply(x)
    with pytest.raises(RuntimeError, match="2 objects sharing it"):
        AddInPlace.apply(y, 1)
    np.testing.assert_array_equal(array(x), [1.0])
    kept = Mul.apply(x, x)
    del x
    AddInPlace.apply(y, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward(ones_like(kept))


def test_same_result_twice_gives_two_variables():
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = variable([1.0])
    a, b = new_style(forward, lambda ctx, ga, gb: ga * 2 + gb * 20).apply(x)
    assert a is not b and (a.output_nr, b.output_nr) == (0, 1)
    (a + b).backward(ones_like(a))
    np.testing.assert_array_equal(array(x.grad), [22.0])


def test_result_on_an_inputs_memory_shares_its_version():
    x = Scale.apply(variable([1.0, 2.0]), 1)
    y = new_style(lambda ctx, t: t[:1]).apply(x)
    with pytest.raises(RuntimeError, match="2 objects sharing it"):
        AddInPlace.apply(y, 1)


# ---- writing in place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requires_grad", [False, True])
def test_dirty_input_is_the_result(requires_grad):
    a = Scale.apply(variable([1.0, 1.0], requires_grad), 1)
    version = a._version
    c = AddInPlace.apply(a, 2)
    assert c is a and a._version == version + 1
    assert type(a.grad_fn).__name__ == "AddInPlaceBackward"
    assert a.requires_grad is requires_grad


def test_dirty_input_takes_part_in_the_new_history():
    def forward(ctx, a, b):
        a += b.numpy()
        ctx.mark_dirty(a)
        return a

    def backward(ctx, g):
        return g, Variable(np.array([array(g).sum()]))

    add = new_style(forward, backward)
    a0, b = variable([1.0, 1.0]), variable([5.0])
    a = Scale.apply(a0, 1)
    seen = []
    a.register_hook(seen.append)
    c = add.apply(a, b)
    c.backward(ones_like(c))
    np.testing.assert_array_equal(array(b.grad), [2.0])
    np.testing.assert_array_equal(array(a0.grad), [1.0, 1.0])
    assert a._backward_hooks is None


def test_leaf_that_needs_no_gradient_becomes_interior():
    a, b = variable([1.0], False), variable([2.0])

    def forward(ctx, a, b):
        a += b.numpy()
        ctx.mark_dirty(a)
        return a

    c = new_style(forward, lambda ctx, g: (g, g)).apply(a, b)
    assert c is a and not a.is_leaf and a.requires_grad


def test_writing_a_leaf_is_refused_and_undone():
    x = variable([1.0, 2.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        AddInPlace.apply(x, 1)
    np.testing.assert_array_equal(array(x), [1.0, 2.0])
    assert (x._version, x.is_leaf, x.requires_grad) == (0, True, True)


def test_writing_shared_memory_is_refused_and_undone():
    x = Scale.apply(variable([1.0, 2.0]), 1)
    view = x[:1]
    version = x._version
    with pytest.raises(RuntimeError, match="detected that there are 2 objects sharing it"):
        AddInPlace.apply(x, 1)
    np.testing.assert_array_equal(array(x), [1.0, 2.0])
    assert x._version == version and array(view)[0] == 1.0


def test_write_that_is_not_marked_stands():
    def forward(ctx, w):
        w.mul_(2)
        return w * 1

    w = variable([1.0])
    new_style(forward).apply(w)
    np.testing.assert_array_equal(array(w), [2.0])


def test_volatile_in_place_write_makes_the_target_volatile():
    def forward(ctx, a, b):
        a += b.numpy()
        ctx.mark_dirty(a)
        return a

    a = Scale.apply(variable([1.0]), 1)
    c = new_style(forward).apply(a, Variable(np.ones(1), volatile=True))
    assert c is a and (a.volatile, a.requires_grad, a.grad_fn) == (True, False, None)


def test_under_no_grad_a_dirty_input_keeps_its_history():
    a = Scale.apply(variable([1.0]), 1)
    fn = a.grad_fn
    with no_grad():
        assert AddInPlace.apply(a, 1) is a
    assert a.grad_fn is fn and a._version == 1


def test_dirty_input_whose_forward_fails_gets_a_new_version():
    def forward(ctx, a):
        a += 1
        ctx.mark_dirty(a)
        raise ValueError("late")

    a = Scale.apply(variable([1.0]), 1)
    kept = Mul.apply(a, a)
    with pytest.raises(ValueError, match="late"):
        new_style(forward).apply(a)
    assert a._version == 1 and type(a.grad_fn).__name__ == "ScaleBackward"
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward(ones_like(kept))


def test_saved_input_that_was_written_is_noticed():
    a, b = Scale.apply(variable([2.0]), 1), variable([3.0])
    y = Mul.apply(a, b)
    AddInPlace.apply(a, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(ones_like(y))


def test_saved_result_that_was_written_is_noticed():
    y = Exp.apply(variable([1.0]))
    fn = y.grad_fn
    AddInPlace.apply(y, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        fn.saved_variables  # noqa: B018
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(ones_like(y))


def test_write_before_the_save_is_fine():
    a = AddInPlace.apply(Scale.apply(variable([2.0]), 1), 1)
    b = variable([3.0])
    y = Mul.apply(a, b)
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(b.grad), [3.0])


# ---- misuse of the context -------------------------------------------------------------------------------------------


def stray(x):
    return x * 3


MISUSE = {
    "dirty no tensor": (
        lambda ctx, x, y: ctx.mark_dirty(3),
        "mark_dirty can only accept tensors, but argument 0 is of type int",
    ),
    "dirty no input": (
        lambda ctx, x, y: ctx.mark_dirty(y),
        "mark_dirty only accepts input tensors, but argument 0 isn't one",
    ),
    "dirty not returned": (lambda ctx, x, y: ctx.mark_dirty(x), "is not among the results of forward"),
    "dirty no tuple": (
        lambda ctx, x, y: setattr(ctx, "dirty_tensors", [x]),
        "autograd internal error: dirty_tensors attribute is expected to be a tuple but is list",
    ),
    "shared no pair": (
        lambda ctx, x, y: ctx.mark_shared_storage(x),
        "mark_shared_storages accepts a number of pairs, but one of the arguments is of type",
    ),
    "shared triple": (
        lambda ctx, x, y: ctx.mark_shared_storage((x, y, y)),
        "mark_shared_storages accepts pairs, but argument 0 is a tuple of 3 elements",
    ),
    "shared no tensors": (
        lambda ctx, x, y: ctx.mark_shared_storage((x, 1)),
        "mark_shared_storages accepts pairs of tensors, but one of them contains .* and int",
    ),
    "shared reversed": (
        lambda ctx, x, y: ctx.mark_shared_storage((y, x)),
        "mark_shared_storages only accepts pairs of input and output tensors, but argument 0 doesn't satify this",
    ),
    "shared no tuple": (lambda ctx, x, y: setattr(ctx, "shared_pairs", 1), "shared_pairs attribute .* but is int"),
    "non-differentiable stray": (
        lambda ctx, x, y: ctx.mark_non_differentiable(stray(x)),
        "mark_non_differentiable only accepts output tensors, but argument 0 isn't an output",
    ),
    "non-differentiable number": (
        lambda ctx, x, y: ctx.mark_non_differentiable(1),
        "mark_non_differentiable only accepts tensor arguments, but got int",
    ),
    "non-differentiable input": (
        lambda ctx, x, y: ctx.mark_non_differentiable(x),
        "mark_non_differentiable only accepts function outputs",
    ),
    "non-differentiable no tuple": (
        lambda ctx, x, y: setattr(ctx, "non_differentiable", y),
        "non_differentiable attribute is expected to be a tuple but is",
    ),
    "save number": (
        lambda ctx, x, y: ctx.save_for_backward(x, 1.5),
        "save_for_backward can only save tensors, but argument 1 is of type float",
    ),
    "save stray": (
        lambda ctx, x, y: ctx.save_for_backward(stray(x)),
        "save_for_backward can only save input or output tensors, but argument 0 doesn't satisfy this condition",
    ),
    "save no tuple": (lambda ctx, x, y: setattr(ctx, "to_save", [x]), "to_save attribute is expected to be a tuple"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_of_the_context_is_refused(case):
    misuse, message = MISUSE[case]

    def forward(ctx, x):
        y = x * 2
        misuse(ctx, x, y)
        return y

    x = variable([1.0])
    with pytest.raises(RuntimeError, match=message):
        new_style(forward).apply(x)
    assert x._version == 0 or "dirty" in case


def test_last_save_wins_and_none_round_trips():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(None, x)
        return x * 2

    fn = new_style(forward).apply(variable([1.0])).grad_fn
    assert fn.saved_tensors[0] is None and fn.saved_variables[0] is None
    assert len(fn.saved_tensors) == 2
    assert fn.to_save is None


@pytest.mark.parametrize("attribute", ["to_save", "dirty_tensors", "shared_pairs", "non_differentiable"])
def test_context_refuses_requests_after_forward(attribute):
    fn = Mul.apply(variable([1.0]), variable([1.0])).grad_fn
    with pytest.raises(RuntimeError, match=f"MulBackward: {attribute} is only read at the end of forward"):
        setattr(fn, attribute, ())
    setattr(fn, attribute, None)
    assert getattr(fn, attribute) is None


def test_mark_shared_storage_joins_the_versions():
    def forward(ctx, x):
        y = x * 1
        ctx.mark_shared_storage((x, y))
        return y

    x = Scale.apply(variable([1.0]), 1)
    y = new_style(forward).apply(x)
    with pytest.raises(RuntimeError, match="2 objects sharing it"):
        AddInPlace.apply(x, 1)
    del y
    assert AddInPlace.apply(x, 1)._version == 1


def test_function_that_never_ran_is_usable():
    f = Function()
    assert (f.next_functions, f.saved_tensors, f.saved_variables, f.to_save) == ((), (), (), None)
    assert f.requires_grad is False
    v = Variable(np.ones(2), _grad_fn=f)
    assert v.grad_fn is f and v.output_nr == 0
    assert Variable(np.ones(2), _grad_fn=f).output_nr == 1


def test_backward_of_a_function_that_never_ran_is_an_error():
    f = Function()
    f.requires_grad = True
    v = Variable(np.ones(2), _grad_fn=f)
    with pytest.raises(RuntimeError, match="whose forward was never run"):
        v.backward(ones_like(v))


def test_base_takes_no_arguments():
    with pytest.raises(TypeError, match="takes no arguments"):
        Function(1)


def test_registering_looks_in_the_calling_module():
    module = {"init": torchlite._C._autograd_init}
    exec("found = init()", module)
    assert module["found"] is False
    module.update(Variable=Variable, Function=int)
    with pytest.raises(TypeError, match="Function must be a subclass of .*_FunctionBase, but got int"):
        exec("init()", module)
    module.update(Function=Function)
    exec("found = init()", module)
    assert module["found"] is True
    from torchlite import autograd

    assert eval("init()", {"init": torchlite._C._autograd_init, **vars(autograd)}) is True
