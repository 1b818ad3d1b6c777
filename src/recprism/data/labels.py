"""A split that the caller gives: histories and held-out interactions of known users and items."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.common.ids import find_ids, show
from recprism.common.shares import Share, share
from recprism.data.interactions import HistoryOrder, Interactions, drop_duplicates
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split, held_out_counts, in_canonical_order, positions_in_time, rank_in_user
from recprism.errors import InputError

GIVEN, SET_ASIDE = "given", "set-aside"


@dataclass(frozen=True)
class LeftOut:
    """What is left out of a table because an id is unknown.

    Attributes:
        rows: Number of rows whose user or item is unknown.
        users: Number of distinct unknown users.
        items: Number of distinct unknown items.
    """

    rows: int = 0
    users: int = 0
    items: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def known_rows(
    found: Interactions, user_ids: NDArray[Any], item_ids: NDArray[Any], where: str | None, has: str = "vector"
) -> tuple[Interactions, LeftOut]:
    """Keep the interactions of known users with known items.

    Args:
        found: Interactions with ids of their own.
        user_ids: Known users; numbers in the result are positions in them.
        item_ids: Known items.
        where: What errors call the interactions. None accepts interactions without any known id.
        has: What errors say known ids have: "vector" or "score".

    Returns:
        The interactions, one per pair, and what is left out.

    Raises:
        InputError: No user, or no item, is known.
    """
    user, item = find_ids(found.user_ids, user_ids), find_ids(found.item_ids, item_ids)
    if where is not None:
        require_known("user", user, found.user_ids, user_ids, where, has)
        require_known("item", item, found.item_ids, item_ids, where, has)
    of_user, of_item = user[found.user], item[found.item]
    known = (of_user >= 0) & (of_item >= 0)
    numbered = replace(found, user=of_user, item=of_item, user_ids=user_ids, item_ids=item_ids)
    left_out = LeftOut(int((~known).sum()), int((user < 0).sum()), int((item < 0).sum()))
    return in_canonical_order(drop_duplicates(numbered.take(known), "last")), left_out


def require_known(
    side: str, found: NDArray[np.int64], wanted: NDArray[Any], known: NDArray[Any], where: str, has: str = "vector"
) -> None:
    """Refuse interactions without any known id: they use other ids.

    Args:
        side: "user" or "item".
        found: Positions of the wanted ids, -1 for unknown ones.
        wanted: Ids of the interactions.
        known: Ids of the model.
        where: What errors call the interactions.
        has: What known ids have: "vector" or "score".
    """
    if not (found >= 0).any():
        raise InputError(
            f"{where}: none of its {side} ids (such as {show(wanted[0])}) has a {has} (ids such as {show(known[0])}); "
            f"{has}s and interactions must use the same ids"
        )


def split_labels(
    history: Interactions, held_out: Interactions | None = None, *, set_aside: Share = 0.0, seed: int = 0
) -> tuple[Split, int]:
    """Use the history as the training part and divide labels into a validation and a test part.

    Half of each user's labels are for validation and half for the test. With timestamps the earlier half is for
    validation; without, the halves are random. If the number is odd, the remaining label goes to a random part. So of
    the users with one label, half are in the validation part and half in the test part.

    Args:
        history: What users took before; it is never recommended again.
        held_out: What they took later. Rows that are also in the history are left out.
        set_aside: Without ``held_out``, the share of each user's history that becomes labels. With timestamps these
            are the latest interactions. Users with one or two interactions keep them all.
        seed: Seed of the random halves.

    Returns:
        The split, and the number of held-out interactions that are left out because the history has them.

    Raises:
        InputError: ``set_aside`` is not a share, or is given together with ``held_out``.
    """
    generator = random_generator(seed)
    set_aside = share(set_aside, "set_aside")
    if set_aside:
        if held_out is not None:
            raise InputError("held-out interactions are given, so no history is set aside; give one of the two")
        history, held_out = _set_aside(history, set_aside, generator)
    shape = (history.n_users, history.n_items)
    train, empty = history.matrix(), SparseRows.empty(shape)
    settings = {"method": SET_ASIDE if set_aside else GIVEN}
    ids = (history.user_ids, history.item_ids)
    if held_out is None:
        return Split(train, empty, empty, *ids, settings, order=HistoryOrder.of(history)), 0
    new = ~np.isin(held_out.user * history.n_items + held_out.item, train.keys)
    labels = held_out.take(new)
    tested = _second_half(labels, generator)
    validation, test = (labels.take(it).matrix() for it in (~tested, tested))
    order = HistoryOrder.of(history, labels)
    return Split(train, validation, test, *ids, settings, order=order), int((~new).sum())


def _set_aside(
    history: Interactions, wanted: float, generator: np.random.Generator
) -> tuple[Interactions, Interactions]:
    rank, size = rank_in_user(history, _order(history, generator))
    later = rank >= size - np.minimum(held_out_counts(size, wanted), size - 1)
    return history.take(~later), history.take(later)


def _second_half(labels: Interactions, generator: np.random.Generator) -> NDArray[np.bool_]:
    """``(n,)`` whether a label is in the test part."""
    rank, size = rank_in_user(labels, _order(labels, generator))
    odd_one = generator.permutation(labels.n_users) % 2
    half: NDArray[np.bool_] = rank >= (size + odd_one[labels.user]) // 2
    return half


def _order(interactions: Interactions, generator: np.random.Generator) -> NDArray[np.int64]:
    """``(n,)`` sort keys: by time, or random if there are no timestamps."""
    if interactions.timestamp is None:
        return generator.permutation(len(interactions))
    return positions_in_time(interactions, generator)
