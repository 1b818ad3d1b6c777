"""The governor: it raises the price of a rule while the budget is certified, and lowers it once the budget is broken.

Each user is drawn again on each day, and after each change of the price. A share of the draws goes to each price, and
the rest to the present one. The answers about each price against the first one share the error, so that they hold
together at all times. What happened is a file of events, one a line; the last whole one is the state.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.files import readable
from recprism.common.shares import CONFIDENCE, Share, share
from recprism.errors import InputError
from recprism.operate.traffic.certificate import EVENTS, answer, questions_of
from recprism.operate.traffic.clusters import read_clusters
from recprism.operate.traffic.draw import Draw
from recprism.operate.traffic.steps import CERTIFIED, next_place, together
from recprism.runs.event_log import append_event, read_events

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
        questions_of(said["budgets"], f"{path}: budgets")
        return cls(prices=prices, share=each, confidence=sure, **said)

    def key(self, export: str) -> str:
        """Return what must stay the same for evidence to add up."""
        said = {**asdict(self), "every": None, "outcomes": None, "export": export}
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


class Governor:
    """The present price, and the draws around it.

    Args:
        plan: What it was asked to do.
        log: The folder of the log of served requests. Events are in ``governor.jsonl`` there.
        export: Fingerprint of the export that is served; with another one, evidence begins again.

    Attributes:
        place: Place of the present price.
        enabled: False: all requests have the first price, and there are no steps.
        problem: Why the last step failed; empty if it did not.
        last: The last event.
    """

    def __init__(self, plan: GovernorPlan, log: str | Path, export: str) -> None:
        self.plan, self.log, self.problem = plan, Path(log), ""
        self.log.mkdir(parents=True, exist_ok=True)
        self.events = self.log / EVENTS
        self.place, self.enabled, self.changes, self.since = 0, True, 0, 0.0
        self.last: dict[str, Any] = {}
        for event in read_events(self.events):
            if isinstance(event.get("state"), dict):
                self.last = event
        if self.last:
            self._take(self.last["state"])
        self.use(export)

    @property
    def price(self) -> float:
        """The present price."""
        return self.plan.prices[self.place]

    def use(self, export: str) -> None:
        """Serve an export: evidence about another one, or for another plan, does not count."""
        self.export = export
        if not self.last or self.last["state"].get("key") != self.plan.key(export):
            self._note("begin", place=0, changes=self.changes + 1, since=time.time())

    def switch(self, enabled: bool) -> None:
        """Switch the governor on or off; off, all requests have the first price. It begins again at that price."""
        if enabled != self.enabled:
            self._note("on" if enabled else "off", enabled=enabled, place=0, changes=self.changes + 1)

    def draw(self, user: str | None, request: str, key: bytes) -> Draw:
        """Draw the price of a request: the same one for a user on a day, until the price changes."""
        if not self.enabled:
            return Draw(0, held=True)
        name = f"{datetime.now(UTC):%Y-%m-%d} {self.changes}"
        who = f"request {request}" if user is None else f"user {user}"
        digest = blake2b(f"{name} {who}".encode(), key=key, person=b"recprism-price", digest_size=8).digest()
        n, present = len(self.plan.prices), self.place
        at = int(int.from_bytes(digest) / 2**64 / self.plan.share)
        place = at if at < n else present
        rest = 1 - n * self.plan.share if place == present else 0.0
        return Draw(place, place == 0, self.plan.share + rest, None if user is None else name)

    def step(self) -> str:
        """Read the log and the outcomes, and raise, lower or keep the price.

        Returns:
            "raise", "lower" or "keep".
        """
        plan = self.plan
        questions = questions_of(plan.budgets, "budgets")
        names = list(dict.fromkeys(it.outcome for it in questions))
        begun = datetime.fromtimestamp(self.since, UTC)
        table = read_clusters(self.log, plan.outcomes, names, plan.window, self.export, begun).table
        alpha = (1 - plan.confidence) / (len(questions) * (len(plan.prices) - 1))
        found = []
        for at in range(1, len(plan.prices)):
            arm = pl.when(pl.col("place") == at).then(1.0).when(pl.col("place") == 0).then(-1.0).otherwise(0.0)
            found.append([answer(table, it, alpha, arm, plan.share) for it in questions])
        place = next_place(self.place, [CERTIFIED, *(together([it.answer for it in some]) for some in found)])
        evidence = [
            {"price": price, **asdict(it), "sentence": it.sentence()}
            for price, some in zip(plan.prices[1:], found, strict=True)
            for it in some
        ]
        what = "raise" if place > self.place else "lower" if place < self.place else "keep"
        self._note(what, place=place, changes=self.changes + (what != "keep"), evidence=evidence)
        return what

    def to_dict(self) -> dict[str, Any]:
        """Return the state and the last evidence, ready for JSON."""
        plan = {**asdict(self.plan), "missing_outcomes_count_as": 0}
        return {"enabled": self.enabled, "price": self.price, "problem": self.problem, "plan": plan, "last": self.last}

    def _take(self, state: Mapping[str, Any]) -> None:
        self.place = min(int(state["place"]), len(self.plan.prices) - 1)
        self.enabled, self.changes, self.since = bool(state["enabled"]), int(state["changes"]), float(state["since"])

    def _note(self, what: str, evidence: list[dict[str, Any]] | None = None, **changed: Any) -> None:
        """Write an event, and only then take its state, so that a kill loses neither."""
        state: dict[str, Any] = {
            "place": self.place,
            "enabled": self.enabled,
            "changes": self.changes,
            "since": self.since,
        }
        state |= {**changed, "key": self.plan.key(self.export)}
        event = {"event": what, "time": time.time(), "price": self.plan.prices[state["place"]], "state": state}
        self.last = {**event, "evidence": evidence or []}
        append_event(self.events, self.last)
        self._take(state)
