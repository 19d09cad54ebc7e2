"""How error messages name the type of an object."""

__all__ = ["typename"]


def typename(obj):
    """The full name of the type of `obj` ("torchlite.FloatTensor", "list"), or of `obj` itself if it is a type."""
    cls = obj if isinstance(obj, type) else type(obj)
    if cls.__module__ in (None, "builtins"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"
