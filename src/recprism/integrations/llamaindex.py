"""A node postprocessor for LlamaIndex: diverse nodes with reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.integrations._documents import choose

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ImportError:
    BaseNodePostprocessor = object
    NodeWithScore = QueryBundle = Any


class RecprismPostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Choose a diverse list from retrieved nodes, and say why each is there.

    Nodes come back as copies, with the reason in ``metadata["recprism_reason"]``, which neither language models nor
    embedders are shown. Nothing is trained or certified.

    Attributes:
        k: Length of the list.
        trade_off: From 0, the order of the scores, to 1, diversity alone.
        goal: As in :func:`recprism.diversify_list`.
        category_field: The field of the metadata with a category, or several.
        embeddings: Receives the nodes, and returns their vectors: those of the store, or of a model.
        constraints: As in :class:`recprism.rule.Constraints`; limited fields are fields of the metadata.
        reasons: Whether reasons are computed.

    Raises:
        MissingDependencyError: If LlamaIndex is not installed.
    """

    k: int = 10
    trade_off: float = 0.2
    goal: str | dict[str, float] | None = None
    category_field: str | None = None
    embeddings: Callable[[Sequence[Any]], Any] | None = None
    constraints: dict[str, Any] | None = None
    reasons: bool = True

    def __init__(self, **settings: Any) -> None:
        with needing("RecprismPostprocessor", "llamaindex"):
            import llama_index.core  # noqa: F401
        super().__init__(**settings)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex writes into files."""
        return "RecprismPostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002
    ) -> list[NodeWithScore]:
        found = [one.node for one in nodes]
        rows = choose(
            self,
            [node.node_id for node in found],
            [_score_of(one) for one in nodes],
            [node.metadata for node in found],
            None if self.embeddings is None or not found else self.embeddings(found),
        ).rows
        return [NodeWithScore(node=_with(found[row], metadata), score=nodes[row].score) for row, metadata in rows]


def _score_of(one: Any) -> float:
    if one.score is None:
        raise InputError(
            f"node {one.node.node_id!r} has no score; place the postprocessor after a retriever with scores"
        )
    return float(one.score)


def _with(node: Any, metadata: dict[str, Any]) -> Any:
    """Return a copy of a node with other metadata; new keys stay out of prompts and embeddings."""
    new = [key for key in metadata if key not in node.metadata]
    hidden = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    return node.model_copy(update={"metadata": metadata, **{name: [*getattr(node, name), *new] for name in hidden}})
