"""One list from candidates, scores, and categories or embeddings: no run, no training, no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from recprism.common.ids import Id
from recprism.forms.rule_file import RuleFile
from recprism.rule.constraints.constraints import Constraints
from recprism.serving._inputs import as_ids
from recprism.serving._shown import as_shown
from recprism.serving.ranked import Ranked
from recprism.serving.rule import ServedRule


def diversify_list(
    ids: Sequence[Id] | NDArray[Any],
    scores: ArrayLike,
    *,
    categories: Any = None,
    embeddings: ArrayLike | None = None,
    k: int = 10,
    trade_off: float | str = 0.2,
    goal: str | Mapping[str, float] | None = None,
    constraints: Constraints | Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    shown: Iterable[tuple[Id, float]] | None = None,
    no_repeat: int | None = None,
    half_life: float | None = None,
    reasons: bool = True,
) -> Ranked:
    """Choose a diverse list from candidates with scores, and say why each item is in it.

    It needs numpy and numba alone, and is :meth:`recprism.serving.ServedRule.rerank` of :meth:`RuleFile.of` for the
    candidates. For many lists of the same items, make that rule once. The first call compiles for up to a minute, or
    reads compiled code from its cache.

    Args:
        ids: Ids of the candidates, (n,), in any order.
        scores: One score per candidate, (n,); larger is better, on any scale. -inf is not shown.
        categories: For each candidate a name, several names, or None; or a matrix, (n, n_categories), whose values
            other than 0 say that the item has the category.
        embeddings: Vectors of the candidates, (n, d); only directions count.
        k: Length of the list. With fewer candidates it has all of them, and ``notes`` says so.
        trade_off: From 0, the order of the scores, to 1, diversity alone.
        goal: "subtopic_coverage" (more categories), "ilad_subtopics" (distance by categories), "ilad" (distance by
            embeddings), several joined by "+", or weights by name. By default what the items have: more categories,
            distance by embeddings, or both.
        constraints: What the list must keep, as in :class:`recprism.rule.Constraints`.
        fields: Field -> for each candidate a value, several values, or None, such as the author. The constraints
            ``max_items`` and ``spacing`` look at them.
        shown: Ids of earlier pages with their ages in pages, [(id, 1), ...] for the page before. They are not shown
            again, and their categories and near-duplicates count as partly there; keep them among the candidates,
            because their categories and vectors are read there.
        no_repeat: Number of pages after which a shown item may come again; never by default.
        half_life: Pages after which what was shown counts half; 1 by default.
        reasons: Whether reasons are computed.

    Raises:
        InputError: If an argument is invalid, or there are neither categories nor embeddings.

    >>> found = diversify_list(["a", "b", "c"], [3, 2, 1], categories=["jazz", "jazz", "rock"], k=2, trade_off=0.5)
    >>> found.ids, found.base
    (('a', 'c'), ('a', 'b'))
    """
    settings = {"categories": categories, "embeddings": embeddings, "goal": goal, "trade_off": trade_off, "k": k}
    given = as_ids(ids, "ids")
    served = ServedRule(RuleFile.of(given, **settings, constraints=constraints))
    served.has_ids(given)
    pages = as_shown(shown, no_repeat, half_life)
    return served.rerank(given, scores, fields=fields, reasons=reasons, shown=pages)
