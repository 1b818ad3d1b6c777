"""Rankers for Haystack pipelines: diverse documents with reasons, by an exported rule or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recprism.common.extras import needing
from recprism.common.ids import canonical_text
from recprism.errors import InputError
from recprism.integrations._documents import REASON, choose
from recprism.rule.constraints.violations import Unmet
from recprism.serving.ranked import Ranked
from recprism.serving.rule import ServedRule, load_rule

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError:

    class _NoHaystack:
        """Leaves the class below as it is, so that it can be imported and documented without Haystack."""

        def __call__(self, decorated: type) -> type:
            return decorated

        def output_types(self, **_: type) -> Callable[[Any], Any]:
            return lambda method: method

    component = _NoHaystack()
    Document = Any


@component
class RecprismRanker:
    """Choose the documents of a list by an exported rule, and say why each is there.

    Documents need a score. The ranker returns them in the order of the rule. With reasons they are copies, with the
    reason in ``meta["recprism_reason"]``; without reasons they are the given ones.

    Args:
        export: The folder of ``recprism export RUN``.
        top_k: Length of the list; that of the rule by default.
        price: Another trade-off than that of the rule, from 0 to 1, or a name in ``prices``.
        id_field: The field of ``meta`` with the item id; by default the id of the document is that of the item.
        prices: Trade-offs by the name of a user or a segment.
        candidates: How many of the best documents the rule chooses from; that of the export by default.
        reasons: Whether reasons are computed.

    Raises:
        MissingDependencyError: If Haystack is not installed.
        InputError: If ``top_k`` is below 1.
    """

    def __init__(
        self,
        export: str | Path,
        top_k: int | None = None,
        *,
        price: float | str | None = None,
        id_field: str | None = None,
        prices: dict[str, float | str] | None = None,
        candidates: int | None = None,
        reasons: bool = True,
    ) -> None:
        with needing("RecprismRanker", "haystack"):
            import haystack  # noqa: F401
        self.export, self.top_k, self.price, self.id_field = str(export), _length(top_k), price, id_field
        self.prices, self.candidates, self.reasons = prices, candidates, reasons
        self._rule: ServedRule | None = None

    def warm_up(self) -> None:
        """Read the export and compile what requests need.

        Raises:
            InputError: If the folder is no export of a rule.
        """
        if self._rule is None:
            self._rule = load_rule(self.export, candidates=self.candidates, prices=self.prices)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for files of pipelines. The export itself stays in its folder."""
        names = ("export", "top_k", "price", "id_field", "prices", "candidates", "reasons")
        found: dict[str, Any] = default_to_dict(self, **{name: getattr(self, name) for name in names})
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RecprismRanker:
        """Return the component that :meth:`to_dict` described."""
        made: RecprismRanker = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document], unmet=list[dict[str, Any]])  # type: ignore[untyped-decorator]
    def run(
        self,
        documents: list[Document],
        top_k: int | None = None,
        price: float | str | None = None,
        history: list[Any] | None = None,
        exclude: list[Any] | None = None,
        constraints: dict[str, Any] | None = None,
        dials: dict[str, float] | None = None,
    ) -> dict[str, Any]:
        """Choose a list from documents with scores.

        Args:
            documents: In any order, each with a score.
            top_k: Another length of the list.
            price: Another trade-off, or a name in ``prices``.
            history: Ids of items that the user has consumed, the latest last; a rule that weighs histories needs it,
                [] for none.
            exclude: Ids of items that are not shown.
            constraints: More bans, pins, shares and least numbers, as in :meth:`recprism.serving.ServedRule.rerank`.
            dials: Category -> what is added to the scores of its items, as a share of the range of the scores.

        Returns:
            ``documents``: the list; ``unmet``: what it could not keep, each with ``constraint`` and ``places``.

        Raises:
            InputError: If a document has no score or no id, two have the same id, or an option is invalid.
        """
        self.warm_up()
        assert self._rule is not None
        by_id = {canonical_text(self._id_of(one)): one for one in documents}
        ids, scores = [self._id_of(one) for one in documents], [_score_of(one) for one in documents]
        options: dict[str, Any] = {"history": history, "constraints": constraints, "dials": dials}
        options |= {"reasons": self.reasons, "price": self.price if price is None else price}
        k = self.top_k if top_k is None else _length(top_k)
        answer = self._rule.rerank(ids, scores, k, exclude=exclude, **options)
        absent = [one for one in answer.ids if canonical_text(one) not in by_id]
        if absent:  # pinned items without a document: without them, and reported
            answer = self._rule.rerank(ids, scores, k, exclude=[*(exclude or []), *absent], **options)
        return {"documents": _with_reasons(answer, by_id), "unmet": _plain(answer.unmet)}

    def _id_of(self, document: Any) -> Any:
        if self.id_field is None:
            return document.id
        if self.id_field not in document.meta:
            raise InputError(f"document {document.id!r} has no {self.id_field!r} in its meta, which is the id_field")
        return document.meta[self.id_field]


@component
class RecprismDiversityRanker:
    """Choose a diverse list from retrieved documents, and say why each is there; it needs no run.

    Documents need a score. They come back as copies, with the reason in ``meta["recprism_reason"]``. Nothing is trained
    or certified.

    Args:
        top_k: Length of the list.
        trade_off: From 0, the order of the scores, to 1, diversity alone.
        goal: As in :func:`recprism.diversify_list`.
        category_field: The field of ``meta`` with a category, or several.
        embeddings: Whether the embeddings of the documents count. A store returns them if its retriever has
            ``return_embedding=True``.
        constraints: As in :class:`recprism.rule.Constraints`; limited fields are fields of ``meta``.
        reasons: Whether reasons are computed.

    Raises:
        MissingDependencyError: If Haystack is not installed.
        InputError: If ``top_k`` is below 1.
    """

    def __init__(
        self,
        top_k: int = 10,
        *,
        trade_off: float = 0.2,
        goal: str | dict[str, float] | None = None,
        category_field: str | None = None,
        embeddings: bool = False,
        constraints: dict[str, Any] | None = None,
        reasons: bool = True,
    ) -> None:
        with needing("RecprismDiversityRanker", "haystack"):
            import haystack  # noqa: F401
        self.k, self.trade_off, self.goal = _length(top_k) or 0, trade_off, goal
        self.category_field, self.embeddings = category_field, embeddings
        self.constraints, self.reasons = constraints, reasons

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for files of pipelines."""
        names = ("trade_off", "goal", "category_field", "embeddings", "constraints", "reasons")
        found: dict[str, Any] = default_to_dict(self, top_k=self.k, **{name: getattr(self, name) for name in names})
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RecprismDiversityRanker:
        """Return the component that :meth:`to_dict` described."""
        made: RecprismDiversityRanker = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document], unmet=list[dict[str, Any]])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Choose a list from documents with scores.

        Args:
            documents: In any order, each with a score.

        Returns:
            ``documents``: the list; ``unmet``: what it could not keep, each with ``constraint`` and ``places``.

        Raises:
            InputError: If a document has no score or no embedding, two have the same id, or a setting is invalid.
        """
        found = choose(
            self,
            [one.id for one in documents],
            [_score_of(one) for one in documents],
            [one.meta for one in documents],
            [_embedding_of(one) for one in documents] if self.embeddings else None,
        )
        return {
            "documents": [replace(documents[row], meta=meta) for row, meta in found.rows],
            "unmet": _plain(found.unmet),
        }


def _plain(unmet: Sequence[Unmet]) -> list[dict[str, Any]]:
    return [{"constraint": it.constraint, "places": it.places} for it in unmet]


def _with_reasons(answer: Ranked, by_id: Mapping[str, Any]) -> list[Any]:
    found = [by_id[canonical_text(one)] for one in answer.ids]
    reasons: Sequence[Any] = answer.reasons
    if not reasons:
        return found
    said = [{**reason.to_dict(), "sentence": reason.sentence()} for reason in reasons]
    return [replace(one, meta={**one.meta, REASON: why}) for one, why in zip(found, said, strict=True)]


def _score_of(document: Any) -> float:
    if document.score is None:
        raise InputError(f"document {document.id!r} has no score; place the ranker after a retriever that gives scores")
    return float(document.score)


def _embedding_of(document: Any) -> Any:
    if document.embedding is None:
        raise InputError(
            f"document {document.id!r} has no embedding; give the retriever return_embedding=True, or name a "
            "category_field"
        )
    return document.embedding


def _length(top_k: int | None) -> int | None:
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
        raise InputError(f"top_k must be a whole number from 1 up, not {top_k!r}")
    return top_k
