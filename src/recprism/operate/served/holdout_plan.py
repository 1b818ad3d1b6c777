"""The size of a randomised holdout: requests until a change of the click rate, or of the goal, is seen.

The fixed size is that of a test with a single look at its end. The size at any time is that of the confidence sequences
of ``recprism monitor-log``, which may be read after every request. It is larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share
from recprism.common.shares import share as read_share
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.operate.experiment import Terms
from recprism.operate.served.confidence import boundary
from recprism.operate.served.holdout import INTERVALS
from recprism.result.effect import effect
from recprism.runs.run import Run

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Shares of a holdout that are compared with the one asked for."""
MOST_REQUESTS = 10**12


@dataclass(frozen=True)
class HoldoutSize:
    """The requests that one question needs with one share of the holdout.

    Attributes:
        question: "click rate", or the metric of the goal.
        share: Share of the requests in the holdout.
        usual: Mean at the usual price.
        holdout: Mean in the holdout.
        fixed: Requests of both arms for a test with a single look.
        anytime: Requests of both arms for confidence sequences.
    """

    question: str
    share: float
    usual: float
    holdout: float
    fixed: int
    anytime: int


@dataclass(frozen=True)
class HoldoutPlan:
    """The plan of a holdout; each request is one of another user.

    Attributes:
        run: The run directory.
        share: The share asked for.
        power: Chance that the change is seen by then, if it is as assumed.
        alpha: Chance of a false finding.
        sizes: Questions by share, that asked for first.
    """

    run: str
    share: float
    power: float
    alpha: float
    sizes: tuple[HoldoutSize, ...]

    @property
    def requests(self) -> int:
        """Requests at any time that answer every question with the share asked for."""
        return max(it.anytime for it in self.sizes if it.share == self.share)

    def sentence(self) -> str:
        """Describe the number of requests of the share asked for."""
        asked = max((it for it in self.sizes if it.share == self.share), key=lambda it: it.anytime)
        seen = f"a change of {asked.question} from {asked.holdout:.4g} to {asked.usual:.4g}"
        return (
            f"A holdout of {100 * self.share:.3g} % shows {seen} after {asked.anytime:,} requests, read at any time, "
            f"or {asked.fixed:,} with a single look; power {self.power:.0%}, alpha {self.alpha:g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "requests": self.requests, "sentence": self.sentence()}


def plan_holdout(
    run: Run,
    share: Share,
    click_rate: Share,
    *,
    change: Share = 0.05,
    power: Share = 0.8,
    alpha: Share = 0.05,
    part: Part = "test",
    on_step: ProgressCallback | None = None,
) -> HoldoutPlan:
    """Plan a holdout at price 0 next to the rule of a run.

    Args:
        run: A diversified run; the gain of its goal is taken as the change of the goal.
        share: Share of the requests in the holdout.
        click_rate: Share of requests of the holdout with a click.
        change: The loss of the click rate at the usual price that must be seen, as a share of it.
        power: Chance that a change is seen.
        alpha: Chance of a false finding.
        part: The part whose lists give the goal's mean and deviation.
        on_step: Receives progress.

    Raises:
        InputError: If a share is out of range.
    """
    asked = read_share(share, "holdout", 0.001, 0.999)
    rate = read_share(click_rate, "click_rate", ends=False)
    lost = read_share(change, "change", ends=False)
    chance, level = (read_share(it, name, ends=False) for it, name in ((power, "power"), (alpha, "alpha")))
    result = run.load_result(part)
    goal = result.objective
    found = effect(result, (goal,), on_step=on_step)
    questions = [("click rate", _of_share(rate * (1 - lost)), _of_share(rate))]
    values = [np.asarray(it.values.get(goal, ())) for it in (found.after, found.before)]
    if all(len(it) and np.nanmin(it) >= 0 and np.nanmax(it) <= 1 for it in values):
        after, before = ((float(np.nanmean(it)), float(np.nanstd(it, ddof=1))) for it in values)
        if after[0] != before[0]:
            questions.append((goal, after, before))
    sizes = [
        holdout_size(*question, each, chance, level)
        for each in dict.fromkeys((asked, *SHARES))
        for question in questions
    ]
    return HoldoutPlan(str(run.path), asked, chance, level, tuple(sizes))


def holdout_size(
    question: str, usual: tuple[float, float], holdout: tuple[float, float], share: float, power: float, alpha: float
) -> HoldoutSize:
    """Compute the requests that show the difference of two means.

    Args:
        question: Name of what is compared, within 0 .. 1.
        usual: Mean and deviation at the usual price.
        holdout: Mean and deviation in the holdout.
        share: Share of the requests in the holdout.
        power: Chance that the difference is seen.
        alpha: Chance of a false finding.

    Raises:
        InputError: If the difference is too small for any real number of requests.
    """
    distance = abs(usual[0] - holdout[0])
    fixed = sum(Terms(power, alpha, share).users(distance, usual[1], holdout[1], alpha / 2))

    def is_enough(requests: int) -> bool:
        each = (requests * (1 - share), requests * share)
        widths = [
            boundary(n * arm[1] ** 2, alpha / INTERVALS / 2, 1.0)[0] / n
            for n, arm in zip(each, (usual, holdout), strict=True)
        ]
        noise = math.sqrt(usual[1] ** 2 / each[0] + holdout[1] ** 2 / each[1])
        return bool(distance - NormalDist().inv_cdf(power) * noise >= sum(widths))

    return HoldoutSize(question, share, usual[0], holdout[0], fixed, _least(is_enough))


def _least(is_enough: Callable[[int], bool]) -> int:
    """Return the least number of requests that is enough."""
    low, high = 1, 2
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MOST_REQUESTS:
            raise InputError("the change is too small to be seen; name a larger one (--change)")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _of_share(rate: float) -> tuple[float, float]:
    """Return mean and deviation of a share."""
    return rate, math.sqrt(rate * (1 - rate))
