"""Exact top-k lists from user and item vectors: checks of the input, and the choice of the engine."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.checks import real_array, require_real
from recprism.common.memory import require_room
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError, MissingDependencyError

LARGEST_SCORE = float(np.finfo(np.float32).max)
ROWS_PER_CHECK = 256
TENSOR_CORES = (7, 0)  # compute capability from which float16 products are fast


class Engine(Protocol):
    """Rank checked input: contiguous float32 tensors on one device, at least one user, 1 <= k <= n_items."""

    def __call__(
        self, user: Tensor, item: Tensor, k: int, exclude: SparseRows | None, block: int | None
    ) -> tuple[Tensor, Tensor]: ...


def _cpu_engine(device: torch.device) -> Engine:
    if device.type != "cpu":
        raise InputError(
            f"engine 'cpu' got vectors on {device}; move them with .cpu(), or leave the choice to engine='auto'"
        )
    from recprism.ranking import _cpu_engine as cpu

    return cpu.rank


def _torch_engine(_device: torch.device) -> Engine:
    from recprism.ranking import _torch_engine as torch_engine

    return torch_engine.rank


def _triton_engine(device: torch.device) -> Engine:
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(
            f"engine 'triton' got vectors on {device}; move them with .cuda(), or leave the choice to engine='auto'"
        )
    try:
        from recprism.ranking import triton_engine
    except ImportError as missing:
        raise MissingDependencyError(
            f"engine 'triton' needs the package triton ({missing}); install it, or use engine='torch'"
        ) from missing
    return triton_engine.rank


def _best_engine(device: torch.device) -> Engine:
    try:
        if device.type == "cpu":
            return _cpu_engine(device)
        if device.type == "cuda" and torch.cuda.get_device_capability(device) >= TENSOR_CORES:
            return _triton_engine(device)
    except MissingDependencyError:
        pass
    return _torch_engine(device)


ENGINES: dict[str, Callable[[torch.device], Engine]] = {
    "auto": _best_engine,
    "cpu": _cpu_engine,
    "torch": _torch_engine,
    "triton": _triton_engine,
}


@overload
def topk(
    user: NDArray[Any],
    item: NDArray[Any] | Tensor,
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    engine: str = "auto",
    block: int | None = None,
    check: bool = True,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
@overload
def topk(
    user: Tensor,
    item: NDArray[Any] | Tensor,
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    engine: str = "auto",
    block: int | None = None,
    check: bool = True,
) -> tuple[Tensor, Tensor]: ...
def topk(
    user: NDArray[Any] | Tensor,
    item: NDArray[Any] | Tensor,
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    engine: str = "auto",
    block: int | None = None,
    check: bool = True,
) -> tuple[NDArray[np.int64], NDArray[np.float32]] | tuple[Tensor, Tensor]:
    """Return the k items with the largest ``user @ item.T`` for every user, best first.

    Equal scores are ordered by lower item number.

    Args:
        user: ``(n_users, d)`` numpy array or torch tensor, converted to float32.
        item: ``(n_items, d)`` likewise, on the same device.
        k: Length of the lists.
        exclude: Users x items, the pairs never to be returned: a SparseRows, or any SciPy sparse matrix. A SciPy matrix
            is converted at every call; convert it once with ``SparseRows.coerce`` if you rank often.
        engine: "cpu" (compiled), "triton" (NVIDIA GPUs, needs triton), "torch" (any device), or "auto", the fastest of
            these that is available.
        block: Number of users to score at a time. Memory grows with it, and not with n_users x n_items.
        check: Whether to check for scores that float32 cannot hold. Without the check, a GPU need not be waited for.

    Returns:
        Items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32. They are numpy arrays if ``user`` is one, else
        tensors on the same device. If a user has no item left, the item is -1 and the score -inf.

    Raises:
        InputError: Shapes or devices do not fit, or a vector or score is not finite.
        MissingDependencyError: The engine needs a package that is not installed.

    >>> import numpy as np
    >>> items, scores = topk(np.eye(2, dtype=np.float32), np.array([[1, 0], [3, 5], [2, 5]]), 2)
    >>> items.tolist(), scores.tolist()
    ([[1, 2], [1, 2]], [[3.0, 2.0], [5.0, 5.0]])
    """
    choose = _known_engine(engine)
    users = _as_matrix(user, "user", torch.device("cpu"))
    factors = _as_matrix(item, "item", users.device)
    _require_same_space(users, factors)
    k = _at_least_one(k, "k")
    block = None if block is None else _at_least_one(block, "block")
    seen = None if exclude is None else _seen_pairs(exclude, (len(users), len(factors)))
    if check and users.device.type == "cpu":
        _require_finite_scores(users, factors)
    width = min(k, len(factors))
    _require_room_for_lists(len(users), k, users.device)
    if width and len(users):
        items, scores = choose(users.device)(users, factors, width, seen, block)
    else:
        items, scores = _nothing(len(users), width, users.device)
    if check and users.device.type != "cpu":  # after the lists, so that a GPU computes them meanwhile
        _require_finite_scores(users, factors)
    items, scores = _padded(items, k, -1), _padded(scores, k, -torch.inf)
    return (items, scores) if isinstance(user, Tensor) else (items.numpy(), scores.numpy())


def _require_room_for_lists(n_users: int, k: int, device: torch.device) -> None:
    """Raise an error if the keys, items and scores of the lists do not fit."""
    each = 28
    require_room(
        n_users * k * each,
        f"lists of {k:,} items for {n_users:,} users",
        lambda free: f"at most k={free // (n_users * each):,} fits, or {free // (k * each):,} users at a time",
        device=str(device),
    )


def _known_engine(name: str) -> Callable[[torch.device], Engine]:
    if name not in ENGINES:
        raise InputError(f"engine {name!r} is not known; choose one of {', '.join(ENGINES)}")
    return ENGINES[name]


def _as_matrix(values: NDArray[Any] | Tensor, side: str, device: torch.device) -> Tensor:
    """Return vectors as a contiguous float32 tensor; a tensor stays on its device, an array goes to ``device``."""
    require_real(values, f"{side} vectors")
    if isinstance(values, Tensor):
        matrix = values.detach().to(torch.float32).contiguous()
    else:
        with np.errstate(over="ignore"):  # values that float32 cannot hold become infinite and are reported
            array = np.ascontiguousarray(real_array(values, f"{side} vectors"), np.float32)
        matrix = torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)
    if matrix.ndim != 2:
        raise InputError(
            f"{side} vectors have shape {tuple(matrix.shape)}; "
            f"pass a matrix with one row per {side} and one column per factor"
        )
    return matrix


def _require_same_space(user: Tensor, item: Tensor) -> None:
    if user.device != item.device:
        raise InputError(
            f"user vectors are on {user.device} and item vectors on {item.device}; move them to one device"
        )
    if user.shape[1] != item.shape[1]:
        raise InputError(
            f"user vectors have shape {tuple(user.shape)} and item vectors {tuple(item.shape)}; "
            "they need the same number of columns"
        )


def _at_least_one(number: int, name: str) -> int:
    try:
        value = operator.index(number)
    except TypeError:
        raise InputError(f"{name} is {number!r}; pass a whole number of at least 1") from None
    if value < 1:
        raise InputError(f"{name} is {value}; pass a whole number of at least 1")
    return value


def _seen_pairs(exclude: SparseRows | Any, shape: tuple[int, int]) -> SparseRows:
    seen = SparseRows.coerce(exclude)
    if seen.shape != shape:
        raise InputError(
            f"exclude has shape {seen.shape} for {shape[0]} users and {shape[1]} items; pass a matrix of shape {shape}"
        )
    return seen


def _require_finite_scores(user: Tensor, item: Tensor) -> None:
    """Prove in one pass over the vectors that all scores are finite; only if that fails, check them one by one."""
    if not (user.numel() and item.numel()):
        return
    if bool(user.shape[1] * _largest_magnitude(user) * _largest_magnitude(item) <= LARGEST_SCORE):
        return
    for matrix, side in ((user, "user"), (item, "item")):
        bad = (~torch.isfinite(matrix)).any(dim=1).nonzero().flatten()
        if len(bad):
            column = int((~torch.isfinite(matrix[bad[0]])).nonzero()[0])
            raise InputError(
                f"{side} vectors hold NaN or infinity, first in row {int(bad[0])} ({len(bad)} rows in all), column "
                f"{column}; repair them before ranking"
            )
    _require_scores_in_range(user, item)


def _largest_magnitude(matrix: Tensor) -> float | Tensor:
    """Return the largest magnitude, or NaN if there is one; on a GPU the number stays there."""
    if matrix.device.type == "cpu":  # in one thread: waking others takes longer
        values = matrix.numpy()
        return float(np.maximum(-values.min(), values.max()))
    largest: Tensor = torch.linalg.vector_norm(matrix, torch.inf)
    return largest.to(torch.float64)


def _require_scores_in_range(user: Tensor, item: Tensor) -> None:
    sizes = item.double().abs().T
    for start in range(0, len(user), ROWS_PER_CHECK):
        # the sum of magnitudes bounds every partial sum, whatever order an engine adds in
        reach = user[start : start + ROWS_PER_CHECK].double().abs() @ sizes
        beyond = (reach > LARGEST_SCORE).nonzero()
        if len(beyond):
            row, column = beyond[0].tolist()
            raise InputError(
                f"the score of user row {start + row} and item row {column} leaves the float32 range; "
                "scale the vectors down"
            )


def _nothing(n_users: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return (
        torch.empty((n_users, width), dtype=torch.int64, device=device),
        torch.empty((n_users, width), dtype=torch.float32, device=device),
    )


def _padded(matrix: Tensor, k: int, filler: float) -> Tensor:
    missing = k - matrix.shape[1]
    return torch.nn.functional.pad(matrix, (0, missing), value=filler) if missing else matrix
