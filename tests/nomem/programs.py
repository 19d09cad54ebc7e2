"""The programs that make nomem fails allocations in, and that the reference-total check repeats.

`setup()` makes the inputs, `body(state)` is the part in which an allocation fails, `check(state, done)` raises if the
state afterwards is wrong; `done` tells whether the body came through."""

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import torchlite
from torchlite import _C, ByteTensor, FloatStorage, FloatTensor, Variable, from_dlpack, from_numpy
from torchlite.autograd import Function, StochasticFunction, grad


class Program(NamedTuple):
    setup: Callable[[], Any]
    body: Callable[[Any], Any]
    check: Callable[[Any, bool], None]


PROGRAMS: dict[str, Program] = {}


def program(setup, check=lambda state, done: None):
    """Registers the decorated function as the body of a program of its name."""
    def register(body):
        PROGRAMS[body.__name__.replace("_", "-")] = Program(setup, body, check)
        return body

    return register


def values(variable):
    return np.asarray(variable.data).tolist()


def two_leaves():
    return [Variable(np.array([1.0, 2.0, 3.0]), requires_grad=True),
            Variable(np.array([4.0, 5.0, 6.0]), requires_grad=True)]


def leaves_unchanged(state, done):
    x, y = state[:2]
    assert values(x) == [1, 2, 3] and values(y) == [4, 5, 6]
    assert x.grad is None and y.grad is None
    assert x._version == 0 and y._version == 0


def gradients_whole(state, done):
    """A gradient is the whole right answer or absent, and present if the body came through."""
    x, y = state[:2]
    assert values(x) == [1, 2, 3] and values(y) == [4, 5, 6]
    for leaf, right in ((x, values(y)), (y, values(x))):
        assert leaf.grad is None and not done or values(leaf.grad) == right


@program(lambda: np.array([1.0, 2.0]))
def construct(array):
    Variable(array, requires_grad=True)
    Variable(array, volatile=True)


@program(two_leaves, leaves_unchanged)
def op(state):
    x, y = state
    x * y + 2.0


@program(two_leaves, leaves_unchanged)
def broadcast_op(state):
    x, y = state
    x.view(3, 1) * y


@program(two_leaves, leaves_unchanged)
def many_ops(state):
    x, y = state
    ((x.exp() - y.tanh()) ** 2).sum().sqrt()
    x.view(1, 3).mm(y.view(3, 1))


@program(two_leaves, leaves_unchanged)
def index(state):
    x, _ = state
    x[1:]
    x[0]


@program(two_leaves, gradients_whole)
def backward(state):
    x, y = state
    (x * y).sum().backward()


@program(two_leaves, gradients_whole)
def backward_twice(state):
    x, y = state
    (x * y).sum().backward()
    x.grad = None
    y.grad = None
    (x * y).sum().backward()


def accumulated():
    state = two_leaves()
    (state[0] * state[1]).sum().backward()
    return state


def accumulated_whole(state, done):
    for leaf, once in ((state[0], [4, 5, 6]), (state[1], [1, 2, 3])):
        twice = [2 * v for v in once]
        assert values(leaf.grad) == twice or not done and values(leaf.grad) == once


@program(accumulated, accumulated_whole)
def accumulate(state):
    x, y = state
    (x * y).sum().backward()


@program(two_leaves)
def double_backward(state):
    x, y = state
    (x * y * x).sum().backward(Variable(np.array([1.0])))
    x.grad.sum().backward()


@program(two_leaves, gradients_whole)
def hook(state):
    x, y = state
    z = x * y
    handle = z.register_hook(lambda gradient: gradient * 1.0)
    z.sum().backward()
    handle.remove()


@program(two_leaves)
def in_place(state):
    x, _ = state
    z = x * 1.0
    z.add_(1.0)
    z.mul_(2.0)


def in_place_whole(state, done):
    z = state[0]
    assert (values(z), z._version) == (([2.0, 3.0], 1) if done else ([1.0, 2.0], 0))


@program(lambda: [Variable(np.array([1.0, 2.0]))], in_place_whole)
def in_place_alone(state):
    state[0].add_(1.0)


@program(two_leaves, leaves_unchanged)
def free(state):
    x, y = state
    z = x
    for _ in range(20):
        z = z * y
    del z


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_variables
        return gradient * x * 2.0


@program(two_leaves)
def python_function(state):
    x, _ = state
    Square.apply(x).sum().backward()


@program(two_leaves, leaves_unchanged)
def cycle(state):
    x, y = state
    z = x * y
    z.register_hook(lambda gradient, z=z: None)


class AddInPlace(Function):
    @staticmethod
    def forward(ctx, a, b):
        a += b.numpy()
        ctx.mark_dirty(a)
        ctx.save_for_backward(a, b)
        return a, b * 2.0

    @staticmethod
    def backward(ctx, gradient_a, gradient_b):
        return gradient_a, gradient_a + gradient_b * 2.0


@program(two_leaves)
def python_function_in_place(state):
    x, y = state
    a, b = AddInPlace.apply(x * 1.0, y)
    a.sum().backward()


def refused_whole(state, done):
    """The refused write is undone, unless the copy that undoes it could not be made."""
    x, _ = state
    assert x.is_leaf and x.requires_grad and x.grad is None
    assert x._version == 0 or not done


@program(two_leaves, refused_whole)
def python_function_refused(state):
    x, y = state
    try:
        AddInPlace.apply(x, y)
    except RuntimeError:
        assert values(x) == [1, 2, 3]


class OldSquare(Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x, x * 1.0

    def backward(self, gradient, unused):
        (x,) = self.saved_tensors
        return gradient * x * 2.0 + unused


@program(two_leaves)
def old_style_function(state):
    x, _ = state
    a, _ = OldSquare()(x)
    a.sum().backward()


class Draw(StochasticFunction):
    def forward(self, x):
        y = x.clone()
        self.mark_non_differentiable(y)
        return y

    def backward(self, reward):
        return reward


@program(two_leaves)
def stochastic_function(state):
    x, y = state
    sample = Draw()(x)
    z = (sample * 2 + y).add_(sample)
    index = OldSquare()(sample + 1)[0].max(0)[1]
    sample.reinforce(1)
    z.sum().backward(retain_graph=True)
    index.backward()


@program(two_leaves)
def function_hook(state):
    x, _ = state
    y = Square.apply(x)
    handle = y.grad_fn.register_hook(lambda inputs, outputs: inputs)
    y.sum().backward()
    handle.remove()


@program(two_leaves, leaves_unchanged)
def delayed_error(state):
    x, y = state
    _C._functions.DelayedError("later")(x, None, y)


# ---- tensors ------------------------------------------------------------------------------------------------------


def matrix():
    return FloatTensor([[1, 2], [3, 4]])


def matrix_unchanged(t, done):
    assert t.tolist() == [[1, 2], [3, 4]]


@program(lambda: [[1.0, 2.0], [3.0, 4.0]])
def tensor_construct(data):
    FloatTensor(data)
    FloatTensor(2, 1, 1, 1)
    FloatTensor(np.array([1.0, 1.0, 1.0]))


@program(matrix, matrix_unchanged)
def tensor_index(t):
    t[:, None, ::-1]
    t[[1, 0]]
    t[0, 1]
    t[[slice(None), [0]]]
    t[ByteTensor([1, 0, 0, 1])]
    for key in ([0, 9], ([0, 1], [0, 1, 1]), "a"):
        try:
            t[key]
        except (IndexError, TypeError):
            pass


@program(matrix, lambda t, done: [t.size(), t.tolist()])
def tensor_assign(t):
    t[0] = 5
    t[[1]] = FloatTensor([[6, 7]])
    t.copy_(t.double())


def same_elements(t, done):
    assert np.asarray(t).ravel().tolist() == [1, 2, 3, 4]


@program(matrix, same_elements)
def tensor_resize(t):
    t.resize_(2, 2, 1, 1)
    t.resize_(4)


def leading_elements(t, done):
    assert t.storage().tolist()[:4] == [1, 2, 3, 4] and t.size() == ((100,) if done else (2, 2))


@program(matrix, leading_elements)
def tensor_grow(t):
    view = t[1]
    view.numpy()
    t.resize_(100)


def storage_unchanged(s, done):
    assert s.tolist() == [1, 2, 3, 4, 5]


@program(lambda: FloatStorage([1, 2, 3, 4, 5]), storage_unchanged)
def storage_methods(s):
    s.type("torch.DoubleStorage")
    copy.deepcopy(s)
    s.new(s, 1, 2)
    s._move_into(bytearray(1000))


@program(matrix, matrix_unchanged)
def tensor_accumulate(t):
    t.index(0)
    t._check_advanced_indexing([0, 1])
    t._advanced_index_select(([0, 1], [0, 1]))
    t.clone()._advanced_index_add([0, 0], FloatTensor(2, 2))


@program(matrix, matrix_unchanged)
def tensor_exchange(t):
    from_numpy(np.asarray(t))
    from_dlpack(t)
    memoryview(t)


@program(matrix, matrix_unchanged)
def tensor_pickle(t):
    pickle.loads(pickle.dumps(t))
    copy.deepcopy(t)


@program(two_leaves, leaves_unchanged)
def grad_of_inputs(state):
    x, y = state
    z = x * y
    grad(z.sum(), [x, z, y], retain_graph=True)
    grad(z.sum(), [y, x], create_graph=True, only_inputs=True)


def history():
    state = two_leaves()
    (state[0] * state[1]).sum().backward(Variable(np.ones(1)))
    return state


@program(history, accumulated_whole)
def accumulate_with_history(state):
    x, y = state
    (x * y).sum().backward(Variable(np.ones(1)))


@program(two_leaves, leaves_unchanged)
def list_operation(state):
    x, y = state
    z = torchlite.cat([x, y, x])
    z.add_(1.0)
    torchlite.stack([x, y]).max(0)


def written():
    x, y = two_leaves()
    z = x * 1.0
    return [x, y, z, z.grad_fn]


def written_whole(state, done):
    """The Variable, its version and its history are those before the write, or those after it."""
    z, old = state[2:]
    if done:
        assert values(z) == [4, 10, 18] and z._version == 1 and z.grad_fn is not old
    else:
        assert values(z) == [1, 2, 3] and z._version == 0 and z.grad_fn is old


@program(written, written_whole)
def in_place_with_history(state):
    state[2].mul_(state[1])


def assigned_whole(state, done):
    z, old = state[2:]
    if done:
        assert values(z) == [1, 7, 3] and z._version == 1 and z.grad_fn is not old
    else:
        assert values(z) == [1, 2, 3] and z._version == 0 and z.grad_fn is old


@program(written, assigned_whole)
def item_assignment(state):
    state[2][1] = 7.0


@program(two_leaves, leaves_unchanged)
def views_and_detached(state):
    x, y = state
    z = x * y
    z.view(3, 1).t().expand(2, 3).detach()
    z.detach().view(-1)
    z.detach_()


@program(two_leaves, leaves_unchanged)
def saved_values(state):
    x, _ = state
    y = Square.apply(x * 1.0)
    _ = y.grad_fn.saved_tensors, y.grad_fn.saved_variables, y.grad_fn.next_functions, y.grad_fn.needs_input_grad


@program(two_leaves)
def dead_leaf(state):
    x = Variable(np.ones(3), requires_grad=True)
    y = x + 1.0
    y.sum().backward(retain_graph=True)
    gradient = x.grad
    del x
    y.sum().backward()
    _ = gradient


@program(two_leaves, leaves_unchanged)
def arrays_as_operands(state):
    x, _ = state
    array = np.array([1.0, 2.0, 3.0])
    (array * x + np.float32(2.0) - array) / np.array(2.0)


@program(lambda: [*two_leaves(), None])
def no_grad_step(state):
    x, y, _ = state
    (x * y).sum().backward()
    with torchlite.no_grad():
        x.sub_(x.grad * 0.0)


def sparse_operands():
    indices, values = torchlite.LongTensor([[0, 2, 0]]), torchlite.DoubleTensor([1, 2, 3])
    return [torchlite.sparse.DoubleTensor(indices, values, (3,)), torchlite.DoubleTensor([1, 1, 1])]


def sparse_sums_whole(state, done):
    sparse, dense = state
    assert sparse._nnz() == 3 and sparse.to_dense().tolist() == [4, 0, 2]
    assert dense.tolist() in ([1, 1, 1], [5, 1, 3]) and (not done or dense.tolist() == [5, 1, 3])


@program(sparse_operands, sparse_sums_whole)
def sparse_sums(state):
    sparse, dense = state
    return (sparse + sparse) * 2, dense.add_(sparse), Variable(sparse) + Variable(dense)


class Given(Function):
    """The identity, with a given gradient."""

    def __init__(self, gradient):
        super().__init__()
        self.gradient = gradient

    def forward(self, x):
        return x.clone()

    def backward(self, _):
        return self.gradient


def sparse_gradients_whole(state, done):
    grad = state[2].grad
    assert grad is None and not done or grad.data.is_sparse and grad.data.to_dense().tolist() == [8, 0, 4]
    sparse_sums_whole(state[:2], False)


@program(lambda: [*sparse_operands(), Variable(torchlite.zeros(3).double(), requires_grad=True)],
         sparse_gradients_whole)
def sparse_gradients(state):
    sparse, _, x = state
    (Given(sparse)(x) + Given(sparse)(x)).sum().backward()
