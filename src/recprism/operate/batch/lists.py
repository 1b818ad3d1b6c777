"""Lists of many users by an exported rule, from arrays to arrays, on processors or a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.checks import Whole
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.forms.rule_file import RuleFile
from recprism.models.settings import choose_device
from recprism.operate.batch._shown import ShownRows
from recprism.ranking import topk
from recprism.rule import Constrained, Features, ListSearch
from recprism.rule.constraints.constraints import Constraints
from recprism.rule.kernels.prices import fading_of, filling_of, prices_of
from recprism.rule.limits import beyond_limits
from recprism.rule.list_search import most_relevant, search
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

USERS_COMPARED = 4096  # users whose lists are looked up among their candidates at once


@dataclass(frozen=True, eq=False)
class BatchLists:
    """The lists of a block of users.

    Attributes:
        items: Item numbers, (n_users, k) int64; -1 in empty places.
        scores: Their scores by the vectors, (n_users, k) float32; -inf in empty places.
        base: The lists by relevance alone without constraints, (n_users, k) int64.
    """

    items: NDArray[np.int64]
    scores: NDArray[np.float32]
    base: NDArray[np.int64]


@dataclass(eq=False)
class StageTimes:
    """Seconds and processor seconds of each stage of the work, summed over blocks.

    Attributes:
        device: Where the work is done.
        seconds: By the name of the stage.
        processor_seconds: The same, of all threads together.
    """

    device: torch.device
    seconds: dict[str, float] = field(default_factory=dict)
    processor_seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a block of code; a GPU finishes its work first."""
        start, busy = time.perf_counter(), time.process_time()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.processor_seconds[name] = self.processor_seconds.get(name, 0.0) + time.process_time() - busy


class BatchRule:
    """An exported rule that makes the lists of many users at once.

    The lists are those of :meth:`recprism.serving.ServedRule.rank` for each user.

    Args:
        file: The exported rule, with item vectors.
        k: Length of the lists; that of the rule by default.
        device: "cpu", "auto", or "cuda" for ranking, the search and scores on a GPU.

    Attributes:
        times: Where the time went.

    Raises:
        InputError: The export has no item vectors, or has boosts or a history window.
    """

    def __init__(self, file: RuleFile, *, k: int | None = None, device: str = "cpu") -> None:
        if file.item_vectors is None:
            raise InputError("the export has no item vectors to rank by; export the rule without --no-vectors")
        if file.boosts is not None:
            raise InputError("the export has boosts for goals of exposure; batch lists need a rule without them")
        if file.history_window is not None:
            raise InputError(
                f"the export counts only a user's latest {file.history_window} interactions as history, and seen items "
                "of a batch have no order; batch lists need a rule without --history-window"
            )
        self.file, self.device = file, choose_device(device)
        self.k = int(Whole(1).read("k", file.k if k is None else k) or 0)
        self.times = StageTimes(self.device)
        constraints = Constraints.parse(file.constraints, one_list=True)
        fields = file.item_fields() if constraints.limited_fields else None
        self._kept = constraints.resolve(file.item_ids, file.names, fields)
        self._item = torch.from_numpy(np.ascontiguousarray(file.item_vectors, np.float32)).to(self.device)

    def __call__(
        self, user: NDArray[np.float32], seen: SparseRows | None = None, shown: ShownRows | None = None
    ) -> BatchLists:
        """Make the lists of a block of users; memory grows with the block.

        Args:
            user: (n_users, d) vectors, as the item vectors of the export expect them.
            seen: Items that the user knows, (n_users, n_items). They are not shown, and they are the user's history.
            shown: The items of earlier pages of these users.

        Raises:
            InputError: The vectors have another number of columns than the item vectors, or are not finite.
        """
        with self.times.stage("ranking"):
            hidden = self._hidden(seen, shown, len(user))
            vectors = torch.from_numpy(np.ascontiguousarray(user, np.float32)).to(self.device)
            depth = min(max(self.file.candidates, self.k), len(self._item))
            candidates, scores = topk(vectors, self._item, depth, exclude=hidden)
        with self.times.stage("search"):
            lists = self.search(candidates, scores, seen, shown)
            chosen, own = lists.cpu().numpy(), self._scores_of(lists, candidates, scores, vectors)
        base = candidates[:, : self.k]
        base = torch.nn.functional.pad(base, (0, self.k - base.shape[1]), value=-1)
        return BatchLists(chosen, own, base.cpu().numpy())

    def search(
        self, candidates: Tensor, scores: Tensor, seen: SparseRows | None = None, shown: ShownRows | None = None
    ) -> Tensor:
        """Search for the best lists, (n_users, k) item numbers, on the device of the candidates.

        Args:
            candidates: Item numbers, the best first, (n_users, n); -1 in empty places.
            scores: Their scores, (n_users, n).
            seen: The users' history, (n_users, n_items).
            shown: The items of earlier pages.
        """
        rule, features = self._rule(), self._features(seen, len(candidates), candidates.device)
        features = features.after(None if shown is None else shown.earlier(self.file, len(candidates)))
        method: ListSearch | Constrained = rule
        by_relevance = ListSearch(trade_off=0.0)
        plain: ListSearch | Constrained = by_relevance
        pins = self._kept.pins(len(candidates), self.k, self._hidden(seen, shown, len(candidates), banned=False))
        if self._kept.shares or self._kept.pinned or self._kept.fields is not None:
            kept = replace(self._kept, banned=np.zeros(0, np.int64), pinned=pins)  # banned items are hidden
            method, plain = Constrained(rule, kept), Constrained(by_relevance, kept)
        lists = _as_tensor(method(candidates, scores, self.k, features=features))
        if not self.file.limits or self.k != self.file.k:
            return lists
        base = _as_tensor(plain(candidates, scores, self.k, features=features))
        beyond = beyond_limits(base.cpu().numpy(), lists.cpu().numpy(), self.file.limits)
        return torch.where(torch.from_numpy(beyond).to(lists.device)[:, None], base, lists)

    def _rule(self) -> ListSearch:
        file = self.file
        return _FileRule(
            goals=file.goals, units=file.units, trade_off=file.trade_off, history_weight=file.history_weight, file=file
        )

    def _hidden(
        self, seen: SparseRows | None, shown: ShownRows | None, n_users: int, *, banned: bool = True
    ) -> SparseRows | None:
        """Return the pairs that no list shows: seen items, those of earlier pages, and banned ones."""
        out = None if shown is None else shown.out(n_users, len(self._item))
        both = out if seen is None else seen if out is None else seen.union(out)
        if not banned or not len(self._kept.banned):
            return both
        return (SparseRows.empty((n_users, len(self._item))) if both is None else both).with_cols(self._kept.banned)

    def _features(self, seen: SparseRows | None, n_users: int, device: torch.device) -> Features:
        file, history, categories = self.file, None, None
        if file.history_weight:
            history = self._history(seen if seen is not None else SparseRows.empty((n_users, len(self._item))))
        if file.names:
            categories = Categories(file.names, SparseRows(file.indptr, file.indices, len(file.names)))
        return Features(categories=categories, user_categories=history, device=device)

    def _history(self, seen: SparseRows) -> NDArray[np.float64]:
        """Return the sums of the users' items by category, (n_users, n_categories)."""
        file, n = self.file, len(self.file.names)
        counts = np.diff(file.indptr)[seen.indices]
        user = np.repeat(seen.row_of_entry, counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        entry = np.repeat(file.indptr[seen.indices], counts) + np.arange(len(user)) - first
        cells = user * n + file.indices[entry]
        amounts = np.bincount(cells, file.shares[entry], seen.n_rows * n).astype(np.float64)
        return amounts.reshape(seen.n_rows, n)

    def _scores_of(self, lists: Tensor, candidates: Tensor, scores: Tensor, vectors: Tensor) -> NDArray[np.float32]:
        """Return the scores of listed items, (n_users, k): those of the ranking; a pinned item's own if it has none."""
        found = torch.full(lists.shape, -torch.inf, device=lists.device)
        for start in range(0, len(lists), USERS_COMPARED):
            some = slice(start, start + USERS_COMPARED)
            same = lists[some, :, None] == candidates[some, None, :]
            ranked = scores[some].gather(1, same.to(torch.int8).argmax(2))
            own = (
                (self._item[lists[some].clamp(min=0)] @ vectors[some, :, None])[:, :, 0]
                if self._kept.pinned
                else ranked
            )
            found[some] = torch.where(same.any(2), ranked, own).masked_fill(lists[some] < 0, -torch.inf)
        return found.cpu().numpy()


@dataclass(frozen=True, kw_only=True)
class _FileRule(ListSearch):
    """The search with the data of an exported rule."""

    file: RuleFile

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        if (self.trade_off == 0 and self.history_weight == 0) or k == 0:
            return most_relevant(pool, k)
        return search(pool, k, self._terms(pool, k, features))

    def _terms(self, pool: Pool, k: int, features: Features) -> Terms:
        file, discount = self.file, 1 / np.log2(np.arange(2.0, k + 2))
        intents: Any = np.zeros((pool.n_users, 0))
        if self.history_weight:
            intents = features.intents(pool.n_users).cpu().numpy()
        return Terms(
            (file.indptr, file.indices, len(file.names)),
            (file.unit, file.known),
            prices_of(file.goals, file.units, self.trade_off, self.history_weight, discount),
            discount,
            fading_of(file.goals, discount),
            intents,
            filling_of(k),
            earlier=features.earlier,
        )


def _as_tensor(lists: Any) -> Tensor:
    return lists if isinstance(lists, Tensor) else torch.from_numpy(lists)
