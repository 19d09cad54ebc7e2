"""Numerical against analytical derivatives."""

import torch

from .variable import Variable


def iter_variables(x):
    if isinstance(x, Variable):
        if x.requires_grad:
            yield (x.grad.data, x.data) if x.grad is not None else (None, None)
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from iter_variables(part)


def iter_tensors(x, only_requiring_grad=False):
    if torch.is_tensor(x):
        yield x
    elif isinstance(x, Variable):
        if x.requires_grad or not only_requiring_grad:
            yield x.data
    else:
        for part in x:
            yield from iter_tensors(part, only_requiring_grad)


def contiguous(x):
    if torch.is_tensor(x) or isinstance(x, Variable):
        return x.contiguous()
    return type(x)(contiguous(part) for part in x)


def zero_gradients(x):
    if isinstance(x, Variable):
        if x.grad is not None:
            x.grad.detach_()
            x.grad.data.zero_()
    else:
        for part in x:
            zero_gradients(part)


def make_jacobian(x, columns):
    if torch.is_tensor(x):
        return torch.DoubleTensor(x.nelement(), columns).zero_()
    if isinstance(x, Variable):
        return make_jacobian(x.data, columns) if x.requires_grad else None
    made = [j for j in (make_jacobian(part, columns) for part in x) if j is not None]
    return type(x)(made) if made else None


def get_numerical_jacobian(fn, input, target, eps=1e-3):
    input = contiguous(input)
    size = fn(input).numel()
    jacobian = make_jacobian(target, size)
    targets = [t for t in iter_tensors(target, True)]
    jacobians = [t for t in iter_tensors(jacobian)]
    below, above = torch.DoubleTensor(size), torch.DoubleTensor(size)
    for tensor, rows in zip(targets, jacobians, strict=True):
        flat = tensor.view(-1)
        for i in range(flat.nelement()):
            middle = flat[i]
            flat[i] = middle - eps
            below.copy_(fn(input), broadcast=False)
            flat[i] = middle + eps
            above.copy_(fn(input), broadcast=False)
            flat[i] = middle
            rows[i] = above.add_(-1, below).div_(2 * eps)
    return jacobian


def get_analytical_jacobian(input, output):
    jacobian = make_jacobian(input, output.numel())
    again = make_jacobian(input, output.numel())
    start = output.data.clone().zero_()
    flat = start.view(-1)
    same_each_time = right_sizes = True
    for column in range(flat.numel()):
        flat.zero_()
        flat[column] = 1
        for result in (jacobian, again):
            zero_gradients(input)
            output.backward(start, create_graph=True)
            for rows, (gradient, data) in zip(iter_tensors(result), iter_variables(input), strict=True):
                if gradient is None:
                    rows[:, column].zero_()
                else:
                    right_sizes = right_sizes and gradient.size() == data.size()
                    rows[:, column] = gradient.contiguous().view(-1)
    for a, b in zip(iter_tensors(jacobian), iter_tensors(again), strict=True):
        same_each_time = same_each_time and (a - b).abs().max() == 0
    return jacobian, same_each_time, right_sizes


def _tuple(x):
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def gradcheck(func, inputs, eps=1e-6, atol=1e-5, rtol=1e-3):
    output = _tuple(func(*inputs))
    if not any(isinstance(i, Variable) for i in inputs):
        raise RuntimeError("no Variables found in input")
    for i, o in enumerate(output):
        if not o.requires_grad:
            continue

        def fn(input, i=i):
            return _tuple(func(*input))[i].data

        analytical, same_each_time, right_sizes = get_analytical_jacobian(_tuple(inputs), o)
        numerical = get_numerical_jacobian(fn, inputs, inputs, eps)
        for a, n in zip(iter_tensors(analytical), iter_tensors(numerical), strict=True):
            if not ((a - n).abs() <= atol + rtol * n.abs()).all():
                return False
        if not same_each_time or not right_sizes:
            return False
    # A zero gradient in gives a zero gradient out.
    zero_gradients(inputs)
    output = [o for o in _tuple(func(*inputs)) if o.requires_grad]
    if not output:
        return True
    torch.autograd.backward(output, [o.data.new(o.size()).zero_() for o in output], create_graph=True)
    for gradient, data in iter_variables(inputs):
        if gradient is not None and (gradient.size() != data.size() or not gradient.eq(0).all()):
            return False
    return True


def gradgradcheck(func, inputs, grad_outputs, eps=1e-6, atol=1e-5, rtol=1e-3):
    n = len(grad_outputs)

    def first_derivatives(*args):
        args, gradients = args[:-n], args[-n:]
        outputs = _tuple(func(*args))
        wanted = tuple(a for a in args if isinstance(a, Variable) and a.requires_grad)
        return torch.autograd.grad(outputs, wanted, gradients)

    return gradcheck(first_derivatives, tuple(inputs) + tuple(grad_outputs), eps, atol, rtol)
