"""Concepts of a run other than its categories: built from words, stored with the result, and used by every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.budget.diversified import serve
from recprism.data import Concepts, Dataset, Preparation, Subtopics
from recprism.forms.vectors import export_run, load_export
from recprism.forms.live import live_model
from recprism.deploy.refitted_run import refit_run
from recprism.dials import lists_to_dials, lists_to_vectors
from recprism.errors import InputError
from recprism.models import BPRMF, Factors
from recprism.runs.config import BudgetConfig, RunConfig
from recprism.runs.jobs.concepts import as_subtopics, carried_concepts, find_concepts
from recprism.runs.jobs.dials import dials_of, steer_run
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.explain import explain_run
from recprism.runs.jobs.explain_lists import explain_lists_of_run
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

BUDGET = {"ndcg@10": 0.2}
CLUSTERS = BudgetConfig(goal="ilad", budgets=BUDGET, concepts=["clusters=12"], rest=True)


@pytest.fixture(scope="module")
def bare(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Run]:
    """epochs -> a run whose items have ids and nothing else."""

    def make(epochs: int) -> Run:
        split = small.split(seed=0)
        run = Run.create(tmp_path_factory.mktemp("bare") / "run", RunConfig())
        nothing = Subtopics.from_pairs(np.zeros(0, np.int64), [], split.n_items)
        plain = Dataset("bare", small.interactions, nothing, small.attributes.select("item_id"), Preparation())
        run.save_data(plain, split)
        run.save_factors(BPRMF(epochs=epochs, dim=16).fit(split, seed=0, device="cpu"))
        return run

    return make


@pytest.fixture(scope="module")
def clustered(bare: Callable[[int], Run]) -> Run:
    run = bare(3)
    diversify_within(run, CLUSTERS)
    return run


@pytest.fixture(scope="module")
def own_file(trained_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Concepts]:
    """A run diversified with a column, popularity and a file, which is then deleted; and what the words meant."""
    run = trained_run(3, 16)
    path = tmp_path_factory.mktemp("own") / "own.csv"
    ids = run.items()["item_id"]
    pl.DataFrame({"item_id": ids, "length": np.arange(len(ids)) % 90, "maker": [f"m{i % 4}" for i in ids]}).write_csv(
        path
    )
    asked = BudgetConfig(budgets=BUDGET, concepts=["categories", "year", "popularity", str(path)], rest=True)
    meant = find_concepts(run, asked.concepts, run.scenario(), asked.min_support)
    diversify_within(run, asked)
    path.unlink()
    return run, meant


def test_words_become_columns(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    scenario = run.scenario()
    found = find_concepts(run, ["categories", "year", "genres", "popularity"], scenario)
    names = run.subtopics().names
    assert found.names[: len(names) + 2] == (*names, "year: high", "year: low")
    assert found.names[-2:] == ("popularity: high", "popularity: low")
    years = run.items()["year"].to_numpy().astype(float)
    scaled = (years - np.nanmin(years)) / (np.nanmax(years) - np.nanmin(years))
    known = ~np.isnan(years)
    np.testing.assert_allclose(found.values[known, len(names)], scaled[known], atol=1e-6)
    genre = found.names.index("genres: Animation")  # the column is split at |, as subtopics are
    np.testing.assert_array_equal(found.values[:, genre], found.values[:, names.index("Animation")])


def test_a_file_may_hold_numbers_categories_and_0_and_1(trained_run: Callable[..., Run], tmp_path: Path) -> None:
    run, path = trained_run(3, 16), tmp_path / "own.csv"
    ids = run.items()["item_id"].to_list()
    rows = [f"{i},{i % 7},{'a|b' if i % 2 else 'b'},{i % 2}" for i in ids[:-1]]
    path.write_text("item_id,price,tag,is_new\n" + "\n".join([*rows, "no such item,1,a,0"]) + "\n")
    found = find_concepts(run, [str(path)], run.scenario(), 1)
    assert found.names == ("price: high", "price: low", "tag: a", "tag: b", "is_new")
    odd = np.array([i % 2 for i in ids[:-1]])
    np.testing.assert_array_equal(found.values[:-1, 2], odd)
    np.testing.assert_array_equal(found.values[:-1, 4], odd)
    assert found.values[-1].tolist() == pytest.approx(
        [found.values[:-1, 0].mean(), -found.values[:-1, 0].mean(), 0, 0, 0]
    )
    long = tmp_path / "long.csv"
    long.write_text("item_id,subtopic,weight\n" + "".join(f"{i},mood,{1 + i % 2}\n" for i in ids[:50]))
    weighted = find_concepts(run, [str(long)], run.scenario())
    assert weighted.names == ("mood",)
    assert weighted.values[:50, 0].tolist() == [1 + i % 2 for i in ids[:50]]


def test_a_planted_number_is_the_dial_that_is_found() -> None:
    """The wanted lists are those of scores plus a push towards recent items: only that dial is needed."""
    generator = np.random.default_rng(1)
    base = Factors.from_arrays(generator.normal(size=(40, 6)), generator.normal(size=(120, 6)))
    year = Concepts.from_column("year", generator.permutation(120))
    other = Concepts.from_column("length", generator.permutation(120))
    scores = base.user @ base.item.T
    pushed = scores + 1.5 * scores.std(1, keepdims=True) * year.values[:, 0]
    found = lists_to_dials(base, np.argsort(-pushed, axis=1)[:, :8], other.joined(year), margin=1e-6, rounding=0.0)
    assert found.lists_held > 0.95
    used = (found.weights > 1e-9).mean(0)
    assert found.names[int(used.argmax())] == "year: high"
    assert found.weights[:, 2].sum() > 0.9 * found.weights.sum()


@pytest.mark.parametrize(
    ("words", "support", "message"),
    [
        (["colour"], 2, r"--concepts colour: there is no such concept; .*which are: title, genres, year"),
        (["clusters=many"], 2, "clusters need a whole number"),
        (["clusters=0"], 2, "0 clusters of"),
        (["title"], 2, "--concepts title: no concept of it tells at least 2 candidate items from the others"),
        (["categories"], 10**6, "--concepts categories: no concept of it tells at least 1000000"),
        (["nothing.csv"], 2, "nothing.csv"),
        (["year", "year"], 2, "two concepts have the name 'year: high'"),
        (["genres"], 0, "--min-support is 0"),
    ],
)
def test_wrong_words_are_refused(trained_run: Callable[..., Run], words: list[str], support: int, message: str) -> None:
    run = trained_run(3, 16)
    with pytest.raises(InputError, match=message):
        find_concepts(run, words, run.scenario(), support)


def test_concepts_are_for_dials(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    with pytest.raises(InputError, match="concepts are for dials, and user-vectors serve these lists"):
        diversify_within(run, BudgetConfig(budgets=BUDGET, concepts=["year"], into="user-vectors"))
    with pytest.raises(InputError, match="rest is for dials, and item-vectors serve these lists"):
        diversify_within(run, BudgetConfig(budgets=BUDGET, rest=True, into="item-vectors"))
    assert not run.is_diversified(), "nothing is half-written"


@pytest.mark.slow
def test_items_without_any_metadata_are_named_by_clusters(clustered: Run) -> None:
    found = Run.open(clustered.path).load_result()
    assert found.into == "dials"
    assert found.dials is not None
    assert len(found.dials.names) == 12
    assert all(name.startswith("like ") for name in found.dials.names)
    assert (found.dials.concepts.values.sum(1) == 1).all(), "an item is in one cluster"
    lists = clustered.scenario().rank(found.model)[0]
    np.testing.assert_array_equal(lists, found.dials.served)
    by_vectors = lists_to_vectors(found.base, found.dials.lists, exclude=clustered.scenario().hidden)
    possible = by_vectors.kept == 1
    assert possible.mean() > 0.3
    kept = np.array([set(a) == set(b) for a, b in zip(found.dials.lists, found.dials.served, strict=True)])
    assert kept[possible].all(), "what user vectors can hold, weights and the rest hold"
    facts = dials_of(clustered).to_dict()
    assert 0 < facts["rest_users"] < facts["users"]
    assert facts["lists_held"] < 1, "weights alone do not hold all lists of vectors"


@pytest.mark.slow
def test_every_command_works_without_metadata(clustered: Run, tmp_path: Path) -> None:
    lists = recommend(clustered, 10)
    made = export_run(clustered, tmp_path / "test", "npz", part="test")
    assert made.dim == 16 + 12
    vectors, scenario = load_export(tmp_path / "test"), clustered.scenario()
    np.testing.assert_array_equal(
        vectors.rank(10, exclude=scenario.seen)[0], scenario.rank(clustered.load_result().model)[0]
    )
    export_run(clustered, tmp_path / "live", "npz")
    shown = steer_run(clustered, clustered.factors().user_ids[0], {clustered.load_result().dials.names[0]: 0.5})  # type: ignore[union-attr]
    assert shown.values.keys() == {"ilad@10"}
    assert lists.equals(recommend(clustered, 10)), "a setting that is not kept changes nothing"
    explained = explain_run(clustered, draws=0)
    assert "uses the 12 categories and clusters that the dials name" in explained.note
    assert explained.choice_model is not None


@pytest.mark.slow
def test_live_lists_use_the_stored_concepts(clustered: Run) -> None:
    live, found = clustered.scenario().live(), clustered.load_result()
    model = live_model(clustered)
    assert isinstance(model, Factors)
    wanted = serve(live, found.goal, found.trade_off, "dials", rest=True).model
    np.testing.assert_array_equal(live.rank(model)[0], live.rank(wanted)[0])


@pytest.mark.slow
def test_a_run_does_not_need_the_file_again(own_file: tuple[Run, Concepts]) -> None:
    run, meant = own_file
    stored = Run.open(run.path).concepts()
    assert stored is not None
    assert (stored.names, stored.kinds) == (meant.names, meant.kinds)
    np.testing.assert_array_equal(stored.values, meant.values)
    assert "length: high" in stored.names and "maker: m3" in stored.names
    assert run.scenario("validation").concepts.names == meant.names
    np.testing.assert_array_equal(run.scenario().rank(run.load_result().model)[0], run.load_result().dials.served)  # type: ignore[union-attr]
    live_model(run)
    assert dials_of(run, part="validation").dials.names == meant.names
    assert "are left out" in explain_run(run, draws=0).note, "numbers are no features of a choice model"


@pytest.mark.slow
def test_a_retrained_run_takes_files_and_clusters_from_the_old_one(
    own_file: tuple[Run, Concepts], trained_run: Callable[..., Run]
) -> None:
    run, meant = own_file
    steer_run(run, 1, {"maker: m1": 0.3}, keep=True)
    again = trained_run(4, 16)
    refit_run(again, run)
    found = again.load_result()
    assert found.dials is not None
    assert set(found.dials.names) == set(meant.names)
    column = [concepts.values[:, concepts.names.index("length: low")] for concepts in (found.dials.concepts, meant)]
    np.testing.assert_array_equal(*column)
    assert found.dials.rest is not None
    assert again.steering() == {1: {"maker: m1": 0.3}}
    steer_run(run, 1, {"maker: m1": 0.0}, keep=True)


@pytest.mark.slow
def test_new_items_of_a_retrained_run_have_no_cluster(clustered: Run, bare: Callable[[int], Run]) -> None:
    again = bare(4)
    scenario = again.scenario()
    old, new = clustered.concepts(), carried_concepts(clustered, again, CLUSTERS, scenario)
    assert old is not None
    assert new is not None
    np.testing.assert_array_equal(new.values, old.values)
    fewer = old.of_items([3, -1, 0])
    assert fewer.values[1].sum() == 0
    np.testing.assert_array_equal(fewer.values[[0, 2]], old.values[[3, 0]])


def test_lists_of_other_concepts_are_stored_apart(
    own_file: tuple[Run, Concepts], trained_run: Callable[..., Run]
) -> None:
    """The dials of categories and of other concepts hold other lists: none may stand for the other."""
    run = trained_run(3, 16)
    plain = run.scenario()
    named = plain.with_concepts(find_concepts(run, ["year"], plain))
    plain.known_lists("subtopic_coverage", served="dials")[0.1] = plain.base_lists
    plain.keep_lists("subtopic_coverage", served="dials")
    assert 0.1 in run.scenario().known_lists("subtopic_coverage", served="dials")
    assert 0.1 not in named.known_lists("subtopic_coverage", served="dials")


@pytest.mark.slow
def test_a_choice_model_of_clusters_explains_lists_from_a_file(clustered: Run, tmp_path: Path) -> None:
    recommend(clustered, 10).write_csv(tmp_path / "lists.csv")
    found = explain_lists_of_run(tmp_path / "lists.csv", None, clustered, concepts=["clusters=12"], draws=0)
    assert found.model.to_dict()["explained"] is not None
    with pytest.raises(InputError, match="a choice model needs categories or clusters, and 'popularity: high'"):
        explain_lists_of_run(tmp_path / "lists.csv", None, clustered, concepts=["popularity"], draws=0)


def test_numbers_are_left_out_of_subtopics() -> None:
    found = as_subtopics(Concepts.from_column("year", [1, 2, 3]).joined(Concepts.from_column("maker", ["a", "b", "a"])))
    assert found.names == ("maker: a", "maker: b")
    assert found.dense().tolist() == [[1, 0], [0, 1], [1, 0]]
