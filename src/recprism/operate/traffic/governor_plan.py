"""The plan of a governor: its prices, budgets, and how it reads the log."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

from recprism.common.files import readable
from recprism.common.shares import CONFIDENCE, Share, share
from recprism.errors import InputError
from recprism.operate.traffic.certificate import questions_of

ADVICE = "write prices, share, outcomes, and a table [budgets]"
LEAST_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class GovernorPlan:
    """What a governor was asked to do, before it begins.

    Attributes:
        prices: Trade-offs, rising; the first one is the reference of all others.
        share: Share of the draws that each price gets in any case; the present one gets the rest, too.
        budgets: Outcome, or outcome@group -> the share that may be lost against the first price.
        outcomes: A table with ``request``, a column for each outcome, and optionally ``time``.
        window: Days in which outcomes arrive; a request without one counts as 0.
        confidence: That no answer is false at any time.
        every: Seconds between two steps.
    """

    prices: tuple[float, ...]
    share: float
    budgets: Mapping[str, Share]
    outcomes: str
    window: float = 1.0
    confidence: float = 0.95
    every: float = 3600.0

    @classmethod
    def read(cls, path: str | Path) -> GovernorPlan:
        """Read a .toml file.

        Raises:
            InputError: If it is missing or damaged, or a value is out of range.
        """
        with readable(path, "no plan of a governor", ADVICE):
            said = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        known = set(cls.__dataclass_fields__)
        wrong = [
            *(name for name in said if name not in known),
            *({"prices", "share", "budgets", "outcomes"} - set(said)),
        ]
        if wrong:
            problem = "unknown" if wrong[0] in said else "missing"
            raise InputError(f"{path}: {wrong[0]} is {problem}; {ADVICE}")
        if not isinstance(said["prices"], list) or not isinstance(said["budgets"], dict):
            raise InputError(f"{path}: prices is no list, or budgets no table; {ADVICE}")
        prices = tuple(share(it, f"{path}: prices") for it in said.pop("prices"))
        if len(prices) < 2 or any(a >= b for a, b in pairwise(prices)):
            raise InputError(f"{path}: prices must rise, and there must be two or more")
        each = share(said.pop("share"), f"{path}: share", 0.001, 1 / len(prices))
        sure = share(said.pop("confidence", 0.95), f"{path}: confidence", *CONFIDENCE)
        for name, least in (("window", 0.0), ("every", LEAST_SECONDS)):
            value = said.get(name, 1.0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e9 or not value:
                raise InputError(f"{path}: {name} must be a number above {least:g}, not {value!r}")
        if not isinstance(said["outcomes"], str):
            raise InputError(f"{path}: outcomes must be the path of a table, not {said['outcomes']!r}")
        questions_of(said["budgets"], f"{path}: budgets")
        return cls(prices=prices, share=each, confidence=sure, **said)

    def key(self, export: str) -> str:
        """Return what must stay the same for evidence to add up."""
        said = {**asdict(self), "every": None, "outcomes": None, "export": export}
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()
