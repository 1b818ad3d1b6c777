"""recprism import: vectors of your own become a run that every command takes, with labels and without."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import recprism as package
from recprism.runs.run import Run

N_USERS, N_ITEMS, DIM = 90, 40, 6
USERS = [f"prof-{n:06d}" for n in range(N_USERS)]
ITEMS = [f'sku {n:03d}, "ä"' for n in range(N_ITEMS)]


Recprism = Callable[..., Any]


def arrays() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(N_USERS, DIM)), generator.normal(size=(N_ITEMS, DIM))


def tables() -> dict[str, pl.DataFrame]:
    """Users take what the vectors score high, with noise: first eight items, later six."""
    user, item = arrays()
    generator = np.random.default_rng(1)
    order = np.argsort(-(user @ item.T + generator.normal(size=(N_USERS, N_ITEMS))), 1)

    def took(first: int, last: int) -> pl.DataFrame:
        rows = [(USERS[u], ITEMS[i]) for u in range(N_USERS) for i in order[u, first:last]]
        return pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row")

    genres = [json.dumps(sorted({f"g{n}" for n in generator.integers(0, 6, 2)})) for _ in ITEMS]
    items = pl.DataFrame({"item_id": ITEMS, "title": [f"Title {n}" for n in range(N_ITEMS)], "genres": genres})
    return {"before": took(0, 8), "later": took(8, 14), "items": items}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own vectors")
    user, item = arrays()
    np.save(folder / "u.npy", user)
    np.save(folder / "i.npy", item)
    (folder / "u.txt").write_text("".join(f"{it}\n" for it in USERS), encoding="utf-8")
    (folder / "i.txt").write_text("".join(f"{it}\n" for it in ITEMS), encoding="utf-8")
    for name, table in tables().items():
        table.write_csv(folder / f"{name}.csv")
    return folder


def vectors(world: Path) -> list[object]:
    files = {"user-vectors": "u.npy", "item-vectors": "i.npy", "user-ids": "u.txt", "item-ids": "i.txt"}
    return [word for option, name in files.items() for word in (f"--{option}", world / name)]


def about_items(world: Path) -> list[object]:
    return ["--items", world / "items.csv", "--category-column", "genres"]


HELD_OUT = "held-out"
SET_ASIDE = "set-aside"
NO_LABELS = "no-labels"
BARE = "bare"
NO_HISTORY = "no-history"


@pytest.fixture(scope="module")
def runs(world: Path) -> dict[str, Path]:
    """One run of each kind; each is diversified where that works."""
    user, item = (world / name for name in ("u.npy", "i.npy"))
    ids = {"user_ids": world / "u.txt", "item_ids": world / "i.txt"}
    known = {"interactions": world / "before.csv", "items": world / "items.csv", "category_columns": "genres"}
    kinds = {
        HELD_OUT: {**known, "held_out": world / "later.csv"},
        SET_ASIDE: {**known, "set_aside": 0.3},
        NO_LABELS: known,
        NO_HISTORY: {**known, "interactions": None, "held_out": world / "later.csv"},
        BARE: {},
    }
    return {name: package.import_vectors(world / name, user, item, **ids, **kind).path for name, kind in kinds.items()}


@pytest.fixture
def run(runs: dict[str, Path], request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs[request.param], tmp_path / "run"))


def test_a_run_is_made_and_says_what_it_holds(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    files = ["--interactions", world / "before.csv", "--held-out", world / "later.csv"]
    outcome = recprism("import", *vectors(world), *files, *about_items(world), "-o", tmp_path / "run", "--json")
    assert outcome.code == 0, outcome.err
    facts = json.loads(outcome.out)
    assert (facts["users"], facts["items"], facts["factors"], facts["categories"]) == (N_USERS, N_ITEMS, DIM, 6)
    assert facts["interactions"] == {"train": 720, "validation": 270, "test": 270}
    assert "6 categories (genres: lists written as text)" in outcome.err
    run = Run.open(tmp_path / "run")
    assert run.factors().user_ids.tolist() == run.split().user_ids.tolist() == sorted(USERS)
    assert run.items()["title"][0] == "Title 0"
    assert "next:" in outcome.err


def test_lists_are_those_of_the_vectors(runs: dict[str, Path]) -> None:
    user, item = arrays()
    lists = Run.open(runs[BARE]).factors().rank(5)[0]
    wanted = np.argsort(-(user @ item.T), 1)[:, :5]
    assert lists.tolist() == wanted.tolist()


def test_unknown_rows_are_counted_and_printed(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    found = tables()
    strange = pl.DataFrame({"user_id": ["nobody", USERS[0]], "item_id": [ITEMS[0], "nothing"]})
    pl.concat([found["before"], strange]).write_csv(tmp_path / "before.csv")
    pl.concat([found["later"], strange, found["before"][:3]]).write_csv(tmp_path / "later.csv")
    files = ["--interactions", tmp_path / "before.csv", "--held-out", tmp_path / "later.csv"]
    outcome = recprism("import", *vectors(world), *files, "-o", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "2 interactions are left out: they name 1 users and 1 items without a vector" in outcome.err
    assert "3 held-out interactions are left out: they are earlier interactions as well" in outcome.err
    assert "interactions 2, held-out interactions 5" in outcome.out


def test_set_aside_warns_and_the_card_says_so(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    files = ["--interactions", world / "before.csv", "--set-aside", "0.3"]
    outcome = recprism("import", *vectors(world), *files, "-o", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "its accuracy looks too good" in outcome.err
    assert "accuracy looks too good" in (tmp_path / "run" / "CARD.md").read_text(encoding="utf-8")


LABELLED = {
    "evaluate": ["-m", "ndcg@10,subtopic_coverage@10"],
    "frontier": ["--goal", "subtopic_coverage", "--rivals", "mmr"],
    "diversify": ["--budget", "0.2", "--goal", "ilad_subtopics"],
}
ALWAYS = {
    "audit": ["--goal", "catalogue_coverage"],
    "recommend": ["-k", "5"],
    "evaluate": [],
    "search": ["--goal", "ilad", "--set", "iterations=2"],
    "report": ["--draws", "0"],
}


@pytest.mark.slow
@pytest.mark.parametrize("run", [HELD_OUT, SET_ASIDE, NO_HISTORY], indirect=True)
def test_with_labels_every_command_works(recprism: Recprism, run: Path, tmp_path: Path) -> None:
    for command, words in LABELLED.items():
        outcome = recprism(command, run, *words)
        assert outcome.code == 0, f"{command}: {outcome.err}"
    lists = tmp_path / "lists.csv"
    commands: list[list[object]] = [
        ["audit", run, "--goal", "subtopic_coverage"],
        ["recommend", run, "-k", "10", "-o", lists],
        ["evaluate-lists", lists, "--held-out", run.parent / "taken.csv"],
        ["explain", run, "--draws", "0"],
        ["report", run, "--draws", "0"],
        ["export", run, "-o", tmp_path / "rule"],
        ["export", run, "--form", "dials", "-o", tmp_path / "dials"],
        ["export", run, "--form", "user-vectors", "-o", tmp_path / "vectors"],
        ["experiment", run, "--budget", "0.2"],
        ["monitor", run, "--lists", lists, "--floor", "0.01"],
        ["check", run, "--max-ndcg-loss", "0.9"],
        ["search", run, "--goal", "ilad_subtopics", "--set", "iterations=2", "--name", "players"],
        ["erase", run, "--name", "players", "--controls", "0", "--draws", "1"],
    ]
    tables()["later"].write_csv(run.parent / "taken.csv")
    for words in commands:
        outcome = recprism(*words)
        assert outcome.code == 0, f"{words[0]}: {outcome.out} {outcome.err}"
    assert "Title " in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("run", [NO_LABELS, BARE], indirect=True)
def test_without_labels_what_needs_none_works(recprism: Recprism, run: Path, tmp_path: Path) -> None:
    for command, words in ALWAYS.items():
        outcome = recprism(command, run, *words)
        assert outcome.code == 0, f"{command}: {outcome.err}"
        assert "nan" not in outcome.out.split(), command
        if command == "audit":
            assert "what diversity costs in accuracy is not known here" in outcome.out + outcome.err
    assert recprism("export", run, "-o", tmp_path / "vectors").code == 0
    for words in (
        ["diversify", run, "--overwrite", "--budget", "0.1", "--goal", "catalogue_coverage"],
        ["evaluate", run, "-m", "ndcg@10"],
        ["frontier", run, "--goal", "catalogue_coverage"],
        ["experiment", run, "--budget", "0.1"],
    ):
        outcome = recprism(*words)
        assert outcome.code == 2, words
        assert "needs held-out interactions and the" in outcome.err, f"{words[0]}: {outcome.err}"


def test_vectors_come_in_every_format(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    user, item = (it.astype(np.float32) for it in arrays())
    bias = np.linspace(-1, 1, N_ITEMS, dtype=np.float32)
    numbers = {"user_ids": np.arange(N_USERS), "item_ids": np.arange(N_ITEMS) + 20_000_000}
    both = {"user_factors": user, "item_factors": item, "item_bias": bias}
    np.savez(tmp_path / "v.npz", **both, **numbers)
    save_file({**both, **numbers}, tmp_path / "v.safetensors")
    named = {"user.weight": user, "item.weight": item, "item_bias.weight": bias[:, None], **numbers}
    torch.save({name: torch.from_numpy(array) for name, array in named.items()}, tmp_path / "v.pt")
    ids = {"user_id": numbers["user_ids"], "item_id": numbers["item_ids"]}
    wide = {"u": user, "i": item}
    for side, name in (("user", "u"), ("item", "i")):
        more = {"bias": bias} if side == "item" else {}
        listed = pl.DataFrame({f"{side}_id": ids[f"{side}_id"], "vector": wide[name].tolist(), **more})
        listed.write_parquet(tmp_path / f"{name}.parquet")
        factors = {f"f{n}": wide[name][:, n] for n in range(DIM)}
        pl.DataFrame({f"{side}_id": ids[f"{side}_id"], **factors, **more}).write_csv(tmp_path / f"{name}.csv")
    pairs = [(f"v.{kind}", f"v.{kind}") for kind in ("npz", "safetensors", "pt")]
    pairs += [("u.parquet", "i.parquet"), ("u.csv", "i.csv")]
    for n, (users, items) in enumerate(pairs):
        output = tmp_path / f"run{n}"
        words = ["--user-vectors", tmp_path / users, "--item-vectors", tmp_path / items]
        outcome = recprism("import", *words, "-o", output)
        assert outcome.code == 0, f"{users}: {outcome.err}"
        found = Run.open(output).factors()
        np.testing.assert_allclose(found.user, user, rtol=1e-6)
        np.testing.assert_allclose(found.item_bias, bias, rtol=1e-6)
        assert found.item_ids.tolist() == numbers["item_ids"].tolist(), users


def test_columns_are_mapped_in_all_files(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    user, _ = arrays()
    pl.DataFrame({"who": USERS, "vector": user.tolist()}).write_parquet(tmp_path / "u.parquet")
    tables()["before"].rename({"user_id": "who"}).write_csv(tmp_path / "before.csv", separator=";")
    words = ["--user-vectors", tmp_path / "u.parquet", *vectors(world)[2:4], "--item-ids", world / "i.txt"]
    words += ["--interactions", tmp_path / "before.csv", "-o", tmp_path / "run"]
    outcome = recprism("import", *words, "--column", "user_id=who")
    assert outcome.code == 0, outcome.err
    assert len(Run.open(tmp_path / "run").split().train) == 720
    outcome = recprism("import", *words, "--overwrite", "--column", "user_id=whom")
    assert outcome.code == 2 and "the columns are who, vector" in outcome.err


def test_python_takes_arrays_and_frames(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    user, item = arrays()
    found = tables()
    order = np.random.default_rng(3).permutation(N_USERS)
    run = package.import_vectors(
        tmp_path / "run",
        user[order],
        torch.from_numpy(item),
        user_ids=[USERS[it] for it in order],
        item_ids=ITEMS,
        user_bias=np.ones(N_USERS),
        interactions=found["before"],
        held_out=found["later"],
        items=found["items"],
        category_columns="genres",
    )
    np.testing.assert_allclose(run.factors().user, user.astype(np.float32))
    assert run.factors().item_bias is None and len(run.categories()) == 6
    package.import_vectors(tmp_path / "bare", user, item)
    assert "no budget can be certified" in caplog.text


def test_cosine_brings_item_vectors_to_length_one(recprism: Recprism, world: Path, tmp_path: Path) -> None:
    assert recprism("import", *vectors(world), "--metric", "cosine", "-o", tmp_path / "run").code == 0
    found = Run.open(tmp_path / "run")
    np.testing.assert_allclose(np.linalg.norm(found.factors().item, axis=1), 1, rtol=1e-5)
    assert found.config.model.metric == "cosine"


BAD = {
    "three dimensions": ({"u.npy": np.zeros((N_USERS, 2, 3))}, [], "user vectors have shape (90, 2, 3)"),
    "not a number": ({"u.npy": np.full((N_USERS, DIM), np.nan)}, [], "user vectors hold NaN or infinity"),
    "too few ids": ({"u.txt": "a\nb\n"}, [], "2 user ids for 90 user vectors"),
    "an id twice": ({"i.txt": "a\n" * N_ITEMS}, [], "item id 'a' occurs more than once"),
    "another dimension": ({"i.npy": np.zeros((N_ITEMS, DIM + 1))}, [], "item vectors 7; they must agree"),
    "a bias too short": ({"b.npy": np.zeros(3)}, ["--item-bias", "b.npy"], "item_bias has shape (3,)"),
    "a user bias too short": ({"b.npy": np.zeros(3)}, ["--user-bias", "b.npy"], "user_bias has shape (3,)"),
    "no such array": ({}, ["--user-key", "weights"], "holds no array 'weights'"),
    "no such metric": ({}, ["--metric", "euclid"], "unknown metric 'euclid'"),
    "nothing to set aside": ({}, ["--set-aside", "0.2"], "--set-aside has no effect without --interactions"),
    "other ids": ({"o.csv": "user_id,item_id\nx,y\n"}, ["--interactions", "o.csv"], "none of its user ids"),
    "a column without its table": ({}, ["--category-column", "genres"], "name its file with --items"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    recprism: Recprism, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    shutil.copytree(world, tmp_path / "files", ignore=lambda _, names: [it for it in names if "." not in it])
    monkeypatch.chdir(tmp_path / "files")
    files, words, said = BAD[case]
    for name, content in files.items():
        if isinstance(content, str):
            Path(name).write_text(content, encoding="utf-8")
        else:
            np.save(name, content)
    outcome = recprism("import", *vectors(Path()), *words, "-o", tmp_path / "run")
    assert outcome.code == 2, outcome.err
    assert said in outcome.err and len(outcome.err.strip().splitlines()) == 1, outcome.err
    assert not (tmp_path / "run").exists()


def test_audit_takes_no_vectors(recprism: Recprism, world: Path) -> None:
    outcome = recprism("audit", *vectors(world)[:4])
    assert outcome.code == 2 and "there is no option --user-vectors" in outcome.err


@pytest.mark.slow
def test_the_studio_opens_every_kind_of_run(runs: dict[str, Path], tmp_path: Path) -> None:
    from fastapi import testclient

    from recprism.studio.app import create_app

    copies = [Path(shutil.copytree(runs[name], tmp_path / name)) for name in (HELD_OUT, NO_LABELS, BARE)]
    with testclient.TestClient(create_app(copies), base_url="http://127.0.0.1") as client:
        for copy in copies:
            summary = _ready(client, copy.name)
            assert summary["phase"] == "ready", summary
            goal = "ilad" if copy.name == BARE else "subtopic_coverage"
            answer = client.get(f"/api/runs/{copy.name}/user", params={"user": USERS[3], "goal": goal})
            assert answer.status_code == 200, answer.text


def _ready(client: Any, name: str) -> dict[str, Any]:
    for _ in range(1200):
        found: dict[str, Any] = client.get(f"/api/runs/{name}").json()
        if found["phase"] == "broken" or (found["phase"] == "ready" and not found["message"]):
            break
        time.sleep(0.1)
    return found


def test_python_takes_one_name_or_lists_as_categories(tmp_path: Path) -> None:
    from recprism import import_vectors

    vectors = np.eye(3, dtype=np.float32)
    for number, categories in enumerate(
        [{0: "Drama", 1: "Drama", 2: "War"}, pl.DataFrame({"item_id": [0, 1], "category": [["Drama"], ["War"]]})]
    ):
        run = import_vectors(tmp_path / str(number), vectors, vectors, categories=categories)
        assert list(run.categories().names) == ["Drama", "War"]


def test_ids_belong_to_both_sides_or_to_none(tmp_path: Path) -> None:
    from recprism import import_vectors
    from recprism.errors import InputError

    vectors, said = np.eye(2, dtype=np.float32), list[str]()
    with pytest.raises(InputError, match="the user vectors have ids and the item vectors have none; give item_ids"):
        import_vectors(tmp_path / "one", vectors, vectors, user_ids=["a", "b"])
    import_vectors(tmp_path / "none", vectors, vectors, note=said.append)
    assert "the vectors have no ids: their rows count as 0, 1, 2" in said[0]
