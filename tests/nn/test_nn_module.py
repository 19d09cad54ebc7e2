"""Module: registration, attributes, hooks, traversal, state, conversion, pickling."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torchlite.FloatTensor([2.0]))

    def forward(self, input):
        return self.linear(input)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.scale = nn.Parameter(torchlite.FloatTensor([1.0, 2.0, 3.0]))
        self.register_parameter("shift", None)
        self.register_buffer("nothing", None)

    def forward(self, input):
        return self.first(input) * self.scale


def variable(*size, **flags):
    return Variable(np.arange(np.prod(size), dtype="f4").reshape(size) / 10, **flags)


def parameter(*size):
    return nn.Parameter(np.ones(size, "f4"))


# ---- registration and attributes ----


def test_a_new_module_has_empty_registries_and_trains():
    module = nn.Module()
    for name in (
        "_parameters",
        "_buffers",
        "_backward_hooks",
        "_forward_hooks",
        "_forward_pre_hooks",
        "_modules",
    ):
        assert getattr(module, name) == OrderedDict()
    assert module.training is True
    assert nn.Module.dump_patches is False


def test_assigned_parameters_and_modules_are_registered_and_found():
    net = Net()
    assert list(net._parameters) == ["scale", "shift"]
    assert net.scale is net._parameters["scale"]
    assert net.first is net._modules["first"]
    assert net.first.count is net.first._buffers["count"]
    assert net.shift is None
    assert "scale" not in net.__dict__


def test_a_missing_attribute_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'absent'"):
        Net().absent  # noqa: B018


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("scale", 3, r"cannot assign 'int' as parameter 'scale' \(torch.nn.Parameter or None expected\)"),
        ("first", 3, r"cannot assign 'int' as child module 'first' \(torch.nn.Module or None expected\)"),
        ("nothing", 3, r"cannot assign 'int' as buffer 'nothing' \(torch.Tensor or None expected\)"),
    ],
)
def test_a_registered_name_refuses_other_types(name, value, error):
    net = Net()
    before = getattr(net, name)
    with pytest.raises(TypeError, match=error):
        setattr(net, name, value)
    assert getattr(net, name) is before


def test_a_plain_variable_is_refused_as_parameter():
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        Net().scale = variable(3)


@pytest.mark.parametrize("name", ["scale", "first"])
def test_a_registered_name_takes_none(name):
    net = Net()
    setattr(net, name, None)
    assert getattr(net, name) is None


def test_a_buffer_takes_a_tensor():
    net = Net()
    net.nothing = torchlite.FloatTensor([1.0])
    assert "nothing" in net.state_dict()
    assert "nothing" not in net.__dict__


def test_a_parameter_replaces_whatever_had_its_name():
    module = nn.Module()
    module.x = 3
    module.x = parameter(1)
    assert "x" not in module.__dict__ and "x" in module._parameters
    del module.x
    module.x = nn.ReLU()
    module.x = parameter(2)
    assert not module._modules and list(module._parameters) == ["x"]


def test_a_module_replaces_a_parameter_of_its_name():
    module = nn.Module()
    module.x = parameter(1)
    module.x = nn.ReLU()
    assert not module._parameters and list(module._modules) == ["x"]


@pytest.mark.parametrize("name", ["scale", "first", "nothing"])
def test_deleting_a_registered_name_unregisters_it(name):
    net = Net()
    delattr(net, name)
    assert not hasattr(net, name)


def test_deleting_a_plain_attribute():
    net = Net()
    net.note = 1
    del net.note
    assert not hasattr(net, "note")


@pytest.mark.parametrize(
    "register",
    [
        lambda module, name: module.register_buffer(name, torchlite.FloatTensor([1.0])),
        lambda module, name: module.register_parameter(name, parameter(1)),
        lambda module, name: module.add_module(name, nn.ReLU()),
    ],
    ids=["register_buffer", "register_parameter", "add_module"],
)
def test_registering_over_an_attribute_is_a_key_error(register):
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        register(Net(), "forward")


@pytest.mark.parametrize("name", ["", "a.b"])
def test_names_that_state_dicts_cannot_tell_apart_are_refused(name):
    with pytest.raises(KeyError, match="can't be empty or contain '.'"):
        nn.Module().register_parameter(name, parameter(1))


def test_add_module_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Module().add_module("x", 3)


def test_register_parameter_refuses_what_is_no_parameter():
    with pytest.raises(TypeError, match=r"cannot assign 'int' object to parameter 'x' \(torch.nn.Parameter or None"):
        nn.Module().register_parameter("x", 3)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (lambda: parameter(1), "cannot assign parameters before Module.__init__"),
        (nn.ReLU, "cannot assign module before Module.__init__"),
    ],
)
def test_registering_before_init_is_an_attribute_error(value, error):
    class Hasty(nn.Module):
        def __init__(self):
            self.x = value()

    with pytest.raises(AttributeError, match=error):
        Hasty()


def test_dir_lists_registered_names():
    assert {"scale", "first", "nothing", "forward"} <= set(dir(Net()))


# ---- calling and hooks ----


def test_calling_runs_forward():
    net, x = Net(), variable(2, 3)
    np.testing.assert_array_equal(net(x).data.numpy(), net.forward(x).data.numpy())


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Module"):
        nn.Module()(variable(1))


def test_hooks_run_around_forward_in_order():
    log = []
    block, x = Block(), variable(2, 3)
    block.register_forward_pre_hook(lambda module, input: log.append(("pre", module, input)))
    block.register_forward_hook(lambda module, input, output: log.append(("post", module, input, output)))
    y = block(x)
    assert [entry[0] for entry in log] == ["pre", "post"]
    assert all(entry[1] is block and entry[2][0] is x for entry in log)
    assert log[1][3] is y


def test_a_forward_hook_that_returns_a_value_is_an_error():
    block = Block()
    block.register_forward_hook(lambda module, input, output: output)
    with pytest.raises(RuntimeError, match="forward hooks should never return any values"):
        block(variable(2, 3))


def test_removed_hooks_do_not_run():
    log = []
    block = Block()
    with block.register_forward_hook(lambda *args: log.append(1)):
        block(variable(2, 3))
    block(variable(2, 3))
    assert log == [1]


def test_a_backward_hook_sees_the_gradients_of_the_output():
    log = []
    block = Block()
    block.register_backward_hook(lambda module, grad_input, grad_output: log.append((module, grad_output)))
    block(variable(2, 3)).sum().backward()
    ((module, (grad_output,)),) = log
    assert module is block
    np.testing.assert_array_equal(grad_output.data.numpy(), np.ones((2, 3), "f4"))


def test_a_backward_hook_may_replace_the_gradients():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    module, x = Double(), variable(3, requires_grad=True)
    module.register_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,))
    module(x).sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), np.full(3, 20, "f4"))


def test_a_backward_hook_finds_the_variable_in_a_nested_output():
    log = []

    class Nested(nn.Module):
        def forward(self, x):
            return [(x * 2, x * 3), x * 4]

    module, x = Nested(), variable(3, requires_grad=True)
    module.register_backward_hook(lambda *args: log.append(1))
    module(x)[0][0].sum().backward()
    assert log == [1]


def test_a_hook_that_refers_to_its_module_can_be_collected():
    block = Block()
    block.register_forward_hook(lambda *args, block=block: None)
    alive = weakref.ref(block)
    del block
    gc.collect()
    assert alive() is None


def test_a_module_is_freed_with_its_last_reference():
    net = Net()
    alive = weakref.ref(net)
    gc.disable()
    try:
        del net
        assert alive() is None
    finally:
        gc.enable()


# ---- traversal ----


def test_named_parameters_have_dotted_names():
    assert [name for name, _ in Net().named_parameters()] == ["scale", "first.linear.weight", "first.linear.bias"]


def test_a_tied_parameter_is_listed_once():
    net = Net()
    net.tied = net.scale
    net.other = net.first
    assert len(list(net.parameters())) == 3
    assert len(list(net.children())) == 1
    assert len(list(net.modules())) == 3


def test_named_modules_start_with_the_module_itself():
    assert [name for name, _ in Net().named_modules()] == ["", "first", "first.linear"]


def test_apply_visits_children_before_their_parent():
    log, net = [], Net()
    assert net.apply(lambda module: log.append(type(module).__name__)) is net
    assert log == ["Linear", "Block", "Net"]


def test_train_and_eval_reach_all_descendants():
    net = Net()
    assert net.eval() is net
    assert [module.training for module in net.modules()] == [False] * 3
    net.train()
    assert [module.training for module in net.modules()] == [True] * 3


def test_zero_grad_zeroes_a_volatile_gradient_in_place():
    net = Net()
    net(variable(2, 3)).sum().backward()
    grad = net.scale.grad
    net.zero_grad()
    assert net.scale.grad is grad
    np.testing.assert_array_equal(grad.data.numpy(), np.zeros(3, "f4"))


def test_zero_grad_replaces_a_gradient_that_has_a_graph():
    net = Net()
    net(variable(2, 3)).sum().backward(create_graph=True)
    grad, before = net.scale.grad, net.scale.grad.data.numpy().copy()
    net.zero_grad()
    assert net.scale.grad is not grad
    np.testing.assert_array_equal(grad.data.numpy(), before)
    np.testing.assert_array_equal(net.scale.grad.data.numpy(), np.zeros(3, "f4"))


def test_zero_grad_leaves_none():
    net = Net()
    net.zero_grad()
    assert net.scale.grad is None


# ---- state ----


def test_state_dict_holds_the_tensors_themselves():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "first.count", "first.linear.weight", "first.linear.bias"]
    assert state["scale"] is net.scale.data
    assert state["first.count"] is net.first.count


@pytest.mark.parametrize("wrap", [lambda t: t, Variable, lambda t: t.numpy()], ids=["tensor", "Variable", "array"])
def test_load_state_dict_copies_values(wrap):
    source, target = Net(), Net()
    source.scale.data.fill_(7)
    source.first.count.fill_(9)
    weight = target.first.linear.weight
    target.load_state_dict(OrderedDict((name, wrap(t)) for name, t in source.state_dict().items()))
    assert target.first.linear.weight is weight
    for name, tensor in target.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), source.state_dict()[name].numpy())
        assert tensor is not source.state_dict()[name]


def unexpected(state):
    state["extra"] = state["scale"]


def missing(state):
    del state["first.linear.bias"]


def wrong_size(state):
    state["scale"] = torchlite.FloatTensor([1.0, 2.0])


def no_tensor(state):
    state["scale"] = "text"


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (unexpected, KeyError, 'unexpected key "extra" in state_dict'),
        (missing, KeyError, "missing keys in state_dict: .*first.linear.bias"),
        (wrong_size, RuntimeError, r"'scale' has size \(2,\) in state_dict, but \(3,\) in the module"),
        (no_tensor, TypeError, "the value of 'scale' has to be a tensor, but is a str"),
    ],
)
def test_a_wrong_state_dict_is_refused_and_changes_nothing(damage, error, message):
    net, other = Net(), Net()
    other.first.count.fill_(5)
    state = OrderedDict((name, t.clone()) for name, t in other.state_dict().items())
    damage(state)
    before = {name: t.numpy().copy() for name, t in net.state_dict().items()}
    with pytest.raises(error, match=message):
        net.load_state_dict(state)
    for name, tensor in net.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), before[name])


def test_a_lenient_load_takes_what_fits():
    net = Net()
    net.load_state_dict({"scale": torchlite.FloatTensor([4.0, 5.0, 6.0]), "extra": None}, strict=False)
    np.testing.assert_array_equal(net.scale.data.numpy(), np.array([4, 5, 6], "f4"))


def test_an_output_survives_later_loading_into_its_module():
    net = Net()
    y = net(variable(2, 3))
    before = y.data.numpy().copy()
    net.load_state_dict(Net().state_dict())
    np.testing.assert_array_equal(y.data.numpy(), before)


# ---- conversion ----


def test_conversion_replaces_data_gradients_and_buffers_but_no_parameter():
    net = Net()
    net(variable(2, 3)).sum().backward()
    scale = net.scale
    assert net.double() is net
    assert net.scale is scale
    for tensor in (scale.data, scale.grad.data, net.first.count, net.first.linear.bias.data):
        assert tensor.numpy().dtype == np.float64
    net.float()
    assert scale.data.numpy().dtype == np.float32


def test_type_takes_a_tensor_class():
    net = Net().type(torchlite.DoubleTensor)
    assert type(net.scale.data) is torchlite.DoubleTensor


# ---- copying and pickling ----


def test_a_pickled_module_computes_the_same():
    net, x = Net(), variable(2, 3)
    copied = pickle.loads(pickle.dumps(net))
    assert isinstance(copied.scale, nn.Parameter)
    np.testing.assert_array_equal(copied(x).data.numpy(), net(x).data.numpy())


def test_pickling_and_copying_keep_ties():
    net = Net()
    net.tied = net.scale
    for copied in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert copied.tied is copied.scale
        assert copied.scale is not net.scale


def test_a_deep_copy_is_independent():
    net = Net()
    copied = copy.deepcopy(net)
    copied.scale.data.fill_(0)
    assert net.scale.data.numpy()[0] == 1


def test_state_without_pre_hooks_unpickles():
    net = Net()
    state = dict(net.__dict__)
    del state["_forward_pre_hooks"]
    module = nn.Module.__new__(Net)
    module.__setstate__(state)
    module(variable(2, 3))


def test_repr_nests():
    assert repr(Block()) == "Block (\n  (linear): Linear (3 -> 3)\n)"
    assert repr(nn.Sequential(Block())) == "Sequential (\n  (0): Block (\n    (linear): Linear (3 -> 3)\n  )\n)"


# ---- Parameter ----


def test_a_parameter_requires_grad_unless_told_otherwise():
    data = torchlite.FloatTensor([1.0])
    assert nn.Parameter(data).requires_grad
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter(data).data is data


def test_a_parameter_names_itself_in_its_repr():
    assert repr(parameter(2)).startswith("Parameter containing:\n")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_parameter_pickles_with_its_flags_and_attributes(protocol):
    data = np.arange(3, dtype="f4")
    p = nn.Parameter(data, requires_grad=False)
    p.note = "x"
    copied = pickle.loads(pickle.dumps(p, protocol))
    assert type(copied) is nn.Parameter and copied.note == "x" and not copied.requires_grad
    np.testing.assert_array_equal(copied.data.numpy(), data)


def test_a_parameter_copies_deeply():
    p = parameter(2)
    copied = copy.deepcopy(p)
    assert type(copied) is nn.Parameter and copied.requires_grad
    copied.data.fill_(5)
    assert p.data.numpy()[0] == 1
