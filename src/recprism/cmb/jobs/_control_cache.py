"""Checks that ``erase`` ran and kept: the same question about the same vectors does not run them again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from recprism.cmb import CMB
from recprism.cmb.factors.checks import Checks, Question
from recprism.common.version import __version__
from recprism.errors import InputError
from recprism.runs.run import Run

KEY = "checked"  # in factors_explanation.json


def cache_key(run: Run, found: CMB, asked: Question) -> dict[str, Any]:
    """Return every input that affects the checks, in plain values."""
    digest = hashlib.sha256(run.fingerprint().encode())
    for side in (found.delta_.item, found.delta_.user):
        digest.update(b"none" if side is None else np.ascontiguousarray(side.cpu().numpy()).tobytes())
    return {"made_from": digest.hexdigest(), "recprism": __version__, **asdict(asked)}


def to_keep(checks: Checks | None, key: Mapping[str, Any]) -> dict[str, Any]:
    """Return what factors_explanation.json holds in addition to the explanation."""
    plain = {} if checks is None else checks.to_dict()
    return {KEY: {"asked": dict(key), **plain}} if plain else {}


def kept_checks(run: Run, key: Mapping[str, Any]) -> Checks | None:
    """Return the checks of the last ``erase`` if it answered just this; None if they cannot be read."""
    try:
        kept = (run.factors_explanation() or {}).get(KEY)
        return Checks.from_dict(kept) if isinstance(kept, dict) and kept.get("asked") == key else None
    except (InputError, KeyError, TypeError, ValueError):
        return None
