"""Categories for items that have only reviews: clusters of aspects that occur together.

Aspects that occur in the same reviews (string, neck, bridge; mic, recording, voice) form a cluster. An item belongs to
the clusters that its reviews mention more often than other reviews do. The clusters replace the categories of a
catalogue; they are made from the same mentions as the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.common.ids import number_ids
from recprism.errors import InputError

N_CLUSTERS = 12
RESTARTS, ROUNDS = 20, 100
NAMED_BY = 3  # aspects in the name of a cluster


@dataclass(frozen=True, eq=False)
class AspectTopics:
    """Clusters of aspects.

    Attributes:
        clusters: The columns feature, category.
        items: A long table item_id, category.
    """

    clusters: pl.DataFrame
    items: pl.DataFrame


def aspect_topics(
    mentions: pl.DataFrame, n_clusters: int = N_CLUSTERS, *, lift: float = 1.5, min_mentions: int = 2, seed: int = 0
) -> AspectTopics:
    """Cluster the features of mentions, and assign clusters to items.

    An item without a cluster gets the one with the largest lift.

    Args:
        mentions: The columns user_id, item_id, feature.
        n_clusters: Number of clusters.
        lift: The share of the cluster in the item's mentions must be at least this many times its share in all.
        min_mentions: The item's reviews must mention the cluster at least this often.
        seed: Seed of the clustering.

    Raises:
        InputError: There are fewer features than clusters.
    """
    names, vectors = cooccurrence(mentions)
    if not 2 <= n_clusters <= len(names):
        raise InputError(f"{n_clusters} clusters of {len(names)} features; ask for 2 to {len(names)}")
    cluster = spherical_kmeans(vectors, n_clusters, seed)
    counts = dict(mentions["feature"].value_counts().iter_rows())
    titles = [
        "/".join(
            sorted((names[at] for at in np.flatnonzero(cluster == number)), key=lambda it: (-counts[it], it))[:NAMED_BY]
        )
        for number in range(n_clusters)
    ]
    clusters = pl.DataFrame({"feature": names, "category": [titles[number] for number in cluster]})
    return AspectTopics(clusters, _of_items(mentions.join(clusters, on="feature"), lift, min_mentions))


def cooccurrence(mentions: pl.DataFrame) -> tuple[list[str], NDArray[np.float64]]:
    """Return the features, and ``(d, d)`` unit rows: how much more often than by chance two share a review.

    The measure is log(p(a, b) / (p(a) p(b))), or 0 if that is negative. A review is a user and an item.
    """
    from scipy.sparse import csr_array

    once = mentions.select("user_id", "item_id", "feature").unique(maintain_order=True)
    review = once.select(pl.struct("user_id", "item_id").rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    names, feature = number_ids(once["feature"])
    n_reviews = int(review.max(initial=-1)) + 1
    stands = csr_array((np.ones(len(review)), (review, feature)), shape=(n_reviews, len(names)))
    together = (stands.T @ stands).toarray()
    alone = np.diag(together)
    expected = np.outer(alone, alone) / max(n_reviews, 1)
    surprise = np.log(np.maximum(together, 1e-12) / np.maximum(expected, 1e-12)).clip(min=0)
    norm = np.linalg.norm(surprise, axis=1, keepdims=True)
    return [str(name) for name in names], surprise / np.where(norm > 0, norm, 1)


def spherical_kmeans(vectors: NDArray[np.float64], n_clusters: int, seed: int = 0) -> NDArray[np.int64]:
    """Cluster ``(n, d)`` unit rows: ``(n,)`` cluster numbers, the best of several starts. No cluster is empty."""
    generator = random_generator(seed)
    best, best_fit = np.zeros(len(vectors), np.int64), -np.inf
    for _ in range(RESTARTS):
        cluster, fit = _converge(vectors, vectors[_spread_start(vectors, n_clusters, generator)])
        if fit > best_fit + 1e-12:
            best, best_fit = cluster, fit
    return best


def _spread_start(vectors: NDArray[np.float64], n_clusters: int, generator: np.random.Generator) -> list[int]:
    """k-means++: draw each next centre in proportion to its distance from those before."""
    chosen = [int(generator.integers(len(vectors)))]
    while len(chosen) < n_clusters:
        distance = (1 - vectors @ vectors[chosen].T).min(1).clip(min=0)
        distance[chosen] = 0
        weight = distance if distance.sum() > 0 else np.isin(np.arange(len(vectors)), chosen, invert=True) * 1.0
        chosen.append(int(generator.choice(len(vectors), p=weight / weight.sum())))
    return chosen


def _converge(vectors: NDArray[np.float64], centres: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    cluster = np.full(len(vectors), -1, np.int64)
    for _ in range(ROUNDS):
        closeness = vectors @ centres.T
        moved = closeness.argmax(1)
        for empty in np.setdiff1d(np.arange(len(centres)), moved):
            # The vector that fits its cluster worst moves to the empty one, unless it is alone.
            crowded = np.bincount(moved, minlength=len(centres))[moved] > 1
            moved[np.where(crowded, closeness.max(1), np.inf).argmin()] = empty
        if (moved == cluster).all():
            break
        cluster = moved
        centres = np.stack([vectors[cluster == number].sum(0) for number in range(len(centres))])
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return cluster, float((vectors * centres[cluster]).sum())


def _of_items(mentions: pl.DataFrame, lift: float, min_mentions: int) -> pl.DataFrame:
    usual = mentions["category"].value_counts(name="all").with_columns(pl.col("all") / mentions.height)
    counted = (
        mentions.group_by("item_id", "category")
        .agg(pl.len().alias("n"))
        .join(usual, on="category")
        .with_columns((pl.col("n") / pl.col("n").sum().over("item_id") / pl.col("all")).alias("lift"))
    )
    often = (pl.col("lift") >= lift) & (pl.col("n") >= min_mentions)
    strongest = (pl.col("lift") == pl.col("lift").max().over("item_id")) & ~often.any().over("item_id")
    return counted.filter(often | strongest).select("item_id", "category").sort("item_id", "category")
