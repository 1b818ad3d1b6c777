"""What CMB can be asked: its settings, the presets, and what searches make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from recprism.cmb._engines import engine_named
from recprism.cmb._marginal_players import DualAveragingSettings
from recprism.cmb._sampling import UsersPerStep, require_users_per_step
from recprism.cmb.credit import CREDITS
from recprism.cmb.credit.marginal import MarginalCredit
from recprism.cmb.objective import Goals, MetricLike, Objective, name_of
from recprism.cmb.players._memory import Ties
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Keep, SearchSettings
from recprism.cmb.space import Scaling, Side
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Metric

POLICY_SETTINGS = {"epsilon-greedy": ("epsilon",), "ucb": ("confidence",), "random": (), "gradient": ("learning_rate",)}


@dataclass
class CMBSettings:
    """Find a small change of the factors that makes lists more diverse, by paying players for what the lists become.

    Who is paid what:

    credit: "marginal" pays each player for what its own factor of its own item or user did at the edge of the lists;
        it learns in 40 iterations and keeps accuracy. "shared" pays all the same (the paper): on ML-1M it gains less
        SC at twenty times the price in NDCG (docs/design/credit.md)
    relevance: marginal: weight of the base score beside diversity, from 0 to 1; more costs less accuracy. No labels
        are used.
    candidates, width: marginal: how many items outside the list are looked at, and how far from the cut they count

    What is paid for:

    diversity, accuracy, lambda1, lambda2: see :class:`Objective`. Under marginal credit lambda1 is what an arm must
        earn to be taken at all, in units of the max_step: it buys exact zeros
    penalty: "mean" keeps the price of |delta| comparable with psi, so that lambda1 means the same for any catalogue;
        "sum" (the paper's formula) grows with the number of players: it outweighs psi by orders of
        magnitude, and players learn to be small, whatever the metric
    k: length of the lists that pay
    reward_on: the part of the split that pays. "validation" is sound; "test" is the paper's protocol, whose optimiser
        sees the very items that are reported on: its accuracy is too good.

    How players choose:

    policy: epsilon-greedy, ucb, random, or gradient (ILAD only: Adam instead of players)
    rate: marginal: how far a player with an average, steady reward gets by the end, in units of the max_step
    epsilon: share of players that try a random arm in an iteration; what is kept of them depends on ``keep``
    confidence, learning_rate: of ucb and gradient
    max_step, n_arms: arms are n_arms values from -max_step to max_step, in units of the largest absolute factor; a
        larger max_step costs accuracy (the sweep of A in docs/paper.md)
    scaling: that unit: of all factors together ("global": weak factors are moved by a multiple of themselves) or of
        each factor ("factor": each moves in proportion to its own size)
    side: which vectors move: item (one change for all users), user (each user's own) or both
    only: numbers of the factors that may move; None for all of them

    When it ends and what is kept:

    iterations: T; patience: stop when the best reward has not risen for so long (None: never)
    ties: of equally good arms the first (all players march through their arms from -max_step upwards together: a common
        shift, which changes no list), a random one (every untried player moves: large, blind changes), or the one
        nearest to 0 (nothing moves without a reason)
    keep: the perturbation of the last iteration (exploration included: a share epsilon of it is noise), every player's
        best arm (none of the noise, but a combination that was never tried), or that of the best iteration

    users_per_step: how many users at most an iteration looks at, drawn anew each time; the first iterations make do
        with a quarter. None for all; "auto" for all up to 100,000 users and 20,000 beyond, where a sample can stand for
        all (side="item", metrics with a value per user). ``history_`` tells the standard error of psi

    Where it runs:

    device: auto, cpu or cuda
    engine: "local", or "ray": users are spread over the workers of a Ray cluster, on one thread each. That which
        ``ray.init`` or RAY_ADDRESS names is used as it is; without one, a local cluster serves for the while
    shards: into how many parts users go; the same number gives the same bits on either engine. None is 1 locally, and
        one for each processor of the cluster

    Learned: ``delta_`` (in the base model's own units), ``factors_`` (perturbed), ``history_``, ``converged_``.
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
    engine: str = "local"
    shards: int | None = None
    users_per_step: UsersPerStep = "auto"

    def __post_init__(self) -> None:
        _ = self.objective, self.arms  # each checks its own settings
        if self.credit not in CREDITS:
            raise InputError(f"credit is {' or '.join(CREDITS)}, not {self.credit!r}")
        if self.credit == "marginal":
            self._require_marginal_settings()
        _ = self.search_settings
        if self.policy not in POLICY_SETTINGS:
            raise InputError(f"unknown policy {self.policy!r}; choose one of {', '.join(POLICY_SETTINGS)}")
        here = engine_named(self.engine).here
        require_users_per_step(self.users_per_step)
        if self.shards is not None and self.shards < 1:
            raise InputError(f"shards is a number of parts, at least 1; got {self.shards}")
        if self.policy == "gradient" and (not here or self.shards not in (None, 1)):
            raise InputError("policy='gradient' follows one gradient of all lists; leave engine and shards as they are")
        if not here and self.device not in ("auto", "cpu"):
            raise InputError(f"workers of engine={self.engine!r} rank on processors; drop device={self.device!r}")

    def _require_marginal_settings(self) -> None:
        _ = self.marginal_credit, self.dual_averaging_settings  # each checks its own settings
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
        return Objective(self.diversity, self.accuracy, self.lambda1, self.lambda2, self.penalty)

    @property
    def arms(self) -> Arms:
        return Arms(self.max_step, self.n_arms)

    @property
    def marginal_credit(self) -> MarginalCredit:
        return MarginalCredit(self.objective.goals, self.relevance, self.candidates, self.width)

    @property
    def dual_averaging_settings(self) -> DualAveragingSettings:
        return DualAveragingSettings(self.iterations, self.k, self.rate, self.lambda1, self.keep)

    @property
    def search_settings(self) -> SearchSettings:
        return SearchSettings(self.iterations, self.k, self.ties, self.keep, self.patience)


def plain_settings(asked: CMBSettings) -> dict[str, Any]:
    """Everything that was set, in values that JSON knows; a function of somebody's own goes by its name."""
    return {entry.name: _plain(getattr(asked, entry.name)) for entry in fields(CMBSettings)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name_of(key): weight for key, weight in value.items()}
    return name_of(value) if callable(value) or isinstance(value, Metric) else value


def preset_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a preset, with ``settings`` in the place of its own."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
    known = {entry.name for entry in fields(CMBSettings)}
    unknown = set(settings) - known
    if unknown:
        raise InputError(f"CMB has no setting {sorted(unknown)[0]!r}; there are {', '.join(sorted(known))}")
    return {**PRESETS[name], **settings}


# What reruns against the released code showed: how the numbers of the paper's tables come about (docs/paper.md).
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "shared": {
        "credit": "shared",
        "max_step": 0.3,
        "n_arms": 61,
        "iterations": 200,
        "k": 20,
        "keep": "best",
    },
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
