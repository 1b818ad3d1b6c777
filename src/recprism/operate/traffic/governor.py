"""The governor: it raises the price of a rule while the budget is certified, and lowers it once the budget is broken.

Each user is drawn again on each day, and after each change of the price. A share of the draws goes to each price, and
the rest to the present one. The answers about each price against the first one share the error, so that they hold
together at all times. What happened is a file of events, one a line; the last whole one is the state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from recprism.operate.traffic.certificate import EVENTS
from recprism.operate.traffic.draw import Draw
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.operate.traffic.judgement import Judge, Question, judge
from recprism.operate.traffic.steps import CERTIFIED, next_place
from recprism.runs.event_log import append_event, read_events


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
        judge: Reads the log and the outcomes, here or in another process.

    Attributes:
        state: What it remembers.
        problem: Why the last step failed; empty if it did not.
        last: The last event.
    """

    def __init__(self, plan: GovernorPlan, log: str | Path, export: str, judge: Judge = judge) -> None:
        self.plan, self.log, self.problem, self._judge = plan, Path(log), "", judge
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
        with self._lock:
            state, export = self.state, self.export
        if not state.enabled:
            return "off"
        found = self._judge(Question(self.plan, str(self.log), export, state.since, state.key))
        place = next_place(state.place, [CERTIFIED, *found.answers])
        what = "raise" if place > state.place else "lower" if place < state.place else "keep"
        with self._lock:
            if self.state is not state:  # switched, or another export: the evidence is not about it
                return "off"
            changes = state.changes + (what != "keep")
            self._note(what, found.evidence, found.notes, place=place, changes=changes)
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
