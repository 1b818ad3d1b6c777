"""Lists from files explained by a choice model: with the scores and categories of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.errors import InputError
from recprism.explain import fit_choice_model
from recprism.rivals import MMR
from recprism.rule import ListSearch, category_probabilities
from recprism.runs.jobs import explain_lists_of_run
from recprism.runs.run import Run

K = 10


def write_lists(path: Path, lists: np.ndarray, user_ids: Any, item_ids: Any) -> Path:
    users, places = np.nonzero(lists >= 0)
    items = np.asarray(item_ids)[lists[users, places]]
    table = {"user_id": np.asarray(user_ids)[users].tolist(), "item_id": items.tolist(), "rank": places + 1}
    pl.DataFrame(table).write_csv(path)
    return path


@pytest.fixture(scope="module")
def files(trained_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with optimal lists, lists of MMR on vectors, and its own lists."""
    run, folder = trained_run(10, 16), tmp_path_factory.mktemp("lists")
    problem = run.problem("test")
    items, scores = (array[:, :200] for array in problem.candidates)
    users, ids = problem.split.user_ids, problem.split.item_ids
    lists = np.asarray(ListSearch(trade_off=0.2)(items, scores, K, features=problem.features))
    vectors = np.asarray(MMR(trade_off=0.3)(items, scores, K, features=problem.features))
    made = {"new": lists, "vectors": vectors, "base": items[:, :K]}
    paths = {name: write_lists(folder / f"{name}.csv", it, users, ids) for name, it in made.items()}
    return {"run": run, "problem": problem, "lists": lists, "folder": folder, **paths}


@pytest.mark.slow
def test_lists_of_a_run_are_explained_as_their_arrays_are(files: dict[str, Any]) -> None:
    found = explain_lists_of_run(files["new"], files["base"], files["run"], draws=3)
    problem = files["problem"]
    items, scores = (array[:, :200] for array in problem.candidates)
    history = category_probabilities(problem.seen, problem.categories)
    about = {"history": history, "popularity": problem.seen.col_counts, "draws": 3}
    wanted = fit_choice_model(items, scores, items[:, :K], files["lists"], problem.categories, **about)
    assert found.model.to_dict() == wanted.to_dict()
    assert found.model.explained > 0.95
    assert (found.skipped, found.notes) == ({}, ())
    assert explain_lists_of_run(files["new"], None, files["run"], draws=3).to_dict() == found.to_dict()


def test_lists_diverse_in_vectors_are_not_explained(files: dict[str, Any]) -> None:
    assert explain_lists_of_run(files["vectors"], files["base"], files["run"], draws=0).model.explained < 0.15


def test_unknown_users_and_items_and_missing_lists_are_counted(files: dict[str, Any], tmp_path: Path) -> None:
    new, base = (pl.read_csv(files[name], schema_overrides={"item_id": pl.String}) for name in ("new", "base"))
    users = base["user_id"].unique(maintain_order=True)
    more = pl.DataFrame({"user_id": [10**9] * 2 + [users[0]], "item_id": ["1", "2", "none"], "rank": [1, 2, 99]})
    pl.concat([new, more.cast(new.schema)]).write_csv(tmp_path / "new.csv")
    base.filter(~pl.col("user_id").is_in(users[:3].implode())).write_csv(tmp_path / "base.csv")
    found = explain_lists_of_run(tmp_path / "new.csv", tmp_path / "base.csv", files["run"], draws=0)
    assert found.skipped == {
        "rows of unknown users in the new lists": 2,
        "rows of unknown items in the new lists": 1,
        "users with a new list and no base list": 3,
    }
    assert found.notes[0] == "Left out: 2 rows of unknown users in the new lists."
    assert not set(found.model.users) & {0, 1, 2}


def test_other_names_of_columns(files: dict[str, Any], tmp_path: Path) -> None:
    pl.read_csv(files["new"]).rename({"user_id": "who"}).write_csv(tmp_path / "new.csv")
    found = explain_lists_of_run(tmp_path / "new.csv", None, files["run"], columns={"user_id": "who"}, draws=0)
    assert found.model.explained > 0.95


def test_what_cannot_be_explained_is_refused(files: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to explain"):
        explain_lists_of_run(files["base"], files["base"], files["run"])
    pl.DataFrame({"user_id": ["x"], "item_id": ["y"], "rank": [1]}).write_csv(tmp_path / "foreign.csv")
    with pytest.raises(InputError, match="no row has a known user and a known item"):
        explain_lists_of_run(tmp_path / "foreign.csv", None, files["run"])
