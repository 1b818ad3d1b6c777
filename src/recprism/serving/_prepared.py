"""An exported rule with everything that requests look up: numbers of ids, categories, prices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id, canonical_text
from recprism.errors import InputError
from recprism.explain.reasons.codes import NO_REASONS
from recprism.forms.rule_file import RuleFile
from recprism.rule.earlier import Earlier
from recprism.rule.kernels.prices import fading_of, filling_of, prices_of, search_terms
from recprism.rule.kernels.worth import DISTANCE
from recprism.serving._kernels.history import add_shares

KEPT_PRICES = 256  # sets of prices that are remembered, by goals, trade-off and length
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


class Intents(NamedTuple):
    """What a history says about a user.

    Attributes:
        weights: Weights of the categories, (n_categories,), equal without a history; (0,) if the rule does not look at
            histories.
        unknown: Ids of the history that the export does not know.
    """

    weights: NDArray[np.float64]
    unknown: tuple[Id, ...]


class PreparedRule:
    """A rule, prepared once for all requests; only caches change later.

    Args:
        file: The exported rule.

    Attributes:
        ids: The items of the file as a caller writes them; candidates that are this very list are not looked up.
        unknown: Number of the additional row: an item that the export does not know has no categories, no direction
            and no boost.
        indptr: The categories of item i are indices[indptr[i]:indptr[i + 1]], (n_items + 2,).
        boosts: What is added to the score of each item, (n_items + 1,); None without goals of exposure.
        by_boosts: Whether boosts alone choose the items of a list; own scores put them in order.
        by_rank: Whether lists are in the order of rank: no goal looks at the order, and not boosts alone choose items.
        function: The goal that is a function of a list, if there is one.
        vectors: Vectors of the items and what they are multiplied by; None if no goal looks at their distances.
    """

    def __init__(self, file: RuleFile) -> None:
        self.file = file
        self.ids: list[Id] | None = None
        self.unknown = len(file.item_ids)
        self.indptr = np.concatenate([file.indptr, file.indptr[-1:]])
        self._known = np.concatenate([file.known, np.zeros(1, file.known.dtype)])
        self.boosts = None if file.boosts is None else np.append(file.boosts, 0.0)
        self._shown = np.zeros(1, np.int64) if not file.goals else np.zeros(self.unknown + 1, np.int64)
        terms = search_terms(file.goals)
        self.by_boosts = not file.goals and self.boosts is not None
        self.by_rank = not self.by_boosts and not any(it.by_order for it in terms)
        self.function = next((it.function for it in terms if it.function is not None), None)
        self.vectors = (file.unit, self._known) if any(it.by_vectors for it in terms) else None
        self._kept_columns: dict[int, NDArray[np.bool_]] = {}  # at most one for each category

    @property
    def no_reasons(self) -> str:
        """Why the rule cannot say why an item is in a list; empty if it can."""
        return "" if self.function is None else NO_REASONS.format(self.function.name)

    @cached_property
    def _number_of(self) -> dict[Id, int]:
        return {one: at for at, one in enumerate(self.file.item_ids.tolist())}

    @cached_property
    def _row_of(self) -> dict[Id, int]:
        users = self.file.history_users
        return {} if users is None else {one: at for at, one in enumerate(users.tolist())}

    @cached_property
    def n_present(self) -> int:
        """How many categories have an item; coverage is a share of these, as in the metrics."""
        return len(np.unique(self.file.indices))

    def numbers(self, ids: Sequence[Id]) -> NDArray[np.int64]:
        """Return item numbers, (n,); an unknown id gets the number of the additional row."""
        return self.look_up(ids)[0]

    def look_up(self, ids: Sequence[Id]) -> tuple[NDArray[np.int64], tuple[Id, ...]]:
        """Return item numbers, (n,), and the ids that the export does not know."""
        if ids is self.ids:
            return np.arange(self.unknown), ()
        try:
            return np.fromiter(map(self._number_of.__getitem__, ids), np.int64, len(ids)), ()
        except KeyError:  # an id that is unknown, or written in another way
            found = np.array([self._number(one) for one in ids], np.int64)
            return found, tuple(ids[at] for at in np.flatnonzero(found == self.unknown).tolist())

    def _number(self, one: Id) -> int:
        found = self._number_of.get(one)
        if found is not None:
            return found
        text = canonical_text(one)
        found = self._number_of.get(text)
        if found is None and WHOLE.fullmatch(text):
            found = self._number_of.get(int(text))
        return self.unknown if found is None else found

    def has(self, column: int) -> NDArray[np.bool_]:
        """Return whether each item has a category, (n_items + 1,) bool; the last entry is for unknown items."""
        found = self._kept_columns.get(column)
        if found is None:
            found = np.zeros(self.unknown + 1, np.bool_)
            owner = np.repeat(np.arange(self.unknown), np.diff(self.file.indptr))
            found[owner[self.file.indices == column]] = True
            self._kept_columns[column] = found
        return found

    def categories(self, number: int) -> list[int]:
        """Return the columns of an item."""
        found: list[int] = self.file.indices[self.indptr[number] : self.indptr[number + 1]].tolist()
        return found

    def field_values(self, field: str, number: int) -> tuple[int, ...]:
        """Return the values of an item, as numbers; an unknown item has none."""
        indptr, indices, fields = self.file.field_indptr, self.file.field_indices, self.file.fields
        if number == self.unknown or indptr is None or indices is None:
            return ()
        row = number * len(fields) + fields.index(field)
        return tuple(indices[indptr[row] : indptr[row + 1]].tolist())

    def intents(self, history: Sequence[Id]) -> Intents:
        """Return the user's weights of categories; a history has the oldest item first."""
        n = len(self.file.names)
        if self.file.history_weight == 0:
            return Intents(np.zeros(0), ())
        if self.file.history_window is not None:  # an item that occurs again counts once, where it was last
            history = list(dict.fromkeys(reversed(history)))[: self.file.history_window][::-1]
        amount, (numbers, unknown) = np.zeros(n), self.look_up(history)
        add_shares(numbers, self.indptr, self.file.indices, self.file.shares, amount)
        total = amount.sum()
        if total > 0:
            return Intents(amount / total, unknown)
        return Intents(np.full(n, 1 / max(n, 1)), unknown)

    def history_of(self, user: Id) -> list[Id] | None:
        """Return the stored history of a user; None if the export does not know the user."""
        row = self._row_of.get(user)
        if row is None:
            text = canonical_text(user)
            row = self._row_of.get(text)
            if row is None and WHOLE.fullmatch(text):
                row = self._row_of.get(int(text))
        if row is None:
            return None
        indptr, items = self.file.history_indptr, self.file.history_items
        assert indptr is not None
        assert items is not None
        found: list[Id] = self.file.item_ids[items[indptr[row] : indptr[row + 1]]].tolist()
        return found

    @cached_property
    def directions(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Vectors whose distances count and what they are multiplied by; None if no goal looks at distances."""
        by_distance = any(it.price == DISTANCE for it in search_terms(self.file.goals))
        return (self.file.unit, self._known) if by_distance else None

    def goal_arrays(self, trade_off: float, k: int, intents: NDArray[np.float64], earlier: Earlier) -> tuple[Any, ...]:
        """Return what the kernels need to value a list of ``k`` places at a trade-off."""
        prices, discount, fading, filling = self._terms(0.0 if self.by_boosts else trade_off, k)
        properties = (self.indptr, self.file.indices, len(self.file.names), self.file.unit, self._known)
        return (*properties, self._shown, prices, discount, fading, intents, filling, *earlier)

    def _terms(self, trade_off: float, k: int) -> tuple[NDArray[np.float64], ...]:
        """Return prices, discount, fading and filling for a trade-off and a number of places."""
        file = self.file
        return _terms(tuple(file.goals.items()), tuple(file.units.items()), trade_off, file.history_weight, k)

    def nearest(self, vector: NDArray[np.float32], n: int) -> tuple[list[Id], NDArray[np.float32]]:
        """Return ids and scores of the best items for a user vector, by exact ranking.

        Raises:
            InputError: If the export has no item vectors, or the vector has another length.
        """
        vectors = self.file.item_vectors
        if vectors is None:
            raise InputError("the export has no item vectors; export them, or give an index")
        if vector.shape != (vectors.shape[1],):
            raise InputError(f"the user vector has shape {vector.shape}; ({vectors.shape[1]},) is needed")
        scores = vectors @ vector
        n = min(n, len(scores))
        best = np.argpartition(-scores, n - 1)[:n]
        best = best[np.lexsort((best, -scores[best]))]
        return self.file.item_ids[best].tolist(), scores[best]


@lru_cache(KEPT_PRICES)
def _terms(
    goals: tuple[tuple[str, float], ...],
    units: tuple[tuple[str, float], ...],
    trade_off: float,
    history_weight: float,
    k: int,
) -> tuple[NDArray[np.float64], ...]:
    weights, discount = dict(goals), 1 / np.log2(np.arange(2.0, k + 2))
    prices = prices_of(weights, dict(units), trade_off, history_weight, discount)
    return prices, discount, fading_of(weights, discount), filling_of(k)


def check_bans(banned: Iterable[Id], rule: PreparedRule) -> None:
    """Refuse to ban the name of a category."""
    for it in banned:
        if it in rule.file.names and rule.numbers([it])[0] == rule.unknown:
            raise InputError(f"{it!r} is a category, and banned is a list of item ids; write max_share: {{{it!r}: 0}}")
