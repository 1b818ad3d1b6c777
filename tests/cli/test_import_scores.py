"""recprism import --scores: candidates with scores, and no model, become a run that the commands take."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import recprism as package
from recprism import serving
from recprism.data import Dataset
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models import BPRMF
from recprism.models.adapters import ScoredCandidates
from recprism.runs.jobs.saved import put_result
from recprism.runs.run import Run

Recprism = Callable[..., Any]
N_USERS, N_CANDIDATES = 250, 300
NO_VECTORS = "has scores and no vectors"


def _write(path: Path, columns: tuple[str, str], pairs: list[tuple[SparseRows, NDArray[Any], NDArray[Any]]]) -> None:
    tables = [dict(zip(columns, (of[it.row_of_entry], to[it.indices]), strict=True)) for it, of, to in pairs]
    pl.concat([pl.DataFrame(table) for table in tables]).write_csv(path)


@pytest.fixture(scope="module")
def world(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a system of which only the scores are known, with text ids."""
    folder = tmp_path_factory.mktemp("own scores")
    split = small.split(seed=0).of_users(np.arange(N_USERS))
    users = np.array([f"u-{it}" for it in split.user_ids])
    items = np.array([f"i-{it}" for it in split.item_ids])
    best, scores = BPRMF(dim=16, epochs=3).fit(split, seed=0).rank(N_CANDIDATES, exclude=split.train)
    order = np.random.default_rng(0).permutation(best.size)
    table = {"user_id": np.repeat(users, N_CANDIDATES), "item_id": items[best.ravel()], "score": scores.ravel()}
    pl.DataFrame({name: it[order] for name, it in table.items()}).write_csv(folder / "scores.csv")
    ids = ("user_id", "item_id")
    _write(folder / "before.csv", ids, [(split.train, users, items)])
    _write(folder / "later.csv", ids, [(split.validation, users, items), (split.test, users, items)])
    names = np.array(small.categories.names)
    _write(folder / "genres.csv", ("item_id", "category"), [(small.categories.items, items, names)])
    return folder


def files(world: Path) -> list[object]:
    named = {"interactions": "before", "held-out": "later", "categories": "genres"}
    return [word for option, name in named.items() for word in (f"--{option}", world / f"{name}.csv")]


@pytest.fixture(scope="module")
def run(ok: Recprism, world: Path) -> Path:
    """A diversified run; no test changes it."""
    path = world / "run"
    made = ok("import", "--scores", world / "scores.csv", *files(world), "-o", path, "--json")
    facts = json.loads(made.out)
    assert (facts["users"], facts["scores per user"]) == (N_USERS, N_CANDIDATES) and "factors" not in facts
    assert facts["left out"] == {"interactions": 0, "held-out interactions": 0}
    ok("diversify", path, "--budget", "10%")
    return path


def test_the_run_has_the_scores_of_the_file(run: Path, world: Path) -> None:
    base = Run.open(run).base()
    assert isinstance(base, ScoredCandidates)
    given = pl.read_csv(world / "scores.csv").sort("user_id", "score", descending=[False, True])
    assert base.user_ids.tolist() == given["user_id"].unique().sort().to_list()
    assert base.ids_of(base.items).ravel().tolist() == given["item_id"].to_list()
    np.testing.assert_array_equal(base.scores.ravel(), given["score"].to_numpy().astype(np.float32))
    card = (run / "CARD.md").read_text(encoding="utf-8")
    assert "| scores per user | at most 300 |" in card and "user vectors" not in card


def live_lists(ok: Recprism, run: Path, folder: Path, *words: object) -> dict[str, list[str]]:
    ok("recommend", run, "-o", folder / "lists.csv", *words)
    table = pl.read_csv(folder / "lists.csv").sort("user_id", "rank")
    return {str(user): rows["item_id"].to_list() for (user,), rows in table.group_by("user_id", maintain_order=True)}


def test_request_time_gives_the_live_lists(ok: Recprism, run: Path, world: Path, tmp_path: Path) -> None:
    lists = live_lists(ok, run, tmp_path)
    assert lists != live_lists(ok, run, tmp_path, "--judged") != live_lists(ok, run, tmp_path, "--judged", "--base")
    made = ok("export", run, "-o", tmp_path / "rule", "--json").json
    assert made["vectors"] is False
    rule = serving.load_rule(tmp_path / "rule")
    scores = pl.read_csv(world / "scores.csv")
    taken = pl.concat([pl.read_csv(world / name) for name in ("before.csv", "later.csv")])
    assert len(lists) == N_USERS
    for user in list(lists)[::25]:
        own, known = scores.filter(pl.col("user_id") == user), taken.filter(pl.col("user_id") == user)
        seen = known["item_id"].to_list()
        found = rule.rerank(own["item_id"].to_list(), own["score"].to_numpy(), history=seen, exclude=seen)
        assert list(found.ids) == lists[user], user


@pytest.mark.slow
def test_every_step_works(ok: Recprism, run: Path) -> None:
    one = ok("recommend", run, "--users", "u-1", "--json").json
    user, last = "u-1", json.dumps(one)
    reasons = ok("why", run, "--user", user).out
    assert "Added for variety" in reasons or "best matches for you" in reasons
    item = next(word for word in reasons.split() if word.startswith("i-"))
    assert item in last
    assert ok("why", run, "--user", user, "--item", item, "--judged").out
    assert ok("why", run, "--user", user, "--why-not", "i-1").out
    assert item not in ok("why", run, "--user", user, "--what-if", f"without={item}", "--json").json["after"]
    assert "ilad@10" not in ok("evaluate", run, "--bootstrap", "0", "-m", "ndcg@10,subtopic_coverage@10").out
    assert "scores" in ok("runs", run.parent).out
    assert "holds" in ok("check", run, "--max-ndcg-loss", "50%").out


@pytest.mark.slow
def test_pages_and_plans_work(ok: Recprism, run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    ok("recommend", copy, "-o", tmp_path / "lists.csv")
    for words in (
        ["audit"],
        ["explain", "--draws", "1"],
        ["report", "--draws", "1"],
        ["experiment", "--budget", "10%"],
        ["holdout", "--share", "20%", "--click-rate", "30%"],
        ["monitor", "--lists", tmp_path / "lists.csv", "--floor", "0.01"],
        ["export", "--with-histories", "-o", tmp_path / "rule"],
    ):
        ok(words[0], copy, *words[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--form", "dials"],
        ["export", "--form", "user-vectors"],
        ["export", "--form", "vectors"],
        ["dials"],
        ["dials", "--user", "u-1"],
        ["steer", "--user", "u-1", "--set", "Drama=+0.2"],
        ["search", "--name", "players"],
        ["diversify", "--goal", "ilad", "--budget", "10%", "--name", "distances"],
    ],
    ids=" ".join,
)
def test_what_needs_vectors_is_refused(recprism: Recprism, run: Path, words: list[str]) -> None:
    before = sorted(run.rglob("*"))
    refused = recprism(words[0], run, *words[1:])
    assert refused.code == 2
    assert NO_VECTORS in refused.err.splitlines()[-1]
    assert sorted(run.rglob("*")) == before


def test_a_rule_has_no_factors_to_erase(recprism: Recprism, run: Path) -> None:
    refused = recprism("erase", run)
    assert refused.code == 2 and "no vector changed" in refused.err


SCORES = "user_id,item_id,score\na,x,2\na,y,1\nb,x,1\n"
BAD = {
    "neither": ([], {}, "give --user-vectors and --item-vectors, or --scores"),
    "half of the vectors": (["--user-vectors", "u.npy"], {}, "give --user-vectors and --item-vectors, or --scores"),
    "both": (["--scores", "s.csv", "--user-vectors", "u.npy"], {}, "--user-vectors has no effect with --scores"),
    "a bias": (["--scores", "s.csv", "--item-bias", "b.npy"], {}, "--item-bias has no effect with --scores"),
    "no score": (["--scores", "s.csv"], {"s.csv": "user_id,item_id\na,x\n"}, "no column 'score'"),
    "a text": (["--scores", "s.csv"], {"s.csv": SCORES + "b,y,high\n"}, "is not a finite number"),
    "a pair twice": (["--scores", "s.csv"], {"s.csv": SCORES + "b,x,3\n"}, "user b has item x twice"),
    "other users": (
        ["--scores", "s.csv", "--interactions", "o.csv"],
        {"o.csv": "user_id,item_id\nq,x\n"},
        "none of its user ids (such as 'q') has a score (ids such as 'a'); scores and interactions must use the same",
    ),
    "other items": (
        ["--scores", "s.csv", "--interactions", "o.csv"],
        {"o.csv": "user_id,item_id\na,7\n"},
        "none of its item ids (such as 7) has a score",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    recprism: Recprism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words, content, said = BAD[case]
    for name, text in {"s.csv": SCORES, **content}.items():
        Path(name).write_text(text, encoding="utf-8")
    outcome = recprism("import", *words, "-o", "run")
    assert outcome.code == 2
    assert said in outcome.err and len(outcome.err.strip().splitlines()) == 1, outcome.err
    assert not Path("run").exists()


def test_columns_are_mapped_and_rows_of_other_users_are_counted(recprism: Recprism, tmp_path: Path) -> None:
    table = pl.DataFrame({"who": [7, 7, 12], "what": ["x", "y", "x"], "p": [2.0, 1.0, 0.5]})
    table.write_parquet(tmp_path / "s.parquet")
    (tmp_path / "o.tsv").write_text("who\twhat\n7\tz\n12\ty\n99\tx\n", encoding="utf-8")
    columns = [word for it in ("user_id=who", "item_id=what", "score=p") for word in ("--column", it)]
    read = ["--scores", tmp_path / "s.parquet", "--interactions", tmp_path / "o.tsv", *columns]
    made = recprism("import", *read, "-o", tmp_path / "run")
    assert made.code == 0, made.err
    assert "1 interactions are left out: they name 1 users and 0 items without a score" in made.err
    run = Run.open(tmp_path / "run")
    base = run.base()
    assert base.user_ids.tolist() == [7, 12] and base.item_ids.tolist() == ["x", "y", "z"]
    assert run.model_or_result().lists(7)["item_id"].to_list() == ["x", "y"]


@pytest.mark.slow
def test_python_saves_puts_and_loads_results_of_scores(run: Path, world: Path, tmp_path: Path) -> None:
    found = Run.open(run).load_result()
    loaded = package.Result.load(found.save(tmp_path / "saved"))
    for live in (True, False):
        np.testing.assert_array_equal(loaded.ranked(live=live)[0], found.ranked(live=live)[0])
    made = package.import_scores(
        tmp_path / "again",
        pl.read_csv(world / "scores.csv"),
        interactions=world / "before.csv",
        held_out=world / "later.csv",
        categories=world / "genres.csv",
    )
    put_result(made.named("put"), found)
    assert made.results["put"].rule == found.rule
    with pytest.raises(InputError, match="has scores and no vectors"):
        made.factors()
    case = found.problem
    assert isinstance(case.base, ScoredCandidates)
    other = package.Problem(replace(case.base, scores=case.base.scores * 2), case.split, case.categories)
    with pytest.raises(InputError, match="its model or its data are not those of the result"):
        put_result(made.named("other"), replace(found, problem=other))


def test_files_of_other_scores_are_refused(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    base = Run.open(copy).base()
    assert isinstance(base, ScoredCandidates)
    replace(base, scores=base.scores * 2).save(copy / "factors.safetensors")
    with pytest.raises(InputError, match=r"made from another factors\.safetensors"):
        Run.open(copy).load_result()
    (copy / "factors.safetensors").write_bytes((run / "factors.safetensors").read_bytes()[:-8])
    with pytest.raises(InputError, match="not scores written by recprism"):
        Run.open(copy).base()
