"""What was certified about a rule, in the figures and words that travel with its exports; plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from recprism.common.shares import percent
from recprism.errors import InputError

FORMAT = 1
MANY = 0.01  # share of users that fall back to base lists, above which it is said


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What was certified, about what, and by which labels.

    It is about the mean over users like those of the run, and never about one list or one answer.

    Attributes:
        budgets: Metric -> the share of it that may be lost.
        losses: Metric -> the loss that was measured on the labels that certified.
        confidence: That all answers of these labels hold together; None if too many questions were asked of them.
        questions: How many questions were asked of these labels.
        approximate: Whether the t test certified, which does not hold at every number of users.
        users: How many users judged.
        clusters: How many clusters they are in; None if they were taken to be independent.
        part: The part whose labels judged, validation or test; None if unknown.
        procedure: What was tested: "rule", or how lists of another form were made.
        trade_off: The trade-off of the rule.
        limits: NDCG with a cut -> the largest loss that a list may allow; a list that could lose more is the base list.
        scorer: Name of the model whose scores were tested.
        tested: Hash of what was tested.
        format: Version of these fields.
    """

    budgets: Mapping[str, float]
    losses: Mapping[str, float]
    confidence: float | None
    questions: int
    approximate: bool
    users: int
    clusters: int | None = None
    part: str | None
    procedure: str
    trade_off: float
    limits: Mapping[str, float]
    scorer: str
    tested: str
    format: int = FORMAT

    def sentence(self) -> str:
        """Return what is promised, and the assumption behind it."""
        lost = ", ".join(f"{percent(it)} of {name}" for name, it in self.budgets.items())
        by = judges(self.users, self.part, self.clusters)
        kind = "Certified" if self.procedure == "rule" else f"Certified for lists by {self.procedure}"
        return f"{kind}: at most {lost} is lost, as a mean over users ({self._sure()}, {by}). {carried_over(self.part)}"

    def _sure(self) -> str:
        many = "" if self.questions == 1 else f" for {self.questions} questions together"
        if self.confidence is None:
            return f"no joint confidence{many}"
        return f"{'approximate ' if self.approximate else ''}{100 * self.confidence:.3g} % confidence{many}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {**asdict(self), "sentence": self.sentence()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Promise:
        """Read what :meth:`to_dict` returned.

        Raises:
            InputError: If it has another format.
        """
        names = {it.name for it in fields(cls)} & stored.keys()
        needed = {it.name for it in fields(cls) if it.default is MISSING}
        if stored.get("format") != FORMAT or not needed <= names:
            raise InputError("the certificate has another format than this version of recprism reads; export again")
        return cls(**{name: stored[name] for name in names})


def judges(users: int, part: str | None, clusters: int | None) -> str:
    """Return in words who judged: how many users of a part, and how many clusters they are in."""
    among = "" if clusters is None else f" in {clusters:,} clusters"
    return f"{users:,} held-out users{among}" if part is None else f"{users:,} users of the {part} part{among}"


def fallen_back(share: float, context: str) -> str | None:
    """Return a sentence about lists that are base lists by the limit of a rule; None without any.

    Args:
        share: Their share.
        context: Which lists, "judged" or "live".
    """
    if not share:
        return None
    why = "the rule's own lists of these users could lose more than its limit"
    much = "" if share <= MANY else "; that is many, and they gain no diversity: certify a smaller step"
    return f"{percent(share)} of the {context} lists are base lists, because {why}{much}."


def carried_over(part: str | None) -> str:
    """Return a sentence about lists that were not judged; ``part`` is whose interactions judged."""
    where = "held-out interactions" if part is None else f"held-out interactions of the {part} part"
    return f"The certificate was earned on {where}; it is assumed to carry over to live lists."
