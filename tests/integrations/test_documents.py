"""The components of LangChain, LlamaIndex and Haystack on real in-memory stores: lists, reasons, errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from recprism import diversify_list
from recprism.errors import InputError
from recprism.integrations.haystack import RecprismDiversityRanker
from recprism.integrations.langchain import RecprismCompressor
from recprism.integrations.llamaindex import RecprismPostprocessor

N = 12
SOURCES = ["a"] * 6 + ["b"] * 4 + ["c"] * 2
VECTORS = np.stack([np.cos(np.linspace(0.1, 1.4, N)), np.sin(np.linspace(0.1, 1.4, N))], 1)
QUERY = [1.0, 0.0]
COSINES = VECTORS @ QUERY


class Langchain:
    """Documents by rank from a real store, then the compressor."""

    make: Any

    def __init__(self) -> None:
        self.make = RecprismCompressor
        documents = pytest.importorskip("langchain_core.documents")
        stores = pytest.importorskip("langchain_core.vectorstores")
        embeddings = pytest.importorskip("langchain_core.embeddings")

        class Known(embeddings.Embeddings):  # type: ignore[misc, name-defined]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [VECTORS[int(it)].tolist() for it in texts]

            def embed_query(self, text: str) -> list[float]:  # noqa: ARG002
                return QUERY

        self.store = stores.InMemoryVectorStore(Known())
        own = [documents.Document(id=f"d{n}", page_content=str(n), metadata={"source": SOURCES[n]}) for n in range(N)]
        self.store.add_documents(own)

    def found(self, n: int = N) -> Any:
        pairs = self.store.similarity_search_with_score("q", k=n)
        return [one.model_copy(update={"metadata": {**one.metadata, "score": score}}) for one, score in pairs]

    def run(self, found: Any, **settings: Any) -> list[tuple[str, dict[str, Any]]]:
        made = self.make(score_field="score", **settings).compress_documents(found, "q")
        return [(one.id, one.metadata) for one in made]

    def vectors(self, documents: Any) -> Any:
        return [self.store.store[one.id]["vector"] for one in documents]


class LlamaIndex:
    """Nodes from a real index, then the postprocessor."""

    def __init__(self) -> None:
        core = pytest.importorskip("llama_index.core")
        schema = pytest.importorskip("llama_index.core.schema")
        self.schema = schema
        nodes = [
            schema.TextNode(id_=f"d{n}", text=str(n), metadata={"source": SOURCES[n]}, embedding=VECTORS[n].tolist())
            for n in range(N)
        ]
        self.index = core.VectorStoreIndex(nodes, embed_model=core.MockEmbedding(embed_dim=2))

    def found(self, n: int = N) -> Any:
        if not n:
            return []
        query = self.schema.QueryBundle("q", embedding=QUERY)
        return self.index.as_retriever(similarity_top_k=n).retrieve(query)

    def run(self, found: Any, **settings: Any) -> list[tuple[str, dict[str, Any]]]:
        made = RecprismPostprocessor(**settings).postprocess_nodes(found)
        return [(one.node.node_id, one.node.metadata) for one in made]

    def vectors(self, nodes: Any) -> Any:
        return [self.index.vector_store.get(node.node_id) for node in nodes]


class Haystack:
    """Documents from a real store, then the ranker."""

    def __init__(self) -> None:
        self.haystack = pytest.importorskip("haystack")
        stores = pytest.importorskip("haystack.document_stores.in_memory")
        self.retrievers = pytest.importorskip("haystack.components.retrievers.in_memory")
        self.store = stores.InMemoryDocumentStore(embedding_similarity_function="cosine")
        self.store.write_documents(
            [
                self.haystack.Document(id=f"d{n}", meta={"source": SOURCES[n]}, embedding=VECTORS[n].tolist())
                for n in range(N)
            ]
        )

    def retriever(self, n: int = N) -> Any:
        return self.retrievers.InMemoryEmbeddingRetriever(self.store, top_k=n, scale_score=False, return_embedding=True)

    def found(self, n: int = N) -> Any:
        return self.retriever(n).run(query_embedding=QUERY)["documents"] if n else []

    def run(self, found: Any, **settings: Any) -> list[tuple[str, dict[str, Any]]]:
        given = {("top_k" if name == "k" else name): it for name, it in settings.items()}
        made = RecprismDiversityRanker(**given).run(documents=found)["documents"]
        return [(one.id, one.meta) for one in made]

    vectors = True


@pytest.fixture(
    params=[
        pytest.param(Langchain, marks=pytest.mark.needs("langchain_core")),
        pytest.param(LlamaIndex, marks=pytest.mark.needs("llama_index")),
        pytest.param(Haystack, marks=pytest.mark.needs("haystack")),
    ],
    scope="module",
)
def store(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_by_categories_and_reasons(store: Any) -> None:
    made = store.run(store.found(), k=4, trade_off=0.3, category_field="source")
    ids = [f"d{n}" for n in range(N)]
    expected = diversify_list(ids, COSINES, categories=SOURCES, k=4, trade_off=0.3)
    assert tuple(one for one, _ in made) == expected.ids != expected.base
    for (_, metadata), reason in zip(made, expected.reasons, strict=True):
        said = metadata["recprism_reason"]
        assert (metadata["source"] in "abc", said["codes"]) == (True, list(reason.codes))
        assert json.loads(json.dumps(said)) == said and "rank" in said["sentence"]


def test_by_the_embeddings_of_the_store(store: Any) -> None:
    made = store.run(store.found(), k=4, trade_off=0.6, embeddings=store.vectors, reasons=False)
    expected = diversify_list([f"d{n}" for n in range(N)], COSINES, embeddings=VECTORS, k=4, trade_off=0.6)
    assert tuple(one for one, _ in made) == expected.ids != expected.base
    assert "recprism_reason" not in made[0][1]


def test_caps_by_a_field_of_the_metadata(store: Any) -> None:
    kept = {"max_items": {"source": 1}, "pinned": {2: "d9"}}
    made = store.run(store.found(), k=3, category_field="source", constraints=kept)
    assert [one for one, _ in made] == ["d0", "d9", "d10"]


def test_nothing_was_found(store: Any) -> None:
    assert store.run(store.found(0), category_field="source") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give categories or embeddings"),
        ({"category_field": "author"}, "no document has 'author' in its metadata"),
        ({"category_field": "source", "constraints": {"pinned": {1: "x"}}}, "document 'x' is pinned and was not"),
        ({"category_field": "source", "constraints": {"spacing": {"author": 2}}}, "no document has 'author'"),
    ],
)
def test_bad_settings_are_one_sentence(store: Any, settings: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        store.run(store.found(), **settings)


@pytest.mark.needs("langchain_core")
def test_documents_without_scores_count_by_rank() -> None:
    chain = Langchain()
    made = RecprismCompressor(k=3, category_field="source", trade_off=0).compress_documents(chain.found(), "q")
    assert [one.id for one in made] == ["d0", "d1", "d2"]
    with pytest.raises(InputError, match="a document has no 'cosine' in its metadata"):
        RecprismCompressor(score_field="cosine").compress_documents(chain.found(), "q")


@pytest.mark.needs("haystack")
def test_a_haystack_pipeline_keeps_its_settings_in_its_file_and_says_what_it_could_not_keep() -> None:
    own = Haystack()
    settings = {"trade_off": 0.4, "goal": None, "category_field": "source", "embeddings": True, "reasons": False}
    settings |= {"top_k": 8, "constraints": {"max_items": {"source": 2}}}
    made = own.haystack.Pipeline()
    made.add_component("retriever", own.retriever())
    made.add_component("ranker", RecprismDiversityRanker(**settings))
    made.connect("retriever.documents", "ranker.documents")
    again = own.haystack.Pipeline.loads(made.dumps(), allowed_modules=["recprism.*"])
    assert again.get_component("ranker").to_dict()["init_parameters"] == settings
    request = {"retriever": {"query_embedding": QUERY}}
    found, same = made.run(request)["ranker"], again.run(request)["ranker"]
    assert [one.id for one in found["documents"]] == [one.id for one in same["documents"]]
    assert found["unmet"] == same["unmet"] == [{"constraint": "at most 2 of one source", "places": 2}]


@pytest.mark.needs("haystack")
def test_haystack_documents_need_scores_and_embeddings() -> None:
    document = pytest.importorskip("haystack").Document
    with pytest.raises(InputError, match="has no score; place the ranker after a retriever"):
        RecprismDiversityRanker(embeddings=True).run(documents=[document(id="1")])
    with pytest.raises(InputError, match="has no embedding; give the retriever return_embedding=True"):
        RecprismDiversityRanker(embeddings=True).run(documents=[document(id="1", score=1.0)])
    with pytest.raises(InputError, match="top_k must be a whole number from 1 up"):
        RecprismDiversityRanker(0)
