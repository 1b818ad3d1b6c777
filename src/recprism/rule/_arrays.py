"""Arrays and tensors of the caller as tensors, and tensors as arrays for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recprism.common.checks import real_array, require_real, whole_array

Term = Tensor | float | tuple[Tensor | float, ...]
"""An argument of a kernel."""
NUMPY_TYPES = {torch.int64: np.int64, torch.float64: np.float64}


def as_tensor(values: ArrayLike | Tensor, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor on ``device``, copied only if type, device, layout or write access require it.

    On the CPU, numpy converts the type. torch would use all its threads, and if the cores are busy, waiting for the
    threads takes a hundred times as long as the work.
    """
    require_real(values, name)
    if isinstance(values, Tensor):
        values = values.detach()
        if values.device.type != "cpu" or values.dtype == torch.bfloat16:  # numpy has no bfloat16
            return values.to(device, dtype).contiguous()
    numbers = real_array(values, name) if dtype.is_floating_point else whole_array(values, name)
    return torch.from_numpy(np.require(numbers, NUMPY_TYPES[dtype], ["C", "W"])).to(device)


def as_array(term: Term) -> Any:
    """Return tensors as arrays on the CPU, also those in a tuple; numbers stay."""
    if isinstance(term, tuple):
        return tuple(as_array(it) for it in term)
    return np.ascontiguousarray(term.cpu().numpy()) if isinstance(term, Tensor) else term
