"""Parameter: a Variable that a module trains."""

from torchlite.autograd import Variable

__all__ = ["Parameter"]


class Parameter(Variable):
    """A leaf Variable that registers itself when it is assigned to an attribute of a `Module`.

    Parameter(data=None, requires_grad=True): `data` is a tensor or an array, whose memory is shared. It is the same
    object for as long as the module holds it: `module.double()` replaces its `data`, never the Parameter.
    """

    def __new__(cls, data=None, requires_grad=True):
        return super().__new__(cls, data, requires_grad=requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + repr(self.data).lstrip("\n")
