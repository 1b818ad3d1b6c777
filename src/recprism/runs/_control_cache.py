"""Controls that ``explain`` ran and kept: whoever asks the same of the same vectors need not wait for them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recprism._version import __version__
from recprism.cmb import CMB
from recprism.errors import InputError
from recprism.explain._ranking import Agreement
from recprism.explain.controls import Controls, PureBias, Shuffled
from recprism.runs.run import Run

KEY = "checked"  # in explanation.json


@dataclass(frozen=True, eq=False)
class Checks:
    """Controls, on whom they were run, and whether the ranking of factors comes out alike on other users."""

    controls: Controls
    notes: tuple[str, ...]
    agreement: Agreement | None

    def to_keep(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """For explanation.json, with what they answer; nothing where a figure is missing, for JSON knows no NaN."""
        controls = {**asdict(self.controls), "shuffled": [_plain(it) for it in self.controls.shuffled]}
        agreement = None if self.agreement is None else asdict(self.agreement)
        plain = {"asked": dict(asked), "controls": controls, "notes": list(self.notes), "agreement": agreement}
        try:
            json.dumps(plain, allow_nan=False)
        except ValueError:
            return {}
        return {KEY: plain}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Checks:
        plain = dict(kept["controls"])
        shuffled = tuple(
            Shuffled(**{**it, "objective": np.array(it["objective"]), "cost": np.array(it["cost"])})
            for it in plain["shuffled"]
        )
        pairs = {name: tuple(plain["bias"][name]) for name in ("sources", "scales")}
        bias = PureBias(**{**plain["bias"], **pairs})
        own = {"base": tuple(plain["base"]), "learned": tuple(plain["learned"]), "bias": bias}
        controls = Controls(**{**plain, **own, "shuffled": shuffled})
        agreement = None if kept["agreement"] is None else Agreement(**kept["agreement"])
        return cls(controls, tuple(kept["notes"]), agreement)


def _plain(control: Shuffled) -> dict[str, Any]:
    return {**asdict(control), "objective": control.objective.tolist(), "cost": control.cost.tolist()}


def question(run: Run, model: CMB, **settings: Any) -> dict[str, Any]:
    """What controls answer: all that their figures hang on, in plain values."""
    digest = hashlib.sha256(run.fingerprint().encode())
    for side in (model.delta_.item, model.delta_.user):
        digest.update(b"none" if side is None else np.ascontiguousarray(side.cpu().numpy()).tobytes())
    return {"made_from": digest.hexdigest(), "recprism": __version__, **settings}


def kept_checks(run: Run, asked: Mapping[str, Any]) -> Checks | None:
    """Those of the last ``explain``, if it was asked just this; None also where they cannot be read."""
    try:
        kept = (run.explanation() or {}).get(KEY)
        return Checks.from_dict(kept) if isinstance(kept, dict) and kept.get("asked") == asked else None
    except (InputError, KeyError, TypeError, ValueError):
        return None
