"""A document compressor for LangChain: diverse documents with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.integrations._documents import choose

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
except ImportError:
    BaseDocumentCompressor = object
    Document = Any


class RecprismCompressor(BaseDocumentCompressor):  # type: ignore[misc]
    """Choose a diverse list from retrieved documents, and say why each is there.

    Documents come back as copies, with the reason in ``metadata["recprism_reason"]``. Nothing is trained or certified.

    Attributes:
        k: Length of the list.
        trade_off: From 0, the order of relevance, to 1, diversity alone.
        goal: As in :func:`recprism.diversify_list`.
        category_field: The field of the metadata with a category, or several.
        embeddings: Receives the documents, and returns their vectors: those of the store, or of a model.
        score_field: The field of the metadata with the score. By default the order of the documents counts, evenly.
        constraints: As in :class:`recprism.rule.Constraints`; limited fields are fields of the metadata.
        reasons: Whether reasons are computed.

    Raises:
        MissingDependencyError: If LangChain is not installed.
    """

    k: int = 10
    trade_off: float = 0.2
    goal: str | dict[str, float] | None = None
    category_field: str | None = None
    embeddings: Callable[[Sequence[Any]], Any] | None = None
    score_field: str | None = None
    constraints: dict[str, Any] | None = None
    reasons: bool = True

    def __init__(self, **settings: Any) -> None:
        with needing("RecprismCompressor", "langchain"):
            import langchain_core  # noqa: F401
        super().__init__(**settings)

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        """Return the documents of the list.

        Args:
            documents: The retrieved documents, the most relevant first.
            query: Not needed: the documents are ranked.
            callbacks: Not needed: nothing is called.

        Raises:
            InputError: If a document has no score, two have the same id, or a setting is invalid.
        """
        del query, callbacks
        found = choose(
            self,
            [f"document {at}" if one.id is None else one.id for at, one in enumerate(documents)],
            [self._score(one.metadata, at) for at, one in enumerate(documents)],
            [one.metadata for one in documents],
            None if self.embeddings is None or not documents else self.embeddings(documents),
        )
        return [documents[row].model_copy(update={"metadata": metadata}) for row, metadata in found.rows]

    def _score(self, metadata: Mapping[str, Any], place: int) -> float:
        if self.score_field is None:
            return -float(place)
        if self.score_field not in metadata:
            raise InputError(f"a document has no {self.score_field!r} in its metadata, which is the score_field")
        return float(metadata[self.score_field])
