"""Copies of a module for several devices."""

from torchlite.cuda import comm

__all__ = ["replicate"]


def replicate(network, devices):
    """A list of copies of a module, the k-th on the k-th of `devices`, for one forward.

    Their parameters are computed from the module's, to which their gradients flow; where one lies on the device already
    it is the module's own. So are the buffers there: what the replica on the module's device writes into them stays.
    """
    devices = list(devices)
    parameters = list(network.parameters())
    buffers = [b for m in network.modules() for b in m._buffers.values() if b is not None]
    moved_buffers = comm.broadcast_coalesced(buffers, devices) if buffers else [()] * len(devices)
    replicas = []
    for k, device in enumerate(devices):
        known = {id(p): p.cuda(device) for p in parameters}
        known.update({id(b): moved for b, moved in zip(buffers, moved_buffers[k], strict=True)})
        replicas.append(_copied(network, known, {}))
    return replicas


def _copied(module, known, memo):
    """A copy of a module and its descendants with what `known` has for their parameters and buffers, by id."""
    if id(module) in memo:
        return memo[id(module)]
    replica = memo[id(module)] = type(module).__new__(type(module))
    replica.__dict__.update(module.__dict__)
    # Not by setattr: what is computed from a Parameter is no Parameter.
    for registry in ("_parameters", "_buffers"):
        own = module.__dict__[registry]
        replica.__dict__[registry] = type(own)((n, None if t is None else known[id(t)]) for n, t in own.items())
    children = module._modules
    replica.__dict__["_modules"] = type(children)(
        (n, None if m is None else _copied(m, known, memo)) for n, m in children.items()
    )
    return replica
