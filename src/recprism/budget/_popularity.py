"""The popularity baseline beside any lists: what a table of figures is read against."""

from __future__ import annotations

from collections.abc import Sequence

from recprism.data.split import Part, Split
from recprism.metrics import Context, Evaluation, deepest_cut, evaluate
from recprism.models._popularity import popularity

POPULARITY = "popularity"


def judged_popularity(split: Split, part: Part, context: Context, metrics: Sequence[str] | None) -> Evaluation:
    """The most popular items that each user has not seen before ``part``, judged as the lists of a model are."""
    items, _ = popularity(split).rank(deepest_cut(metrics), exclude=split.seen_before(part))
    return evaluate(items, context, metrics, bootstrap=0, users=split.user_ids)


def beside_popularity(found: Evaluation, split: Split, part: Part, context: Context) -> Evaluation:
    """An evaluation whose rows say what popularity reaches; as it is where nothing tells what is popular."""
    if not len(split.train) or not found.scores:
        return found
    return found.with_popularity(judged_popularity(split, part, context, [score.name for score in found.scores]))
