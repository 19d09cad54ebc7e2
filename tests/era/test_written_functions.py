"""Functions defined in Python, in both styles, as programs of the time wrote them, and stochastic ones."""

import pytest
from era_package import Function, Variable, autograd, same_values, torch


def leaf(*sizes, requires_grad=True):
    return Variable(torch.randn(*sizes).double(), requires_grad=requires_grad)


def ones(*sizes):
    return torch.ones(*sizes).double()


class Square(Function):
    """Old style, once differentiable by nature."""

    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, grad_output):
        (x,) = self.saved_tensors
        return grad_output * x * 2


def test_an_old_style_function_computes_on_tensors():
    x = leaf(3)
    Square()(x).backward(ones(3))
    same_values(x.grad.data, x.data * 2)


def test_an_old_style_function_cannot_be_differentiated_twice():
    x = leaf(3)
    (g,) = autograd.grad(Square()(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="is not differentiable twice"):
        g.sum().backward()


def test_functions_know_what_style_they_are():
    class New(Function):
        @staticmethod
        def forward(ctx, x):
            return x

    assert Square._is_legacy and not New._is_legacy


@pytest.mark.parametrize("change", [False, True])
def test_an_input_that_is_returned(change):
    class Identity(Function):
        @staticmethod
        def forward(ctx, a, b):
            return (a + 1 if change else a), b

        @staticmethod
        def backward(ctx, grad_a, grad_b):
            return grad_a + grad_b, grad_b

    x, y = leaf(5, 5), leaf(5, 5)
    a, b = Identity.apply(x, y)
    assert a is not x and b is not y
    same_values(b.data, y.data)
    autograd.backward([a, b], [ones(5, 5), ones(5, 5) * 2])
    same_values(x.grad.data, ones(5, 5) * 3)
    same_values(y.grad.data, ones(5, 5) * 2)


def test_an_input_that_is_changed_and_returned():
    class Double(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.mul_(2), b + 2

        @staticmethod
        def backward(ctx, grad_a, grad_b):
            return grad_a * 2, grad_b

    x, y = leaf(3), leaf(3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Double.apply(x, y)
    q, p = x.clone(), leaf(3)
    a, b = Double.apply(q, p)
    assert a is q and q.grad_fn is b.grad_fn
    (a + b).backward(ones(3))
    same_values(p.grad.data, ones(3))
    same_values(x.grad.data, ones(3) * 2)


def test_outputs_marked_as_not_differentiable():
    class Positive(Function):
        @staticmethod
        def forward(ctx, x):
            positive = x > 0
            ctx.mark_non_differentiable(positive)
            ctx.save_for_backward(x, positive)
            return positive, x * positive.type_as(x)

        @staticmethod
        def backward(ctx, grad_positive, grad_output):
            x, positive = ctx.saved_variables
            assert grad_positive.data.sum() == 0
            return grad_output * positive.type_as(x)

    x = leaf(5)
    positive, kept = Positive.apply(x)
    assert not positive.requires_grad and kept.requires_grad
    kept.sum().backward()
    same_values(x.grad.data, (x.data > 0).double())


def test_none_can_be_saved():
    class Saving(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(None, x, None)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            first, x, last = ctx.saved_variables
            assert first is None and last is None
            return 2 * grad_output * x

    x = leaf(5, 5)
    Saving.apply(x).sum().backward()
    same_values(x.grad.data, 2 * x.data)


def test_saved_outputs_have_their_own_history():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_variables
            return grad_output * result

    x = leaf(3)
    y = Exp.apply(x)
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    same_values(x.grad.data, x.data.exp())


@pytest.mark.parametrize("extra", [0, 3])
def test_more_gradients_than_arguments_if_they_are_none(extra):
    class Two(Function):
        def forward(self, x, y):
            return x + y

        def backward(self, grad_output):
            return (grad_output, grad_output, *[None] * extra)

    x, y = leaf(3), leaf(3)
    Two()(x, y).backward(ones(3))
    same_values(x.grad.data, ones(3))
    same_values(y.grad.data, ones(3))


@pytest.mark.parametrize("count, message", [(1, "expected 2, "), (3, "expected 2, ")])
def test_a_wrong_number_of_gradients_is_refused(count, message):
    class Two(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad_output):
            return (grad_output,) * count

    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        Two.apply(leaf(3), leaf(3)).backward(ones(3))


def test_arguments_that_are_no_variables_get_no_gradient():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, scale, name):
            ctx.scale = scale
            assert name == "name" and torch.is_tensor(x)
            return x * scale

        @staticmethod
        def backward(ctx, grad_output):
            assert ctx.needs_input_grad == (True, False, False)
            return grad_output * ctx.scale, None, None

    x = leaf(3)
    y = Scale.apply(x, 3, "name")
    assert len(y.grad_fn.next_functions) == 1
    y.backward(ones(3))
    same_values(x.grad.data, ones(3) * 3)


def test_a_function_behind_a_constant_is_not_run():
    class Refusing(Function):
        def forward(self, x):
            return x * 2

        def backward(self, grad_output):
            raise AssertionError("backward must not be called")

    x, y = leaf(5, 5), leaf(5, 5, requires_grad=False)
    hidden = Refusing()(y)
    hidden.grad_fn.register_hook(lambda *args: 1 / 0)
    (x + hidden).backward(ones(5, 5))
    same_values(x.grad.data, ones(5, 5))
    assert y.grad is None


def test_a_backward_that_gives_none_for_everything_ends_the_path():
    class Dead(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return None

    x = leaf(3)
    (Dead.apply(x) + x).backward(ones(3))
    same_values(x.grad.data, ones(3))


def test_results_that_share_memory_are_guarded_by_mark_shared_storage():
    class Row(Function):
        @staticmethod
        def forward(ctx, x):
            row = x.select(0, 0)
            ctx.mark_shared_storage((x, row))
            return row

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    x = leaf(2, 3, requires_grad=False)
    row = Row.apply(x)
    with pytest.raises(RuntimeError, match="can be only used on variables that don't share storage"):
        row.add_(1)
    with pytest.raises(RuntimeError, match="can be only used on variables that don't share storage"):
        x.add_(1)


def test_an_exception_in_backward_keeps_its_type():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Broken.apply(leaf(3)).backward(ones(3))


def test_nested_inputs_and_outputs():
    class Pairs(autograd.NestedIOFunction):
        def forward_extended(self, pair, third):
            self.save_for_backward(pair)
            return (pair[0] * pair[1], [third * 3])

        def backward_extended(self, grad_product, grad_third):
            ((a, b),) = self.saved_tensors
            return (grad_product * b, grad_product * a), grad_third[0] * 3

    a, b, c = leaf(3), leaf(3), leaf(3)
    product, (third,) = Pairs()((a, b), c)
    (product + third).backward(ones(3))
    same_values(a.grad.data, b.data)
    same_values(b.grad.data, a.data)
    same_values(c.grad.data, ones(3) * 3)


def test_inplace_functions_carry_their_switch():
    class Doubled(autograd.function.InplaceFunction):
        def forward(self, x):
            if self.inplace:
                self.mark_dirty(x)
                return x.mul_(2)
            return x * 2

        def backward(self, grad_output):
            return grad_output * 2

    x = leaf(3)
    y = x.clone()
    assert Doubled(inplace=True)(y) is y and Doubled()(y) is not y
    y.backward(ones(3))
    same_values(x.grad.data, ones(3) * 2)


# ---- stochastic functions ------------------------------------------------------------------------------------------


class Bernoulli(autograd.StochasticFunction):
    """Draws 0 or 1, and follows the gradient of the logarithm of the probability."""

    def forward(self, p):
        sample = torch.zeros(*p.size()).type_as(p).bernoulli_(p)
        self.save_for_backward(p, sample)
        self.mark_non_differentiable(sample)
        return sample

    def backward(self, reward):
        p, sample = self.saved_tensors
        return (sample - p) / (p * (1 - p)) * reward


def test_a_reward_is_the_gradient_of_a_stochastic_output():
    x = Variable(torch.rand(5, 10).double().clamp(0.1, 0.9), requires_grad=True)
    y = Bernoulli()(x * 1)
    y.reinforce(torch.ones(5, 10).double())
    y.backward()
    p, s = x.data, y.data
    same_values(x.grad.data, (s - p) / (p * (1 - p)))


def test_stochastic_outputs_mix_with_others():
    x = Variable(torch.rand(10).double().clamp(0.1, 0.9), requires_grad=True)
    hidden = x * 2
    stochastic = Bernoulli()(x + 0)
    stochastic.reinforce(3)
    autograd.backward([(hidden * stochastic.detach()).sum(), stochastic], [ones(1), None])
    p, s = x.data, stochastic.data
    same_values(x.grad.data, s * 2 + (s - p) / (p * (1 - p)) * 3)


def test_a_sequence_of_stochastic_functions_needs_one_reward_each():
    x = Variable(torch.rand(3).double().clamp(0.2, 0.8), requires_grad=True)
    samples = []
    state = x
    for _ in range(4):
        drawn = Bernoulli()(state)
        samples.append(drawn)
        state = (x + drawn.detach() * 0.1).clamp(0.05, 0.95)
    for drawn in samples:
        drawn.reinforce(1)
    autograd.backward(samples, [None] * 4)
    assert x.grad is not None and x.grad.data.abs().sum() > 0


def test_the_library_draws_samples_that_learn_from_rewards():
    x = Variable(torch.rand(2, 10).double(), requires_grad=True)
    deviations = Variable(torch.rand(2, 10).double() * 5 + 0.1, requires_grad=True)
    p = (x * 2).clamp(0.01, 0.99)
    p = p / p.sum(1, True).expand_as(p)
    drawn = p.multinomial(5)
    flat = p[0].multinomial(5)
    bits = p.bernoulli()
    around = torch.normal(p)
    spread = torch.normal(p, deviations)
    assert type(drawn.data) is torch.LongTensor and drawn.size() == torch.Size([2, 5])
    z = drawn * 2 + 4
    z = z + flat.unsqueeze(0).expand_as(drawn)
    z = torch.cat([z, z], 1).double() + bits + around + spread
    last = torch.normal(z, 4)
    z = last + 2
    assert not z.requires_grad
    with pytest.raises(RuntimeError, match="differentiating stochastic functions requires providing a reward"):
        z.backward(retain_graph=True)
    drawn.reinforce(torch.randn(2, 5).double())
    flat.reinforce(torch.randn(5).double())
    for sample in (bits, around, spread, last):
        sample.reinforce(torch.randn(2, 10).double())
    z.backward(retain_graph=True)
    assert x.grad.data.abs().sum() > 0 and deviations.grad.data.abs().sum() > 0


def test_a_sample_may_be_the_only_result():
    x = Variable(torch.rand(10).double(), requires_grad=True)
    sample = x.clone().clamp(0.1, 0.9).bernoulli()
    sample.reinforce(torch.randn(10).double())
    sample.backward()
    assert x.grad.data.abs().sum() > 0


@pytest.mark.parametrize("draw", [lambda p: p.multinomial(2), lambda p: p.bernoulli(), lambda p: torch.normal(p, 1)],
                         ids=["multinomial", "bernoulli", "normal"])
def test_a_sequence_of_samples(draw):
    x = Variable(torch.rand(3).double() + 0.1, requires_grad=True)
    p, samples = (x * 1).clamp(0.05, 0.95), []
    for _ in range(3):
        samples.append(draw(p))
        p = (p + samples[-1].double().sum().expand_as(p) * 0.01).clamp(0.05, 0.95)
    for sample in samples:
        sample.reinforce(1)
    autograd.backward(samples, [None] * 3)
    assert x.grad.data.abs().sum() > 0


@pytest.mark.parametrize("reward, error, message", [
    (torch.FloatTensor(3).fill_(1), TypeError, "mismatch between reward and output type"),
    (torch.DoubleTensor(4).fill_(1), ValueError, "got reward of size 4, but expected a tensor of size 3"),
])
def test_rewards_of_another_kind_are_refused(reward, error, message):
    y = Bernoulli()(Variable(torch.rand(3).double(), requires_grad=True))
    with pytest.raises(error, match=message):
        y.reinforce(reward)


def test_a_reward_is_given_once_and_only_to_stochastic_outputs():
    x = Variable(torch.rand(3).double(), requires_grad=True)
    y = Bernoulli()(x)
    y.reinforce(1)
    with pytest.raises(RuntimeError, match="you can only reinforce a stochastic Function once"):
        y.reinforce(1)
    with pytest.raises(RuntimeError, match="can be only called on outputs of stochastic functions"):
        x.reinforce(1)
    with pytest.raises(RuntimeError, match="differentiating stochastic functions requires providing a reward"):
        Bernoulli()(x).backward()
