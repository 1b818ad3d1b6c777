"""The ranker in real Haystack pipelines: the lists of the rule, documents with reasons, files of pipelines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism import serving
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError, MissingDependencyError
from recprism.forms import collect_rule
from recprism.integrations import RecprismRanker
from recprism.models import Factors
from recprism.rule import Rule

haystack = pytest.importorskip("haystack", reason="haystack-ai is not installed: the ranker is not tested")
pytestmark = pytest.mark.needs("haystack")
USERS, ITEMS = 10, 60


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Ten users and sixty items with up to five of eight categories, random vectors and histories."""
    generator = np.random.default_rng(0)
    user, item = (generator.standard_normal((size, 6)).astype(np.float32) for size in (USERS, ITEMS))
    factors = Factors.from_arrays(user, item, user_ids=np.arange(USERS), item_ids=np.arange(ITEMS) + 100)
    shape = (USERS, ITEMS)
    train = SparseRows.from_pairs(*np.nonzero(generator.random(shape) < 0.1), shape)
    split = Split(train, SparseRows.empty(shape), SparseRows.empty(shape), factors.user_ids, factors.item_ids)
    of_item, of_category = np.nonzero(generator.random((ITEMS, 8)) < 0.2)
    categories = Categories.from_pairs(of_item, np.array([*"abcdefgh"])[of_category], ITEMS)
    return Problem(factors, split, categories, "test", 5)


@pytest.fixture(scope="module")
def vectors(problem: Problem) -> Factors:
    assert isinstance(problem.factors, Factors)
    return problem.factors


@pytest.fixture(scope="module")
def export(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = rule_at(problem, "subtopic_coverage", 0.3)
    rule = Rule(**{**found.to_dict(), "history_weight": 0.2, "candidates": 30})
    folder = tmp_path_factory.mktemp("export") / "rule"
    collect_rule(problem, rule, vectors=True).write(folder)
    return folder


@pytest.fixture
def documents(vectors: Factors) -> list[Any]:
    """All items as documents, with their vectors."""
    pairs = zip(vectors.item_ids.tolist(), vectors.item.tolist(), strict=True)
    return [haystack.Document(id=str(one), content=f"item {one}", embedding=vector) for one, vector in pairs]


@pytest.fixture
def scored(vectors: Factors) -> list[Any]:
    """All items as documents, with scores for the first user."""
    scores = (vectors.item @ vectors.user[0]).tolist()
    pairs = zip(vectors.item_ids.tolist(), scores, strict=True)
    return [haystack.Document(id=str(one), content=f"item {one}", score=score) for one, score in pairs]


def pipeline(documents: list[Any], export: Path) -> Any:
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    store.write_documents(documents)
    made = haystack.Pipeline()
    made.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=30))
    made.add_component("ranker", RecprismRanker(export))
    made.connect("retriever.documents", "ranker.documents")
    return made


def ranked(made: Any, vector: Any, **options: Any) -> list[Any]:
    found = made.run({"retriever": {"query_embedding": vector.tolist()}, "ranker": {"history": [], **options}})
    return list(found["ranker"]["documents"])


def test_a_pipeline_gives_the_lists_of_the_rule(documents: list[Any], export: Path, vectors: Factors) -> None:
    made, rule = pipeline(documents, export), serving.load_rule(export)
    changed = 0
    for vector in vectors.user:
        found, wanted = ranked(made, vector), rule.rank(vector, history=[])
        assert [one.id for one in found] == [str(it) for it in wanted.ids]
        assert [one.meta["recprism_reason"]["codes"] for one in found] == [list(it.codes) for it in wanted.reasons]
        assert all(one.content == f"item {one.id}" for one in found)
        changed += wanted.swaps > 0
    assert changed > 3, "a rule that changes nothing would test nothing"


def test_a_pipeline_comes_back_from_its_file(documents: list[Any], export: Path, vectors: Factors) -> None:
    made = pipeline(documents, export)
    text = made.dumps()
    again = haystack.Pipeline.loads(text, allowed_modules=["recprism.*"])
    assert again.dumps() == text
    assert ranked(again, vectors.user[0]) == ranked(made, vectors.user[0])
    with pytest.raises(haystack.core.errors.DeserializationError, match="allowed_modules"):
        haystack.Pipeline.loads(text)


def test_every_setting_is_in_the_file(export: Path) -> None:
    settings = {"export": str(export), "top_k": 3, "price": "new", "id_field": "sku", "prices": {"new": "5%"}}
    settings |= {"candidates": 9, "reasons": False}
    data = RecprismRanker(**settings).to_dict()
    assert data["init_parameters"] == settings
    assert RecprismRanker.from_dict(json.loads(json.dumps(data))).to_dict() == data


def test_options_of_a_request_reach_the_rule(scored: list[Any], export: Path) -> None:
    ranker, rule = RecprismRanker(export, prices={"plain": 0}), serving.load_rule(export, prices={"plain": 0})
    ids, scores = [one.id for one in scored], [one.score for one in scored]
    first = ranker.run(documents=scored, history=[])["documents"][0].id
    for asked in (
        {"price": "plain"},
        {"price": 0.9},
        {"exclude": [first]},
        {"constraints": {"pinned": {2: ids[-1]}}},
        {"dials": {rule.names[0]: 0.5}},
        {"history": ids[:3]},
    ):
        options = {"history": [], **asked}
        found = ranker.run(documents=scored, top_k=4, **options)["documents"]
        assert tuple(one.id for one in found) == rule.rerank(ids, scores, 4, **options).ids, options


def test_ids_may_be_in_a_field_and_given_documents_stay_as_they_are(scored: list[Any], export: Path) -> None:
    wanted = [one.id for one in RecprismRanker(export).run(documents=scored, history=[])["documents"]]
    other = [haystack.Document(content=one.content, score=one.score, meta={"item_id": int(one.id)}) for one in scored]
    before = [one.to_dict() for one in other]
    found = RecprismRanker(export, id_field="item_id", reasons=False).run(documents=other, history=[])["documents"]
    assert [str(one.meta["item_id"]) for one in found] == wanted
    assert all("recprism_reason" not in one.meta for one in found)
    RecprismRanker(export, id_field="item_id").run(documents=other, history=[])
    assert [one.to_dict() for one in other] == before


def test_a_pinned_item_without_a_document_is_reported(scored: list[Any], export: Path) -> None:
    answer = RecprismRanker(export).run(documents=scored[:20], history=[], constraints={"pinned": {1: scored[-1].id}})
    assert answer["unmet"] == [{"constraint": f"item {scored[-1].id} at place 1", "places": 1}]
    assert len(answer["documents"]) == 5
    assert RecprismRanker(export).run(documents=[], history=[]) == {"documents": [], "unmet": []}


def test_a_pin_may_be_a_number_where_the_id_of_the_document_is_text(scored: list[Any], export: Path) -> None:
    pinned = scored[-1].id
    for one in (int(pinned), float(pinned)):
        answer = RecprismRanker(export).run(documents=scored, history=[], constraints={"pinned": {1: one}})
        assert (answer["documents"][0].id, answer["unmet"]) == (pinned, [])


def test_bad_input_is_refused_in_a_sentence(scored: list[Any], export: Path, tmp_path: Path) -> None:
    ranker = RecprismRanker(export)
    with pytest.raises(InputError, match="has no score; place the ranker after a retriever"):
        ranker.run(documents=[haystack.Document(id="1", content="one")])
    with pytest.raises(InputError, match="occurs more than once"):
        ranker.run(documents=[scored[0], scored[0]], history=[])
    with pytest.raises(InputError, match="has no 'sku' in its meta"):
        RecprismRanker(export, id_field="sku").run(documents=scored)
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(InputError, match="top_k must be a whole number from 1 up"):
            RecprismRanker(export, top_k=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is no export of a rule"):
        RecprismRanker(tmp_path).warm_up()


def test_without_haystack_the_class_says_what_to_install() -> None:
    code = """
import sys
sys.modules["haystack"] = None
from recprism.errors import MissingDependencyError
from recprism.integrations import RecprismRanker
try:
    RecprismRanker("rule")
except MissingDependencyError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'recprism[haystack]'" in done.stdout
    assert issubclass(MissingDependencyError, ImportError)
