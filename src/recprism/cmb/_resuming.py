"""Resuming a search: only with the settings and the data that it started with."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.cmb._sampling import Sampling
from recprism.cmb.history import Follow, Progress
from recprism.cmb.settings import CMBSettings, plain_settings
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.settings import training_data

FREE = ("patience", "users_per_step")
"""Settings that may change: patience only says when to stop, and the key has the sample size instead of "auto"."""


def checkpoint_key(
    asked: CMBSettings,
    sampling: Sampling | None,
    split: Split,
    categories: Categories | None,
    device: torch.device,
    vectors: tuple[NDArray[Any], ...],
) -> dict[str, Any]:
    """Everything that affects the next step of a search, in JSON values."""
    settings = {name: value for name, value in plain_settings(asked).items() if name not in FREE}
    if asked.credit == "shared" and sampling is None:
        del settings["iterations"]  # no step depends on the total: a resumed search may run longer
    key = {
        "users_per_step": None if sampling is None else sampling.size,
        **settings,
        "device": device.type,
        "vectors": _checksum(*vectors),
        "training data": training_data(split),
        "the part that pays": _of_pairs(split.part(asked.reward_on)),
        "categories": None if categories is None else _of_pairs(categories.items),
    }
    plain: dict[str, Any] = json.loads(json.dumps(key, default=str))
    return plain


def checkpointed(
    key: Callable[[], Mapping[str, Any]], follow: Follow | None, resume: Progress | None
) -> tuple[Follow | None, Progress | None]:
    """Add the checkpoint key to the progress that ``follow`` receives, and compare it with that of ``resume``.

    Args:
        key: Computes the checkpoint key; called only if there is a progress to write or to resume.
        follow: Called with the progress after every iteration.
        resume: The progress of an earlier search.

    Returns:
        ``follow`` and ``resume`` for the search loop.

    Raises:
        InputError: The earlier search had other settings or data.
    """
    if follow is None and resume is None:
        return None, None
    now = key()
    if resume is not None and resume.steps:
        _require_same(resume.checkpoint_key, now)
    if follow is None:
        return None, resume
    return lambda progress: follow(replace(progress, checkpoint_key=now)), resume


def _require_same(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    restart = "start again without the checkpoint (on the command line: diversify with --overwrite)"
    if not then:
        raise InputError(f"the checkpoint of the search does not name its settings; {restart}")
    for name in dict.fromkeys([*now, *then]):
        if then.get(name) != now.get(name):
            raise InputError(
                f"the search was begun with {name} = {then.get(name)!r} and now it is {now.get(name)!r}; "
                f"resume with the same settings and data, or {restart}"
            )


def _of_pairs(pairs: SparseRows) -> str:
    return _checksum(pairs.indptr, pairs.indices)


def _checksum(*arrays: NDArray[Any]) -> str:
    """A short text that changes with what the arrays hold."""
    found = 0
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return f"{' and '.join(' x '.join(map(str, array.shape)) for array in arrays)}, checksum {found:08x}"
