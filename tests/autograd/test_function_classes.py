"""What the metaclass makes of a Function class."""

import pytest
from leaves import leaf

from torchlite import _C
from torchlite.autograd import Function, InplaceFunction, NestedIOFunction, StochasticFunction
from torchlite.autograd.function import BackwardCFunction


class StaticForward(Function):
    @staticmethod
    def forward(ctx, x):
        return x


class ClassForward(Function):
    @classmethod
    def forward(cls, ctx, x):
        return x


class InstanceForward(Function):
    def forward(self, x):
        return x


class InheritedStatic(StaticForward):
    pass


class InheritedInstance(InstanceForward):
    def backward(self, g):
        return g


class StaticOverInstance(InstanceForward):
    @staticmethod
    def forward(ctx, x):
        return x


class InstanceOverStatic(StaticForward):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    "cls, legacy",
    [
        (Function, False),
        (InplaceFunction, False),
        (StaticForward, False),
        (ClassForward, False),
        (InheritedStatic, False),
        (StaticOverInstance, False),
        (InstanceForward, True),
        (InheritedInstance, True),
        (InstanceOverStatic, True),
        (NestedIOFunction, True),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_the_nearest_forward_decides_whether_a_function_is_old_style(cls, legacy):
    assert cls._is_legacy is legacy


def test_a_new_style_function_has_its_own_context_class():
    context = StaticForward._backward_cls
    assert context.__name__ == "StaticForwardBackward"
    assert context.__module__ == __name__
    assert context._forward_cls is StaticForward
    assert issubclass(context, BackwardCFunction) and issubclass(context, _C._FunctionBase)


def test_a_subclass_of_a_new_style_function_has_a_context_class_of_its_own():
    assert InheritedStatic._backward_cls is not StaticForward._backward_cls
    assert InheritedStatic._backward_cls._forward_cls is InheritedStatic


def test_apply_of_a_class_without_forward_raises_not_implemented():
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError):
        Nothing.apply()


def test_inplace_function_stores_its_switch():
    assert InplaceFunction().inplace is False
    assert InplaceFunction(inplace=True).inplace is True
    assert InplaceFunction(True).inplace is True


def test_a_stochastic_function_starts_without_a_reward():
    class Draw(StochasticFunction):
        def forward(self, x):
            return x.clone()

    assert Draw().reward is None


def test_a_class_can_be_made_with_keywords_and_a_mixin():
    class Mixin:
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag

    class Tagged(Mixin, StaticForward, tag="t"):
        pass

    assert Tagged.tag == "t"


def test_a_context_that_never_ran_has_nothing_to_tell():
    ctx = StaticForward._backward_cls()
    assert ctx.to_save is None
    assert ctx.dirty_tensors is None
    assert ctx.shared_pairs is None
    assert ctx.non_differentiable is None
    assert ctx.needs_input_grad is None
    assert ctx.saved_tensors == ()
    assert ctx.saved_variables == ()


def test_context_methods_assign_and_the_last_call_wins():
    ctx = StaticForward._backward_cls()
    ctx.save_for_backward(1, 2)
    ctx.save_for_backward(3)
    ctx.mark_dirty(4)
    ctx.mark_shared_storage((5, 6))
    ctx.mark_non_differentiable(7, 8)
    assert ctx.to_save == (3,)
    assert ctx.dirty_tensors == (4,)
    assert ctx.shared_pairs == ((5, 6),)
    assert ctx.non_differentiable == (7, 8)


def test_the_executable_flag_takes_a_bool_only():
    ctx = StaticForward._backward_cls()
    ctx.requires_grad = True
    assert ctx.requires_grad is True
    with pytest.raises(TypeError, match="'is_executable' must be a bool"):
        ctx.requires_grad = 1
    assert ctx.requires_grad is True


def test_calling_an_instance_is_the_extensions_forward():
    assert Function.__dict__["__call__"] is _C._FunctionBase.__dict__["_do_forward"]


def test_apply_of_a_context_runs_the_backward_of_its_function():
    class Doubles(StaticForward):
        @staticmethod
        def backward(ctx, *grads):
            return ctx, grads

    ctx = Doubles._backward_cls()
    assert ctx.apply(1, 2) == (ctx, (1, 2))
    assert ctx._is_legacy is False


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_forward_and_backward_of_the_base_are_static_and_not_implemented(name):
    assert isinstance(Function.__dict__[name], staticmethod)
    with pytest.raises(NotImplementedError):
        getattr(Function, name)(None)


@pytest.mark.parametrize("cls", [Function, BackwardCFunction], ids=lambda c: c.__name__)
def test_functions_and_contexts_have_the_mark_methods(cls):
    for name in ("save_for_backward", "mark_dirty", "mark_shared_storage", "mark_non_differentiable", "_register_hook"):
        assert callable(getattr(cls, name))


def test_an_old_style_class_has_no_context_class_and_no_apply():
    assert InstanceForward._backward_cls is None
    with pytest.raises(AttributeError, match="_backward_cls"):
        InstanceForward.apply()


def test_a_class_may_bring_its_own_context_class():
    class Context(BackwardCFunction):
        pass

    class Mine(StaticForward):
        _backward_cls = Context

    assert Mine._backward_cls is Context and type(Mine.apply(leaf([1.0])).grad_fn) is Context
