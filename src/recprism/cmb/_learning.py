"""How CMB learns: from what it was asked to the space, to who pays, and to the loop that finds the perturbation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._dual_averaging import dual_averaging
from recprism.cmb._engines import Hired, engine_named
from recprism.cmb._gradient import GradientSettings, gradient_search
from recprism.cmb._metric_parts import users_named
from recprism.cmb._resuming import checkpoint_key, going_on
from recprism.cmb._sampling import Sampling, sampling_for
from recprism.cmb._settings import POLICY_SETTINGS, CMBSettings
from recprism.cmb.history import Follow, Progress, Step
from recprism.cmb.objective import Objective
from recprism.cmb.players.policies import make_policy
from recprism.cmb.search_loop import SearchResult, search
from recprism.cmb.space import FactorSpace, Scorer, ScorerSpace
from recprism.data.split import Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors
from recprism.models._settings import choose_device
from recprism.models.perturbation import Perturbation


@dataclass(frozen=True, eq=False)
class Learned:
    """What a search leaves.

    delta: in the base model's own units; history: every iteration; converged: whether patience ended it
    """

    delta: Perturbation
    history: tuple[Step, ...]
    converged: bool


def learn(
    asked: CMBSettings,
    factors: Factors,
    split: Split,
    subtopics: Subtopics | None,
    follow: Follow | None,
    resume: Progress | None,
) -> Learned:
    """For a dot-product model."""
    device = choose_device(asked.device if engine_named(asked.engine).here else "cpu")
    seen = split.seen_before(asked.reward_on)
    space = FactorSpace(factors, seen, side=asked.side, scaling=asked.scaling, only=asked.only, device=device)
    possible = asked.side == "item" and asked.policy != "gradient" and asked.objective.per_user
    sampling = sampling_for(
        *(asked.users_per_step, factors.n_users, asked.iterations, asked.seed),
        possible=possible,
        certain=asked.objective.surely_per_user,
    )
    context = _context(asked, split, subtopics, factors.item, device, all_users=sampling is None)
    vectors = factors.user, factors.item
    begun = partial(checkpoint_key, asked, sampling, split, subtopics, device, vectors)
    with users_named(factors.user_ids):
        found = _search(asked, space, context, begun, follow, resume, sampling)
    return Learned(space.perturbation(found.values), found.history, found.converged)


def learn_from_scores(
    asked: CMBSettings,
    scorer: Scorer,
    split: Split,
    subtopics: Subtopics | None,
    follow: Follow | None,
    resume: Progress | None,
) -> Learned:
    """For any model, on its item features."""
    if asked.credit != "shared" or asked.policy == "gradient" or asked.side != "item" or asked.only is not None:
        raise InputError(
            "a scorer shows only scores: use CMB.preset('shared'), a bandit policy, side='item' and all features"
        )
    sampling_for(asked.users_per_step, scorer.n_users, asked.iterations, asked.seed, possible=False)
    space = ScorerSpace(scorer, split.seen_before(asked.reward_on), scaling=asked.scaling)
    features = scorer.item_features
    context = _context(asked, split, subtopics, features, features.device)
    vectors = (features.detach().cpu().numpy(),)
    begun = partial(checkpoint_key, asked, None, split, subtopics, features.device, vectors)
    with users_named(split.user_ids):
        found = _search(asked, space, context, begun, follow, resume)
    return Learned(space.perturbation(found.values), found.history, found.converged)


def _search(
    asked: CMBSettings,
    space: FactorSpace | ScorerSpace,
    context: Context,
    begun: Callable[[int], dict[str, Any]],
    follow: Follow | None,
    resume: Progress | None,
    sampling: Sampling | None = None,
) -> SearchResult:
    """begun: number of shards -> with what the search is begun"""
    with engine_named(asked.engine).crews(asked.shards) as hired:
        told = going_on(lambda: begun(hired.shards), follow, resume)
        return _searched_by(hired, asked, space, context, *told, sampling)


def _searched_by(
    hired: Hired,
    asked: CMBSettings,
    space: FactorSpace | ScorerSpace,
    context: Context,
    follow: Follow | None,
    resume: Progress | None,
    sampling: Sampling | None,
) -> SearchResult:
    if isinstance(space, FactorSpace) and asked.credit == "marginal":
        return dual_averaging(
            *(space, context, asked.objective, asked.marginal_credit, asked.arms),
            asked.dual_averaging_settings,
            follow=follow,
            resume=resume,
            shards=hired.shards,
            recruit=hired.recruit,
            sampling=sampling,
        )
    if isinstance(space, FactorSpace) and asked.policy == "gradient":
        ascent = GradientSettings(asked.iterations, asked.k, asked.learning_rate, asked.max_step)
        return gradient_search(space, context, asked.objective, ascent, follow=follow, resume=resume)
    policy = make_policy(asked.policy, **{name: getattr(asked, name) for name in POLICY_SETTINGS[asked.policy]})
    return search(
        *(space, context, asked.objective, policy, asked.arms, asked.search_settings),
        seed=asked.seed,
        follow=follow,
        resume=resume,
        shards=hired.shards,
        recruit=hired.recruit,
        sampling=sampling,
    )


def _context(
    asked: CMBSettings,
    split: Split,
    subtopics: Subtopics | None,
    vectors: NDArray[Any] | Tensor,
    device: torch.device,
    *,
    all_users: bool = True,
) -> Context:
    """What the lists that pay are judged by."""
    more: dict[str, Any] = {} if subtopics is None else {"subtopics": subtopics}
    # Of a sample's users nothing is worked out that no metric asks for: most users are never looked at.
    lean = not all_users and asked.objective.needs.isdisjoint({"history", "user_subtopics", "anything"})
    of_users: dict[str, Any] = {"popularity": split.train.col_counts} if lean else {"train": split.train}
    if asked.credit == "marginal" and not _needs_labels(asked.objective):
        # Base scores stand in for accuracy: no label is looked at, whatever the part.
        return Context(**of_users, vectors=vectors, device=device, **more)
    if asked.credit == "marginal" and asked.reward_on == "test":
        raise InputError(f"{asked.objective.name} looks at labels; those of the test are never for learning")
    if not len(split.part(asked.reward_on)):
        raise InputError(
            f"the split has no {asked.reward_on} part to take the reward from;"
            " split with one, or pass reward_on='test' as the paper does"
        )
    if lean:
        return Context(**of_users, relevant=split.part(asked.reward_on), vectors=vectors, device=device, **more)
    return Context.from_split(split, asked.reward_on, vectors=vectors, device=device, **more)


def _needs_labels(objective: Objective) -> bool:
    return not objective.needs.isdisjoint({"relevant", "user_subtopics", "anything"})
