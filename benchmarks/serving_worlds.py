"""What benchmarks/serving.py serves: two catalogues with base and swapped vectors, and indexes of FAISS over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.forms import UserVectors
from recprism.forms.dials.solve import lists_to_vectors, widen_margins
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.rivals import reranker
from recprism.rule import Features
from recprism.runs.run import Run

K, POOL = 10, 100
Lists = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(eq=False)
class World:
    """base: as trained; served: user vectors that hold more diverse lists; seen: what is never shown again."""

    name: str
    base: Factors
    served: Factors
    context: Context
    seen: SparseRows | None

    @cached_property
    def lists(self) -> tuple[Lists, Lists]:
        """Exact ones of base and of swapped vectors."""
        return tuple(it.rank(K, exclude=self.seen)[0] for it in (self.base, self.served))  # type: ignore[return-value]

    @cached_property
    def allowed(self) -> list[Any]:
        """One selector of FAISS a user, for what may be shown; None where everything may."""
        if self.seen is None:
            return [None] * self.base.n_users
        found = []
        for user in range(self.base.n_users):
            may = np.ones(self.base.n_items, bool)
            may[self.seen.row(user)] = False
            bits = np.packbits(may, bitorder="little")
            selector = faiss.IDSelectorBitmap(bits)
            selector.bits = bits  # which it only points to
            found.append(selector)
        return found

    def firmer(self, margin: float | None = None, decoded: Vectors | None = None) -> Vectors:
        """User vectors for the same lists, as `recprism export --margin` and `--for-index` make them."""
        return widen_margins(self.served, K, exclude=self.seen, margin=margin, decoded=decoded)[0].user

    def subtopic_coverage(self, lists: Lists) -> float:
        return float(evaluate(lists, self.context, ["subtopic_coverage@10"], bootstrap=0)["subtopic_coverage@10"].mean)


def movielens(path: str) -> World:
    run = Run.open(path)
    found = run.load_result()
    context = Context.from_split(run.split(), "test", categories=run.categories())
    served = UserVectors().compile(found.problem, found.own_rule())
    return World("ML-1M", run.factors(), served, context, found.problem.seen)


def million(n_items: int, n_users: int, seed: int = 0) -> World:
    """Made: items in clusters of themes, some far more popular (longer) than others; the theme and chance give
    categories.

    Lists are the re-ranker's best mix of score and categories among the first hundred.
    """
    dim, n_categories, n_clusters = 48, 20, 4000
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> Vectors:
        return generator.standard_normal(shape, np.float32)

    theme_of = generator.integers(0, n_categories, n_clusters)
    centres = 0.7 * normal(n_categories, dim)[theme_of] + normal(n_clusters, dim)
    cluster = generator.integers(0, n_clusters, n_items)
    fading = np.arange(1, dim + 1, dtype=np.float32) ** -0.5  # later factors count for less, as in trained ones
    length = np.exp(0.35 * normal(n_items, 1)) / np.sqrt(np.square(fading).sum())
    item = (centres[cluster] + 0.5 * normal(n_items, dim)) * fading * length
    user = centres[generator.integers(0, n_clusters, (n_users, 4))].mean(1) + 0.3 * normal(n_users, dim)
    about = generator.random((n_items, n_categories)) < 0.06
    about[np.arange(n_items), theme_of[cluster]] = True
    rows, categories = np.nonzero(about)
    categories = Categories.from_pairs(
        rows, np.array([f"category {at:02}" for at in range(n_categories)])[categories], n_items
    )
    base = Factors.from_arrays(user, item)
    pool, scores = base.rank(POOL)
    wanted = reranker("optimal_subtopic_coverage", trade_off=0.1)(
        pool, scores, K, features=Features(categories=categories)
    )
    served = lists_to_vectors(base, np.asarray(wanted, np.int64), order=True).applied_to(base)
    context = Context(relevant=SparseRows.empty((n_users, n_items)), categories=categories)
    return World(f"{n_items:,} synthetic items", base, served, context, None)


@dataclass(eq=False)
class Index:
    """One of FAISS, by inner product.

    efforts: how hard a search may try (cells or nodes looked at), rising; (0,) where there is no choice
    params: (selector, effort) -> parameters of one search
    """

    name: str
    index: Any
    params: Callable[[Any, int], Any]
    efforts: tuple[int, ...] = (0,)
    rounds: bool = field(default=False)

    def ask(self, vector: Vectors, k: int, selector: Any, effort: int) -> tuple[Vectors, Lists]:
        """Scores and items, (1, k) each, for one vector (1, d)."""
        found: tuple[Vectors, Lists] = self.index.search(vector, k, params=self.params(selector, effort))
        return found

    def lists(self, vectors: Vectors, world: World, effort: int) -> Lists:
        if world.seen is None:
            return np.asarray(self.index.search(vectors, K, params=self.params(None, effort))[1], np.int64)
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # one vector is too little to share
        found = [self.ask(vectors[at : at + 1], K, only, effort)[1] for at, only in enumerate(world.allowed)]
        faiss.omp_set_num_threads(threads)
        return np.concatenate(found)

    def decoded(self) -> Vectors:
        cells = faiss.try_extract_index_ivf(self.index)
        if cells is not None and cells.direct_map.type == faiss.DirectMap.NoMap:
            cells.make_direct_map()
        return np.asarray(self.index.reconstruct_n(0, self.index.ntotal))


def flat(item: Vectors) -> Index:
    index = faiss.IndexFlatIP(item.shape[1])
    index.add(item)
    return Index("flat", index, lambda only, _: faiss.SearchParameters(sel=only))


def hnsw(item: Vectors, efforts: tuple[int, ...]) -> Index:
    index = faiss.IndexHNSWFlat(item.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 40
    index.add(item)
    return Index("HNSW", index, lambda only, ef: faiss.SearchParametersHNSW(sel=only, efSearch=ef), efforts)


def ivf_pq(item: Vectors, cells: int, efforts: tuple[int, ...]) -> Index:
    """Half a byte a factor: codes of 8 bits for two factors at a time."""
    dim = item.shape[1]
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dim), dim, cells, dim // 2, 8, faiss.METRIC_INNER_PRODUCT)
    _train(index, item)
    index.add(item)
    name = f"IVF-PQ ({cells:,} cells, {dim // 2} bytes)"
    return Index(
        name, index, lambda only, cells: faiss.SearchParametersIVF(sel=only, nprobe=cells), efforts, rounds=True
    )


def int8(item: Vectors) -> Index:
    index = faiss.IndexScalarQuantizer(item.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    _train(index, item)
    index.add(item)
    return Index("int8", index, lambda only, _: faiss.SearchParameters(sel=only), rounds=True)


def _train(index: Any, item: Vectors) -> None:
    index.train(item[np.random.default_rng(0).permutation(len(item))[:50_000]])
