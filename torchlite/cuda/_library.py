"""CuPy, imported when a CUDA tensor is first asked for."""

from __future__ import annotations

import threading
from typing import Any

from torchlite import _C

_connected: Any = None
_lock = threading.Lock()


def load() -> Any:
    """The module ``cupy``.

    Raises:
        RuntimeError: CuPy is not installed, or fails to import; the message says which.
    """
    try:
        import cupy
    except ModuleNotFoundError as e:
        if e.name != "cupy":
            raise RuntimeError(f"torchlite.cuda: CuPy cannot be imported: {e}") from e
        raise RuntimeError(
            "torchlite.cuda needs CuPy, which is not installed: install torchlite with the extra cuda13 (pip install "
            "cupy-cuda13x) for CUDA 13, or cuda12 (cupy-cuda12x) for CUDA 12"
        ) from e
    except ImportError as e:
        raise RuntimeError(f"torchlite.cuda: CuPy cannot be imported: {e}") from e
    return cupy


def connect() -> Any:
    """The module ``cupy``, with CUDA tensors made possible.

    Raises:
        RuntimeError: CuPy is missing, or there is no driver or device; the message is the CUDA runtime's own.
    """
    global _connected
    if _connected is not None:
        return _connected
    cupy = load()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:
        raise RuntimeError(f"torchlite.cuda: no CUDA device can be used: {e}") from e
    if count == 0:
        raise RuntimeError("torchlite.cuda: there is no CUDA device")
    from torchlite.cuda import _memory
    from torchlite.cuda.rows import implementations

    with _lock:
        if _connected is None:
            _C._connect_array_rows(implementations(cupy))
            _C._cuda_connect(cupy, _memory)
            _connected = cupy
    return _connected


def disconnect() -> None:
    """Forgets CuPy again. No CUDA tensor may be left."""
    global _connected
    from torchlite.cuda import _memory

    _memory.forget_reads()
    with _lock:
        _C._cuda_disconnect()
        _C._disconnect_array_rows()
        _connected = None
