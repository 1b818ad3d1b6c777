"""A fitted choice model: what it explains, and its coefficients in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from recprism.common.shares import percent
from recprism.explain.choice._places import FEATURES, Array, IntArray

Verdict = Literal["explains", "in part", "does not explain"]
EXPLAINS, IN_PART = 0.5, 0.15  # shares above which a model explains lists, or does so in part
LEVEL = 0.05
MOST_TIMES = 1000.0  # larger factors are not written out: they mean that nothing else is ever chosen
CLEAR = 2.0  # standard errors from 0, beyond which a coefficient is put into words

UNITS: dict[str, tuple[float, str]] = {
    "score": (0.1, "whose score is higher by 10 % of the user's range of scores"),
    "score_squared": (1.0, ""),
    "popularity": (1.0, "that is twice as popular"),
    "new_categories": (1.0, "with one more category that the list lacks"),
    "redundancy": (0.5, "with one more category that half of the list has already"),
    "mean_similarity": (0.1, "whose categories are on average more similar to the list's by 0.1"),
    "largest_similarity": (0.1, "whose categories are more similar to the nearest item of the list by 0.1"),
    "history": (0.1, "whose categories hold 10 % more of the user's history"),
    "new_history": (0.1, "whose categories that the list lacks hold 10 % more of the user's history"),
    "unfilled_history": (
        0.1,
        "whose categories hold 10 % more of the user's history (categories that the list has count less)",
    ),
    "calibration": (0.1, "that brings the list's categories nearer to the user's history by 0.1"),
}
"""For the words of a coefficient: a difference in the feature, and what to call it. Scores have one sentence."""


@dataclass(frozen=True)
class Coefficient:
    """A preference that all users share.

    Attributes:
        feature: Its name.
        standardised: The coefficient for a difference of one standard deviation among the alternatives of a place.
        error: Its standard error.
        times: How many times as likely an item is, for the difference that ``words`` names.
        worth: The difference in score that has the same effect, as a share of the user's range of scores. It is the
            price that the lists pay for the difference that ``words`` names. None if higher scores are not preferred.
        words: The coefficient as a sentence; empty if it is not clearly different from 0.
    """

    feature: str
    standardised: float
    error: float
    times: float
    worth: float | None
    words: str


@dataclass(frozen=True)
class ShuffledCategories:
    """The same model after categories were shuffled among items.

    Attributes:
        mean: What it explains, as a mean over the draws.
        largest: The largest draw.
        p_value: Share of draws, the unshuffled one included, that explain at least as much as the real categories.
        draws: What each draw explains.
    """

    mean: float
    largest: float
    p_value: float
    draws: tuple[float, ...] = field(repr=False)

    @classmethod
    def of(cls, explained: float, draws: Array) -> ShuffledCategories:
        as_much = int((draws >= explained).sum())
        mean, largest = float(draws.mean()), float(draws.max())
        return cls(mean, largest, (1 + as_much) / (1 + len(draws)), tuple(draws.tolist()))


@dataclass(frozen=True, eq=False)
class ChoiceModel:
    """A conditional logit of newcomers: items of new lists that the base lists do not have.

    Every newcomer is removed from its list in turn, and the model gives each candidate a probability to fill the place.
    It has a few coefficients for all users. All figures but the coefficients come from users that the model was not
    fitted on.

    Attributes:
        explained: Share of the bits that scores alone leave open and the model explains: 1 - log-likelihood of the
            model / log-likelihood of scores alone. It is negative if the model predicts worse than scores.
        interval: Its 95 % interval over users.
        right_item: Share of places for which the most probable candidate is the right one. A guess among n equally
            probable ones counts 1 / n.
        right_item_scores: The same for scores alone.
        shuffled_within: The model with categories shuffled among items of one popularity decile; None without draws.
        shuffled_all: The model with categories shuffled among all items; None without draws.
        coefficients: One per feature that varies, fitted on all users, the largest first.
        users: ``(n,)`` row numbers of the users it was fitted and judged on.
        n_slots: Number of places.
        n_newcomers: Number of newcomers in all lists.
        n_outside: Newcomers that are not among the user's candidates; they cannot be modelled.
        n_alternatives: Mean number of candidates for a place.
        weights: ``(n_features,)`` coefficients of the features in their own units, fitted on all users.
    """

    explained: float
    interval: tuple[float, float]
    right_item: float
    right_item_scores: float
    shuffled_within: ShuffledCategories | None
    shuffled_all: ShuffledCategories | None
    coefficients: tuple[Coefficient, ...]
    users: IntArray = field(repr=False)
    n_slots: int
    n_newcomers: int
    n_outside: int
    n_alternatives: float
    weights: Array = field(repr=False)
    _with_popularity: bool = field(repr=False)
    _with_history: bool = field(repr=False)

    @property
    def n_users(self) -> int:
        """Number of users that the model was fitted and judged on."""
        return len(self.users)

    @property
    def verdict(self) -> Verdict:
        """The verdict by size, "explains" above 50 % and "in part" from 15 %."""
        if self.explained > EXPLAINS:
            return "explains"
        return "in part" if self.explained >= IN_PART else "does not explain"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the shuffled figures are means over the draws."""
        within, everywhere = self.shuffled_within, self.shuffled_all
        return {
            "explained": self.explained,
            "interval": list(self.interval),
            "explained_shuffled_within": None if within is None else within.mean,
            "explained_shuffled_all": None if everywhere is None else everywhere.mean,
            "verdict": self.verdict,
            "right_item": self.right_item,
            "right_item_scores": self.right_item_scores,
            "coefficients": [asdict(it) for it in self.coefficients],
            "users": self.n_users,
            "slots": self.n_slots,
            "newcomers": self.n_newcomers,
            "outside_candidates": self.n_outside,
            "shuffled": {
                name: {"largest": it.largest, "p_value": it.p_value, "draws": len(it.draws)}
                for name, it in (("within", within), ("all", everywhere))
                if it is not None
            },
            "sentences": self.sentences(),
        }

    def _known(self) -> str:
        """Name what the model knows."""
        names = ["scores", "categories", "history" if self._with_history else ""]
        *most, last = [it for it in [*names, "popularity" if self._with_popularity else ""] if it]
        return f"{', '.join(most)} and {last}"

    def sentences(self) -> list[str]:
        """Describe the model: what it explains, the shuffled categories, and what users' lists prefer."""
        low, high = (percent(it, ".0f", "") for it in self.interval)
        lines = [
            f"One choice model for all users, from {self._known()}, explains "
            f"{percent(self.explained, 'z.0f')} of what scores alone leave open "
            f"(95 % interval {low} to {high} %, {self.n_users:,} users): {_VERDICTS[self.verdict]}.",
            f"With one newcomer removed, it names the right one of {self.n_alternatives:.0f} candidates in "
            f"{percent(self.right_item, '.1f')} of {self.n_slots:,} cases; scores alone do in "
            f"{percent(self.right_item_scores, '.1f')}.",
        ]
        shuffled = (("items of the same popularity", self.shuffled_within), ("all items", self.shuffled_all))
        for among, it in shuffled:
            if it is not None:
                lines.append(
                    f"With categories shuffled among {among} it explains {percent(it.mean, 'z.1f')} "
                    f"(at most {percent(it.largest, 'z.1f')} in {len(it.draws)} draws, p = {it.p_value:.3f})."
                )
        if self.shuffled_within is not None and self.shuffled_within.p_value > LEVEL:
            lines.append("So the categories add nothing that shuffled ones do not add.")
        if self.verdict != "does not explain":
            lines += [it.words for it in self.coefficients if it.words]
        if self.n_outside:
            lines.append(
                f"{self.n_outside:,} of {self.n_newcomers:,} newcomers are not among the user's candidates "
                "and are left out."
            )
        return lines


_VERDICTS = {
    "explains": "it explains these lists",
    "in part": "it explains these lists in part",
    "does not explain": "it does not explain these lists",
}


def describe(weights: Array, scale: Array, errors: Array, score: float) -> tuple[Coefficient, ...]:
    """Return the coefficients of features that vary, the largest first.

    Args:
        weights: ``(n_features,)`` coefficients.
        scale: ``(n_features,)`` standard deviations of the features.
        errors: ``(n_features,)`` standard errors of standardised coefficients.
        score: The scaled score at which the effect of scores is measured, because it also has a squared term.
    """
    slope = float(weights[0] + 2 * weights[1] * score)
    found = []
    for number in np.flatnonzero(scale > 0):
        name, size = FEATURES[number], float(weights[number] * scale[number])
        step, what = UNITS[name]
        logarithm = (slope if name == "score" else float(weights[number])) * step
        worth = logarithm / slope if slope > 0 else None
        clear = abs(size) > CLEAR * errors[number] and what != ""
        words = (
            f"An item {what} is {_likelier(logarithm)} as likely to be chosen{_price(name, worth)}." if clear else ""
        )
        times = float(np.exp(np.clip(logarithm, -50, 50)))
        found.append(Coefficient(name, size, float(errors[number]), times, worth, words))
    return tuple(sorted(found, key=lambda it: -abs(it.standardised)))


def _price(name: str, worth: float | None) -> str:
    if worth is None or name == "score":
        return ""
    return f", which counts as {percent(worth, '+.2g')} of the user's range of scores"


def _likelier(logarithm: float) -> str:
    times = float(np.exp(np.clip(logarithm, -50, 50)))
    if times > MOST_TIMES:
        return f"more than {MOST_TIMES:,.0f} times"
    if times < 1 / MOST_TIMES:
        return f"less than {1 / MOST_TIMES:g} times"
    return f"{times:.3g} times" if times < 100 else f"{times:,.0f} times"
