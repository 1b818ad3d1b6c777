"""How CMB learns: from its settings to the space, the users that are ranked, and the search loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._dual_averaging import dual_averaging
from recprism.cmb._gradient import gradient_search
from recprism.cmb._metric_values import users_named
from recprism.cmb._resuming import checkpoint_key, checkpointed
from recprism.cmb._sampling import Sampling, sampling_for
from recprism.cmb.history import Follow, Progress, Step
from recprism.cmb.objective import Objective
from recprism.cmb.players.policies import make_policy
from recprism.cmb.search_loop import SearchResult, search
from recprism.cmb.settings import POLICY_SETTINGS, CMBSettings
from recprism.cmb.space import FactorSpace, Scorer, ScorerSpace
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.models.settings import choose_device


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of a search.

    Attributes:
        delta: The perturbation, in the units of the base model.
        history: Every iteration.
        converged: Whether patience ended the search.
    """

    delta: Perturbation
    history: tuple[Step, ...]
    converged: bool


def learn(
    asked: CMBSettings,
    factors: Factors,
    split: Split,
    categories: Categories | None,
    follow: Follow | None,
    resume: Progress | None,
) -> Learned:
    """Search for a perturbation of a dot-product model."""
    device = choose_device(asked.device)
    seen = split.seen_before(asked.reward_on)
    space = FactorSpace(*(factors, seen), side=asked.side, scaling=asked.scaling, only=asked.only, device=device)
    possible = asked.side == "item" and asked.policy != "gradient" and asked.objective.per_user
    sampling = sampling_for(
        *(asked.users_per_step, factors.n_users, asked.iterations, asked.seed),
        possible=possible,
        certain=asked.objective.surely_per_user,
    )
    context = _context(asked, split, categories, factors.item, device, all_users=sampling is None)
    key = partial(checkpoint_key, asked, sampling, split, categories, device, (factors.user, factors.item))
    with users_named(factors.user_ids):
        found = _search(asked, space, context, key, follow, resume, sampling)
    return Learned(space.perturbation(found.values), found.history, found.converged)


def learn_from_scores(
    asked: CMBSettings,
    scorer: Scorer,
    split: Split,
    categories: Categories | None,
    follow: Follow | None,
    resume: Progress | None,
) -> Learned:
    """Search for a perturbation of the item features of any model."""
    if asked.credit != "shared" or asked.policy == "gradient" or asked.side != "item" or asked.only is not None:
        raise InputError(
            "a scorer shows only scores: use CMB.preset('shared'), a bandit policy, side='item' and all features"
        )
    sampling_for(asked.users_per_step, scorer.n_users, asked.iterations, asked.seed, possible=False)
    space = ScorerSpace(scorer, split.seen_before(asked.reward_on), scaling=asked.scaling)
    features = scorer.item_features
    context = _context(asked, split, categories, features, features.device)
    vectors = (features.detach().cpu().numpy(),)
    key = partial(checkpoint_key, asked, None, split, categories, features.device, vectors)
    with users_named(split.user_ids):
        found = _search(asked, space, context, key, follow, resume)
    return Learned(space.perturbation(found.values), found.history, found.converged)


def _search(
    asked: CMBSettings,
    space: FactorSpace | ScorerSpace,
    context: Context,
    key: Callable[[], dict[str, Any]],
    follow: Follow | None,
    resume: Progress | None,
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the search that the settings ask for; ``key`` gives the checkpoint key."""
    follow, resume = checkpointed(key, follow, resume)
    if isinstance(space, FactorSpace) and asked.credit == "marginal":
        return dual_averaging(space, context, asked, follow=follow, resume=resume, sampling=sampling)
    if isinstance(space, FactorSpace) and asked.policy == "gradient":
        return gradient_search(space, context, asked, follow=follow, resume=resume)
    policy = make_policy(asked.policy, **{name: getattr(asked, name) for name in POLICY_SETTINGS[asked.policy]})
    return search(
        *(space, context, asked.objective, policy, asked.arms, asked.search_settings),
        seed=asked.seed,
        follow=follow,
        resume=resume,
        sampling=sampling,
    )


def _context(
    asked: CMBSettings,
    split: Split,
    categories: Categories | None,
    vectors: NDArray[Any] | Tensor,
    device: torch.device,
    *,
    all_users: bool = True,
) -> Context:
    """What the metrics of the reward look at."""
    more: dict[str, Any] = {} if categories is None else {"categories": categories}
    # For a sample, skip user data that no metric needs: most users are never ranked.
    lean = not all_users and asked.objective.needs.isdisjoint({"history", "user_categories", "anything"})
    of_users: dict[str, Any] = {"popularity": split.train.col_counts} if lean else {"train": split.train}
    if asked.credit == "marginal" and not _needs_labels(asked.objective):
        # Base scores replace accuracy, so no label is used.
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
    return not objective.needs.isdisjoint({"relevant", "user_categories", "anything"})
