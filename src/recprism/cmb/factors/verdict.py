"""The verdict about factors: a claim is supported only if the change beats controls that ignore factors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from recprism.cmb.factors.controls import Controls
from recprism.cmb.factors.parts import is_small
from recprism.common.shares import percent
from recprism.metrics.statistics import holm

Reason = Literal["holds", "nothing moved", "nothing gained", "too few draws", "no better than controls", "known users"]


@dataclass(frozen=True)
class Figure:
    """The result of one control.

    Attributes:
        name: Name of the control.
        gain: Gain in the objective over the base, as a mean over the draws.
        share: Share of the learned gain; None if nothing was gained.
        p_value: The p-value before correction.
        corrected: The p-value corrected for the number of controls that a claim must beat. None for the others.
    """

    name: str
    gain: float
    share: float | None
    p_value: float
    corrected: float | None


@dataclass(frozen=True)
class Verdict:
    """Whether a claim about factors is supported.

    It is, if the learned change beats two controls on held-out users: its values shuffled within rows, and the best
    promotion of items. Both corrected p-values must be below ``level``.

    Attributes:
        objective: The metric whose gain is examined.
        gain: Gain in the objective over the base, in the better direction.
        relative: The gain as a share of the base value.
        figures: One entry per control.
        reason: The outcome in a word. "known users": the change beats the controls, but only on users it was made for.
        no_better_than: The controls that it did not beat and had to.
        level: Significance level.
    """

    objective: str
    gain: float
    relative: float | None
    figures: tuple[Figure, ...]
    reason: Reason
    no_better_than: tuple[str, ...]
    level: float = 0.05

    @property
    def holds(self) -> bool:
        """Whether a claim about factors is supported."""
        return self.reason == "holds"

    def sentence(self) -> str:
        """Describe the verdict."""
        return _SENTENCES[self.reason](self)

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        plain["figures"] = [asdict(figure) for figure in self.figures]
        return {**plain, "holds": self.holds, "sentence": self.sentence()}

    @classmethod
    def of(cls, controls: Controls, level: float = 0.05) -> Verdict:
        """Judge a change by its controls."""
        gain, base = controls.gain(controls.learned[0]), controls.base[0]
        figures = _figures(controls, gain)
        beaten = {figure.name: figure.corrected < level for figure in figures if figure.corrected is not None}
        lost = tuple(name for name, won in beaten.items() if not won)
        reason: Reason = "no better than controls" if lost else "holds" if controls.unseen else "known users"
        if lost and len(beaten) / (controls.draws + 1) >= level:
            reason = "too few draws"
        if not controls.moved:
            reason = "nothing moved"
        elif gain <= 0 or is_small(gain, base):
            reason = "nothing gained"
        return cls(controls.objective, gain, gain / abs(base) if base else None, figures, reason, lost, level)


def _figures(controls: Controls, gain: float) -> tuple[Figure, ...]:
    """Collect all controls; a claim must beat "within rows" and promotion, which share the correction."""
    means = {control.title: float(control.objective.mean()) for control in controls.shuffled}
    p_values = {control.title: control.p_value for control in controls.shuffled}
    promotion = "plain promotion of items"
    means[promotion], p_values[promotion] = controls.bias.objective, controls.bias.p_value
    to_beat = (controls["rows"].title, promotion)
    corrected = dict(zip(to_beat, holm([p_values[name] for name in to_beat]).tolist(), strict=True))
    return tuple(_figure(name, controls.gain(means[name]), gain, p_values[name], corrected.get(name)) for name in means)


def _figure(name: str, reached: float, gain: float, p_value: float, corrected: float | None) -> Figure:
    return Figure(name, reached, reached / gain if gain > 0 else None, p_value, corrected)


def _nothing_moved(_: Verdict) -> str:
    return "No list changed: there is nothing to explain."


def _nothing_gained(verdict: Verdict) -> str:
    return (
        f"{verdict.objective} did not gain ({verdict.gain:+.4f}): "
        "this perturbation is no better than none at all, and it explains nothing about factors."
    )


def _too_few(verdict: Verdict) -> str:
    return (
        f"{verdict.objective} changed by {verdict.gain:+.4f}, but so few draws of the controls cannot show a gain "
        "beyond chance: nothing is claimed."
    )


def _known_users(verdict: Verdict) -> str:
    beaten = " and ".join(_rival(figure) for figure in verdict.figures if figure.corrected is not None)
    return (
        f"The gain in {verdict.objective}, {verdict.gain:+.4f}{_relative(verdict)}, is beyond {beaten}. But these are "
        "the users it was made for, whose vectors can hold any lists: it says nothing about factors in general."
    )


def _relative(verdict: Verdict) -> str:
    return "" if verdict.relative is None else f" ({percent(verdict.relative, '+.1f', '%')})"


def _no_better(verdict: Verdict) -> str:
    named = {figure.name: figure for figure in verdict.figures}
    rivals = " nor than ".join(_rival(named[name]) for name in verdict.no_better_than)
    return (
        f"This perturbation is no better than {rivals}: it explains nothing about factors "
        f"(its own gain in {verdict.objective}: {verdict.gain:+.4f})."
    )


def _holds(verdict: Verdict) -> str:
    beaten = " and ".join(_rival(figure) for figure in verdict.figures if figure.corrected is not None)
    gain = f"{verdict.gain:+.4f}{_relative(verdict)}"
    return f"The gain in {verdict.objective}, {gain}, is beyond {beaten}: factors matter to it."


def _rival(figure: Figure) -> str:
    what = f"its own values {figure.name}" if figure.name.startswith("shuffled") else figure.name
    reaches = "" if figure.share is None else f"{figure.share:.0%} of the gain, "
    return f"{what} ({reaches}p = {figure.corrected:.3f})"


_SENTENCES = {
    "holds": _holds,
    "nothing moved": _nothing_moved,
    "nothing gained": _nothing_gained,
    "too few draws": _too_few,
    "no better than controls": _no_better,
    "known users": _known_users,
}
