"""A trained model about to serve lists, and the labels that judge them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.bound import hash_of
from recprism.common.checks import Whole, random_generator
from recprism.common.display import Displayed
from recprism.common.ids import as_id_array
from recprism.data.categories import Categories, shuffled_within
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics import DEFAULT_METRICS, Context, Evaluation, evaluate
from recprism.metrics.evaluation import joined
from recprism.metrics.registry import parse
from recprism.metrics.suite import deepest_cut
from recprism.models import Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.rule import Features, category_probabilities
from recprism.rule.boosts import first_in_own_order, ranked_with_boosts
from recprism.rule.constraints.constrained import Constrained
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.rule.constraints.fields import read_fields
from recprism.rule.constraints.violations import Violations
from recprism.rule.goal import Goal
from recprism.rule.limits import beyond_limits
from recprism.rule.list_search import ListSearch
from recprism.rule.pool import Pool
from recprism.rule.rule import Rule

CANDIDATES = 500
DEPTH = 100
SHUFFLES = 19  # makes the draws of shuffled categories independent of others with the same seed

Lists = NDArray[np.int64]
Ranker = Factors | ScoredCandidates | Rule
"""What lists can be ranked by."""
T = TypeVar("T")


class PathStore(Protocol):
    """Keeps the lists of paths, so that a later process does not compute them again."""

    def read(self, goal: str, kind: str) -> Mapping[float, Lists]:
        """Return trade-off -> ``(n_users, k)`` lists, as far as they are stored for the same model and data."""

    def write(self, goal: str, lists: Mapping[str, Mapping[float, Lists]]) -> None:
        """Store the lists of one goal, by kind and trade-off, in one step."""


class Problem(Displayed):
    """A trained model about to serve lists that are judged on one part of a split.

    Methods see candidates, scores, categories, vectors and the users' history. They see no label of the part that
    judges.

    Args:
        model: The trained model, its rows in the order of the split; or candidates with scores, from any system.
        split: What users did.
        categories: The categories of the items.
        part: The part that figures are reported on. Budgets are certified on the validation part, if the split has one.
        k: Length of the lists.
        store: Where the lists of paths are kept between processes; None keeps them in this object only.
        constraints: :class:`recprism.rule.Constraints`, or a mapping of its arguments; items are ids, categories are
            names. All lists of the problem keep them, those of the model as it is, too.
        history_window: How many of a user's latest interactions count as history; None counts all of them. Seen items
            are left out of lists in either case.
        clusters: ``(n_users,)`` a number or name for each user, in the order of the split. Users of one cluster, such
            as a household, are not independent, and certificates allow for it. By default, users are independent.
        fields: Field -> for each item a value, several values, or None, such as the author. The constraints
            ``max_items`` and ``spacing`` look at them; "category" needs none.

    Raises:
        InputError: If the rows of the vectors are not those of the split, or if the constraints contradict each other,
            or if there is a window and the interactions have no times.
    """

    def __init__(
        self,
        model: Factors | ScoredCandidates,
        split: Split,
        categories: Categories,
        part: Part = "test",
        k: int = 10,
        *,
        store: PathStore | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
        history_window: int | None = None,
        clusters: ArrayLike | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        _require_same_rows(model, split)
        self.base, self.split, self.categories, self.part, self.k = model, split, categories, part, k
        self.constraints = Constraints.parse(constraints).with_ids_of(model.item_ids)
        self.fields = read_fields(fields, model.n_items)
        self.resolved = self.constraints.resolve(model.item_ids, categories.names, self._field_values())
        self.history_window = Whole(1, none="for all interactions").read("history_window", history_window)
        if history_window is not None:
            split.require_order()
        self.clusters = None if clusters is None else _numbered(clusters, split.n_users)
        self.seen = split.seen_before(part)
        self.store = store
        self._computed: dict[Any, Any] = {}
        if isinstance(self.resolved.pinned, Mapping) and max(self.resolved.pinned, default=0) > k:
            raise InputError(f"an item is pinned beyond place {k}, where the lists end")
        self.constrained(ListSearch(trade_off=0.0))  # contradictions are refused before any work

    def _field_values(self) -> dict[str, Any]:
        """Return the values of each item, if a field is limited."""
        if not self.constraints.limited_fields:
            return {}
        rows = [self.categories.items.row(item).tolist() for item in range(self.base.n_items)]
        return {**({CATEGORY: rows} if len(self.categories) else {}), **self.fields}

    def on(self, part: Part) -> Problem:
        """Return the same model about to serve lists that another part judges."""
        if part == self.part:
            return self
        return self.once(("on", part), lambda: self._made(part=part))

    def replaced(self, part: Part | None = None, **other: Any) -> Problem:
        """Return the same with other arguments; what is known about another part is shared."""
        found = self if part is None else self.on(part)
        return found._made(**other) if other else found

    def under(self, constraints: Constraints | Mapping[str, Any] | None) -> Problem:
        """Return the same model about to serve lists that keep constraints; None and no constraints remove them."""
        return self.replaced(constraints=constraints) if constraints or self.constraints else self

    def with_window(self, history_window: int | None) -> Problem:
        """Return the same model with another number of latest interactions that count as history."""
        same = history_window == self.history_window
        return self if same else self.replaced(history_window=history_window)

    def with_clusters(self, clusters: ArrayLike | None) -> Problem:
        """Return the same model about to serve users of whom those in one cluster are not independent."""
        return self if clusters is self.clusters else self.replaced(clusters=clusters)

    def live(self) -> Problem:
        """Return the live context: all known interactions count as seen. Its lists are not stored."""
        return self.once("live", self._live)

    def _live(self) -> Problem:
        return self.replaced(split=self.split.live(), store=None)

    def _made(self, **other: Any) -> Problem:
        about: dict[str, Any] = {
            "model": self.base,
            "split": self.split,
            "categories": self.categories,
            "part": self.part,
            "k": self.k,
            "store": self.store,
            "constraints": self.constraints,
            "history_window": self.history_window,
            "clusters": self.clusters,
            "fields": self.fields,
        }
        return Problem(**about | other)

    def shuffled(self, seed: int = 0) -> Problem | None:
        """Return the problem with the categories of items shuffled among items of similar popularity.

        A rule that uses categories gains nothing there: it is the control of such a rule. None without categories.
        """
        if not len(self.categories):
            return None
        items = shuffled_within(self.split.train.col_counts, random_generator(seed, SHUFFLES))
        return Problem._made(self, categories=self.categories.take_items(items), store=None)

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives; it is called for the first request of a key only."""
        if key not in self._computed:
            self._computed[key] = compute()
        found: T = self._computed[key]
        return found

    def known_lists(self, goal: Goal) -> dict[float, Lists]:
        """Return the lists of a path that are computed or stored already, by trade-off; new ones may be added."""
        kind = self._kind()
        return self.once((goal, kind), lambda: {} if self.store is None else dict(self.store.read(str(goal), kind)))

    def keep_path(self, goal: Goal) -> None:
        """Hand the known lists of a path to the store, those of every part in one step."""
        if self.store is not None:
            others = [it for key, it in self._computed.items() if isinstance(key, tuple) and key[0] == "on"]
            self.store.write(str(goal), {it._kind(): it.known_lists(goal) for it in (self, *others)})

    def _kind(self) -> str:
        """Return what the store calls these lists; other constraints or another window make other lists."""
        if not self.constraints and self.history_window is None:
            return self.part
        window = {} if self.history_window is None else {"history_window": self.history_window}
        words = json.dumps({**self.constraint_facts, **window}, sort_keys=True)
        return f"{self.part}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"

    @cached_property
    def hidden(self) -> SparseRows:
        """``(n_users, n_items)`` pairs that no list shows: items that the user has seen, and banned items."""
        return self.seen.with_cols(self.resolved.banned)

    @cached_property
    def history(self) -> SparseRows:
        """``(n_users, n_items)`` the interactions that count as history: the latest ones of the window."""
        if self.history_window is None:
            return self.seen
        return self.split.require_order().latest(self.seen, self.history_window)

    def seen_in_time(self, user: int) -> NDArray[np.int32]:
        """Return the items that a user has seen; if a window counts them, the oldest first."""
        if self.history_window is None:
            return self.seen.row(user)
        own, order = self.seen.take_rows(np.array([user])), self.split.require_order().of_users(np.array([user]))
        return own.indices[order.by_time(own)]

    def rank(
        self, model: Ranker, k: int | None = None, *, users: NDArray[Any] | None = None
    ) -> tuple[Lists, NDArray[np.float32]]:
        """Rank the lists that vectors or a rule serve: without hidden items, and under the constraints.

        Args:
            model: The model's vectors, changed ones, or a rule.
            k: Length of the lists; that of the problem by default.
            users: ``(n,)`` row numbers; all users by default.

        Returns:
            ``(n, k)`` item numbers, -1 in empty places, and their scores: those of the vectors, or of the base model
            under a rule. A pinned item has its own score, wherever it is.
        """
        k = self.k if k is None else k
        together = self.constraints.tail_floor > 0 or (isinstance(model, Rule) and model.goal.ties_users)
        if users is not None and together:  # the list of one user depends on those of all users
            items, scores = self.rank(model, k)
            return items[users], scores[users]
        if isinstance(model, Rule):
            items = self.lists_by(model, k, users)
            return items, (self.base if users is None else self.base.of_users(users)).scores_of(items)
        if not self.constraints.exchanges and "pinned" not in self.constraints.stated:
            items, scores = model.rank(k, exclude=self.hidden, users=users)
            return np.asarray(items, np.int64), scores
        pool, scores = model.rank(min(k + DEPTH, model.n_items), exclude=self.hidden, users=users)
        ranked = ListSearch(trade_off=0.0, sort_back=True)  # diversity per user is in the vectors
        bound = self.constrained(ranked, users=users, k=k)
        bound = replace(bound, constraints=replace(bound.constraints, per_user_diversity=None))
        items = np.asarray(bound(pool, scores, k, features=self.features), np.int64)
        return items, (model if users is None else model.of_users(users)).scores_of(items)

    def lists_by(self, rule: Rule, k: int | None = None, users: NDArray[Any] | None = None) -> Lists:
        """Return the lists of a rule, without their scores; see :meth:`rank`.

        The rule runs page by page; each page chooses from the best candidates that earlier pages left.
        """
        if rule.history_weight and rule.history_window != self.history_window:
            raise InputError(
                f"the rule has history_window={rule.history_window}, and the problem {self.history_window}; give both "
                "the same"
            )
        k = self.k if k is None else k
        whole = not self.constraints.exchanges  # without shares, a shorter list begins the page
        page = rule.k if whole else min(k, rule.k)
        features = self.features if users is None else self.features.of_users(users)
        pages: list[Lists] = []
        while sum(it.shape[1] for it in pages) < k:
            # A part of a page need not keep the shares that the page keeps.
            places = page if whole else min(page, k - sum(it.shape[1] for it in pages))
            method = self.constrained(rule.reranker(), users=users, k=0 if pages else places)
            made = method.lists(*self._pool_and_pins(rule, method, places, pages, users), features)
            pages.append(made if pages else self.within_limits(rule.limits, made, users))
        return np.concatenate(pages, 1)[:, :k]

    def _pool_and_pins(
        self, rule: Rule, method: Constrained, places: int, pages: Sequence[Lists], users: NDArray[Any] | None
    ) -> tuple[Pool, NDArray[np.int64]]:
        """Return what a page chooses from; that of first pages is remembered, because all points of a path have it."""

        def made() -> tuple[Pool, NDArray[np.int64]]:
            items, scores = self.candidates_after(pages, rule.candidates, users, rule.boosts)
            if rule.boosts is not None and rule.for_exposure_alone:
                items = first_in_own_order(items, scores, rule.boosts, places)
            return method.pool_and_pins(items, scores, places, self.features)

        if pages or users is not None or rule.boosts is not None:
            return made()
        return self.once(("pool", rule.candidates, places), made)

    def within_limits(self, limits: Mapping[str, float], lists: Lists, users: NDArray[Any] | None = None) -> Lists:
        """Replace lists that could lose more than a limit by base lists.

        Under a floor for the tail they stay: the floor counts over all lists together.

        Args:
            limits: NDCG with a cut -> the largest loss allowed.
            lists: ``(n, k)`` item numbers.
            users: ``(n,)`` row numbers; all users by default.
        """
        if not limits or self.constraints.tail_floor > 0:
            return lists
        base = self.rank(self.base, lists.shape[1], users=users)[0]
        return np.where(beyond_limits(base, lists, limits)[:, None], base, lists)

    def fallback_share(self, rule: Rule) -> float:
        """Return the share of users whose list is the base list because the rule's own could lose too much."""
        if not rule.limits:
            return 0.0
        own = self.rank(replace(rule, limits={}))[0]
        return float((self.within_limits(rule.limits, own) != own).any(1).mean())

    def candidates_after(
        self, pages: Sequence[Lists], n: int, users: NDArray[Any] | None, boosts: NDArray[np.float64] | None = None
    ) -> tuple[Lists, Any]:
        """Return the best candidates that are on no earlier page, and their scores, ``(n_users, n)`` each.

        Args:
            pages: ``(n_users, k)`` items of earlier pages.
            n: How many candidates.
            users: Row numbers of the users; all of them for None.
            boosts: What is added to the score of each item, (n_items,).
        """
        taken = np.concatenate(pages, 1) if pages else np.zeros((1, 0), np.int64)
        depth = n + taken.shape[1]
        if depth <= CANDIDATES:
            items, scores = (array if users is None else array[users] for array in self.candidates)
        else:
            items, scores = self.base.rank(min(depth, self.base.n_items), exclude=self.hidden, users=users)
        if boosts is not None:
            items, scores = ranked_with_boosts(items, scores, boosts)
        if not pages:
            return items[:, :n], scores[:, :n]
        left = ~(items[:, :depth, None] == taken[:, None, :]).any(2)
        order = np.argsort(~left, axis=1, kind="stable")[:, :n]
        gone = ~np.take_along_axis(left, order, 1)
        items, scores = (np.take_along_axis(array[:, :depth], order, 1) for array in (items, scores))
        return np.where(gone, -1, items), np.where(gone, -np.inf, scores)

    def evaluate(
        self, model: Ranker, metrics: Sequence[str] | None = None, *, lists_of: Problem | None = None, **options: Any
    ) -> Evaluation:
        """Evaluate the lists that vectors or a rule serve.

        Under shares and floors, a list of 10 places is not the beginning of the list of 20. Every cut is then judged
        on lists of its own length.

        Args:
            model: The model's vectors, changed ones, or a rule.
            metrics: Names with cuts; the usual ones by default.
            lists_of: The problem that ranks the lists, such as :meth:`shuffled`; this one by default.
            **options: Of :func:`recprism.metrics.evaluate`.
        """
        names, of = DEFAULT_METRICS if metrics is None else tuple(metrics), lists_of or self
        options = {"users": self.split.user_ids, **options}
        if not self.constraints.exchanges:
            return evaluate(of.rank(model, deepest_cut(metrics))[0], self.context, metrics, **options)
        asked = [(parse(name)[0].name, parse(name)[1] or self.k) for name in names]
        parts = []
        for cut in dict.fromkeys(k for _, k in asked):
            own = [f"{metric}@{k}" for metric, k in asked if k == cut]
            parts.append(evaluate(of.rank(model, cut)[0], self.context, own, **options))
        found, place = joined(parts), {f"{metric}@{k}": at for at, (metric, k) in enumerate(asked)}
        return replace(found, scores=tuple(sorted(found.scores, key=lambda score: place[score.name])))

    def constrained(self, rule: ListSearch, *, users: NDArray[Any] | None = None, k: int | None = None) -> Constrained:
        """Return a rule under the problem's constraints.

        Users who have seen a pinned item keep their own item in its place.

        Args:
            rule: How lists are made without constraints.
            users: ``(n,)`` row numbers; all users by default.
            k: Length of the lists; pins beyond it are left out.
        """
        own, n_users = dict[str, Any](), self.seen.n_rows
        if "pinned" in self.constraints.stated:
            pins = self.resolved.pins(n_users, k, self.seen)
            own["pinned"] = pins if users is None else pins[users]
        if users is not None and isinstance(self.resolved.per_user_diversity, np.ndarray):
            own["per_user_diversity"] = self.resolved.per_user_diversity[users]
        return self._bound(rule, **own)

    def _bound(self, rule: ListSearch, **own: Any) -> Constrained:
        return Constrained(rule, replace(self.resolved, **own), self.split.train.col_counts)

    def violations(self, lists: NDArray[Any], *, users: NDArray[Any] | None = None) -> Violations | None:
        """Measure how far lists violate the constraints; None without constraints.

        Args:
            lists: ``(n, k)`` item numbers.
            users: ``(n,)`` row numbers; all users by default. A floor over all lists is not measured on some.
        """
        own, pinned, ids = dict[str, Any](), self.resolved.pinned, self.base.user_ids
        if users is not None:
            own["tail_floor"], ids = 0.0, ids[users]
        if isinstance(pinned, Mapping):
            own["pinned"] = {place: item for place, item in pinned.items() if place <= lists.shape[1]}
        else:
            pins = self.resolved.pins(self.seen.n_rows, lists.shape[1])
            own["pinned"] = pins if users is None else pins[users]
        found = self._bound(ListSearch(trade_off=0.0), **own).report(lists, features=self.features, user_ids=ids)
        return found if found.rows else None

    @property
    def constraint_facts(self) -> dict[str, Any]:
        """The constraints in plain values, by which stored lists and questions differ; items are numbers."""
        found = {**self.constraints.stated}
        found |= {name: getattr(self.resolved, name) for name in ("banned", "pinned") if name in found}
        if self.resolved.fields is not None:
            found["fields"] = hash_of(repr(self.resolved.fields.values).encode())
        return {name: it.tolist() if isinstance(it, np.ndarray) else it for name, it in found.items()}

    @cached_property
    def candidates(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """``(n_users, n)`` items, best first, and their scores; n is 500 or the size of the catalogue."""
        depth = min(CANDIDATES, self.base.n_items)
        items, scores = self.base.rank(depth, exclude=self.hidden)
        return np.asarray(items, np.int64), np.asarray(scores, np.float64)

    @property
    def factors(self) -> Factors:
        """The vectors of the trained model.

        Raises:
            InputError: If the problem has scores only.
        """
        if not isinstance(self.base, Factors):
            raise InputError(
                "this needs vectors, and the model has scores and no vectors; goals of categories, their reasons and "
                "the export of the rule work without them"
            )
        return self.base

    @property
    def item_vectors(self) -> NDArray[np.float32] | None:
        """The item vectors of the trained model; None if the problem has scores only."""
        return self.base.item if isinstance(self.base, Factors) else None

    @cached_property
    def features(self) -> Features:
        """What re-rankers may look at."""
        if not len(self.categories):
            return Features(vectors=self.item_vectors)
        return Features(
            vectors=self.item_vectors,
            categories=self.categories,
            user_categories=category_probabilities(self.history, self.categories),
        )

    @cached_property
    def context(self) -> Context:
        """What metrics look at."""
        return Context.from_split(self.split, self.part, categories=self.categories, vectors=self.item_vectors)

    @cached_property
    def base_lists(self) -> Lists:
        """``(n_users, k)`` the lists of the model as it is, under the constraints."""
        return self.candidates[0][:, : self.k] if not self.constraints else self.rank(self.base)[0]

    def judge(self, lists: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
        """Measure lists.

        Args:
            lists: ``(n_users, n)`` item numbers.
            names: Metrics with cuts.

        Returns:
            Name -> ``(n_users,)`` values, NaN for users who cannot be judged; ``(1,)`` for a metric of all lists
            together.
        """
        found = evaluate(self.filled_up(lists, names), self.context, names, bootstrap=0, users=self.split.user_ids)
        return {score.name: found.values.get(score.name, np.array([score.mean])) for score in found.scores}

    def judge_items(self, lists: NDArray[Any], names: tuple[str, ...]) -> dict[str, list[float]]:
        """Measure lists of any users by metrics that look at the items alone, and not at who sees them.

        Args:
            lists: ``(n, k)`` item numbers.
            names: Metrics with cuts, one value for each list.

        Returns:
            Name -> ``(n,)`` values.
        """
        categories = self.categories if len(self.categories) else None
        context = self.once("context of items", lambda: Context(categories=categories, vectors=self.item_vectors))
        found = evaluate(lists, context, names, bootstrap=0)
        return {name: found.values[name].tolist() for name in names}

    def filled_up(self, lists: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
        """Append the best remaining candidates, as far as a guard such as recall@20 looks."""
        depth = max(int(name.partition("@")[2]) for name in names)
        if depth <= lists.shape[1]:
            return lists
        items = self.candidates[0][:, :depth]  # a list takes as many of them at most as it has places: enough are left
        taken = (items[:, :, None] == lists[:, None, :]).any(2)
        order = np.argsort(taken, axis=1, kind="stable")
        rest = np.take_along_axis(np.where(taken, -1, items), order, 1)
        return np.concatenate([lists, rest[:, : depth - lists.shape[1]]], 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes and settings in plain values."""
        return {
            "users": self.base.n_users,
            "items": self.base.n_items,
            **({"factors": self.base.dim} if isinstance(self.base, Factors) else {}),
            "categories": len(self.categories),
            "k": self.k,
            "judged_on": self.part,
            "labels": len(self.split.part(self.part)),
            **({"constraints": len(self.constraints.stated)} if self.constraints else {}),
            **({} if self.history_window is None else {"history_window": self.history_window}),
        }


def _numbered(clusters: ArrayLike, n_users: int) -> NDArray[np.int64]:
    """Return ``(n_users,)`` cluster numbers, in the order of the first user of each."""
    given = as_id_array(clusters, "cluster", distinct=False)
    if len(given) != n_users:
        raise InputError(f"there are {n_users} users and {len(given)} clusters of users; give one for each user")
    _, first, numbers = np.unique(given, return_index=True, return_inverse=True)
    found: NDArray[np.int64] = np.argsort(np.argsort(first))[numbers]
    return found


def _require_same_rows(model: Factors | ScoredCandidates, split: Split) -> None:
    """Vectors of another library come in its own order: row numbers would then mean other users and items."""
    sides = (("users", model.user_ids, split.user_ids), ("items", model.item_ids, split.item_ids))
    for side, ours, theirs in sides:
        if not np.array_equal(ours, theirs):
            raise InputError(
                f"the {side} of the model are not those of the split in the same order; put them in order with "
                "recprism.runs.jobs.aligned(factors, split), or make a run of them with run_from_factors"
            )
