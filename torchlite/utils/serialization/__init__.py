"""Files of Torch 7."""

from .read_lua_file import T7ReaderException, TorchObject, load_lua

__all__ = ["T7ReaderException", "TorchObject", "load_lua"]
