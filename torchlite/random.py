"""The state of the random number generator that every random operation of the package draws from."""

from torchlite import _C

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def manual_seed(seed):
    """Makes what is drawn from now on depend on the int `seed` alone. Returns the generator."""
    return _C.manual_seed(seed)


def seed():
    """Seeds the generator from the system's entropy and returns the seed."""
    return _C.default_generator.seed()


def initial_seed():
    """The seed that was set last."""
    return _C.default_generator.initial_seed()


def get_rng_state():
    """The generator's state, a ByteTensor."""
    return _C.get_rng_state()


def set_rng_state(state):
    """Puts the generator into a `state` that `get_rng_state` returned."""
    _C.set_rng_state(state)


def __getattr__(name):
    if name == "default_generator":
        return _C.default_generator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
