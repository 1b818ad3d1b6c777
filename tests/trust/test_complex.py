"""Complex numbers are refused where they come in: a cast would drop their imaginary parts with a warning at most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.sparse import csr_matrix

from recprism.data.frames import interactions_from_csr
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors
from recprism.models.adapters import from_files
from recprism.ranking import topk
from recprism.rule import Features

REAL = np.ones((3, 4), np.float32)
COMPLEX = (REAL + 1j).astype(np.complex64)
TAKEN: dict[str, Callable[[Any], Any]] = {
    "user vectors": lambda it: Factors.from_arrays(it, REAL),
    "item vectors": lambda it: Factors.from_arrays(REAL, it),
    "item vectors of a ranking": lambda it: topk(REAL, it, 2),
    "the numbers of item_bias": lambda it: Factors.from_arrays(REAL, REAL, item_bias=it[:, 0]),
    "vectors": lambda it: Context(vectors=it),
    "attributes": lambda it: Context(attributes=it),
    "numbers of popularity": lambda it: Context(popularity=it[:, 0]),
    "weights of categories": lambda it: Context(categories=it),
    "vectors of a re-ranker": lambda it: Features(vectors=it),
}


@pytest.mark.parametrize("as_tensor", [False, True], ids=["array", "tensor"])
@pytest.mark.parametrize("what", TAKEN)
def test_arrays_that_are_handed_over(what: str, as_tensor: bool) -> None:
    give = TAKEN[what]
    with pytest.raises(
        InputError, match=f"^{what.partition(' of a ')[0]} are complex numbers \\(complex64\\); pass real"
    ):
        give(torch.from_numpy(COMPLEX) if as_tensor else COMPLEX)
    give(torch.from_numpy(REAL) if as_tensor else REAL)


def test_ratings() -> None:
    with pytest.raises(InputError, match="ratings of the matrix are complex numbers"):
        interactions_from_csr(csr_matrix(COMPLEX))


WRITERS: dict[str, Callable[[Path, np.ndarray[Any, Any], np.ndarray[Any, Any]], Any]] = {
    ".npz": lambda path, user, item: np.savez(path, user=user, item=item),
    ".pt": lambda path, *both: torch.save(dict(zip(("user", "item"), map(torch.from_numpy, both), strict=True)), path),
    ".safetensors": lambda path, *both: save_file(
        dict(zip(("user", "item"), map(torch.from_numpy, both), strict=True)), path
    ),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_files_are_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"vectors{ending}"
    try:
        WRITERS[ending](path, REAL, COMPLEX)
    except KeyError:
        pytest.skip("this version of safetensors cannot write complex numbers")
    with pytest.raises(InputError, match=rf"vectors\{ending}: the item vectors are complex numbers \(complex64\)"):
        from_files(path, path)
