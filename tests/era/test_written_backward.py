"""Running backward, as programs of the time did: hooks, several roots, kept and freed graphs, deep ones, gradients of
gradients."""

import gc
import itertools
import weakref

import pytest
from era_package import Function, Variable, autograd, gradcheck, gradients, same_values, torch


def leaf(*sizes, requires_grad=True):
    return Variable(torch.randn(*sizes).double(), requires_grad=requires_grad)


def ones(*sizes):
    return torch.ones(*sizes).double()


def describe(fn):
    """The graph behind a function, as the names of its functions."""
    if fn is None:
        return "None"
    return f"{type(fn).__name__}({', '.join(describe(following) for following, _ in fn.next_functions)})"


class Multiply(Function):
    """x + c * y + x * y, with a derivative that can be differentiated."""

    @staticmethod
    def forward(ctx, x, c, y):
        ctx.c = c
        ctx.save_for_backward(x, y)
        return x + c * y + x * y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_variables
        return grad_output + grad_output * y, None, grad_output * ctx.c + grad_output * x


class MultiplyOnce(Multiply):
    @staticmethod
    def forward(ctx, x, c, y):
        return Multiply.forward(ctx, x, c, y)

    @staticmethod
    @autograd.function.once_differentiable
    def backward(ctx, grad_output):
        assert torch.is_tensor(grad_output)
        x, y = ctx.saved_tensors
        return grad_output + grad_output * y, None, grad_output * ctx.c + grad_output * x


# ---- hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_of_an_interior_variable_count_replace_and_go():
    x, y = Variable(ones(5, 5), requires_grad=True), Variable(ones(5, 5) * 4, requires_grad=True)
    calls = []
    z = x ** 2 + x * 2 + x * y + y
    x.register_hook(lambda grad: calls.append("x"))
    first = z.register_hook(lambda grad: calls.append(type(grad)))
    z.backward(ones(5, 5), retain_graph=True)
    assert sorted(map(str, calls)) == sorted(["x", str(Variable)])
    second = z.register_hook(lambda grad: calls.append("second"))
    z.backward(ones(5, 5), retain_graph=True)
    assert calls.count(Variable) == 2 and calls.count("second") == 1 and calls.count("x") == 2
    second.remove()
    first.remove()
    z.backward(ones(5, 5), retain_graph=True)
    assert calls.count(Variable) == 2 and calls.count("second") == 1 and calls.count("x") == 3

    z.register_hook(lambda grad: grad.mul(2))
    y.grad.data.zero_()
    z.backward(ones(5, 5), retain_graph=True)
    same_values(y.grad.data, (x.data + 1) * 2)
    y.register_hook(lambda grad: grad.mul(2))
    y.grad.data.zero_()
    z.backward(ones(5, 5))
    same_values(y.grad.data, (x.data + 1) * 4)


def test_a_hook_runs_again_after_it_is_registered_anew():
    x = leaf(2)
    y = x * 3
    calls = []
    hook = calls.append
    handle = y.register_hook(hook)
    handle.remove()
    y.sum().backward(retain_graph=True)
    assert calls == []
    y.register_hook(hook)
    y.sum().backward()
    assert len(calls) == 1


def test_a_hook_of_a_function_sees_missing_gradients():
    class OnlyFirst(Function):
        def forward(self, x, y):
            assert self.needs_input_grad == (True, False)
            return x, y

        def backward(self, grad_x, grad_y):
            return grad_x, None

    seen = []

    def hook(grad_inputs, grad_outputs):
        assert isinstance(grad_inputs, tuple) and isinstance(grad_outputs, tuple)
        seen.append([g is None for g in grad_inputs + grad_outputs])

    function = OnlyFirst()
    function.register_hook(hook)
    x, y = leaf(5, 5), leaf(5, 5, requires_grad=False)
    sum(function(x, y)).sum().backward()
    assert seen == [[False, True, False, False]]
    same_values(x.grad.data, ones(5, 5))


def test_a_hook_of_a_function_may_replace_its_results():
    x = leaf(3)
    y = x * 2
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs:
                            tuple(None if g is None else g * 5 for g in grad_inputs))
    y.backward(ones(3))
    same_values(x.grad.data, ones(3) * 10)


def test_retain_grad():
    x = leaf(1, 3)
    h = x * 3
    out = (h * h).sum()
    h.retain_grad()
    h.retain_grad()
    out.backward(retain_graph=True)
    same_values(h.grad.data, h.data * 2)
    out.backward(retain_graph=True)
    same_values(h.grad.data, h.data * 4)
    x.retain_grad()
    x.grad.data.zero_()
    out.backward()
    same_values(x.grad.data, x.data * 18)
    with pytest.raises(RuntimeError, match="can't retain_grad on Variable that has requires_grad=False"):
        (leaf(2, requires_grad=False) * 2).retain_grad()


# ---- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_of_an_expression(create_graph):
    x, y, z = leaf(5, 5), Variable(torch.rand(5, 5).double() + 0.1, requires_grad=True), leaf(5, 5)
    a = x + (y * z) + 4 * z ** 2 * x / y
    grad_output = torch.randn(5, 5).double()
    a.backward(grad_output, create_graph=create_graph)
    expected = [
        (4 * z.data.pow(2) / y.data + 1) * grad_output,
        (-4 * x.data * z.data.pow(2) / y.data.pow(2) + z.data) * grad_output,
        (8 * x.data * z.data / y.data + y.data) * grad_output,
    ]
    for v, g in zip((x, y, z), expected, strict=True):
        same_values(v.grad.data, g)
        assert v.grad.volatile != create_graph
        v.grad = None


def test_a_gradient_that_requires_grad_builds_the_graph_of_the_gradients():
    x, y = leaf(5, 5), leaf(5, 5)
    seed = Variable(ones(1), requires_grad=True)
    Multiply.apply(x, 2, y).sum().backward(seed)
    same_values(x.grad.data, y.data + 1)
    same_values(y.grad.data, x.data + 2)
    assert not x.grad.volatile and x.grad.requires_grad
    product = "MulBackward(ExpandBackward(AccumulateGrad()), AccumulateGrad())"
    assert describe(x.grad.grad_fn) == f"Identity(AddBackward(ExpandBackward(AccumulateGrad()), {product}))"
    assert describe(y.grad.grad_fn) == (
        f"Identity(AddBackward(MulConstantBackward(ExpandBackward(AccumulateGrad())), {product}))")
    x.grad = y.grad = None


def test_once_differentiable_gradients_end_in_an_error():
    x, y = leaf(5, 5), leaf(5, 5)
    seed = Variable(ones(1), requires_grad=True)
    MultiplyOnce.apply(x, 2, y).sum().backward(seed)
    same_values(x.grad.data, y.data + 1)
    same_values(y.grad.data, x.data + 2)
    for v in (x, y):
        assert describe(v.grad.grad_fn) == "Identity(Error(AccumulateGrad(), None, AccumulateGrad()))"
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked"):
        x.grad.sum().backward()
    x.grad = y.grad = None


def test_once_differentiable_gives_volatile_gradients_where_no_graph_is_built():
    x, y = leaf(3), leaf(3)
    MultiplyOnce.apply(x, 2, y).sum().backward()
    assert x.grad.volatile and y.grad.volatile


@pytest.mark.parametrize("first, second", list(itertools.product(["tensor", "variable"], repeat=2)))
def test_gradients_add_up_in_place_only_where_no_graph_is_involved(first, second):
    seeds = {"tensor": ones(3), "variable": Variable(ones(3))}
    x = leaf(3)
    y = x + 2
    y.backward(seeds[first], retain_graph=True)
    kept, before = x.grad, x.grad.data.clone()
    y.backward(seeds[second])
    same_values(x.grad.data, before * 2)
    in_place = first == "tensor"
    same_values(kept.data, before * 2 if in_place else before)
    assert (x.grad is kept) == in_place


@pytest.mark.parametrize("first, second", list(itertools.product(["tensor", "variable"], repeat=2)))
def test_the_gradient_of_a_leaf_that_is_gone_grows_only_in_place(first, second):
    seeds = {"tensor": ones(3), "variable": Variable(ones(3))}
    x = leaf(3)
    y = x + 2
    y.backward(seeds[first], retain_graph=True)
    kept, before = x.grad, x.grad.data.clone()
    del x
    y.backward(seeds[second])
    same_values(kept.data, before * 2 if first == second == "tensor" else before)


def test_a_gradient_never_aliases_the_one_it_was_made_from():
    x = leaf(3)
    seed = ones(3)
    (x + 0).backward(seed)
    assert x.grad.data.data_ptr() != seed.data_ptr()
    x.grad.data.fill_(7)
    same_values(seed, ones(3))


def test_a_gradient_that_goes_two_ways_is_not_changed_by_either():
    x, b = leaf(4), leaf(4)
    y = x * 2
    ((y + b) + y).backward(ones(4))
    same_values(x.grad.data, ones(4) * 4)
    same_values(b.grad.data, ones(4))


# ---- roots ---------------------------------------------------------------------------------------------------------


def test_several_roots_add_up():
    x, y = leaf(5, 5), leaf(5, 5)
    z, q, a, b = leaf(5, 5), leaf(5, 5), leaf(5, 5), leaf(5, 5)
    left, right = torch.randn(5, 5).double(), torch.randn(5, 5).double()
    autograd.backward([x * y + z, y * q + a * b], [left, right])
    same_values(x.grad.data, y.data * left)
    same_values(y.grad.data, x.data * left + q.data * right)
    same_values(z.grad.data, left)
    same_values(q.grad.data, y.data * right)
    same_values(a.grad.data, b.data * right)


def test_a_root_that_needs_no_gradient_is_passed_over():
    x, y = leaf(5, 5), leaf(5, 5, requires_grad=False)
    autograd.backward([x + y, y * 2], [ones(5, 5), ones(5, 5)])
    same_values(x.grad.data, ones(5, 5))
    assert y.grad is None


def test_roots_may_lie_within_each_other():
    x = leaf(10)
    y = x ** 2
    z = y * 2
    autograd.backward([z, y], [ones(10), ones(10)])
    same_values(x.grad.data, x.data * 6)
    x.grad = None
    y = x ** 2
    autograd.backward([y, y], [ones(10), ones(10) * 2])
    same_values(x.grad.data, x.data * 6)


def test_a_leaf_can_be_a_root():
    x = leaf(3)
    x.backward(ones(3))
    x.backward(ones(3) * 2)
    same_values(x.grad.data, ones(3) * 3)


@pytest.mark.parametrize("call, message", [
    (lambda x: x.backward(), "grad can be implicitly created only for scalar outputs"),
    (lambda x: autograd.backward([x, x], [ones(3)]), "got 2 variables and 1 gradients"),
    (lambda x: Variable(ones(3), volatile=True).backward(ones(3)), "element 0 of variables tuple is volatile"),
    (lambda x: Variable(ones(3)).backward(ones(3)), "element 0 of variables tuple does not require grad"),
])
def test_roots_that_are_refused(call, message):
    x = leaf(3)
    with pytest.raises(RuntimeError, match=message):
        call(x)
    assert x.grad is None


def test_gradients_of_other_kinds_are_refused():
    with pytest.raises(TypeError, match="gradients can be either Tensors, Variables or None, but got str"):
        leaf(1).backward("one")


def test_both_names_of_retain_graph_at_once_are_refused():
    x = leaf(1)
    with pytest.raises(ValueError, match="only one of retain_graph and retain_variables can be specified"):
        (x * x).backward(retain_graph=True, retain_variables=True)
    with pytest.warns(UserWarning, match="retain_variables"):
        (x * x).backward(retain_variables=True)


# ---- kept and freed graphs -----------------------------------------------------------------------------------------


def test_backward_runs_twice_only_if_the_graph_is_kept():
    x = Variable(torch.rand(3).double() + 1, requires_grad=True)
    z = x.exp() * x
    z.backward(ones(3), retain_graph=True)
    z.backward(ones(3))
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.backward(ones(3))


def test_what_saved_nothing_runs_backward_again():
    x = leaf(3)
    z = x + 3
    z.backward(ones(3))
    z.backward(ones(3))
    same_values(x.grad.data, ones(3) * 2)


def test_outputs_that_are_not_used_get_zero_gradients():
    x = leaf(10, 10)
    outputs = x.chunk(5)
    (outputs[2] * 4 + 2).sum().backward()
    expected = torch.zeros(10, 10).double()
    expected[4:6] = 4
    same_values(x.grad.data, expected)
    x.grad.data.zero_()
    grad_output = torch.randn(2, 10).double()
    x.chunk(5)[0].backward(grad_output)
    expected = torch.zeros(10, 10).double()
    expected[:2] = grad_output
    same_values(x.grad.data, expected)


def test_a_function_behind_an_output_without_gradient_does_not_hold_backward_up():
    x, y = leaf(5, 5), leaf(5, 5)
    a = x + y
    b = torch.max(a, 1, True)[1].repeat(1, 5).double()
    (b + a).sum().backward()
    same_values(x.grad.data, ones(5, 5))
    same_values(y.grad.data, ones(5, 5))


def test_a_graph_too_deep_for_recursion_runs_and_is_freed():
    x = leaf(1)
    y = x.clone()
    for _ in range(20000):
        y = y + y * 0.000001
    y.backward()
    assert x.grad.data[0] > 1
    del y


def test_backward_within_backward():
    y_data = torch.randn(2, 2).double()

    class Reenter(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = Variable(x, requires_grad=True)
            ctx.y = Variable(y_data, requires_grad=True)
            ctx.output = ctx.x * ctx.y
            return ctx.output.data

        @staticmethod
        def backward(ctx, grad_output):
            ctx.output.sum().backward()
            return ctx.x.grad * grad_output

    x = leaf(2, 2)
    Reenter.apply(x).sum().backward()
    same_values(x.grad.data, y_data)


# ---- lifetimes -----------------------------------------------------------------------------------------------------


def test_a_function_may_collect_garbage_while_it_dies():
    class CollectOnDelete(Function):
        def __del__(self):
            gc.collect()

    for _ in range(5):
        Variable(torch.randn(10, 10), _grad_fn=CollectOnDelete())


def test_a_graph_in_a_cycle_is_collected():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda grad, y=y: None)
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_collecting_a_cycle_leaves_the_graph_that_others_use_whole():
    def result_and_cycle():
        x = leaf(10)
        views = [x.view(10)]
        for _ in range(10):
            views.append(views[-1].view(10))
        cycle = [views[-1]]
        cycle.append(cycle)
        return x, views[-1].sum()

    x, out = result_and_cycle()
    gc.collect()
    out.backward()
    same_values(x.grad.data, ones(10))


# ---- grad ----------------------------------------------------------------------------------------------------------


def test_grad_leaves_grad_attributes_alone_and_can_be_differentiated():
    x, y = Variable(ones(2, 2), requires_grad=True), Variable(ones(2, 2) * 2, requires_grad=True)
    z = x ** 2 + y * x + y ** 2
    z.backward(ones(2, 2), create_graph=True)
    same_values(x.grad.data, 2 * x.data + y.data)
    same_values(y.grad.data, x.data + 2 * y.data)
    gradient_sum = 2 * x.grad + y.grad
    (x_hv,) = autograd.grad(outputs=[gradient_sum], inputs=[x], grad_outputs=[ones(2, 2)], create_graph=True)
    same_values(x_hv.data, ones(2, 2) * 5)
    same_values(x.grad.data, 2 * x.data + y.data)
    x.grad = y.grad = None


def test_grad_of_an_interior_variable():
    x = leaf(2, 2)
    gradient = torch.rand(2, 2).double()
    before = x
    for _ in range(3):
        y = before * 2 + x
        (g,) = autograd.grad([y], [before], [gradient], retain_graph=True)
        same_values(g.data, gradient * (3 if before is x else 2))
        before = y
    assert x.grad is None


def test_grad_with_only_inputs_off_accumulates_the_other_leaves():
    x, y = leaf(2), leaf(2)
    (g,) = autograd.grad(x * y, x, ones(2), only_inputs=False)
    same_values(g.data, y.data)
    same_values(y.grad.data, x.data)
    assert x.grad is None


def test_grad_of_many_outputs_of_one_function():
    x = leaf(4, 2)
    a, b = x.split(2)
    calls = []
    a.register_hook(lambda g: calls.append("a"))
    b.register_hook(lambda g: calls.append("b"))
    sums = (a + 1) * (b + 2)
    g_a, g_b = autograd.grad(sums, (a, b), ones(2, 2))
    same_values(g_a.data, b.data + 2)
    same_values(g_b.data, a.data + 1)
    assert sorted(calls) == ["a", "b"] and x.grad is None


@pytest.mark.parametrize("others, message", [
    (lambda x, y: leaf(2), "appears to not have been used in the graph"),
    (lambda x, y: y * 2, "differentiated input is unreachable"),
])
def test_grad_with_respect_to_something_else_is_refused(others, message):
    x, y = leaf(2), leaf(2)
    out = x * 2
    with pytest.raises(RuntimeError, match=message):
        autograd.grad(out, others(x, y), ones(2))


@pytest.mark.parametrize("index_gradient", [lambda i: None, lambda i: Variable(i.data.clone().fill_(1))],
                         ids=["none", "a gradient"])
def test_grad_passes_over_outputs_that_are_not_differentiable(index_gradient):
    x = leaf(3, 4)
    values, indices = x.max(1)
    (g,) = autograd.grad((values, indices), (x,), (Variable(ones(3)), index_gradient(indices)))
    same_values(g.data.sum(1), ones(3))


# ---- the helpers of gradcheck --------------------------------------------------------------------------------------


def test_jacobians_of_a_product():
    x, y = leaf(2, requires_grad=True), leaf(2, requires_grad=False)
    numerical = gradients.get_numerical_jacobian(lambda inputs: (inputs[0] * inputs[1]).data, (x, y), (x, y))
    output = x * y
    analytical = gradients.get_analytical_jacobian((x, y), output)[0]
    expected = torch.diag(y.data)
    same_values(numerical[0].double(), expected, 1e-6)
    same_values(analytical[0].double(), expected)


def test_tensors_and_variables_are_found_in_nested_inputs():
    x, y, t = leaf(2), leaf(2, requires_grad=False), torch.ones(1)
    assert [id(i) for i in gradients.iter_tensors(x)] == [id(x.data)]
    assert [id(i) for i in gradients.iter_tensors([x, (y, t)])] == [id(x.data), id(y.data), id(t)]
    assert [id(i) for i in gradients.iter_tensors([x, y], only_requiring_grad=True)] == [id(x.data)]
    made = gradients.make_jacobian((x, y), 3)
    assert [tuple(j.size()) for j in made] == [(2, 3)]
    assert gradients.contiguous(leaf(2, 3).t()).is_contiguous()
    (x * 2).backward(ones(2))
    gradients.zero_gradients([x, y])
    same_values(x.grad.data, torch.zeros(2).double())


def test_gradcheck_finds_a_wrong_gradient_and_a_gradient_of_another_size():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 3

    x = leaf(3)
    assert gradcheck(lambda v: v * 2, (x,))
    assert not gradcheck(Wrong.apply, (x,))
    with pytest.raises(RuntimeError, match="no Variables found in input"):
        gradcheck(lambda t: t, (torch.ones(1),))
