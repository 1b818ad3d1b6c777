"""Random worlds for the oracles of metrics, and what ndeval answers about them.

tools/record_ndeval.py and the tests make the same worlds from here. A seed gives the same world as long as NumPy draws
the same numbers; ``fingerprint`` tells when it does not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.data.sparse_rows import SparseRows
from recprism.metrics import Context

DEPTH = 20
SHAPES = [  # users, items, categories, categories per item at most
    (40, 60, 6, 3),
    (30, 300, 18, 3),
    (50, 25, 3, 2),
    (20, 150, 30, 5),
    (60, 40, 12, 1),
]


@dataclass(frozen=True)
class Case:
    """A random world; ``lists`` holds plain Python lists without padding."""

    items: NDArray[np.int64]
    lists: list[list[int]]
    relevant: list[set[int]]
    categories: list[set[int]]
    weights: NDArray[np.float64]
    vectors: NDArray[np.float64]
    train: SparseRows
    context: Context


def make_case(seed: int, n_users: int, n_items: int, n_categories: int, per_item: int) -> Case:
    generator = np.random.default_rng(seed)
    items = np.stack([generator.permutation(n_items)[:DEPTH] for _ in range(n_users)])
    for user in generator.choice(n_users, n_users // 4, replace=False):
        items[user, generator.integers(1, DEPTH) :] = -1
    held_out = generator.random((n_users, n_items)) < generator.uniform(0.02, 0.3, (n_users, 1))
    held_out[:3] = False
    held_out[4] = True  # more held out than the list has places
    member = np.zeros((n_items, n_categories), bool)
    for item in range(n_items):
        member[item, generator.choice(n_categories, generator.integers(0, per_item + 1), replace=False)] = True
    member[generator.permutation(n_items)[:n_categories], np.arange(n_categories)] = True  # every category exists
    weights = member * generator.uniform(0.2, 3.0, member.shape)
    weights = weights.astype(np.float32).astype(np.float64)  # contexts keep weights as float32
    vectors = generator.standard_normal((n_items, 7))
    train = SparseRows.coerce((generator.random((n_users, n_items)) < 0.15 * generator.random(n_items)) & ~held_out)
    return Case(
        items,
        [[int(item) for item in row if item >= 0] for row in items],
        [set(np.flatnonzero(row).tolist()) for row in held_out],
        [set(np.flatnonzero(row).tolist()) for row in member],
        weights,
        vectors,
        train,
        Context(relevant=held_out, train=train, categories=weights, vectors=vectors, attributes=weights),
    )


CASES = {"x".join(map(str, shape)): make_case(seed, *shape) for seed, shape in enumerate(SHAPES)}


def own_categories(case: Case) -> list[set[int]]:
    """Categories among all the user's interactions, training and held out."""
    interactions = [set(case.train.row(user).tolist()) | relevant for user, relevant in enumerate(case.relevant)]
    return [set().union(*(case.categories[item] for item in items)) for items in interactions]


def fingerprint(case: Case) -> str:
    """A hash of all that ndeval's answers depend on."""
    told = [
        case.lists,
        *([sorted(own) for own in sets] for sets in (case.categories, own_categories(case), case.relevant)),
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


# Powers of these are exact: elsewhere ndeval's rounding, not its rule, decides between equal gains.
ALPHAS = (0.5, 0.25, 0.75)
CUTS = (5, 10, 20)
RELEVANCE_AWARE = {"alpha_ndcg_relevant": "alpha-nDCG", "err_ia": "ERR-IA"}


def ask_ndeval(case: Case) -> dict[str, list[float | None]]:
    """Run ndeval.

    Returns:
        One value per user under each name: ``alpha_ndcg A@K`` with the ideal of the whole catalogue,
        ``subtopic_coverage@K`` (ndeval's strec), and ``alpha_ndcg_gated@10``,
        where only the user's own categories are judged (None: nothing to judge). ``alpha_ndcg_relevant@K`` and
        ``err_ia@K``, where only the user's held-out items are judged.
    """
    answers: dict[str, list[float | None]] = {}
    for alpha in ALPHAS:
        found = _ndeval([f"alpha-nDCG@{k}" for k in CUTS], alpha, case.categories, case.lists)
        answers |= {f"alpha_ndcg {alpha}@{k}": list(found[f"alpha-nDCG@{k}"]) for k in CUTS}
    found = _ndeval([f"strec@{k}" for k in CUTS], 0.5, case.categories, case.lists)
    answers |= {f"subtopic_coverage@{k}": list(found[f"strec@{k}"]) for k in CUTS}
    gated = answers["alpha_ndcg_gated@10"] = []
    for gate, items in zip(own_categories(case), case.lists, strict=True):
        judged = [categories & gate for categories in case.categories]
        gated.append(_ndeval(["alpha-nDCG@10"], 0.5, judged, [items])["alpha-nDCG@10"][0] if any(judged) else None)
    for name, measure in RELEVANCE_AWARE.items():
        answers |= {f"{name}@{k}": _of_relevant(f"{measure}@{k}", case) for k in CUTS}
    return answers


def _of_relevant(measure: str, case: Case) -> list[float | None]:
    def of_user(relevant: set[int], items: list[int]) -> float | None:
        judged = [own if item in relevant else set() for item, own in enumerate(case.categories)]
        return _ndeval([measure], 0.5, judged, [items])[measure][0] if any(judged) else None

    return [of_user(*pair) for pair in zip(case.relevant, case.lists, strict=True)]


def _ndeval(
    measures: list[str], alpha: float, categories: list[set[int]], lists: list[list[int]]
) -> dict[str, list[float]]:
    """Every item with a category is judged. Of equal gains ndeval takes the highest name: items are named backwards."""
    import pyndeval

    def name(item: int) -> str:
        return f"{len(categories) - item:06}"

    users = range(len(lists))
    judgements = [
        pyndeval.SubtopicQrel(str(user), str(category), name(item), 1)
        for user in users
        for item, own in enumerate(categories)
        for category in sorted(own)
    ]
    run = [
        pyndeval.ScoredDoc(str(user), name(item), float(-place))
        for user in users
        for place, item in enumerate(lists[user])
    ]
    found = pyndeval.ndeval(judgements, run, measures, alpha=alpha)
    return {measure: [found[str(user)][measure] for user in users] for measure in measures}
