"""CMB, the estimator: counterfactual multi-player bandits on a trained recommender."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.counterfactual.arms import Arms
from recprism.counterfactual.climb import ClimbSettings, climb
from recprism.counterfactual.credit import CREDITS, MarginalCredit
from recprism.counterfactual.engines import Hired, engine_named
from recprism.counterfactual.gradient import GradientSettings, gradient_search
from recprism.counterfactual.ledger import Follow, Progress, Step
from recprism.counterfactual.objective import Goals, MetricLike, Objective, name_of
from recprism.counterfactual.parts import users_named
from recprism.counterfactual.play import Keep, SearchSettings
from recprism.counterfactual.players import Ties
from recprism.counterfactual.policies import make_policy
from recprism.counterfactual.sample import Sampling, UsersPerStep, require_users_per_step, sampling_for
from recprism.counterfactual.search import Found, search
from recprism.counterfactual.space import FactorSpace, Perturbation, Scaling, Scorer, ScorerSpace, Side
from recprism.data.bound import hash_of, note, noted_in_tensors, require_bound
from recprism.data.files import atomic_path, write_text
from recprism.data.incidence import Incidence
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.metrics import Comparison, Context, Evaluation, Metric, compare, deepest_cut, evaluate
from recprism.models import Factors
from recprism.models.settings import choose_device

BAKED = "baked"  # how a perturbation came about that no players searched for

POLICY_SETTINGS = {"epsilon-greedy": ("epsilon",), "ucb": ("confidence",), "random": (), "gradient": ("learning_rate",)}


@dataclass
class CMB:
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
        earn to be taken at all, in units of the reach: it buys exact zeros
    penalty: "mean" keeps the price of |delta| comparable with psi, so that lambda1 means the same for any catalogue;
        "sum" (the paper's formula) grows with the number of players: it outweighs psi by orders of
        magnitude, and players learn to be small, whatever the metric
    k: length of the lists that pay
    reward_on: the part of the split that pays. "validation" is sound; "test" is the paper's protocol, whose optimiser
        sees the very items that are reported on: its accuracy is too good.

    How players choose:

    policy: epsilon-greedy, ucb, random, or gradient (ILAD only: Adam instead of players)
    rate: marginal: how far a player with an average, steady reward gets by the end, in units of the reach
    epsilon: share of players that try a random arm in an iteration; what is kept of them depends on ``keep``
    confidence, learning_rate: of ucb and gradient
    reach, n_arms: arms are n_arms values from -reach to reach, in units of the largest absolute factor; a longer
        reach costs accuracy (the sweep of A in docs/paper.md)
    scaling: that unit: of all factors together ("global": weak factors are moved by a multiple of themselves) or of
        each factor ("factor": each moves in proportion to its own size)
    side: which vectors move: item (one change for all users), user (each user's own) or both
    only: numbers of the factors that may move; None for all of them

    When it ends and what is kept:

    iterations: T; patience: stop when the best reward has not risen for so long (None: never)
    ties: of equally good arms the first (all players march through their arms from -reach upwards together: a common
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

    diversity: Goals = "sc"
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
    reach: float = 0.05
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

    delta_: Perturbation = field(init=False, repr=False)
    base_: Factors = field(init=False, repr=False)
    factors_: Factors = field(init=False, repr=False)
    history_: tuple[Step, ...] = field(init=False, repr=False)
    converged_: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._objective, Arms(self.reach, self.n_arms)  # each checks its own settings
        if self.credit not in (*CREDITS, BAKED):
            raise InputError(f"credit is {' or '.join(CREDITS)}, not {self.credit!r}")
        if self.credit == "marginal":
            self._require_marginal_settings()
        SearchSettings(self.iterations, self.k, self.ties, self.keep, self.patience)
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
        _ = self._marginal_credit, self._climb_settings  # each checks its own settings
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
    def _marginal_credit(self) -> MarginalCredit:
        return MarginalCredit(self._objective.goals, self.relevance, self.candidates, self.width)

    @property
    def _climb_settings(self) -> ClimbSettings:
        return ClimbSettings(self.iterations, self.k, self.rate, self.lambda1, self.keep)

    @classmethod
    def preset(cls, name: str, **settings: Any) -> CMB:
        """ "default"; "shared": one reward for all, on a sound protocol; "paper": the settings behind its tables."""
        if name not in PRESETS:
            raise InputError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
        known = {entry.name for entry in fields(cls) if entry.init}
        unknown = set(settings) - known
        if unknown:
            raise InputError(f"CMB has no setting {sorted(unknown)[0]!r}; there are {', '.join(sorted(known))}")
        return cls(**{**PRESETS[name], **settings})

    @classmethod
    def holding(cls, base: Factors, delta: Perturbation, **settings: Any) -> CMB:
        """A perturbation that was found otherwise, such as baked lists, with the same ways to use and keep it."""
        model = cls(credit=BAKED, **settings)
        model.delta_, model.history_, model.converged_ = delta, (), True
        model.base_, model.factors_ = base, delta.applied_to(base)
        return model

    # -- learning -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        factors: Factors,
        split: Split,
        subtopics: Subtopics | None = None,
        *,
        follow: Follow | None = None,
        resume: Progress | None = None,
    ) -> CMB:
        """Learn ``delta_`` for a dot-product model.

        ``follow`` sees where the search stands after every iteration; the last of what it saw, handed back as
        ``resume``, goes on to the same bits.
        """
        if self.credit == BAKED:
            raise InputError("this CMB holds a perturbation found otherwise; make a new one to search with players")
        device = choose_device(self.device if engine_named(self.engine).here else "cpu")
        seen = split.seen_before(self.reward_on)
        space = FactorSpace(factors, seen, side=self.side, scaling=self.scaling, only=self.only, device=device)
        possible = self.side == "item" and self.policy != "gradient" and self._objective.per_user
        sampling = sampling_for(
            *(self.users_per_step, factors.n_users, self.iterations, self.seed),
            possible=possible,
            certain=self._objective.surely_per_user,
        )
        context = self._context(split, subtopics, factors.item, device, all_users=sampling is None)
        with users_named(factors.user_ids):
            found = self._search(space, context, follow, resume, sampling)
        self._keep(found, space)
        self.base_, self.factors_ = factors, self.delta_.applied_to(factors)
        return self

    def fit_scorer(
        self,
        scorer: Scorer,
        split: Split,
        subtopics: Subtopics | None = None,
        *,
        follow: Follow | None = None,
        resume: Progress | None = None,
    ) -> CMB:
        """Learn ``delta_`` (on the item features) for any model, from nothing but its scores."""
        if self.credit != "shared" or self.policy == "gradient" or self.side != "item" or self.only is not None:
            raise InputError(
                "a scorer shows only scores: use CMB.preset('shared'), a bandit policy, side='item' and all features"
            )
        sampling_for(self.users_per_step, scorer.n_users, self.iterations, self.seed, possible=False)
        space = ScorerSpace(scorer, split.seen_before(self.reward_on), scaling=self.scaling)
        context = self._context(split, subtopics, scorer.item_features, scorer.item_features.device)
        with users_named(split.user_ids):
            found = self._search(space, context, follow, resume)
        return self._keep(found, space)

    def _search(
        self,
        space: FactorSpace | ScorerSpace,
        context: Context,
        follow: Follow | None,
        resume: Progress | None,
        sampling: Sampling | None = None,
    ) -> Found:
        with engine_named(self.engine).crews(self.shards) as hired:
            return self._searched_by(hired, space, context, follow, resume, sampling)

    def _searched_by(
        self,
        hired: Hired,
        space: FactorSpace | ScorerSpace,
        context: Context,
        follow: Follow | None,
        resume: Progress | None,
        sampling: Sampling | None,
    ) -> Found:
        if isinstance(space, FactorSpace) and self.credit == "marginal":
            return climb(
                *(space, context, self._objective, self._marginal_credit, Arms(self.reach, self.n_arms)),
                self._climb_settings,
                follow=follow,
                resume=resume,
                shards=hired.shards,
                recruit=hired.recruit,
                sampling=sampling,
            )
        if isinstance(space, FactorSpace) and self.policy == "gradient":
            ascent = GradientSettings(self.iterations, self.k, self.learning_rate, self.reach)
            return gradient_search(space, context, self._objective, ascent, follow=follow, resume=resume)
        policy = make_policy(self.policy, **{name: getattr(self, name) for name in POLICY_SETTINGS[self.policy]})
        settings = SearchSettings(self.iterations, self.k, self.ties, self.keep, self.patience)
        return search(
            *(space, context, self._objective, policy, Arms(self.reach, self.n_arms), settings),
            seed=self.seed,
            follow=follow,
            resume=resume,
            shards=hired.shards,
            recruit=hired.recruit,
            sampling=sampling,
        )

    def _context(
        self,
        split: Split,
        subtopics: Subtopics | None,
        vectors: NDArray[Any] | Tensor,
        device: torch.device,
        *,
        all_users: bool = True,
    ) -> Context:
        more: dict[str, Any] = {} if subtopics is None else {"subtopics": subtopics}
        # Of a sample's users nothing is worked out that no metric asks for: most users are never looked at.
        lean = not all_users and self._objective.needs.isdisjoint({"history", "user_subtopics", "anything"})
        of_users: dict[str, Any] = {"popularity": split.train.col_counts} if lean else {"train": split.train}
        if self.credit == "marginal" and not self._needs_labels:
            # Base scores stand in for accuracy: no label is looked at, whatever the part.
            return Context(**of_users, vectors=vectors, device=device, **more)
        if self.credit == "marginal" and self.reward_on == "test":
            raise InputError(f"{self._objective.name} looks at labels; those of the test are never for learning")
        if not len(split.part(self.reward_on)):
            raise InputError(
                f"the split has no {self.reward_on} part to take the reward from;"
                " split with one, or pass reward_on='test' as the paper does"
            )
        if lean:
            return Context(**of_users, relevant=split.part(self.reward_on), vectors=vectors, device=device, **more)
        return Context.from_split(split, self.reward_on, vectors=vectors, device=device, **more)

    @property
    def _needs_labels(self) -> bool:
        return not self._objective.needs.isdisjoint({"relevant", "user_subtopics", "anything"})

    def _keep(self, found: Found, space: FactorSpace | ScorerSpace) -> CMB:
        self.delta_ = space.perturbation(found.values)
        self.history_, self.converged_ = found.history, found.converged
        return self

    def require_known_goals(self) -> None:
        """Unknown metrics are said here, before anything is searched for or written over."""
        _ = self._objective.needs

    @property
    def _objective(self) -> Objective:
        return Objective(self.diversity, self.accuracy, self.lambda1, self.lambda2, self.penalty)

    # -- using --------------------------------------------------------------------------------------------------------

    def recommend(
        self, users: Any, k: int = 10, *, exclude: Incidence | Any | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """As :meth:`Factors.recommend`, with the perturbed vectors."""
        self._require_fitted()
        return self.factors_.recommend(users, k, exclude=exclude)

    def evaluate(
        self,
        split: Split,
        subtopics: Subtopics | None = None,
        metrics: Sequence[str] | None = None,
        *,
        part: Part = "test",
        bootstrap: int = 1000,
    ) -> tuple[Evaluation, Evaluation]:
        """Before and after, on the same users; distances between items are taken on the base factors both times."""
        self._require_fitted()
        more = {} if subtopics is None else {"subtopics": subtopics}
        context = Context.from_split(split, part, vectors=self.base_.item, **more)
        return tuple(  # type: ignore[return-value]
            evaluate_factors(factors, context, split.seen_before(part), metrics, bootstrap)
            for factors in (self.base_, self.factors_)
        )

    def adjust(
        self,
        dial: Mapping[int, float],
        split: Split,
        subtopics: Subtopics | None = None,
        metrics: Sequence[str] | None = None,
        *,
        part: Part = "validation",
    ) -> Adjusted:
        """Turn factors by hand, and see what it does to every metric.

        dial: number of a factor -> how much of what was learned for it stays (0 erases, 1 keeps, 2 doubles, -1 turns
            it round)
        """
        self._require_fitted()
        factors = self._turned(dial).applied_to(self.base_)
        more = {} if subtopics is None else {"subtopics": subtopics}
        context = Context.from_split(split, part, vectors=self.base_.item, **more)
        learned, turned = (
            evaluate_factors(it, context, split.seen_before(part), metrics) for it in (self.factors_, factors)
        )
        return Adjusted(factors, compare(learned, turned))

    def _turned(self, dial: Mapping[int, float]) -> Perturbation:
        item = self.delta_.item
        if item is None:
            raise InputError("adjust turns factors of the item side, and only the user side was perturbed")
        amounts = torch.ones(item.shape[1], device=item.device)
        for factor, amount in dial.items():
            if not 0 <= factor < len(amounts):
                raise InputError(f"there is no factor {factor}; factors go from 0 to {len(amounts) - 1}")
            amounts[factor] = amount
        return Perturbation(item * amounts, self.delta_.user)

    def _require_fitted(self) -> None:
        if not hasattr(self, "factors_"):
            raise InputError("this CMB has not been fitted to factors; call fit(factors, split, subtopics) first")

    # -- keeping ------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Everything that was set, in plain values; a function of your own goes by its name."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        return {name: _plain(value) for name, value in plain.items()}

    def save(self, folder: str | Path, *, made_from: Mapping[str, str] | None = None) -> None:
        """Write delta.safetensors, cmb.json (settings and history) and the base factors into a folder.

        made_from: hashes of other files that the base factors belong with (see ``data.bound``)
        """
        from safetensors.numpy import save_file

        folder = Path(folder)
        self._require_fitted()
        sides = {"item": self.delta_.item, "user": self.delta_.user}
        arrays = {name: np.ascontiguousarray(side.cpu().numpy()) for name, side in sides.items() if side is not None}
        about = {
            "settings": self.settings(),
            "history": Progress(self.history_).to_json(),
            "converged": self.converged_,
        }
        text = json.dumps(about)
        self.base_.save(folder / "factors.safetensors", made_from=made_from)
        write_text(folder / "cmb.json", text)
        bound = {"cmb.json": hash_of(text.encode()), "factors.safetensors": hash_of(folder / "factors.safetensors")}
        with atomic_path(folder / "delta.safetensors") as temporary:
            save_file(arrays, temporary, note(**bound))

    @classmethod
    def load(cls, folder: str | Path) -> CMB:
        """Read what ``save`` wrote."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = Path(folder)
        delta = folder / "delta.safetensors"
        beside = {name: hash_of(folder / name) for name in ("cmb.json", "factors.safetensors")}
        require_bound(delta, noted_in_tensors(delta), beside, "run `recprism diversify` again with --overwrite")
        try:
            about = json.loads((folder / "cmb.json").read_text(encoding="utf-8"))
            sides = {name: torch.from_numpy(array) for name, array in load_file(delta).items()}
            model = cls(**about["settings"])
            model.history_ = Progress.from_json(about["history"]).steps
            model.converged_ = bool(about["converged"])
            model.delta_ = Perturbation(**sides)
        except FileNotFoundError as missing:
            raise InputError(
                f"{missing.filename or folder}: no such file; a saved CMB has cmb.json and delta.safetensors"
            ) from None
        except (SafetensorError, ValueError, KeyError, TypeError) as broken:
            raise InputError(f"{folder}: not a CMB written by recprism ({broken})") from None
        model.base_ = Factors.load(folder / "factors.safetensors")
        model.factors_ = model.delta_.applied_to(model.base_)
        return model


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name_of(key): weight for key, weight in value.items()}
    return name_of(value) if callable(value) or isinstance(value, Metric) else value


@dataclass(frozen=True, eq=False)
class Adjusted:
    """Factors turned by hand, and what it did to every metric: a is what was learned, b the turned version."""

    factors: Factors
    change: Comparison


def evaluate_factors(
    factors: Factors, context: Context, seen: Incidence, metrics: Sequence[str] | None, bootstrap: int = 1000
) -> Evaluation:
    """Rank with the given vectors and judge the lists; ``seen`` is left out of them."""
    items, _ = factors.rank(deepest_cut(metrics), exclude=seen)
    return evaluate(items, context, metrics, bootstrap=bootstrap, users=factors.user_ids)


# What reruns against the released code showed: how the numbers of the paper's tables come about (docs/paper.md).
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "shared": {
        "credit": "shared",
        "reach": 0.3,
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
        "reach": 0.3,
        "n_arms": 61,
        "scaling": "global",
        "iterations": 200,
        "k": 20,
        "ties": "first",
        "keep": "last",
        "users_per_step": None,
    },
}
