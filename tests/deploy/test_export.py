"""Export: the files rank as the run does, and files of different exports are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.budget.within import within_budget
from recprism.budget.path import lists_at
from recprism.budget.scenario import Scenario
from recprism.cmb import CMB
from recprism.data import Dataset, Incidence
from recprism.forms._export_formats import FORMATS, NPZ
from recprism.forms.vectors import as_expected, export_run, load_export, pair, vectors_at
from recprism.forms.live import live_model
from recprism.errors import InputError, MissingDependencyError
from recprism.models import Factors
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def base(trained_run: Callable[..., Run]) -> Run:
    return trained_run(3, 16)


def changed(base: Run, path: Path, side: str) -> Run:
    shutil.copytree(base.path, path)
    run = Run.open(path)
    within = BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.2}, into=f"{side}-vectors")
    diversify_within(run, within)
    assert run.is_diversified()
    return run


@pytest.fixture(scope="module")
def user_side(base: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return changed(base, tmp_path_factory.mktemp("runs") / "user", "user")


@pytest.fixture(scope="module")
def item_side(base: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return changed(base, tmp_path_factory.mktemp("runs") / "item", "item")


@pytest.mark.parametrize("to", list(FORMATS))
def test_every_format_gives_the_same_bits_back(user_side: Run, tmp_path: Path, to: str) -> None:
    made = export_run(user_side, tmp_path / "out", to)
    served, read = live_model(user_side), load_export(tmp_path / "out")
    np.testing.assert_array_equal(read.user, served.user)
    np.testing.assert_array_equal(read.item, served.item)
    assert read.user_ids.tolist() == served.user_ids.tolist()
    assert read.item_ids.tolist() == served.item_ids.tolist()
    assert made.index_stays
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.parametrize("to", list(FORMATS))
def test_text_ids_and_a_bias_are_exported(tmp_path: Path, to: str, base: Run, small: Dataset) -> None:
    shutil.copytree(base.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    factors, split = run.factors(), run.split()
    named = [f"{at:04}," + ("ü" if at % 2 else '"') for at in range(factors.n_items)]
    bias = np.linspace(-1, 1, factors.n_items, dtype=np.float32)
    about = small.attributes.with_columns(pl.Series("item_id", named))
    run.save_data(replace(small, attributes=about), replace(split, item_ids=np.array(named, dtype=object)))
    run.save_factors(
        Factors.from_arrays(factors.user, factors.item, user_ids=factors.user_ids, item_ids=named, item_bias=bias)
    )
    export_run(run, tmp_path / "out", to, part="test")
    read = load_export(tmp_path / "out")
    assert read.item_ids.tolist() == named
    wanted, found = (it.rank(10)[0] for it in (run.factors(), read))
    np.testing.assert_array_equal(wanted, found)


@pytest.mark.slow
def test_the_item_version_changes_only_if_items_move(base: Run, item_side: Run, tmp_path: Path) -> None:
    plain = export_run(base, tmp_path / "plain", "npz")
    moved = export_run(item_side, tmp_path / "moved", "npz")
    assert plain.index_stays
    assert not moved.index_stays
    assert moved.base_item_version == plain.item_version


def test_alpha_leads_from_the_model_to_the_run(base: Run, user_side: Run, tmp_path: Path) -> None:
    export_run(user_side, tmp_path / "back", "npz", alpha=0)
    np.testing.assert_array_equal(load_export(tmp_path / "back").user, base.factors().user)
    scenario, found = user_side.scenario().live(), user_side.load_result()
    half = scenario.rank(vectors_at(user_side, 0.5))[0]
    wanted = lists_at(scenario, found.goal, found.trade_off / 2)
    same = (np.sort(half, 1) == np.sort(wanted, 1)).all(1).mean()
    assert same > 0.9  # solved again: a vector half as long gives other lists
    with pytest.raises(InputError, match=r"alpha: 1\.5 is not a share from 0 to 1"):
        vectors_at(user_side, 1.5)


def test_a_pair_of_two_exports_is_refused(base: Run, tmp_path: Path) -> None:
    other = Run(shutil.copytree(base.path, tmp_path / "other"))
    factors = base.factors()
    other.save_factors(replace(factors, item=factors.item * 2))
    plain = export_run(base, tmp_path / "plain", "npz")
    moved = export_run(other, tmp_path / "moved", "npz")
    users = NPZ.read(tmp_path / "plain" / plain.users, "user")
    with pytest.raises(InputError, match="belong with item vectors of version"):
        pair(users, NPZ.read(tmp_path / "moved" / moved.items, "item"))
    with pytest.raises(InputError, match="holds item vectors where user vectors"):
        NPZ.read(tmp_path / "plain" / plain.items, "user")


def test_user_vectors_of_the_same_index_are_interchangeable(base: Run, user_side: Run, tmp_path: Path) -> None:
    """A rollback needs no new index: users of the trained model belong with the same items."""
    plain = export_run(base, tmp_path / "plain", "npz")
    moved = export_run(user_side, tmp_path / "moved", "npz")
    items = NPZ.read(tmp_path / "moved" / moved.items, "item")
    assert pair(NPZ.read(tmp_path / "plain" / plain.users, "user"), items).n_users == base.factors().n_users


def test_modified_vectors_are_refused(user_side: Run, tmp_path: Path) -> None:
    made = export_run(user_side, tmp_path / "out", "csv")
    file = tmp_path / "out" / made.users
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].rpartition(",")[0] + ",0.125"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="not those that were exported as version"):
        load_export(tmp_path / "out")


@pytest.mark.parametrize("to", list(FORMATS))
@pytest.mark.parametrize("harm", ["gone", "cut short", "something else"])
def test_a_damaged_file_is_reported_in_one_sentence(user_side: Run, tmp_path: Path, to: str, harm: str) -> None:
    made = export_run(user_side, tmp_path / "out", to)
    file = tmp_path / "out" / made.items
    whole = file.read_bytes()
    file.unlink()
    if harm != "gone":
        file.write_bytes(whole[: len(whole) // 2] if harm == "cut short" else b"something else entirely")
    with pytest.raises(InputError) as told:
        load_export(tmp_path / "out")
    assert "\n" not in str(told.value)


def test_expected_lists_are_what_an_index_gives(user_side: Run, tmp_path: Path) -> None:
    import faiss

    made = export_run(user_side, tmp_path / "out", "faiss")
    expected = json.loads((tmp_path / "out" / "expected.json").read_text(encoding="utf-8"))
    index = faiss.read_index(str(tmp_path / "out" / made.items))
    ids = json.loads((tmp_path / "out" / made.items).with_suffix(".json").read_text(encoding="utf-8"))["id_list"]
    users = NPZ.read(tmp_path / "out" / made.users, "user")
    rows = {user: row for row, user in enumerate(users.ids.tolist())}
    for one in expected["everything"]:
        scores, found = (it[0] for it in index.search(users.vectors[[rows[one["user"]]]], 10))
        np.testing.assert_allclose(scores, one["scores"], rtol=1e-4)
        given = {ids[at] for at in found}
        for item, score in zip(one["items"], one["scores"], strict=True):  # items of equal score may change places
            assert item in given or score == pytest.approx(scores[-1], rel=1e-4)


def test_existing_files_are_not_overwritten(user_side: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        export_run(user_side, tmp_path / "out")
    with pytest.raises(InputError, match="exported to safetensors"):
        export_run(user_side, tmp_path / "new", "hdf5")


def test_an_export_that_fails_leaves_nothing_behind(
    user_side: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAISS is missing: once it is installed, the same command works."""
    import sys

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "faiss", None)
        with pytest.raises(MissingDependencyError, match=r"needs faiss, .*recprism\[export\]"):
            export_run(user_side, tmp_path / "out", "faiss")
    assert list(tmp_path.iterdir()) == []
    assert export_run(user_side, tmp_path / "out", "faiss").format == "faiss"


# -- the sphere -------------------------------------------------------------------------------------------------------


def test_vectors_for_inner_product_are_refused_for_cosine(user_side: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="item vectors are not of length 1"):
        export_run(user_side, tmp_path / "out", metric="cosine")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("side", ["user", pytest.param("item", marks=pytest.mark.slow)])
def test_lists_baked_on_the_sphere_hold_under_cosine(base: Run, side: str) -> None:
    factors = base.factors().on_sphere()
    scenario = Scenario(factors, base.split(), base.subtopics(), "test")
    kept = within_budget(scenario, "subtopic_coverage", {"ndcg@10": 0.3}, into=f"{side}-vectors", trade_offs=(0.1,))
    assert kept.compiled is not None
    after = kept.factors
    np.testing.assert_allclose(np.linalg.norm(after.item, axis=1), 1, atol=1e-5)
    unit = after.item / np.linalg.norm(after.item, axis=1, keepdims=True)
    by_cosine = Factors.from_arrays(after.user, unit).rank(10, exclude=scenario.seen)[0]
    same = by_cosine == after.rank(10, exclude=scenario.seen)[0]
    assert same.mean() > 0.999, "apart from items whose scores are equal but for rounding"
    assert kept.compiled.kept.mean() > (0.999 if side == "user" else 0.8)


def test_players_stay_on_the_sphere(base: Run) -> None:
    factors = base.factors().on_sphere()
    model = CMB(iterations=10, device="cpu").fit(factors, base.split(), base.subtopics())
    np.testing.assert_allclose(np.linalg.norm(model.factors_.item, axis=1), 1, atol=1e-5)
    assert model.delta_.item is not None
    assert float(model.delta_.item.abs().max()) > 0


def test_a_run_on_the_sphere_is_exported_for_cosine(base: Run, tmp_path: Path) -> None:
    shutil.copytree(base.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    run.save_factors(base.factors().on_sphere())
    assert export_run(run, tmp_path / "out", "parquet").metric == "cosine"
    assert pl.read_parquet(next((tmp_path / "out").glob("items-*.parquet"))).columns == ["item_id", "vector"]


def rounding_index(items: np.ndarray, path: Path, kind: str) -> None:
    import faiss

    d = items.shape[1]
    index = {
        "int8": lambda: faiss.IndexScalarQuantizer(d, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT),
        "ivf-pq": lambda: faiss.IndexIVFPQ(faiss.IndexFlatIP(d), d, 8, 8, 4, faiss.METRIC_INNER_PRODUCT),
    }[kind]()
    index.train(items)
    index.add(items)
    faiss.write_index(index, str(path))


def searched(path: Path, vectors: np.ndarray, seen: Incidence) -> np.ndarray:
    """(n, 10) lists of the index itself, searched in all cells, without seen items."""
    import faiss

    index = faiss.read_index(str(path))
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = index.nlist
    found = index.search(vectors, index.ntotal)[1]
    return np.stack([row[~np.isin(row, seen.row(u))][:10] for u, row in enumerate(found)])


def share_kept(wanted: np.ndarray, found: np.ndarray) -> float:
    return float((wanted[:, :, None] == found[:, None, :]).any(2).mean())


@pytest.mark.parametrize("kind", ["int8", "ivf-pq"])
def test_user_vectors_for_an_index_recover_lists_that_rounding_loses(user_side: Run, tmp_path: Path, kind: str) -> None:
    served, seen = live_model(user_side), user_side.split().live().train
    rounding_index(served.item, tmp_path / "codes.faiss", kind)
    made = export_run(user_side, tmp_path / "out", for_index=tmp_path / "codes.faiss")
    assert made.index_stays
    wanted, held = served.rank(10, exclude=seen)[0], load_export(tmp_path / "out")
    lost = [1 - share_kept(wanted, searched(tmp_path / "codes.faiss", it.user, seen)) for it in (served, held)]
    assert lost[0] > 0.01
    assert lost[1] < lost[0] / 5  # with 16 factors rounded vectors cannot hold some lists


def test_a_larger_margin_holds_the_same_lists_and_survives_int8(user_side: Run, tmp_path: Path) -> None:
    served, seen = live_model(user_side), user_side.split().live().train
    rounding_index(served.item, tmp_path / "codes.faiss", "int8")
    made = export_run(user_side, tmp_path / "out", margin=0.05)
    held = load_export(tmp_path / "out")
    assert made.margin == 0.05
    wanted = served.rank(10, exclude=seen)[0]
    np.testing.assert_array_equal(held.rank(10, exclude=seen)[0], wanted)
    lost = [1 - share_kept(wanted, searched(tmp_path / "codes.faiss", it.user, seen)) for it in (served, held)]
    assert lost[1] < lost[0] / 4


def test_an_index_of_other_items_is_refused(user_side: Run, tmp_path: Path) -> None:
    items = user_side.served_factors().item
    for name, vectors, says in (
        ("fewer", items[:-1], r"decoded vectors have shape \(\d+, 16\)"),
        ("order", items[::-1], "in one order"),
    ):
        rounding_index(np.ascontiguousarray(vectors), tmp_path / name, "int8")
        with pytest.raises(InputError, match=says):
            export_run(user_side, tmp_path / "out", for_index=tmp_path / name)
    (tmp_path / "text").write_text("no index")
    with pytest.raises(InputError, match="not an index"):
        export_run(user_side, tmp_path / "out", for_index=tmp_path / "text")
    with pytest.raises(InputError, match="no such file"):
        export_run(user_side, tmp_path / "out", for_index=tmp_path / "nothing")
    assert not (tmp_path / "out").exists()


def test_expected_lists_allow_equal_scores_to_change_places_and_nothing_else() -> None:
    vectors = Factors.from_arrays([[1.0, 0.0]], [[3, 0], [2, 1], [2, 5], [1, 0]], item_ids=["a", "b", "c", "d"])
    entry = {"user": 0, "items": ["a", "b", "c"], "scores": [3.0, 2.0, 2.0]}
    assert as_expected(vectors, entry, ["a", "b", "c"])
    assert as_expected(vectors, entry, ["a", "c", "b"])
    for wrong in (["b", "a", "c"], ["a", "b", "d"], ["a", "b", "b"], ["a", "b"]):
        assert not as_expected(vectors, entry, wrong)
