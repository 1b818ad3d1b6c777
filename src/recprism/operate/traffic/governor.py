"""The governor: it raises the price of a rule while the budget is certified, and lowers it once the budget is broken.

Each user is drawn again on each day, and after each change of the price. A share of the draws goes to each price, and
the rest to the present one. The answers about each price against the first one share the error, so that they hold
together at all times. What happened is a file of events, one a line; the last whole one is the state.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

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
        if not isinstance(said["outcomes"], str):
            raise InputError(f"{path}: outcomes must be the path of a table, not {said['outcomes']!r}")
        questions_of(said["budgets"], f"{path}: budgets")
        return cls(prices=prices, share=each, confidence=sure, **said)

    def key(self, export: str) -> str:
        """Return what must stay the same for evidence to add up."""
        said = {**asdict(self), "every": None, "outcomes": None, "export": export}
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


class State(NamedTuple):
    """What a governor remembers; it is replaced as a whole, because requests are drawn while a step is taken.

    Attributes:
        place: Place of the present price.
        enabled: False: all requests have the first price, and there are no steps.
        changes: How often users were drawn again.
        since: When the evidence begins, in seconds since 1970.
        key: What must stay the same for evidence to add up.
    """

    place: int = 0
    enabled: bool = True
    changes: int = 0
    since: float = 0.0
    key: str = ""


class Governor:
    """The present price, and the draws around it.

    Args:
        plan: What it was asked to do.
        log: The folder of the log of served requests. Its events are there, too.
        export: Fingerprint of the export that is served; with another one, evidence begins again.

    Attributes:
        state: What it remembers.
        problem: Why the last step failed; empty if it did not.
        last: The last event.
    """

    def __init__(self, plan: GovernorPlan, log: str | Path, export: str) -> None:
        self.plan, self.log, self.problem = plan, Path(log), ""
        self.log.mkdir(parents=True, exist_ok=True)
        self.events, self._lock = self.log / EVENTS, Lock()
        found = [it for it in read_events(self.events) if isinstance(it.get("state"), dict)]
        self.last: dict[str, Any] = found[-1] if found else {}
        self.state = State(**self.last["state"]) if found else State()
        self.use(export)

    @property
    def price(self) -> float:
        """The present price."""
        return self.plan.prices[self.state.place if self.state.enabled else 0]

    def use(self, export: str) -> None:
        """Serve an export: evidence about another one, or for another plan, does not count."""
        key = self.plan.key(export)
        with self._lock:
            if key != self.state.key:
                self._note("begin", key=key, place=0, changes=self.state.changes + 1, since=time.time())
            self.export = export

    def switch(self, enabled: bool) -> None:
        """Switch the governor on or off; off, all requests have the first price. It begins again at that price."""
        with self._lock:
            if enabled != self.last["state"]["enabled"]:
                if not enabled:
                    self.state = self.state._replace(enabled=False)  # at once, also if no event can be written
                self._note("on" if enabled else "off", enabled=enabled, place=0, changes=self.state.changes + 1)

    def draw(self, user: str | None, request: str, key: bytes) -> Draw:
        """Draw the price of a request: the same one for a user on a day, until the price changes."""
        state = self.state
        if not state.enabled:
            return Draw(0, held=True)
        name = f"{datetime.now(UTC):%Y-%m-%d} {state.changes}"
        who = f"request {request}" if user is None else f"user {user}"
        digest = blake2b(f"{name} {who}".encode(), key=key, person=b"recprism-price", digest_size=8).digest()
        n, present = len(self.plan.prices), state.place
        at = int(int.from_bytes(digest) / 2**64 / self.plan.share)
        place = at if at < n else present
        rest = 1 - n * self.plan.share if place == present else 0.0
        return Draw(place, place == 0, self.plan.share + rest, None if user is None else name)

    def step(self) -> str:
        """Read the log and the outcomes, and raise, lower or keep the price.

        Returns:
            "raise", "lower" or "keep"; "off" if the governor is off, or was switched meanwhile.
        """
        plan = self.plan
        with self._lock:
            state, export = self.state, self.export
        if not state.enabled:
            return "off"
        questions = questions_of(plan.budgets, "budgets")
        names = list(dict.fromkeys(it.outcome for it in questions))
        read = read_clusters(
            self.log, plan.outcomes, names, plan.window, export, datetime.fromtimestamp(state.since, UTC)
        )
        table = read.table.filter(pl.col("place").is_not_null())
        alpha = (1 - plan.confidence) / (len(questions) * (len(plan.prices) - 1))
        found = []
        for at in range(1, len(plan.prices)):
            arm = pl.when(pl.col("place") == at).then(1.0).when(pl.col("place") == 0).then(-1.0).otherwise(0.0)
            found.append([answer(table, it, alpha, arm, plan.share) for it in questions])
        place = next_place(state.place, [CERTIFIED, *(together([it.answer for it in some]) for some in found)])
        evidence = [
            {"price": price, **asdict(it), "sentence": it.sentence()}
            for price, some in zip(plan.prices[1:], found, strict=True)
            for it in some
        ]
        what = "raise" if place > state.place else "lower" if place < state.place else "keep"
        with self._lock:
            if self.state is not state:  # switched, or another export: the evidence is not about it
                return "off"
            self._note(what, evidence, read.notes, place=place, changes=state.changes + (what != "keep"))
        return what

    def to_dict(self) -> dict[str, Any]:
        """Return the state and the last evidence, ready for JSON."""
        plan = {**asdict(self.plan), "missing_outcomes_count_as": 0}
        on = self.state.enabled
        return {"enabled": on, "price": self.price, "problem": self.problem, "plan": plan, "last": self.last}

    def _note(
        self, what: str, evidence: Sequence[dict[str, Any]] = (), notes: Sequence[str] = (), **changed: Any
    ) -> None:
        """Write an event, and only then take its state, so that a kill loses neither."""
        state = self.state._replace(**changed)
        event = {
            "event": what,
            "time": time.time(),
            "price": self.plan.prices[state.place],
            "state": state._asdict(),
            "evidence": list(evidence),
            "notes": list(notes),
        }
        append_event(self.events, event)
        self.last, self.state = event, state
