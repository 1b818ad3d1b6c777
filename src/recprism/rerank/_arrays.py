"""Numbers from outside, of whatever kind, as a tensor."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recprism.data._real import require_real
from recprism.errors import InputError

NUMPY_TYPES = {torch.int64: np.int64, torch.float64: np.float64}


def as_tensor(values: ArrayLike | Tensor, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor on ``device``, row after row, copied only where it must be: other type, elsewhere, read-only, turned.

    On the processor numpy changes the type: torch would wake all its threads for that, and where the cores are busy
    with something else, waiting for them takes a hundred times as long as the work.
    """
    require_real(values, name)
    if isinstance(values, Tensor):
        values = values.detach()
        if values.device.type != "cpu" or values.dtype == torch.bfloat16:  # which numpy does not have
            return values.to(device, dtype).contiguous()
    try:
        return torch.from_numpy(np.require(values, NUMPY_TYPES[dtype], ["C", "W"])).to(device)
    except (TypeError, ValueError) as problem:  # text, objects, lists of different lengths
        raise InputError(f"{name} cannot be read as an array of numbers: {problem}") from None
