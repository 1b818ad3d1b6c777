"""Features from review text: which user mentions which feature of which item, and with what sentiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from recprism.cmb.text._clauses import Clause, clauses
from recprism.cmb.text._sentiment import ClauseSentiment, opinion_words
from recprism.cmb.text.aspects import AspectSettings, Evidence, aspects_in
from recprism.common.files import readable
from recprism.common.progress import ProgressCallback, count_steps
from recprism.data.readers.json_lines import read_json_lines
from recprism.data.readers.tables import ROW
from recprism.errors import InputError

REVIEW_SCHEMA = {
    ROW: pl.UInt32,
    "user_id": pl.String,
    "item_id": pl.String,
    "rating": pl.Float64,
    "timestamp": pl.Int64,
    "text": pl.String,
}
MENTION_SCHEMA = {"user_id": pl.String, "item_id": pl.String, "feature": pl.String, "sentiment": pl.Float64}
EXAMPLE_WORDS = range(4, 16)  # lengths of a clause that can serve as an example


@dataclass(frozen=True, eq=False)
class Extraction:
    """Features found in reviews.

    Attributes:
        mentions: The columns user_id, item_id, feature, sentiment (-1 to 1); one row per mention.
        features: The columns feature, mentions, reviews, positive, example; the most mentioned first. "positive" is
            the share of praise among praise and blame, or null without either.
    """

    mentions: pl.DataFrame
    features: pl.DataFrame


def read_reviews(path: str | Path) -> pl.DataFrame:
    """Read Amazon reviews, one JSON object per line, plain or compressed.

    Args:
        path: The file.

    Returns:
        The columns user_id, item_id, rating, timestamp, text. The summary is the first sentence of ``text``.

    Raises:
        InputError: A row is not a review.
    """
    rows = [_review(row, entry, str(path)) for row, entry in read_json_lines(path)]
    with readable(path, "not a file of reviews", "fix or remove what is out of range"):
        return pl.DataFrame(rows, schema=REVIEW_SCHEMA, orient="row")


def extract_features(
    reviews: pl.DataFrame, settings: AspectSettings | None = None, *, on_step: ProgressCallback | None = None
) -> Extraction:
    """Find the aspects in reviews, and the sentiment of each mention.

    Args:
        reviews: The columns user_id, item_id, text.
        settings: Which nouns are aspects.
        on_step: Receives how many reviews are done, and how many there are.

    Returns:
        The mentions and the features.

    Raises:
        InputError: No aspect was found.
    """
    texts = reviews["text"].to_list()
    evidence, opinions, parsed = Evidence(), opinion_words(), []
    step = count_steps(on_step, "reading reviews", len(texts))
    for text in texts:
        parsed.append(clauses(text))
        evidence.add_review(parsed[-1], opinions)
        step()
    aspects = evidence.choose(settings or AspectSettings())
    if not aspects:
        raise InputError(
            f"no aspect was found in {len(texts)} reviews; ask for less (min_mentions, max_share, min_opinion), "
            "or give more reviews: they must be English"
        )
    return _with_sentiment(reviews, parsed, aspects)


def _review(row: int, entry: dict[str, Any], where: str) -> tuple[Any, ...]:
    try:
        user, item, text = entry["reviewerID"], entry["asin"], entry["reviewText"]
        rating, time = float(entry["overall"]), int(entry["unixReviewTime"])
    except KeyError as missing:
        raise InputError(f"{where}, row {row}: no field {missing}; is it an Amazon review file?") from None
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}, row {row}: overall or unixReviewTime is not a number; fix the row") from None
    if not user or not item:
        raise InputError(f"{where}, row {row}: reviewerID or asin is empty; fix or remove the row")
    return row, str(user), str(item), rating, time, f"{entry.get('summary') or ''}. {text or ''}"


def _with_sentiment(reviews: pl.DataFrame, parsed: Sequence[list[Clause]], aspects: list[str]) -> Extraction:
    known, sentiment = frozenset(aspects), ClauseSentiment(aspects)
    rows = []
    for number, (user, item) in enumerate(reviews.select("user_id", "item_id").iter_rows()):
        for clause in parsed[number]:
            mentioned = [aspect for run in clause.runs for aspect in aspects_in(run, known)]
            if mentioned:
                value = sentiment(clause.text)
                rows += [(user, item, aspect, value, number, clause.text) for aspect in mentioned]
    schema = {**MENTION_SCHEMA, "review": pl.UInt32, "clause": pl.String}
    found = pl.DataFrame(rows, schema=schema, orient="row")
    return Extraction(found.select(*MENTION_SCHEMA), summarised(found))


def summarised(found: pl.DataFrame) -> pl.DataFrame:
    """Return the features of an :class:`Extraction` from mentions with their review and clause."""
    praise, blame = (pl.col("sentiment") > 0).sum(), (pl.col("sentiment") < 0).sum()
    positive = pl.when(praise + blame > 0).then(praise / (praise + blame))
    length = pl.col("clause").str.split(" ").list.len()
    telling = pl.col("sentiment").abs() * length.is_in(list(EXAMPLE_WORDS))
    return (
        found.group_by("feature", maintain_order=True)
        .agg(
            pl.len().alias("mentions"),
            pl.col("review").n_unique().alias("reviews"),
            positive.alias("positive"),
            pl.col("clause").sort_by(telling, descending=True, maintain_order=True).first().alias("example"),
        )
        .sort(["mentions", "feature"], descending=[True, False])
    )
