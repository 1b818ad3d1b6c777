"""Histories and held-out interactions of users and items that are known already: a split that was given."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import find_ids, show
from recprism.data.incidence import Incidence
from recprism.data.interactions import Interactions, drop_duplicates
from recprism.data.shares import Share, share
from recprism.data.split import Split, held_out_counts, in_canonical_order, positions_in_time, rank_in_user
from recprism.errors import InputError

GIVEN, SET_ASIDE = "given", "set-aside"


@dataclass(frozen=True)
class LeftOut:
    """What known users and items leave out of a table.

    Attributes:
        rows: How many rows are left out because their user or item is unknown.
        users, items: How many distinct unknown users and items the table names.
    """

    rows: int = 0
    users: int = 0
    items: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def known_rows(
    found: Interactions, user_ids: NDArray[Any], item_ids: NDArray[Any], where: str
) -> tuple[Interactions, LeftOut]:
    """The interactions of known users with known items, one per pair, and what is left out.

    Args:
        found: Interactions with ids of their own.
        user_ids: Known users; numbers in the result are positions in them.
        item_ids: Known items.
        where: What errors call the interactions.

    Raises:
        InputError: No user, or no item, is known.
    """
    user, item = (
        _numbers(*side, where) for side in (("user", found.user_ids, user_ids), ("item", found.item_ids, item_ids))
    )
    of_user, of_item = user[found.user], item[found.item]
    known = (of_user >= 0) & (of_item >= 0)
    numbered = replace(found, user=of_user, item=of_item, user_ids=user_ids, item_ids=item_ids)
    left_out = LeftOut(int((~known).sum()), int((user < 0).sum()), int((item < 0).sum()))
    return in_canonical_order(drop_duplicates(numbered.take(known), "last")), left_out


def _numbers(side: str, wanted: NDArray[Any], known: NDArray[Any], where: str) -> NDArray[np.int64]:
    """(n,) positions among the known ids, -1 where an id is unknown."""
    found = find_ids(wanted, known)
    if not (found >= 0).any():
        raise InputError(
            f"{where}: none of its {side} ids (such as {show(wanted[0])}) has a vector (ids such as {show(known[0])}); "
            "vectors and interactions must use the same ids"
        )
    return found


def split_labels(
    history: Interactions, held_out: Interactions | None = None, *, set_aside: Share = 0.0, seed: int = 0
) -> tuple[Split, int]:
    """The history as training part, and labels divided into a validation and a test part.

    Half of each user's labels validate and half are tested: the earlier ones validate where there are timestamps,
    otherwise chance decides. Of an odd number the one left over goes to either part, by chance for each user: of users
    with one label, half are in the validation part and half in the test part.

    Args:
        history: What users took before; it is never recommended again.
        held_out: What they took later; its rows that are in the history as well are left out.
        set_aside: Without ``held_out``, the share of each user's history that becomes labels: the latest where there
            are timestamps. Users with one or two interactions keep them all.
        seed: Decides what chance decides.

    Returns:
        The split, and how many held-out interactions are left out because the history has them.

    Raises:
        InputError: ``set_aside`` is no share, or comes together with ``held_out``.
    """
    generator = np.random.default_rng(seed)
    set_aside = share(set_aside, "set_aside")
    if set_aside:
        if held_out is not None:
            raise InputError("held-out interactions are given, so no history is set aside; give one of the two")
        history, held_out = _set_aside(history, set_aside, generator)
    shape = (history.n_users, history.n_items)
    train, empty = history.matrix(), Incidence.empty(shape)
    settings = {"method": SET_ASIDE if set_aside else GIVEN}
    if held_out is None:
        return Split(train, empty, empty, history.user_ids, history.item_ids, settings), 0
    new = ~np.isin(held_out.user * history.n_items + held_out.item, train.keys)
    labels = held_out.take(new)
    tested = _second_half(labels, generator)
    validation, test = (labels.take(it).matrix() for it in (~tested, tested))
    return Split(train, validation, test, history.user_ids, history.item_ids, settings), int((~new).sum())


def _set_aside(
    history: Interactions, wanted: float, generator: np.random.Generator
) -> tuple[Interactions, Interactions]:
    rank, size = rank_in_user(history, _order(history, generator))
    later = rank >= size - np.minimum(held_out_counts(size, wanted), size - 1)
    return history.take(~later), history.take(later)


def _second_half(labels: Interactions, generator: np.random.Generator) -> NDArray[np.bool_]:
    """(n,) whether a label is tested."""
    rank, size = rank_in_user(labels, _order(labels, generator))
    odd_one = generator.permutation(labels.n_users) % 2
    half: NDArray[np.bool_] = rank >= (size + odd_one[labels.user]) // 2
    return half


def _order(interactions: Interactions, generator: np.random.Generator) -> NDArray[np.int64]:
    """(n,) by time, or by chance where there are no times."""
    if interactions.timestamp is None:
        return generator.permutation(len(interactions))
    return positions_in_time(interactions, generator)
