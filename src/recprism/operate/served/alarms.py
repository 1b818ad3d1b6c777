"""Alarms: limits that a confidence sequence decides. An alarm fires only if the whole interval is beyond its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recprism.operate.retention import ALL_DAYS
from recprism.operate.served.confidence import Interval

State = Literal["fires", "holds", "not decided"]
FIRES: State = "fires"


@dataclass(frozen=True)
class AlarmLimits:
    """What alarms watch.

    Attributes:
        floor: Least share of the rule's gain that users see.
        fallbacks: Largest share of requests in which the rule makes no list; None watches nothing.
        unmet: Largest share of requests with a constraint that is not met; None watches nothing.
        milliseconds: Time within which 99 % of the requests are answered; None watches nothing.
        loss: Largest loss of the hit rate against the holdout, as a share; None watches nothing.
        holdout: Share of users that the service draws for the holdout; None watches nothing.
    """

    floor: float = 0.8
    fallbacks: float | None = 0.05
    unmet: float | None = None
    milliseconds: float | None = None
    loss: float | None = None
    holdout: float | None = None


@dataclass(frozen=True)
class Alarm:
    """One limit on one day, or on all days.

    Attributes:
        name: What is watched.
        day: The day, or ``ALL_DAYS``.
        limit: The limit.
        side: "at least", "at most" or "exactly".
        value: What was measured; None if nothing could be.
        low: Lower end of its confidence sequence.
        high: Upper end.
        state: "fires" if the whole interval is beyond the limit, "holds" if none of it is, else "not decided".
    """

    name: str
    day: str
    limit: float
    side: Literal["at least", "at most", "exactly"]
    value: float | None
    low: float | None
    high: float | None
    state: State

    def sentence(self) -> str:
        """Describe the measured value, the limit and the state."""
        where = "" if self.day == ALL_DAYS else f" on {self.day}"
        if self.value is None or self.low is None or self.high is None:
            return f"{self.name}{where} is unknown, {self.side} {_percent(self.limit)} wanted"
        measured = f"{_percent(self.value)} ({_percent(self.low)} to {_percent(self.high)})"
        return f"{self.name}{where}: {measured}, {self.side} {_percent(self.limit)} wanted"


def alarm(
    name: str, day: str, side: Literal["at least", "at most", "exactly"], limit: float, found: Interval | None
) -> Alarm:
    """Judge an interval by a limit."""
    if found is None or found.n == 0:
        return Alarm(name, day, limit, side, None, None, None, "not decided")
    below, above = found.high < limit, found.low > limit
    fires, holds = {
        "at least": (below, found.low >= limit),
        "at most": (above, found.high <= limit),
        "exactly": (below or above, False),
    }[side]
    state: State = FIRES if fires else "holds" if holds else "not decided"
    return Alarm(name, day, limit, side, found.mean, found.low, found.high, state)


def _percent(value: float) -> str:
    return f"{100 * value:.3g}%"
