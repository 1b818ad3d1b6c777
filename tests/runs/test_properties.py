"""Properties of a run other than its categories: built from words, for dials and for choice models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recprism.data import Categories, Dataset, Preparation, Properties
from recprism.errors import InputError
from recprism.forms.dials import lists_to_dials, lists_to_vectors
from recprism.forms.vectors import Export, load_export
from recprism.models import BPRMF, Factors
from recprism.runs.config import BudgetConfig, RunConfig
from recprism.runs.jobs.dials import dials_of, steer_run
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.explain_lists import explain_lists_of_run
from recprism.runs.jobs.export import export_run
from recprism.runs.jobs.properties import as_categories, find_properties
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

BUDGET = {"ndcg@10": 0.2}
CLUSTERS = ["clusters=12"]


@pytest.fixture(scope="module")
def clustered(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A diversified run whose items have ids and nothing else."""
    split = small.split(seed=0)
    run = Run.create(tmp_path_factory.mktemp("bare") / "run", RunConfig())
    nothing = Categories.from_pairs(np.zeros(0, np.int64), [], split.n_items)
    plain = Dataset("bare", small.interactions, nothing, small.attributes.select("item_id"), Preparation())
    run.save_data(plain, split)
    run.save_factors(BPRMF(epochs=3, dim=16).fit(split, seed=0, device="cpu"))
    diversify_within(run, BudgetConfig(goal="ilad", budgets=BUDGET))
    return run


def test_words_become_columns(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    problem = run.problem()
    found = find_properties(run, ["categories", "year", "genres", "popularity"], problem)
    names = run.categories().names
    assert found.names[: len(names) + 2] == (*names, "year: high", "year: low")
    assert found.names[-2:] == ("popularity: high", "popularity: low")
    years = run.items()["year"].to_numpy().astype(float)
    scaled = (years - np.nanmin(years)) / (np.nanmax(years) - np.nanmin(years))
    known = ~np.isnan(years)
    np.testing.assert_allclose(found.values[known, len(names)], scaled[known], atol=1e-6)
    genre = found.names.index("genres: Animation")  # the column is split at |, as categories are
    np.testing.assert_array_equal(found.values[:, genre], found.values[:, names.index("Animation")])


def test_a_file_may_hold_numbers_categories_and_0_and_1(trained_run: Callable[..., Run], tmp_path: Path) -> None:
    run, path = trained_run(3, 16), tmp_path / "own.csv"
    ids = run.items()["item_id"].to_list()
    rows = [f"{i},{i % 7},{'a|b' if i % 2 else 'b'},{i % 2}" for i in ids[:-1]]
    path.write_text("item_id,price,tag,is_new\n" + "\n".join([*rows, "no such item,1,a,0"]) + "\n")
    found = find_properties(run, [str(path)], run.problem(), 1)
    assert found.names == ("price: high", "price: low", "tag: a", "tag: b", "is_new")
    odd = np.array([i % 2 for i in ids[:-1]])
    np.testing.assert_array_equal(found.values[:-1, 2], odd)
    np.testing.assert_array_equal(found.values[:-1, 4], odd)
    assert found.values[-1].tolist() == pytest.approx(
        [found.values[:-1, 0].mean(), -found.values[:-1, 0].mean(), 0, 0, 0]
    )
    long = tmp_path / "long.csv"
    long.write_text("item_id,category,weight\n" + "".join(f"{i},mood,{1 + i % 2}\n" for i in ids[:50]))
    weighted = find_properties(run, [str(long)], run.problem())
    assert weighted.names == ("mood",)
    assert weighted.values[:50, 0].tolist() == [1 + i % 2 for i in ids[:50]]


def test_a_planted_number_is_the_dial_that_is_found() -> None:
    """The wanted lists are those of scores plus a push towards recent items: only that dial is needed."""
    generator = np.random.default_rng(1)
    base = Factors.from_arrays(generator.normal(size=(40, 6)), generator.normal(size=(120, 6)))
    year = Properties.from_column("year", generator.permutation(120))
    other = Properties.from_column("length", generator.permutation(120))
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
        (["colour"], 2, r"--properties colour: there is no such property; .*which are: title, genres, year"),
        (["clusters=many"], 2, "clusters need a whole number"),
        (["clusters=0"], 2, "0 clusters of"),
        (["title"], 2, "--properties title: no property of it tells at least 2 candidate items from the others"),
        (["categories"], 10**6, "--properties categories: no property of it tells at least 1000000"),
        (["nothing.csv"], 2, "nothing.csv"),
        (["year", "year"], 2, "two properties have the name 'year: high'"),
        (["genres"], 0, "--min-support is 0"),
    ],
)
def test_wrong_words_are_refused(trained_run: Callable[..., Run], words: list[str], support: int, message: str) -> None:
    run = trained_run(3, 16)
    with pytest.raises(InputError, match=message):
        find_properties(run, words, run.problem(), support)


@pytest.mark.parametrize("option", [{"properties": ["year"]}, {"rest": True}, {"ordered": True}])
def test_properties_are_for_dials(trained_run: Callable[..., Run], tmp_path: Path, option: dict[str, object]) -> None:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(budgets=BUDGET))
    with pytest.raises(InputError, match=f"{next(iter(option))} has no effect on --form user-vectors"):
        export_run(run, tmp_path / "vectors", "user-vectors", **option)  # type: ignore[arg-type]
    assert not (tmp_path / "vectors").exists(), "nothing is half-written"


@pytest.mark.slow
def test_items_without_any_metadata_are_named_by_clusters(clustered: Run) -> None:
    report = dials_of(clustered, live=False, rest=True, properties=CLUSTERS)
    found, problem = report.dials, clustered.problem()
    assert len(found.names) == 12
    assert all(name.startswith("like ") for name in found.names)
    assert (found.properties.values.sum(1) == 1).all(), "an item is in one cluster"
    np.testing.assert_array_equal(found.lists, problem.rank(clustered.load_result().own_rule())[0])
    np.testing.assert_array_equal(problem.rank(found.applied_to(problem.factors))[0], found.served)
    by_vectors = lists_to_vectors(problem.factors, found.lists, exclude=problem.hidden)
    possible = by_vectors.kept == 1
    assert possible.mean() > 0.3
    kept = np.array([set(a) == set(b) for a, b in zip(found.lists, found.served, strict=True)])
    assert kept[possible].all(), "what user vectors can hold, weights and the rest hold"
    facts = report.to_dict()
    assert 0 < facts["rest_users"] < facts["users"]
    assert facts["lists_held"] < 1, "weights alone do not hold all lists of vectors"


@pytest.mark.slow
def test_every_command_works_without_metadata(clustered: Run, tmp_path: Path) -> None:
    lists, live = recommend(clustered, 10)[0], clustered.problem().live()
    _, folder, made = export_run(clustered, tmp_path / "dials", "dials", to="npz", properties=CLUSTERS, rest=True)
    assert isinstance(made, Export)
    assert made.dim == 16 + 12
    named = find_properties(clustered, CLUSTERS, live)
    wanted = clustered.load_result().dials(rest=True, properties=named).served
    np.testing.assert_array_equal(load_export(folder).rank(10, exclude=live.seen)[0], wanted)
    ids = clustered.factors().item_ids
    shown = live.rank(clustered.load_result().own_rule())[0]
    np.testing.assert_array_equal(lists["item_id"].to_numpy().reshape(-1, 10), ids[shown])
    with pytest.raises(InputError, match="dials are set by category, and the items have none"):
        steer_run(clustered, 1, {"Drama": 0.5})
    with pytest.raises(InputError, match=r"dials need categories .* --properties clusters=20"):
        dials_of(clustered)
    explained = clustered.load_result().explain(draws=0)
    assert explained.note == "The items have no categories, so no choice model was fitted."
    assert explained.rule_summary is not None
    assert explained.choice_model is None


@pytest.mark.slow
def test_a_choice_model_of_clusters_explains_lists_from_a_file(clustered: Run, tmp_path: Path) -> None:
    recommend(clustered, 10, live=False)[0].write_csv(tmp_path / "lists.csv")
    found = explain_lists_of_run(tmp_path / "lists.csv", None, clustered, properties=["clusters=12"], draws=0)
    assert found.model.to_dict()["explained"] is not None
    with pytest.raises(InputError, match="a choice model needs categories or clusters, and 'popularity: high'"):
        explain_lists_of_run(tmp_path / "lists.csv", None, clustered, properties=["popularity"], draws=0)


def test_numbers_are_left_out_of_categories() -> None:
    found = as_categories(
        Properties.from_column("year", [1, 2, 3]).joined(Properties.from_column("maker", ["a", "b", "a"]))
    )
    assert found.names == ("maker: a", "maker: b")
    assert found.dense().tolist() == [[1, 0], [0, 1], [1, 0]]
