"""The tables that training a feature-aware model needs, in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from recprism.cmb.text.aspect_topics import N_CLUSTERS, aspect_topics
from recprism.cmb.text.aspects import AspectSettings
from recprism.cmb.text.efm import item_quality, user_attention
from recprism.cmb.text.feature_files import features_to_frame, read_mentions
from recprism.cmb.text.reviews import Extraction, extract_features, read_reviews, summarised
from recprism.common.files import atomic_path
from recprism.common.progress import ProgressCallback
from recprism.data.readers.tables import ROW
from recprism.errors import InputError


@dataclass(frozen=True, eq=False)
class FeatureTables:
    """Tables about features.

    Attributes:
        features: The columns feature, mentions, reviews, positive, example; the most mentioned first.
        tables: Name -> table: mentions, interactions, item_features, user_features. If there are enough features to
            cluster, also categories (of items) and clusters (of features).

    Stability: experimental.
    """

    features: pl.DataFrame
    tables: dict[str, pl.DataFrame]

    def write(self, folder: str | Path) -> dict[str, Path]:
        """Write each table as Parquet; returns name -> path."""
        return write_tables({"features": self.features, **self.tables}, folder)


def write_tables(tables: dict[str, pl.DataFrame], folder: str | Path) -> dict[str, Path]:
    paths = {name: Path(folder) / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        with atomic_path(path) as temporary:
            tables[name].write_parquet(temporary)
    return paths


def tables_of_reviews(
    path: str | Path,
    settings: AspectSettings | None = None,
    *,
    clusters: int = N_CLUSTERS,
    on_step: ProgressCallback | None = None,
) -> FeatureTables:
    """Read Amazon reviews and extract their features."""
    reviews = read_reviews(path)
    found = extract_features(reviews, settings, on_step=on_step)
    return _tables(found, reviews.drop("text", ROW), clusters)


def tables_of_tuples(
    path: str | Path, *, top: int | None = None, clusters: int = N_CLUSTERS, columns: Mapping[str, str] | None = None
) -> FeatureTables:
    """Read (user, item, feature, sentiment) tuples of another tool.

    Every pair of a user and an item counts as one review and one interaction.

    Args:
        path: The file; see :func:`read_mentions`.
        top: Keep this many of the most mentioned features; None keeps all.
        clusters: Largest number of clusters of features.
        columns: Our name -> the name in the file.
    """
    mentions = read_mentions(path, columns)
    if top is not None:
        if top < 1:
            raise InputError(f"top is {top}; pass a whole number of at least 1")
        frequent = mentions["feature"].value_counts(name="n").sort(["n", "feature"], descending=[True, False]).head(top)
        mentions = mentions.join(frequent, on="feature", how="semi", maintain_order="left")
    pair = pl.struct("user_id", "item_id").rank("dense").alias("review")
    clause = pl.lit(None, pl.String).alias("clause")
    found = Extraction(mentions, summarised(mentions.with_columns(pair, clause)))
    return _tables(found, mentions.select("user_id", "item_id").unique(maintain_order=True), clusters)


def _tables(found: Extraction, interactions: pl.DataFrame, clusters: int) -> FeatureTables:
    tables = {
        "mentions": found.mentions,
        "interactions": interactions,
        "item_features": features_to_frame(item_quality(found.mentions), "item_id"),
        "user_features": features_to_frame(user_attention(found.mentions), "user_id"),
    }
    # A cluster needs at least two features: with few features there are fewer clusters, or none.
    n_clusters = min(clusters, found.features.height // 2)
    if n_clusters >= 2:
        categories = aspect_topics(found.mentions, n_clusters)
        tables |= {"categories": categories.items, "clusters": categories.clusters}
    return FeatureTables(found.features, tables)
