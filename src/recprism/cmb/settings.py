"""The settings of CMB and their presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from recprism.cmb._sampling import UsersPerStep, require_users_per_step
from recprism.cmb.credit import CREDITS
from recprism.cmb.credit.marginal import MarginalCredit
from recprism.cmb.objective import Goals, MetricLike, Objective, name_of, require_goals
from recprism.cmb.players._memory import Ties
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Keep, SearchSettings
from recprism.cmb.players.policies import UCB, EpsilonGreedy
from recprism.cmb.space import Scaling, Side
from recprism.common.checks import POSITIVE, SEED, Check, OneOf, Several, Whole, check_settings
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Metric

POLICY_SETTINGS = {"epsilon-greedy": ("epsilon",), "ucb": ("confidence",), "random": (), "gradient": ("learning_rate",)}


@dataclass
class CMBSettings:
    """Counterfactual multi-player bandits: a small change of the factors that makes lists more diverse.

    Players, one per factor of an item or user, choose a small change and are paid for the lists that result. After
    :meth:`fit`, ``delta_`` has the perturbation in the units of the base model, ``factors_`` the perturbed factors,
    ``history_`` every iteration, and ``converged_`` whether ``patience`` ended the search.

    Args:
        diversity: The metric to raise; see :class:`Objective`.
        accuracy: The metric to hold, under shared credit; see :class:`Objective`.
        credit: What a player is paid for. "marginal" pays for the effect of its own factor of its own item or user at
            the edge of the lists; it needs 40 iterations and keeps accuracy. "shared" pays all players the same (the
            paper): on ML-1M it gains less SC at twenty times the price in NDCG (docs/design/credit.md).
        relevance: Marginal credit: weight of the base score against diversity, from 0 to 1. A larger weight costs less
            accuracy. No labels are used.
        candidates: Marginal credit: how many items outside the list are considered.
        width: Marginal credit: how far from the cut a candidate counts.
        lambda1: The price of the perturbation's size; see :class:`Objective`. Under marginal credit, what an arm must
            earn to be taken at all, in units of ``max_step``: it leads to exact zeros.
        lambda2: The weight of accuracy in psi; see :class:`Objective`.
        penalty: "mean" keeps the price of ``|delta|`` comparable with psi, so that lambda1 means the same for any
            catalogue. "sum" (the paper's formula) grows with the number of players and outweighs psi by orders of
            magnitude: players learn to be small, whatever the metric.
        k: Length of the lists that the reward is computed from.
        reward_on: The part of the split that the reward is computed on. "validation" is sound. "test" is the paper's
            protocol, whose search sees the items that are reported on, so that its accuracy is too good.
        rate: Marginal credit: how far a player with an average, steady reward moves in total, in units of ``max_step``.
        policy: How players choose under shared credit: "epsilon-greedy", "ucb", "random", or "gradient" (ILAD only:
            Adam instead of players).
        epsilon: Share of players that try a random arm in an iteration; ``keep`` decides what is kept of them.
        confidence: Of the policy "ucb".
        learning_rate: Of the policy "gradient".
        max_step: The largest arm, in units of the largest absolute factor. A larger one costs accuracy (docs/paper.md).
        n_arms: Number of arms, from -max_step to max_step.
        scaling: The unit of the arms: the largest of all factors ("global", which moves weak factors by a multiple of
            themselves), or of each factor ("factor", which moves each in proportion to its own size).
        side: Which vectors move: "item" (one change for all users), "user" (each user's own) or "both".
        only: Numbers of the factors that may move; None for all.
        iterations: Number of iterations.
        patience: Stop when the best reward has not risen for this many iterations; None never stops early.
        ties: Which of several equally good arms a player takes. "first" moves all players through their arms together,
            from -max_step upwards: a common shift, which changes no list. "random" moves every untried player: large
            changes without a reason. "zero" takes the arm nearest to 0.
        keep: Which perturbation is the result. "last": that of the last iteration, in which a share ``epsilon`` is
            exploration. "greedy": every player's best arm, a combination that was never tried. "best": that of the
            best iteration.
        seed: Of all random draws.
        device: "auto", "cpu" or "cuda".
        users_per_step: How many users an iteration ranks at most, drawn again each time; the first iterations take a
            quarter. None for all users. "auto" for all users up to 100,000, and 20,000 beyond, if a sample is possible
            (side="item", metrics with a value per user). ``history_`` has the standard error of psi.
    """

    diversity: Goals = "subtopic_coverage"
    accuracy: MetricLike | None = None
    credit: str = "marginal"
    relevance: float = 0.7
    candidates: int = 90
    width: float = 0.5
    lambda1: float = 0.0
    lambda2: float = 0.9
    penalty: Literal["sum", "mean"] = "mean"
    k: int = 10
    reward_on: Part = "validation"
    rate: float = 0.3
    policy: str = "epsilon-greedy"
    epsilon: float = 0.1
    confidence: float = 1.0
    learning_rate: float = 0.01
    max_step: float = 0.05
    n_arms: int = 2001
    scaling: Scaling = "global"
    side: Side = "item"
    only: Sequence[int] | None = None
    iterations: int = 40
    patience: int | None = None
    ties: Ties = "zero"
    keep: Keep = "last"
    seed: int = 0
    device: str = "auto"
    users_per_step: UsersPerStep = "auto"

    def __post_init__(self) -> None:
        require_goals(self.objective.goals)
        check_settings(self, RULES)
        require_users_per_step(self.users_per_step)
        if self.credit == "marginal":
            self._require_marginal_settings()

    def _require_marginal_settings(self) -> None:
        if self.accuracy is not None:
            raise InputError(
                "marginal credit keeps accuracy by the base scores (relevance=...); "
                "drop accuracy, or pass credit='shared' to have a metric of accuracy in the reward"
            )
        if self.policy != "epsilon-greedy":
            raise InputError(f"policy={self.policy!r} chooses arms under shared credit; pass credit='shared'")
        if self.keep == "greedy":
            raise InputError("keep='greedy' is for shared credit; under marginal credit every choice is greedy")

    @property
    def objective(self) -> Objective:
        """What the reward is computed from."""
        return Objective(self.diversity, self.accuracy, self.lambda1, self.lambda2, self.penalty)

    @property
    def arms(self) -> Arms:
        """The values that players choose from."""
        return Arms(self.max_step, self.n_arms)

    @property
    def marginal_credit(self) -> MarginalCredit:
        """What players are paid for under marginal credit."""
        return MarginalCredit(self.objective.goals, self.relevance, self.candidates, self.width)

    @property
    def search_settings(self) -> SearchSettings:
        """The settings of the search with shared credit."""
        return SearchSettings(self.iterations, self.k, self.ties, self.keep, self.patience)


RULES: dict[str, Check] = {
    **Objective.rules,
    **SearchSettings.rules,
    **EpsilonGreedy.rules,
    **UCB.rules,
    "credit": OneOf(tuple(CREDITS)),
    "relevance": MarginalCredit.rules["accuracy"],
    "candidates": MarginalCredit.rules["candidates"],
    "width": MarginalCredit.rules["width"],
    "reward_on": OneOf(("train", "validation", "test")),
    "rate": POSITIVE,
    "policy": OneOf(tuple(POLICY_SETTINGS)),
    "learning_rate": POSITIVE,
    "max_step": Arms.rules["max_step"],
    "n_arms": Arms.rules["count"],
    "scaling": OneOf(("global", "factor")),
    "side": OneOf(("item", "user", "both")),
    "only": Several(Whole(0), none="for all factors"),
    "seed": SEED,
}
"""What each setting may be; ``users_per_step``, ``device`` and the metrics have checks of their own."""


def plain_settings(asked: CMBSettings) -> dict[str, Any]:
    """All settings in JSON values; a function of your own is replaced by its name."""
    return {entry.name: _plain(getattr(asked, entry.name)) for entry in fields(CMBSettings)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name_of(key): weight for key, weight in value.items()}
    return name_of(value) if callable(value) or isinstance(value, Metric) else value


def preset_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a preset, overridden by ``settings``."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
    known = {entry.name for entry in fields(CMBSettings)}
    unknown = set(settings) - known
    if unknown:
        raise InputError(f"CMB has no setting {sorted(unknown)[0]!r}; there are {', '.join(sorted(known))}")
    return {**PRESETS[name], **settings}


# "paper" reproduces the numbers of the paper's tables; docs/paper.md has the comparison with the released code.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "shared": {"credit": "shared", "max_step": 0.3, "n_arms": 61, "iterations": 200, "k": 20, "keep": "best"},
    "paper": {
        "credit": "shared",
        "lambda1": 5.0,
        "lambda2": 0.9,
        "penalty": "sum",
        "reward_on": "test",
        "policy": "epsilon-greedy",
        "epsilon": 0.1,
        "max_step": 0.3,
        "n_arms": 61,
        "scaling": "global",
        "iterations": 200,
        "k": 20,
        "ties": "first",
        "keep": "last",
        "users_per_step": None,
    },
}
