"""Batch lists: those of the rule at request time and offline, in shards that survive a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.data import Categories, SparseRows
from recprism.errors import BusyError, InputError
from recprism.forms import RuleFile
from recprism.models import Factors
from recprism.operate.batch import make_batch
from recprism.operate.batch._shown import ShownRows
from recprism.operate.batch.lists import BatchRule
from recprism.parallel import executor_named
from recprism.rule import Features, ListSearch
from recprism.runs.lock import held
from recprism.serving import ServedRule

USERS, ITEMS, DIM, CATEGORIES = 90, 300, 6, 8
NAMES = tuple(f"category {at}" for at in range(CATEGORIES))


def rule_file(goal: str = "subtopic_coverage", **changes: Any) -> RuleFile:
    """A rule over random items of one to three categories; ids are text."""
    rng = np.random.default_rng(0)
    member = rng.random((ITEMS, CATEGORIES)) < 0.15
    member[np.arange(ITEMS), rng.integers(0, CATEGORIES, ITEMS)] = True
    rows = SparseRows.coerce(member)
    item = rng.standard_normal((ITEMS, DIM)).astype(np.float32)
    unit = item.astype(np.float64) / np.linalg.norm(item.astype(np.float64), axis=1, keepdims=True)
    made = RuleFile(
        goals={goal: 1.0},
        units={goal: 1 / CATEGORIES},
        trade_off=0.3,
        history_weight=0.0,
        k=6,
        candidates=40,
        constraints={},
        item_ids=np.array([f"i{at}" for at in range(ITEMS)]),
        names=NAMES,
        indptr=rows.indptr,
        indices=rows.indices,
        shares=1 / rows.row_counts[rows.row_of_entry],
        unit=unit if goal == "ilad" else np.zeros((1, 1)),
        known=np.ones(ITEMS if goal == "ilad" else 1, np.bool_),
        item_vectors=item,
    )
    return replace(made, **changes)


def vectors() -> Any:
    return np.random.default_rng(1).standard_normal((USERS, DIM)).astype(np.float32)


def seen_items() -> SparseRows:
    return SparseRows.coerce(np.random.default_rng(2).random((USERS, ITEMS)) < 0.05)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"goal": "alpha_ndcg"},
        {"goal": "ilad"},
        {"history_weight": 0.4},
        {"trade_off": 0.0},
        {"constraints": {"banned": ["i3", "i5"], "pinned": {"2": "i7"}}},
        {"constraints": {"max_share": {"category 1": 0.2}, "min_share": {"category 2": 0.5}}},
        {"constraints": {"min_items": {"category 1": 2}, "pinned": {"1": "i7"}}},
        {"constraints": {"max_items": {"category": 2}, "spacing": {"category": 2}, "pinned": {"2": "i7"}}},
    ],
    ids=[
        "coverage",
        "order",
        "distance",
        "history",
        "relevance",
        "bans and pins",
        "shares",
        "numbers of items",
        "fields",
    ],
)
def test_batch_lists_are_those_of_requests(changes: dict[str, Any]) -> None:
    file, user, seen = rule_file(**changes), vectors(), seen_items()
    made = BatchRule(file)(user, seen)
    served = ServedRule(file)
    for row in range(USERS):
        known = file.item_ids[seen.row(row)].tolist()
        wanted = served.rank(user[row], exclude=known, history=known, reasons=False)
        items = made.items[row]
        assert tuple(file.item_ids[items].tolist()) == wanted.ids
        assert made.scores[row] == pytest.approx(item_scores(file, user[row])[items], rel=1e-5, abs=1e-6)


def item_scores(file: RuleFile, vector: Any) -> Any:
    return file.item_vectors @ vector  # type: ignore[operator]


def test_batch_lists_are_those_of_the_re_ranker_to_the_last_bit() -> None:
    file, user, seen = rule_file(), vectors(), seen_items()
    factors = Factors.from_arrays(user, file.item_vectors)  # type: ignore[arg-type]
    candidates, scores = factors.rank(file.candidates, exclude=seen)
    categories = Categories(file.names, SparseRows(file.indptr, file.indices, CATEGORIES))
    rule = ListSearch(goals=file.goals, units=file.units, trade_off=file.trade_off)
    lists = rule(candidates, scores, file.k, features=Features(categories=categories))
    made = BatchRule(file)(user, seen)
    assert (made.items == lists).all()
    place = (candidates[:, None, :] == lists[:, :, None]).argmax(2)
    assert (made.scores == np.take_along_axis(scores, place, 1)).all()
    assert (made.base == candidates[:, : file.k]).all()
    assert (np.sort(made.items) != np.sort(made.base)).any()


def test_short_lists_have_no_empty_places(tmp_path: Path) -> None:
    file = rule_file()
    all_but_four = np.ones((USERS, ITEMS), np.bool_)
    all_but_four[:, :4] = False
    made = BatchRule(file)(vectors(), SparseRows.coerce(all_but_four))
    assert (made.items[:, 4:] == -1).all()
    assert np.isneginf(made.scores[:, 4:]).all()
    log = pl.DataFrame({"user_id": np.repeat(np.arange(USERS), ITEMS - 4), "item_id": list(file.item_ids[4:]) * USERS})
    log.write_parquet(tmp_path / "log.parquet")
    table = read(batch(tmp_path, seen=tmp_path / "log.parquet"))
    assert set(table["items"].list.len()) == {4}
    assert {it for row in table["items"].to_list() for it in row} == {"i0", "i1", "i2", "i3"}


def batch(folder: Path, name: str = "lists", **options: Any) -> Path:
    """Make a batch from files in the folder; return the folder of its shards."""
    if not (folder / "rule").exists():
        rule_file().write(folder / "rule")
        np.save(folder / "users.npy", vectors())
    options = {"shard_users": 40, "repeat_seen": "seen" not in options, **options}
    make_batch(folder / "rule", folder / "users.npy", folder / name, **options)
    return folder / name


def read(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "part-*.parquet")


def contents(folder: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in sorted(folder.iterdir())}


def test_shards_hold_what_the_arrays_hold_and_do_not_depend_on_their_size(tmp_path: Path) -> None:
    folder = batch(tmp_path)
    assert [it.name for it in sorted(folder.iterdir())] == [
        "batch.json",
        *(f"part-0000{at}.parquet" for at in range(3)),
    ]
    table, file = read(folder), rule_file()
    made = BatchRule(file)(vectors())
    assert table["user_id"].to_list() == list(range(USERS))
    assert (np.array(table["items"].to_list()) == file.item_ids[made.items]).all()
    assert (np.array(table["scores"].to_list(), np.float32) == made.scores).all()
    assert read(batch(tmp_path, "other", shard_users=17)).equals(table)


@pytest.mark.parametrize("kind", ["parquet", "factors", "export"])
def test_user_vectors_are_read_from_other_files(tmp_path: Path, kind: str) -> None:
    wanted = read(batch(tmp_path))
    ids = [f"u{at}" for at in range(USERS)]
    file = tmp_path / f"users.{'parquet' if kind == 'parquet' else 'safetensors'}"
    if kind == "parquet":
        pl.DataFrame({"user_id": ids, "vector": pl.Series(vectors()).arr.to_list()}).write_parquet(file)
    elif kind == "factors":
        Factors.from_arrays(vectors(), rule_file().item_vectors, user_ids=ids).save(file)  # type: ignore[arg-type]
    else:
        from recprism.forms._export_formats import FORMATS, Side

        FORMATS["safetensors"][0].save(file, Side("user", vectors(), np.array(ids), "v", "w", "inner_product"))
    make_batch(tmp_path / "rule", file, tmp_path / "again", repeat_seen=True, shard_users=40)
    found = read(tmp_path / "again")
    assert found["user_id"].to_list() == ids
    assert found.drop("user_id").equals(wanted.drop("user_id"))


def test_a_finished_shard_is_kept_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    folder = batch(tmp_path)
    before = contents(folder)
    (folder / "part-00001.parquet").unlink()
    (folder / "part-00002.parquet").write_bytes(before["part-00002.parquet"][:-20])
    kept = (folder / "part-00000.parquet").stat().st_mtime_ns
    again = make_batch(tmp_path / "rule", tmp_path / "users.npy", folder, repeat_seen=True, shard_users=40)
    assert (again.shards, again.shards_kept, again.made) == (3, 1, 50)
    assert (folder / "part-00000.parquet").stat().st_mtime_ns == kept
    assert contents(folder) == before


@pytest.mark.parametrize("change", ["k", "shard_users", "users", "rule", "seen"])
def test_shards_of_other_inputs_or_settings_are_not_mixed(tmp_path: Path, change: str) -> None:
    folder = batch(tmp_path)
    before = contents(folder)
    options: dict[str, Any] = {"shard_users": 40, "repeat_seen": change != "seen"}
    if change == "users":
        np.save(tmp_path / "users.npy", 2 * vectors())
    elif change == "rule":
        facts = json.loads((tmp_path / "rule" / "rule.json").read_text(encoding="utf-8"))
        (tmp_path / "rule" / "rule.json").write_text(json.dumps({**facts, "trade_off": 0.1}), encoding="utf-8")
    elif change == "seen":
        pl.DataFrame({"user_id": [1], "item_id": ["i1"]}).write_parquet(tmp_path / "log.parquet")
        options["seen"] = tmp_path / "log.parquet"
    else:
        options[change] = {"k": 5, "shard_users": 41}[change]
    with pytest.raises(InputError, match="its shards were not made with the same"):
        make_batch(tmp_path / "rule", tmp_path / "users.npy", folder, **options)
    assert contents(folder) == before


@pytest.mark.parametrize("change", ["users", "rule"])
def test_a_new_batch_from_the_same_paths_reads_the_new_files(tmp_path: Path, change: str) -> None:
    folder = batch(tmp_path)
    before = read(folder)
    shutil.rmtree(folder)
    user, file = vectors(), rule_file()
    if change == "users":
        user = -user
        (tmp_path / "users.npy").unlink()  # a mapped file that is written again shows its new contents
        np.save(tmp_path / "users.npy", user)
    else:
        file = rule_file(trade_off=0.0)
        shutil.rmtree(tmp_path / "rule")
        file.write(tmp_path / "rule")
    after = read(batch(tmp_path))
    assert not after.equals(before)
    assert (np.array(after["items"].to_list()) == file.item_ids[BatchRule(file)(user).items]).all()


@pytest.mark.parametrize("seen", ["log/**/*.parquet", "log"])
def test_every_file_of_seen_items_is_read_and_hashed(tmp_path: Path, seen: str) -> None:
    shown = read(batch(tmp_path))["items"].to_list()
    for at, name in enumerate(("top.parquet", "a/b/deep.parquet")):
        (tmp_path / "log" / name).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame({"user_id": [at], "item_id": [shown[at][0]]}).write_parquet(tmp_path / "log" / name)
    found = read(batch(tmp_path, "new", seen=tmp_path / seen))["items"].to_list()
    assert all(shown[at][0] not in found[at] for at in (0, 1))
    pl.DataFrame({"user_id": [2], "item_id": [shown[2][0]]}).write_parquet(tmp_path / "log" / "a/b/deep.parquet")
    with pytest.raises(InputError, match="not made with the same seen items"):
        batch(tmp_path, "new", seen=tmp_path / seen)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="seen items are a Parquet file, a folder of them, or a pattern"):
        batch(tmp_path, "newer", seen=tmp_path / "empty")
    assert not (tmp_path / "newer").exists()


def test_nothing_is_written_if_the_input_is_wrong(tmp_path: Path) -> None:
    batch(tmp_path)
    np.save(tmp_path / "wide.npy", np.zeros((5, DIM + 1), np.float32))
    np.save(tmp_path / "bad.npy", np.full((5, DIM), np.nan, np.float32))
    np.save(tmp_path / "flat.npy", np.zeros(5, np.float32))
    replace(rule_file(), item_vectors=None).write(tmp_path / "bare")
    replace(rule_file(), boosts=np.zeros(ITEMS)).write(tmp_path / "boosted")
    rule_file(history_window=3).write(tmp_path / "recent")
    rule_file(constraints={"tail_floor": 0.1}).write(tmp_path / "floor")
    rule_file(constraints={"banned": ["gone"]}).write(tmp_path / "older")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other.txt").touch()
    for rule, users, folder, words in (
        ("rule", "wide.npy", "new", "columns"),
        ("rule", "bad.npy", "new", "NaN"),
        ("rule", "flat.npy", "new", "shape"),
        ("rule", "users.csv", "new", "user vectors are"),
        ("rule", "nowhere.npy", "new", "no such file"),
        ("bare", "users.npy", "new", "no item vectors"),
        ("boosted", "users.npy", "new", "boosts"),
        ("floor", "users.npy", "new", "depend on each other under tail_floor"),
        ("older", "users.npy", "new", "item id 'gone' is unknown"),
        ("recent", "users.npy", "new", "only a user's latest 3 interactions"),
        ("nowhere", "users.npy", "new", "no export of a rule"),
        ("rule", "users.npy", "full", "not empty"),
    ):
        with pytest.raises(InputError, match=words):
            make_batch(tmp_path / rule, tmp_path / users, tmp_path / folder, repeat_seen=True)
        assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="lists without seen items repeat what users know"):
        batch(tmp_path, "new", repeat_seen=False)
    with pytest.raises(InputError, match="choose one of them"):
        batch(tmp_path, "new", seen=tmp_path / "log.parquet", repeat_seen=True)
    assert not (tmp_path / "new").exists()
    with held(tmp_path / "lists"), pytest.raises(BusyError):
        in_another_thread(lambda: batch(tmp_path))


def in_another_thread(task: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(task).result()


@pytest.mark.needs("ray")
def test_workers_of_a_cluster_make_the_same_shards(tmp_path: Path) -> None:
    wanted = contents(batch(tmp_path))
    executor = executor_named("ray")
    assert contents(batch(tmp_path, "on-ray", executor=executor)) == wanted
    with pytest.raises(InputError, match="local executor"):
        batch(tmp_path, "new", device="cuda", executor=executor)


@pytest.mark.faults
def test_a_killed_batch_is_resumed_and_gives_the_same_bytes(tmp_path: Path) -> None:
    wanted = contents(batch(tmp_path, shard_users=3))
    words = ["batch", "rule", "--users", "users.npy", "-o", "killed", "--shard-users", "3", "--repeat-seen"]
    command, folder = [sys.executable, "-m", "recprism", *words], tmp_path / "killed"
    for least in (2, 9, 17):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(folder.glob("part-*.parquet"))) < least:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert 0 < len(list(folder.glob("part-*.parquet"))) < len(wanted) - 1
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert contents(folder) == wanted


def test_seen_items_of_nobody_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": ["somebody"], "item_id": ["i1"]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"no row has a user of .* numbers from 0"):
        batch(tmp_path, seen=tmp_path / "log.parquet")


@pytest.mark.parametrize("changes", [{}, {"goal": "ilad"}, {"constraints": {"pinned": {"1": "i7"}}}], ids=str)
def test_lists_after_pages_are_those_of_requests(changes: dict[str, Any]) -> None:
    file, user, seen, generator = rule_file(**changes), vectors(), seen_items(), np.random.default_rng(3)
    users = np.sort(generator.integers(0, USERS - 5, 600))  # the last ones have no pages
    items, ages = generator.integers(0, ITEMS, 600), generator.integers(1, 4, 600).astype(float)
    made = BatchRule(file)(user, seen, ShownRows(users, items, ages, 2, 1.5))
    served, plain = ServedRule(file), BatchRule(file)(user, seen)
    for row in range(USERS):
        known = file.item_ids[seen.row(row)].tolist()
        shown = [(f"i{it}", age) for it, age in zip(items[users == row], ages[users == row], strict=True)]
        asked = {"shown": shown, "no_repeat": 2, "half_life": 1.5}
        assert tuple(file.item_ids[made.items[row]].tolist()) == served.rank(user[row], exclude=known, **asked).ids
    assert (made.items[-5:] == plain.items[-5:]).all()
    assert (made.items != plain.items).any(1).mean() > 0.2


def test_a_batch_reads_the_items_of_earlier_pages(tmp_path: Path) -> None:
    rule_file().write(tmp_path / "rule")
    np.save(tmp_path / "users.npy", vectors())
    asked = (tmp_path / "rule", tmp_path / "users.npy")
    make_batch(*asked, tmp_path / "1", repeat_seen=True, shard_users=40)
    one = pl.read_parquet(tmp_path / "1" / "*.parquet").explode("items")
    pages = one.select("user_id", item_id="items", age=pl.lit(1))
    pages.write_parquet(tmp_path / "pages.parquet")
    options: dict[str, Any] = {"repeat_seen": True, "shown": tmp_path / "pages.parquet", "shard_users": 40}
    made = make_batch(*asked, tmp_path / "2", **options)
    assert made.as_tested == ("nothing was certified",)
    two = pl.read_parquet(tmp_path / "2" / "*.parquet").explode("items")
    assert one.join(two, on=["user_id", "items"]).is_empty()
    make_batch(*asked, tmp_path / "3", no_repeat=0, half_life=0.001, **options)
    assert pl.read_parquet(tmp_path / "3" / "*.parquet").explode("items").equals(one)
    with pytest.raises(InputError, match="not made with the same shown items"):
        make_batch(*asked, tmp_path / "2", no_repeat=1, **options)
    for wrong, sentence in (
        (pages.drop("age"), "no column 'age'; the columns are user_id, item_id"),
        (pages.with_columns(age=-1), "age must be a number of pages, 0 or more, in every row"),
        (pages.with_columns(user_id=pl.col("user_id") + 1000), "no row has a user of the vectors and an item of the"),
    ):
        wrong.write_parquet(tmp_path / "wrong.parquet")
        with pytest.raises(InputError, match=sentence):
            make_batch(*asked, tmp_path / "4", **{**options, "shown": tmp_path / "wrong.parquet"})
    with pytest.raises(InputError, match="half_life is about earlier pages"):
        make_batch(*asked, tmp_path / "4", repeat_seen=True, half_life=2)
