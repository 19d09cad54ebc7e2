"""no_grad, enable_grad and set_grad_enabled."""

import threading

import pytest
from leaves import leaf
from python_functions import Mul, Scale

from torchlite.autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled


@pytest.fixture(autouse=True)
def mode_is_restored():
    assert is_grad_enabled()
    yield
    assert is_grad_enabled()


@pytest.mark.parametrize(
    "op", [lambda x: x * x, lambda x: x + 1, lambda x: Mul.apply(x, x), lambda x: Scale.apply(x, 2)]
)
def test_what_is_computed_without_grad_requires_none(op):
    x = leaf([2.0])
    with no_grad():
        assert not op(x).requires_grad
    assert op(x).requires_grad and x.requires_grad


def test_modes_nest():
    with no_grad():
        with enable_grad():
            assert is_grad_enabled()
            with no_grad():
                assert not is_grad_enabled()
            assert is_grad_enabled()
        assert not is_grad_enabled()


def test_one_object_may_be_entered_repeatedly():
    mode = no_grad()
    with mode:
        with enable_grad():
            with mode:
                assert not is_grad_enabled()
            assert is_grad_enabled()
        assert not is_grad_enabled()


def test_an_exception_restores_the_mode():
    with pytest.raises(LookupError), no_grad():
        raise LookupError


@pytest.mark.parametrize("decorator", [no_grad, no_grad()], ids=["bare", "called"])
def test_a_decorated_function_runs_in_the_mode(decorator):
    @decorator
    def f(a, *, b):
        """What f does."""
        assert not is_grad_enabled()
        return a + b

    assert f(1, b=2) == 3 and is_grad_enabled()
    assert f.__name__ == "f" and f.__doc__ == "What f does."


def test_a_decorated_function_that_raises_restores_the_mode():
    @no_grad()
    def f():
        raise LookupError

    with pytest.raises(LookupError):
        f()


def test_a_decorated_recursive_function():
    @no_grad()
    def f(n):
        with enable_grad():
            return is_grad_enabled() if n == 0 else f(n - 1)

    assert f(5) is True


def test_a_decorated_generator_is_in_the_mode_only_while_it_runs():
    @no_grad()
    def numbers():
        received = []
        for i in range(3):
            assert not is_grad_enabled()
            received.append((yield i))
        return received

    generator = numbers()
    assert is_grad_enabled()
    assert next(generator) == 0 and is_grad_enabled()
    assert generator.send("a") == 1 and is_grad_enabled()
    assert generator.send("b") == 2
    with pytest.raises(StopIteration) as stop:
        generator.send("c")
    assert stop.value.value == ["a", "b", "c"]


def test_a_decorated_generator_gets_exceptions_and_closing():
    log = []

    @no_grad()
    def numbers():
        try:
            try:
                yield 1
            except LookupError:
                log.append(is_grad_enabled())
                yield 2
        finally:
            log.append(is_grad_enabled())

    generator = numbers()
    next(generator)
    assert generator.throw(LookupError()) == 2
    generator.close()
    assert log == [False, False]


def test_asynchronous_functions_and_classes_cannot_be_decorated():
    async def coroutine():
        pass

    async def generator():
        yield

    for bad in (coroutine, generator, int, 3):
        with pytest.raises(TypeError, match="no_grad"):
            no_grad()(bad)


def test_the_mode_belongs_to_the_thread():
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_set_grad_enabled_acts_at_once():
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)


@pytest.mark.parametrize("mode", [False, True])
def test_set_grad_enabled_in_a_with_block(mode):
    with set_grad_enabled(mode):
        assert is_grad_enabled() is mode


def test_set_grad_enabled_as_a_decorator():
    @set_grad_enabled(False)
    def f():
        return is_grad_enabled()

    assert is_grad_enabled()
    assert f() is False


@pytest.mark.parametrize("mode", [0, None, "no"])
def test_set_grad_enabled_wants_a_bool(mode):
    with pytest.raises(TypeError, match="mode must be a bool"):
        set_grad_enabled(mode)
