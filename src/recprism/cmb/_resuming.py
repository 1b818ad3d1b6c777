"""A search goes on only from where one with the same settings and data stood: other steps would not be its own."""

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
from recprism.cmb._settings import CMBSettings, plain_settings
from recprism.cmb.history import Follow, Progress
from recprism.data.incidence import Incidence
from recprism.data.split import Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.models._settings import training_data

FREE = ("engine", "patience", "users_per_step")
"""An engine changes no bit of the same shards; patience says when to stop; of users, what "auto" came to counts."""


def checkpoint_key(
    asked: CMBSettings,
    sampling: Sampling | None,
    split: Split,
    subtopics: Subtopics | None,
    device: torch.device,
    vectors: tuple[NDArray[Any], ...],
    shards: int,
) -> dict[str, Any]:
    """What must be the same for the next step to be that of an undisturbed search, in values that JSON knows."""
    settings = {name: value for name, value in plain_settings(asked).items() if name not in FREE}
    if asked.credit == "shared" and sampling is None:
        del settings["iterations"]  # nothing hangs on how many there will be: more may be asked for
    told = {
        "users_per_step": None if sampling is None else sampling.size,
        **settings,
        "shards": shards,
        "device": device.type,
        "vectors": _checksum(*vectors),
        "training data": training_data(split),
        "the part that pays": _of_pairs(split.part(asked.reward_on)),
        "subtopics": None if subtopics is None else _of_pairs(subtopics.items),
    }
    plain: dict[str, Any] = json.loads(json.dumps(told, default=str))
    return plain


def going_on(
    begun: Callable[[], Mapping[str, Any]], follow: Follow | None, resume: Progress | None
) -> tuple[Follow | None, Progress | None]:
    """``follow``, which hears with what the search was begun, and ``resume``, refused if that was with something else.

    begun: gives it, where anybody asks
    """
    if follow is None and resume is None:
        return None, None
    now = begun()
    if resume is not None and resume.steps:
        _require_same(resume.checkpoint_key, now)
    if follow is None:
        return None, resume
    return lambda progress: follow(replace(progress, checkpoint_key=now)), resume


def _require_same(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    anew = "start it anew without its checkpoint (on the command line: diversify with --overwrite)"
    if not then:
        raise InputError(f"the checkpoint of the search does not say what it was begun with; {anew}")
    for name in dict.fromkeys([*now, *then]):
        if then.get(name) != now.get(name):
            raise InputError(
                f"the search was begun with {name} = {then.get(name)!r} and now it is {now.get(name)!r}; "
                f"go on with the same settings and data, or {anew}"
            )


def _of_pairs(pairs: Incidence) -> str:
    return _checksum(pairs.indptr, pairs.indices)


def _checksum(*arrays: NDArray[Any]) -> str:
    """A short text that changes with what the arrays hold."""
    found = 0
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return f"{' and '.join(' x '.join(map(str, array.shape)) for array in arrays)}, checksum {found:08x}"
