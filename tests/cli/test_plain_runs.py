"""Runs of integer ids without categories, of one user, and with weights of 0: commands work or refuse, never fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recprism.runs.run import Run

TRAIN = ("--set", "dim=4", "--set", "epochs=1", "--device", "cpu")
WORKING = [["evaluate"], ["audit"], ["report"], ["recommend"], ["data", "stats"]]
NEEDS_CATEGORIES = [["diversify", "--budget", "0.1"], ["frontier"], ["search"]]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [(user, item) for user in range(30) for item in range(20) if (3 * user + 7 * item + user * item) % 4]
    Path("a.csv").write_text("user_id,item_id\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    Path("one.csv").write_text("user_id,item_id\n" + "".join(f"1,{item}\n" for item in range(20)))
    rows = [(item, category, (item + category) % 3) for item in range(20) for category in range(3)]
    Path("weights.csv").write_text("item_id,category,weight\n" + "".join(f"{i},k{t},{w}\n" for i, t, w in rows))


def in_run(words: list[str], path: str) -> list[str]:
    return [*words, "a.csv"] if words[0] == "data" else [words[0], path, *words[1:]]


@pytest.mark.usefixtures("tables")
def test_integer_ids_without_categories(ok: Any, recprism: Any) -> None:
    ok("train", "--data", "a.csv", "-o", "run", *TRAIN)
    for words in WORKING:
        ok(*in_run(words, "run"))
    for words in NEEDS_CATEGORIES:
        found = recprism(*in_run(words, "run"))
        assert found.code == 2
        assert "needs categories of the items and there are none" in found.err
    assert not Run("run").is_diversified()


@pytest.mark.slow
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("about", [["--categories", "weights.csv"], []], ids=["categories", "none"])
def test_one_user(ok: Any, about: list[str]) -> None:
    ok("train", "--data", "one.csv", "-o", "run", *about, *TRAIN)
    for words in (["evaluate"], ["audit"], ["report"]):
        ok(*in_run(words, "run"))


@pytest.mark.usefixtures("tables")
def test_a_weight_of_0_is_the_same_in_train_and_evaluate(ok: Any) -> None:
    ok("train", "--data", "a.csv", "--categories", "weights.csv", "-o", "run", *TRAIN)
    assert Run("run").categories().dense().tolist()[0] == [0, 1, 2]
    assert len(Run("run").categories().items) == 40
    ok("evaluate", "run")
    ok("recommend", "run", "-o", "lists.csv")
    ok("evaluate-lists", "lists.csv", "--categories", "weights.csv", "-m", "sc@5")
