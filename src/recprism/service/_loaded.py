"""An export that was read, checked and run once, before any request sees it."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import canonical_text
from recprism.deploy.rule_file import ARRAYS, FACTS, RuleFile
from recprism.errors import InputError
from recprism.service.settings import Settings
from recprism.serving.constraints import Id
from recprism.serving.rule import WHOLE, ServedRule

Signature = tuple[tuple[int, int, int], ...]
"""Time, size and number of each file of an export."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A rule that answers requests.

    Attributes:
        rule: The rule.
        plain: The same rule, switched off: it returns the list by relevance alone.
        coverage: Counts the categories of a list.
        fingerprint: Hash of the files, the first 16 hexadecimal digits.
        time: When it was loaded, in seconds since 1970.
    """

    rule: ServedRule
    plain: ServedRule
    coverage: Coverage
    fingerprint: str
    time: float

    def about(self) -> dict[str, Any]:
        """Return plain values that describe the rule."""
        file = self.rule.file
        return {
            "goals": dict(file.goals),
            "trade_off": file.trade_off,
            "history_weight": file.history_weight,
            "k": file.k,
            "items": len(file.item_ids),
            "names": list(file.names),
            "lifts": file.lifts is not None,
            "vector_size": None if file.item_vectors is None else int(file.item_vectors.shape[1]),
            "fingerprint": self.fingerprint,
            "loaded": self.time,
        }


def load_export(folder: Path, settings: Settings) -> Loaded:
    """Read an export, check it, and run it once.

    Raises:
        InputError: If it is no export, is damaged, changes while it is read, or does not fit the settings.
    """
    before = signature(folder)
    file = RuleFile.read(folder)
    try:
        _check(file)
        rule = ServedRule(file, candidates=settings.candidates, prices=settings.prices)
        rule.warm_up()
        ids = file.item_ids[: file.k + 2].tolist()
        rule.rerank(ids, np.linspace(1.0, 0.0, len(ids)), history=ids[:1]).to_dict()
    except InputError:
        raise
    except Exception as problem:  # a damaged file can break anything; the old rule must stay
        raise InputError(f"{folder}: damaged ({type(problem).__name__}); export the rule again") from None
    if settings.holdout_price is not None and file.lifts is not None:
        raise InputError("this rule lifts items for all users at one price; a holdout cannot have another")
    found = Loaded(rule, copy.copy(rule), Coverage(file), _fingerprint(folder), time.time())
    found.plain.enabled = False
    if signature(folder) != before:
        raise InputError(f"{folder}: changed while it was read; write a new folder and rename it")
    return found


def signature(folder: Path) -> Signature:
    """Return what changes with the files of an export; an empty tuple if one is missing."""
    try:
        stats = [(folder / name).stat() for name in (FACTS, ARRAYS)]
    except OSError:
        return ()
    return tuple((it.st_mtime_ns, it.st_size, it.st_ino) for it in stats)


class Coverage:
    """The share of all categories that a list has.

    Args:
        file: The exported rule.
    """

    def __init__(self, file: RuleFile) -> None:
        self._file = file
        self._order = np.argsort(file.item_ids, kind="stable")
        self._sorted: NDArray[Any] = file.item_ids[self._order]
        self._is_text = file.item_ids.dtype.kind != "i"

    def shares(self, *lists: Sequence[Id]) -> list[float]:
        """Return, for each list, the share of all categories that its items have; unknown items have none."""
        stored = {one: self._as_stored(one) for ids in lists for one in ids}
        wanted = [one for one in stored.values() if one is not None]
        if not wanted or not self._file.names:
            return [0.0] * len(lists)
        at = np.minimum(np.searchsorted(self._sorted, np.array(wanted)), len(self._sorted) - 1)
        rows = zip(wanted, self._sorted[at].tolist(), self._order[at].tolist(), strict=True)
        items = {one: item for one, found, item in rows if found == one}
        indptr, indices = self._file.indptr, self._file.indices
        own: dict[Id | None, list[int]] = {
            one: indices[indptr[item] : indptr[item + 1]].tolist() for one, item in items.items()
        }
        n = len(self._file.names)
        return [len({it for one in ids for it in own.get(stored[one], ())}) / n for ids in lists]

    def _as_stored(self, one: Id) -> Id | None:
        if self._is_text:  # most ids are text without a dot, and then the same
            return one if isinstance(one, str) and "." not in one else canonical_text(one)
        if isinstance(one, int):
            return one
        return int(one) if WHOLE.fullmatch(one) else None


def _check(file: RuleFile) -> None:
    """Raise an error if arrays do not fit together: kernels read them without looking."""
    n, entries = len(file.item_ids), len(file.indices)
    steps = np.diff(file.indptr)
    fits = (
        n > 0
        and file.indptr.shape == (n + 1,)
        and int(file.indptr[0]) == 0
        and int(file.indptr[-1]) == entries
        and bool((steps >= 0).all())
        and file.shares.shape == (entries,)
        and len(file.unit) in (1, n)
        and (not entries or 0 <= int(file.indices.min()) <= int(file.indices.max()) < len(file.names))
        and all(it is None or len(it) == n for it in (file.lifts, file.item_vectors))
    )
    if not fits:
        raise InputError("the arrays of the export do not fit together; export the rule again")


def _fingerprint(folder: Path) -> str:
    found = hashlib.sha256()
    for name in (FACTS, ARRAYS):
        with (folder / name).open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:16]
