"""An export that was read, checked and run once, before any request sees it."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recprism.errors import InputError
from recprism.forms.rule_file import ARRAYS, FACTS, RuleFile, fingerprint_of
from recprism.service.settings import Settings
from recprism.serving import ServedRule

Signature = tuple[tuple[int, int, int], ...]
"""Time, size and number of each file of an export."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A rule that answers requests.

    Attributes:
        rule: The rule.
        plain: The same rule, switched off: it returns the list by relevance alone.
        fingerprint: Sixteen letters that name the export.
        time: When it was loaded, in seconds since 1970.
    """

    rule: ServedRule
    plain: ServedRule
    fingerprint: str
    time: float

    def about(self) -> dict[str, Any]:
        """Return plain values that describe the rule."""
        file = self.rule.file
        return {
            "goals": dict(file.goals),
            "trade_off": file.trade_off,
            "history_weight": file.history_weight,
            "history_window": file.history_window,
            "k": file.k,
            "limits": dict(file.limits),
            "certificate": None if file.certificate is None else file.certificate.to_dict(),
            "items": len(file.item_ids),
            "names": list(file.names),
            "boosts": file.boosts is not None,
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
        rule = ServedRule(file, candidates=settings.candidates, prices=settings.prices, scorer=settings.scorer)
        rule.warm_up()
        ids = file.item_ids[: file.k + 2].tolist()
        rule.rerank(ids, np.linspace(1.0, 0.0, len(ids)), history=ids[:1]).to_dict()
    except InputError:
        raise
    except Exception as problem:  # a damaged file can break anything; the old rule must stay
        raise InputError(f"{folder}: damaged ({type(problem).__name__}); export the rule again") from None
    if (settings.holdout_price is not None or settings.governor is not None) and file.boosts is not None:
        raise InputError("this rule boosts items for all users at one price; a holdout cannot have another")
    found = Loaded(rule, copy.copy(rule), fingerprint_of(folder), time.time())
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
