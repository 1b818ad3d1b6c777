"""The players of the search with marginal credit, and the worker that ranks users and computes rewards.

An iteration has two calls, or three if a goal depends on what all users are shown: ``look`` (rank and judge), ``weigh``
(the worth of candidates, given the exposure of all items), ``credit`` (the rewards of players). Item players live in
the calling process. The players of a user live with the shard of the user, as a state that goes from call to call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from recprism.cmb._shards import Shard
from recprism.cmb.credit.marginal import MarginalCredit, Spread, spread_of, to_items, to_users
from recprism.cmb.credit.worth import exposure_of
from recprism.cmb.history import either
from recprism.cmb.objective import Number
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Keep
from recprism.cmb.search_loop import sum_of_magnitudes
from recprism.cmb.space import FactorSpace
from recprism.common.checks import AMOUNT, COUNT, POSITIVE, Rule, check_settings
from recprism.common.threads import one_thread
from recprism.metrics.metric import Sums


@dataclass(frozen=True)
class DualAveragingSettings:
    """Settings of the search with marginal credit.

    Attributes:
        iterations: Number of steps.
        k: Length of the lists.
        rate: How far a player with an average, steady reward moves in total, in units of ``max_step``.
        price: What an arm must earn to be taken, in the same units. A larger price leaves more players at exactly 0.
        keep: Which perturbation is the result: that of the last iteration, or of the one with the highest reward.
    """

    iterations: int = 40
    k: int = 10
    rate: float = 0.2
    price: float = 0.0
    keep: Keep = "last"

    rules: ClassVar[Mapping[str, Rule]] = {"iterations": COUNT, "k": COUNT, "rate": POSITIVE, "price": AMOUNT}

    def __post_init__(self) -> None:
        check_settings(self, self.rules)


@dataclass(frozen=True, eq=False)
class MarginalPlayers:
    """Players of the item side, or of the users of one shard.

    Attributes:
        slopes: (n_players,) sums of rewards.
        kept: (n_players,) values to keep.
        reward: (n_players,) the last reward. It is not yet in the slopes, because its scale depends on all players.
    """

    slopes: Tensor
    kept: Tensor
    reward: Tensor | None = None

    def after(self, size: Number | None) -> MarginalPlayers:
        """Add the last reward to the slopes, divided by ``size``, its mean magnitude over all players."""
        if self.reward is None or size is None:
            return self
        return MarginalPlayers(self.slopes + self.reward / size, self.kept)

    def best_arms(self, arms: Arms, settings: DualAveragingSettings) -> Tensor:
        """(n_players,) the value of each player's best arm."""
        scale = settings.rate * arms.max_step / settings.iterations
        wanted = self.slopes * scale
        wanted = wanted.sign() * (wanted.abs() - settings.price * arms.max_step).clamp(min=0)
        gap = 2 * arms.max_step / (arms.count - 1)
        nearest = ((wanted.clamp(-arms.max_step, arms.max_step) + arms.max_step) / gap).round().long()
        return arms.on(self.slopes.device)[nearest]

    def keeping(self, values: Tensor, is_best: bool | Tensor, keep: Keep) -> MarginalPlayers:
        """Keep ``values``: always, or only if this iteration is the best so far."""
        return replace(self, kept=values if keep == "last" else either(is_best, values, self.kept))


class Seen(NamedTuple):
    """Candidates of the users of a shard in one iteration.

    Attributes:
        shard: The shard, with the users of the iteration.
        user: (n_users, d) perturbed user vectors.
        item: (n_items, d) perturbed item vectors.
        items: (n_users, k + m) the lists and the candidates after them.
        scores: (n_users, k + m) their scores.
        worths: (n_users, k + m) for each goal; empty until they are computed.
    """

    shard: Shard
    user: Tensor
    item: Tensor
    items: Tensor
    scores: Tensor
    worths: list[Tensor]


class Look(NamedTuple):
    """What a shard finds in ``look``.

    Attributes:
        parts: Sums of each metric of psi.
        size: Sum of magnitudes of the user players' values.
        exposure: (n_items,) lists with each item, if a goal needs the exposure over all shards.
        spreads: Of the worths of each goal, if no goal needs the exposure.
    """

    parts: list[Sums]
    size: Number
    exposure: Tensor | None
    spreads: list[Spread]


class Pay(NamedTuple):
    """The rewards that a shard computes in ``credit``.

    Attributes:
        to_items: (n_item_players,) rewards of the item players from these users; None without item players.
        to_users: () sum of magnitudes of the rewards of the user players; None without user players.
    """

    to_items: Tensor | None
    to_users: Tensor | None


class MarginalWorker:
    """Some shards: from the values of item players to the rewards of all players.

    Args:
        credit: What players are paid for.
        arms: The values that players choose from.
        settings: Of the search.
        shards: The shards of this worker.
    """

    def __init__(
        self, credit: MarginalCredit, arms: Arms, settings: DualAveragingSettings, shards: Sequence[Shard]
    ) -> None:
        self._credit, self._arms, self._settings = credit, arms, settings
        self._shards = shards
        self._seen: tuple[int, list[Seen]] = (-1, [])  # of an iteration; a restarted worker ranks again

    def look(
        self, states: list[MarginalPlayers | None], number: int, of_items: Tensor | None, size: Number | None
    ) -> tuple[list[Look], list[MarginalPlayers | None]]:
        """Rank and judge.

        Args:
            states: The user players of each shard; None without user players.
            number: The iteration.
            of_items: (n_item_players,) values of the item players; None without item players.
            size: Mean magnitude of the last rewards of the user players, over all shards.
        """
        states = [None if state is None else state.after(size) for state in states]
        own = self._own(states, of_items)
        self._seen = number, [self._ranked(*pair, number) for pair in zip(self._shards, own, strict=True)]
        n_items = 0 if of_items is None else len(of_items)
        sizes = [sum_of_magnitudes(values[n_items:]) for values in own]
        return [self._look(*pair) for pair in zip(self._seen[1], sizes, strict=True)], states

    def weigh(
        self, states: list[MarginalPlayers | None], number: int, of_items: Tensor | None, exposure: Tensor
    ) -> tuple[list[list[Spread]], list[MarginalPlayers | None]]:
        """The spread of the worths of every goal, given the exposure (n_items,) over all users."""
        return [self._weighed(seen, exposure) for seen in self._seen_in(number, states, of_items)], states

    def credit(
        self,
        states: list[MarginalPlayers | None],
        number: int,
        of_items: Tensor | None,
        exposure: Tensor | None,
        spreads: list[Tensor],
        is_best: bool | Tensor,
    ) -> tuple[list[Pay], list[MarginalPlayers | None]]:
        """The rewards of item players from every shard, and of its own user players.

        Args:
            states: The user players of each shard; None without user players.
            number: The iteration.
            of_items: (n_item_players,) values of the item players; None without item players.
            exposure: (n_items,) over all users, if a goal needs it.
            spreads: () of the worths of each goal, over all users.
            is_best: Whether this iteration has the highest reward so far.
        """
        pays, after = [], []
        for seen, state in zip(self._seen_in(number, states, of_items), states, strict=True):
            if not seen.worths:
                self._weighed(seen, exposure)
            pay, changed = self._paid(seen, state, spreads, is_best)
            pays.append(pay)
            after.append(changed)
        return pays, after

    def _look(self, seen: Seen, size: Number) -> Look:
        lists = seen.items[:, : self._settings.k]
        parts = seen.shard.judged(lists, seen.item if seen.shard.needs_vectors else None)
        if self._credit.needs_exposure:
            return Look(parts, size, exposure_of(lists, len(seen.item)), [])
        return Look(parts, size, None, self._weighed(seen, None))

    def _paid(
        self, seen: Seen, state: MarginalPlayers | None, spreads: list[Tensor], is_best: bool | Tensor
    ) -> tuple[Pay, MarginalPlayers | None]:
        space = cast(FactorSpace, seen.shard.space)
        with one_thread():
            base_scores = space.base_scores(seen.items)
            pull = self._credit.pull(seen.items, seen.scores, base_scores, self._settings.k, seen.worths, spreads)
            of_items = None
            if "item" in space.sides:
                of_items = space.of_players(to_items(pull, seen.items, seen.user, len(seen.item)))
            if state is None:
                return Pay(of_items, None), None
            reward = space.of_user_players(to_users(pull, seen.items, seen.item))
            kept = state.keeping(state.best_arms(self._arms, self._settings), is_best, self._settings.keep)
            return Pay(of_items, reward.abs().sum()), replace(kept, reward=reward)

    def _own(self, states: list[MarginalPlayers | None], of_items: Tensor | None) -> list[Tensor]:
        """The values that move the vectors of each shard: those of item players, then of its user players."""
        own = []
        for state in states:
            of_users = () if state is None else (state.best_arms(self._arms, self._settings),)
            own.append(torch.cat([*(() if of_items is None else (of_items,)), *of_users]))
        return own

    def _seen_in(self, number: int, states: list[MarginalPlayers | None], of_items: Tensor | None) -> list[Seen]:
        if self._seen[0] != number:  # the worker that ranked this iteration died; rank again
            pairs = zip(self._shards, self._own(states, of_items), strict=True)
            self._seen = number, [self._ranked(*pair, number) for pair in pairs]
        return self._seen[1]

    def _ranked(self, shard: Shard, values: Tensor, number: int) -> Seen:
        shard = shard.at(number)
        space = cast(FactorSpace, shard.space)
        user, item = space.moved(values)
        depth = min(self._settings.k + self._credit.candidates, len(item))
        return Seen(shard, user, item, *space.rank(user, item, depth), [])

    def _weighed(self, seen: Seen, exposure: Tensor | None) -> list[Spread]:
        with one_thread(), seen.shard.rows_in_errors():
            seen.worths[:] = self._credit.worths(seen.items, self._settings.k, seen.shard.context, exposure)
            return [spread_of(worth, seen.items) for worth in seen.worths]
