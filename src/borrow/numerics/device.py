"""Where the matrices are: in the host's memory as NumPy arrays, or on a GPU as PyTorch tensors.

Estimators take `device="cpu"`, `"cuda"` or `"auto"`. PyTorch is imported here, and only where a GPU is asked for.
Tables, hyper-parameters, the optimiser and every answer stay on the host; what goes to the GPU are inputs and vectors
of one number per row, what comes back are vectors and derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from traceback import clear_frames
from typing import Any

import numpy as np

from borrow.numerics import memory
from borrow.numerics.stored import stored

#: A task by itself goes to the GPU from this many rows on: one small matrix at a time is faster on the host.
ALONE_ROWS = 500
#: "auto" takes the GPU from this many rows on; below, launching its kernels costs more than they save.
AUTO_ROWS = 1000

#: Bytes of the host that a fit takes beside its matrices: buffers of BLAS and of the allocator, small arrays. Measured.
BESIDE = 3e6
#: Matrices of n x n numbers that a fit with n rows in one matrix has on the GPU at once, at most.
MATRICES = 7

INSTALL = "pip install 'borrow[gpu]'"


@stored()
@dataclass(frozen=True)
class Device:
    """A place for tensors. `name` is PyTorch's; unpickled where there is no such place it is None, the host.

    It stays out of files: what is read from one is computed on the host.
    """

    name: str

    @cached_property
    def torch(self) -> Any:
        """The module of PyTorch, imported when it is first needed."""
        import torch

        return torch

    def put(self, array: Any) -> Any:
        """The array as a tensor there: numbers in double precision, codes as 64-bit integers, flags as they are."""
        dtype = {"f": self.torch.float64, "b": self.torch.bool}.get(np.asarray(array).dtype.kind, self.torch.int64)
        return self.torch.tensor(np.ascontiguousarray(array), dtype=dtype, device=self.name)

    def free(self) -> float:
        """Bytes that can still be allocated, those that PyTorch holds in reserve among them."""
        cuda = self.torch.cuda
        if not self.name.startswith("cuda"):
            return memory.available()
        reserve = cuda.memory_reserved(self.name) - cuda.memory_allocated(self.name)
        return float(cuda.mem_get_info(self.name)[0] + reserve)

    def __reduce__(self) -> tuple[Any, ...]:
        return again, (self.name,)


def again(name: str) -> Device | None:
    """A device named in a pickle, where it exists."""
    return find_gpu() if name.startswith("cuda") and missing() is None else None


def missing() -> str | None:
    """Why no GPU can be used; None where one can."""
    if find_spec("torch") is None or find_spec("array_api_compat") is None:
        return f"PyTorch or array-api-compat is not installed; {INSTALL}"
    import torch

    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA GPU; install its CUDA build and the driver"
    return None


def find_gpu() -> Device:
    """The GPU that is used: the current one of PyTorch. Tests put tensors on the CPU in its place."""
    return Device("cuda")


def resolve(device: Any, rows: int = 0) -> Device | None:
    """The constructor's `device` as a place; None is the host. `rows` of the problem decide what "auto" does."""
    if not isinstance(device, str) or device not in ("cpu", "cuda", "auto"):
        raise ValueError(
            f"device={device!r}: expected 'cpu', 'cuda' or 'auto' (the GPU where there is one and it pays)"
        )
    if device == "cpu" or (device == "auto" and (rows < AUTO_ROWS or missing() is not None)):
        return None
    if (reason := missing()) is not None:
        raise RuntimeError(f"device={device!r}: {reason}, or use device='cpu'")
    return find_gpu()


def place(array: Any, device: Device | None) -> Any:
    """The array where the work is done."""
    return array if device is None else device.put(array)


def require(device: Device | None, n_bytes: float, what: str, remedy: str) -> None:
    """A MemoryError with both figures and a remedy where the work would not fit, before anything is allocated."""
    if device is None:
        memory.require(n_bytes + BESIDE, what, remedy)
    else:
        memory.require(n_bytes, what, f"{remedy}, or use device='cpu'", device.free(), " on the GPU")


@dataclass(frozen=True)
class MemoryGivenBack:
    """Around a fit: where the GPU runs out of memory, all of it is given back and a MemoryError says what would fit.

    PyTorch's own error holds, by its traceback, the tensors of every call that it went through. These calls are over:
    what they refer to is cleared, so that a caller who keeps the error keeps no tensor. `rows` is the size of the
    largest matrix.
    """

    device: Device | None
    rows: int

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, calls: Any) -> None:
        if self.device is None or not isinstance(error, self.device.torch.OutOfMemoryError):
            return
        clear_frames(calls)
        error.__traceback__ = None
        del calls  # a frame that was cleared still refers to its function, and that to what it closes over
        self.device.torch.cuda.empty_cache()
        free, each = self.device.free(), 8.0 * MATRICES
        raise MemoryError(
            f"the GPU ran out of memory: with n rows in one matrix, here {self.rows:,}, a fit needs about {MATRICES} "
            f"n^2 numbers of 8 bytes, here {each * self.rows**2 / 2**30:.3g} GiB; {free / 2**30:.3g} GiB are free, so "
            f"at most about {int((free / each) ** 0.5):,} rows fit; thin the rows, or use device='cpu'"
        ) from None
