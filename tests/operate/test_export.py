"""Export: the files rank as what was exported, say how far they agree with the rule, and do not mix with others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.cmb import CMB
from recprism.data import Dataset, SparseRows
from recprism.errors import InputError, MissingDependencyError
from recprism.forms._export_formats import FORMATS, NPZ
from recprism.forms.compiled import Agreement
from recprism.forms.dials import lists_to_vectors
from recprism.forms.form import FORMS, CompiledForm, DialsForm, Form, Source, UserVectors, register_form
from recprism.forms.rule_file import RuleFile
from recprism.forms.vectors import Export, as_expected, load_export, pair
from recprism.models import Factors
from recprism.result.result import Result
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.export import export_run
from recprism.runs.parts.questions import asked_of_labels
from recprism.runs.run import Run


def written(run: Run, folder: Path, form: str | None = None, to: str = "npz", **options: Any) -> Export:
    """Export vectors of a run; those of the trained model by default."""
    made = export_run(run, folder, form, to=to, **options)[2]
    assert isinstance(made, Export)
    return made


@pytest.fixture(scope="module")
def base(trained_run: Callable[..., Run]) -> Run:
    return trained_run(3, 16)


@pytest.fixture(scope="module")
def ruled(trained_run: Callable[..., Run]) -> Run:
    """A run whose lists are made by a rule."""
    run = trained_run(3, 16)
    assert diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.2})).is_changed
    return run


@pytest.fixture(scope="module")
def found(ruled: Run) -> Result:
    return ruled.load_result()


@pytest.fixture(scope="module")
def served(found: Result) -> Factors:
    """The user vectors that the rule is compiled into."""
    return UserVectors().compile(found.context(), found.own_rule())


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("user-vectors", {"alpha": 0.25}),
        ("dials", {}),
        pytest.param("user-vectors", {}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_form_stores_how_far_its_lists_agree_with_the_rule(
    ruled: Run, found: Result, form: str, options: dict[str, Any], tmp_path: Path
) -> None:
    made = written(ruled, tmp_path / "out", form, **options)
    read, case, rule = load_export(tmp_path / "out"), found.context(), found.own_rule()
    rule = rule.at(rule.trade_off * options.get("alpha", 1.0))
    wanted, given = case.rank(rule)[0], read.rank(10, exclude=found.problem.split.live().train)[0]
    same = [set(a) == set(b) for a, b in zip(wanted.tolist(), given.tolist(), strict=True)]
    in_order = (wanted == given).all(1)
    assert made.agreement == Agreement(len(wanted), sum(same), int(in_order.sum()))
    stored = json.loads((tmp_path / "out" / "export.json").read_text(encoding="utf-8"))
    assert stored["agreement"] == {"users": 601, "same_items": sum(same), "same_order": int(in_order.sum())}
    assert (stored["form"], stored["alpha"]) == (form, options.get("alpha", 1.0))
    # 16 factors hold lists near those of the model; weights of categories hold nearly all of this rule's lists.
    least = {"user-vectors": 0.9 if "alpha" in options else 0.4, "dials": 0.95}[form]
    assert np.mean(same) >= least
    assert in_order.mean() > (0.3 if form == "user-vectors" else 0)
    assert made.agreement.sentence().startswith(f"Of 601 lists, {sum(same):,} have the items of the rule's list")


@pytest.mark.slow
def test_boosts_hold_lists_of_exposure_goals_alone(trained_run: Callable[..., Run], ruled: Run, tmp_path: Path) -> None:
    run = trained_run(3, 16)
    assert diversify_within(run, BudgetConfig(goal="shown_often", budgets={"ndcg@10": 0.2})).is_changed
    made, rule = written(run, tmp_path / "out", "boosts"), run.load_result().own_rule()
    assert made.agreement is not None
    assert made.agreement.same_items >= 0.99 * made.agreement.users
    read = load_export(tmp_path / "out")
    assert made.dim == made.base_dim + 1, "a column of boosts"
    np.testing.assert_allclose(read.user[:, -1], read.user[0, -1])
    np.testing.assert_allclose(read.item[:, -1] * read.user[0, -1], rule.boosts, rtol=1e-5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="boosts are fixed when they are certified, so --alpha is 0 or 1"):
        written(run, tmp_path / "half", "boosts", alpha=0.5)
    with pytest.raises(InputError, match="boosts are for goals of exposure alone"):
        written(ruled, tmp_path / "none", "boosts")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("dials", {"for_index": "none.faiss"}),
        ("user-vectors", {"to": "cosmos"}),
        ("user-vectors", {"metric": "cosine"}),
        ("user-vectors", {"margin": 2.0}),
        ("boosts", {}),
    ],
    ids=str,
)
def test_what_an_export_refuses_is_refused_before_labels_are_asked(
    ruled: Run, form: str, options: dict[str, Any], tmp_path: Path
) -> None:
    asked = asked_of_labels(ruled, "validation")
    with pytest.raises(InputError):
        written(ruled, tmp_path / "out", form, budgets={"ndcg@10": 0.5}, **options)
    assert asked_of_labels(ruled, "validation") == asked
    assert not (tmp_path / "out").exists()


def test_a_run_is_exported_as_its_rule_or_as_the_vectors_it_has(
    base: Run, ruled: Run, tmp_path: Path, searched_run: Callable[..., Run]
) -> None:
    form, folder, made = export_run(ruled)
    assert (form.name, folder) == ("rule", ruled.path / "export-rule")
    assert isinstance(made, RuleFile)
    assert RuleFile.read(folder).about["made_from"] == ruled.fingerprint()
    shutil.rmtree(folder)
    players = searched_run(3, 16, iterations=3, diversity="subtopic_coverage")
    for run, vectors in ((base, base.factors()), (players, players.load_result().vectors.factors)):  # type: ignore[union-attr]
        made = written(run, tmp_path / run.path.parent.name)
        assert (made.form, made.agreement) == ("vectors", None)
        np.testing.assert_array_equal(load_export(tmp_path / run.path.parent.name).item, vectors.item)
        for other in ("rule", "dials", "user-vectors", "boosts"):
            with pytest.raises(InputError, match=f"--form {other} needs a rule, and no rule makes these lists"):
                export_run(run, tmp_path / "none", other)
    with pytest.raises(InputError, match="the rule of this result is in no vectors"):
        written(ruled, tmp_path / "none", "vectors")
    with pytest.raises(InputError, match="exported as rule, dials, user-vectors, boosts or vectors, not as 'scores'"):
        written(ruled, tmp_path / "none", "scores")
    assert not (tmp_path / "none").exists()


@dataclass(frozen=True, kw_only=True, eq=False)
class Lists(Form):
    """A form from outside, with a file and an option of its own."""

    name = "lists"
    k: int = 10

    def write(self, source: Source, folder: Path) -> WrittenLists:
        items = source.problem.live().rank(source.rule_for(self), self.k)[0]
        folder.mkdir()
        np.save(folder / "lists.npy", items)
        return WrittenLists(len(items))


@dataclass(frozen=True)
class WrittenLists:
    users: int

    def to_dict(self) -> dict[str, Any]:
        return {"users": self.users}

    def sentences(self, folder: Path) -> list[str]:
        return [f"{self.users} lists -> {folder}"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Blended(CompiledForm):
    """A form from outside that is written as vectors."""

    name = "blended"
    new_users = "New users get base lists."
    part: float = 0.5

    def compile(self, problem: Problem, rule: Any) -> Factors:
        base, whole = problem.factors, UserVectors().compile(problem, rule)
        return replace(whole, user=(1 - self.part) * base.user + self.part * whole.user)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for form in (Lists, Blended):
        monkeypatch.setitem(FORMS, form.name, form)  # taken back after the test
        register_form(form)


@pytest.mark.usefixtures("registered")
def test_a_form_from_outside_is_exported(ruled: Run, found: Result, tmp_path: Path) -> None:
    made = found.export(tmp_path / "lists", "lists", k=5)
    assert made.to_dict() == {"users": 601}
    np.testing.assert_array_equal(np.load(tmp_path / "lists" / "lists.npy"), found.ranked(k=5)[0])
    blended = written(ruled, tmp_path / "blended", "blended", part=1.0)
    assert (blended.form, blended.measured is None) == ("blended", False)
    wanted = UserVectors().compile(found.context(), found.own_rule())
    np.testing.assert_array_equal(load_export(tmp_path / "blended").user, wanted.user)
    assert Blended(part=0.25).to_dict()["part"] == 0.25, "a question to the labels names it"
    with pytest.raises(InputError, match="alpha has no effect on --form lists"):
        found.export(tmp_path / "none", "lists", alpha=0.5)


@pytest.mark.usefixtures("registered")
def test_the_command_line_knows_a_form_from_outside(
    ruled: Run, tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("export", ruled.path, "--form", "lists", "-o", tmp_path / "lists", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(tmp_path / "lists"), "form": "lists", "users": 601}
    assert call("export", ruled.path, "--form", "lists", "--to", "npz") == 2
    assert "--to has no effect for --form lists; it works for --form dials" in capsys.readouterr().err
    assert call("export", ruled.path, "--form", "blended", "--to", "npz", "-o", tmp_path / "blended") == 0


def test_options_belong_to_a_form(found: Result, tmp_path: Path) -> None:
    for form, option in (("vectors", "ordered"), ("boosts", "rest"), ("rule", "to"), ("dials", "histories")):
        with pytest.raises(InputError, match=f"{option} has no effect on --form {form}"):
            found.export(tmp_path / "none", form, **{option: True})
    made = found.export(tmp_path / "made", DialsForm(to="npz"), alpha=0.5)
    assert (made.to_dict()["form"], made.to_dict()["format"], made.to_dict()["alpha"]) == ("dials", "npz", 0.5)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", list(FORMATS))
def test_every_format_gives_the_same_bits_back(base: Run, tmp_path: Path, to: str) -> None:
    made, served = written(base, tmp_path / "out", to=to), base.factors()
    read = load_export(tmp_path / "out")
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
    written(run, tmp_path / "out", to=to)
    read = load_export(tmp_path / "out")
    assert read.item_ids.tolist() == named
    wanted, found = (it.rank(10)[0] for it in (run.factors(), read))
    np.testing.assert_array_equal(wanted, found)


@pytest.mark.slow
def test_the_item_version_changes_only_if_items_move(
    base: Run, searched_run: Callable[..., Run], tmp_path: Path
) -> None:
    plain = written(base, tmp_path / "plain")
    moved = written(searched_run(3, 16, iterations=5, diversity="subtopic_coverage"), tmp_path / "moved")
    assert plain.index_stays and not plain.items_moved
    assert not moved.index_stays and moved.items_moved
    assert moved.base_item_version == plain.item_version


def test_alpha_leads_from_the_model_to_the_rule(base: Run, ruled: Run, tmp_path: Path) -> None:
    back = written(ruled, tmp_path / "back", "user-vectors", alpha=0)
    np.testing.assert_array_equal(load_export(tmp_path / "back").user, base.factors().user)
    assert (back.agreement, back.live and back.live.metric) == (None, None), "these are not vectors of the rule"
    with pytest.raises(InputError, match=r"alpha: 1\.5 is not a share from 0 to 1"):
        written(ruled, tmp_path / "out", "user-vectors", alpha=1.5)


def test_a_pair_of_two_exports_is_refused(base: Run, tmp_path: Path) -> None:
    other = Run(shutil.copytree(base.path, tmp_path / "other"))
    factors = base.factors()
    other.save_factors(replace(factors, item=factors.item * 2))
    plain = written(base, tmp_path / "plain")
    moved = written(other, tmp_path / "moved")
    users = NPZ.read(tmp_path / "plain" / plain.users, "user")
    with pytest.raises(InputError, match="belong with item vectors of version"):
        pair(users, NPZ.read(tmp_path / "moved" / moved.items, "item"))
    with pytest.raises(InputError, match="holds item vectors where user vectors"):
        NPZ.read(tmp_path / "plain" / plain.items, "user")


@pytest.mark.slow
def test_user_vectors_of_the_same_index_are_interchangeable(
    base: Run, ruled: Run, served: Factors, tmp_path: Path
) -> None:
    """A rollback needs no new index: users of the trained model belong with the same items."""
    plain = written(base, tmp_path / "plain")
    moved = written(ruled, tmp_path / "moved", "user-vectors")
    np.testing.assert_array_equal(load_export(tmp_path / "moved").user, served.user)
    assert moved.index_stays and moved.user_version != plain.user_version
    items = NPZ.read(tmp_path / "moved" / moved.items, "item")
    assert pair(NPZ.read(tmp_path / "plain" / plain.users, "user"), items).n_users == base.factors().n_users


def test_modified_vectors_are_refused(base: Run, tmp_path: Path) -> None:
    made = written(base, tmp_path / "out", to="csv")
    file = tmp_path / "out" / made.users
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].rpartition(",")[0] + ",0.125"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="not those that were exported as version"):
        load_export(tmp_path / "out")


@pytest.mark.parametrize("to", list(FORMATS))
@pytest.mark.parametrize("harm", ["gone", "cut short", "something else"])
def test_a_damaged_file_is_reported_in_one_sentence(base: Run, tmp_path: Path, to: str, harm: str) -> None:
    made = written(base, tmp_path / "out", to=to)
    file = tmp_path / "out" / made.items
    whole = file.read_bytes()
    file.unlink()
    if harm != "gone":
        file.write_bytes(whole[: len(whole) // 2] if harm == "cut short" else b"something else entirely")
    with pytest.raises(InputError) as told:
        load_export(tmp_path / "out")
    assert "\n" not in str(told.value)


def test_expected_lists_are_what_an_index_gives(ruled: Run, tmp_path: Path) -> None:
    import faiss

    made = written(ruled, tmp_path / "out", "user-vectors", "faiss")
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


@pytest.mark.parametrize("form", ["rule", "user-vectors"])
def test_existing_files_are_not_overwritten(ruled: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        export_run(ruled, tmp_path / "out", form)
    assert [it.name for it in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_unknown_format_is_refused(base: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exported to safetensors"):
        written(base, tmp_path / "new", to="hdf5")
    assert not (tmp_path / "new").exists()


def test_an_export_that_fails_leaves_nothing_behind(base: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAISS is missing: once it is installed, the same command works."""
    import sys

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "faiss", None)
        with pytest.raises(MissingDependencyError, match=r"needs faiss, .*recprism\[ann\]"):
            written(base, tmp_path / "out", to="faiss")
    assert list(tmp_path.iterdir()) == []
    assert written(base, tmp_path / "out", to="faiss").format == "faiss"


# -- the sphere -------------------------------------------------------------------------------------------------------


def test_vectors_for_inner_product_are_refused_for_cosine(base: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="item vectors are not of length 1"):
        written(base, tmp_path / "out", metric="cosine")
    assert not (tmp_path / "out").exists()


def test_lists_baked_on_the_sphere_hold_under_cosine(base: Run) -> None:
    factors = base.factors().on_sphere()
    problem = Problem(factors, base.split(), base.categories(), "test")
    lists = problem.rank(rule_at(problem, "subtopic_coverage", 0.1))[0]
    compiled = lists_to_vectors(factors, lists, exclude=problem.seen, order=True)
    after = compiled.applied_to(factors)
    np.testing.assert_allclose(np.linalg.norm(after.item, axis=1), 1, atol=1e-5)
    unit = after.item / np.linalg.norm(after.item, axis=1, keepdims=True)
    by_cosine = Factors.from_arrays(after.user, unit).rank(10, exclude=problem.seen)[0]
    same = by_cosine == after.rank(10, exclude=problem.seen)[0]
    assert same.mean() > 0.999, "apart from items whose scores are equal but for rounding"
    assert compiled.kept.mean() > 0.999


def test_players_stay_on_the_sphere(base: Run) -> None:
    factors = base.factors().on_sphere()
    model = CMB(iterations=10, device="cpu").fit(factors, base.split(), base.categories())
    np.testing.assert_allclose(np.linalg.norm(model.factors_.item, axis=1), 1, atol=1e-5)
    assert model.delta_.item is not None
    assert float(model.delta_.item.abs().max()) > 0


def test_a_run_on_the_sphere_is_exported_for_cosine(base: Run, tmp_path: Path) -> None:
    shutil.copytree(base.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    run.save_factors(base.factors().on_sphere())
    assert written(run, tmp_path / "out", to="parquet").metric == "cosine"
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


def searched(path: Path, vectors: np.ndarray, seen: SparseRows) -> np.ndarray:
    """(n, 10) lists of the index itself, searched in all cells, without seen items."""
    import faiss

    index = faiss.read_index(str(path))
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = index.nlist
    found = index.search(vectors, index.ntotal)[1]
    return np.stack([row[~np.isin(row, seen.row(u))][:10] for u, row in enumerate(found)])


def share_kept(wanted: np.ndarray, found: np.ndarray) -> float:
    return float((wanted[:, :, None] == found[:, None, :]).any(2).mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "ivf-pq"])
def test_user_vectors_for_an_index_recover_lists_that_rounding_loses(
    ruled: Run, served: Factors, tmp_path: Path, kind: str
) -> None:
    seen = ruled.split().live().train
    rounding_index(served.item, tmp_path / "codes.faiss", kind)
    made = written(ruled, tmp_path / "out", "user-vectors", for_index=tmp_path / "codes.faiss")
    assert made.index_stays
    wanted, held = served.rank(10, exclude=seen)[0], load_export(tmp_path / "out")
    lost = [1 - share_kept(wanted, searched(tmp_path / "codes.faiss", it.user, seen)) for it in (served, held)]
    assert lost[0] > 0.01
    assert lost[1] < lost[0] / 5  # with 16 factors rounded vectors cannot hold some lists


@pytest.mark.slow
def test_a_larger_margin_holds_the_same_lists_and_survives_int8(ruled: Run, served: Factors, tmp_path: Path) -> None:
    seen = ruled.split().live().train
    rounding_index(served.item, tmp_path / "codes.faiss", "int8")
    made = written(ruled, tmp_path / "out", "user-vectors", margin=0.05)
    held = load_export(tmp_path / "out")
    assert made.margin == 0.05
    wanted = served.rank(10, exclude=seen)[0]
    np.testing.assert_array_equal(held.rank(10, exclude=seen)[0], wanted)
    lost = [1 - share_kept(wanted, searched(tmp_path / "codes.faiss", it.user, seen)) for it in (served, held)]
    assert lost[1] < lost[0] / 4


def test_an_index_of_other_items_is_refused(base: Run, tmp_path: Path) -> None:
    items = base.factors().item
    for name, vectors, says in (
        ("fewer", items[:-1], r"decoded vectors have shape \(\d+, 16\)"),
        ("order", items[::-1], "in one order"),
    ):
        rounding_index(np.ascontiguousarray(vectors), tmp_path / name, "int8")
        with pytest.raises(InputError, match=says):
            written(base, tmp_path / "out", for_index=tmp_path / name)
    (tmp_path / "text").write_text("no index")
    with pytest.raises(InputError, match="not an index"):
        written(base, tmp_path / "out", for_index=tmp_path / "text")
    with pytest.raises(InputError, match="no such file"):
        written(base, tmp_path / "out", for_index=tmp_path / "nothing")
    assert not (tmp_path / "out").exists()


def test_expected_lists_allow_equal_scores_to_change_places_and_nothing_else() -> None:
    vectors = Factors.from_arrays([[1.0, 0.0]], [[3, 0], [2, 1], [2, 5], [1, 0]], item_ids=["a", "b", "c", "d"])
    entry = {"user": 0, "items": ["a", "b", "c"], "scores": [3.0, 2.0, 2.0]}
    assert as_expected(vectors, entry, ["a", "b", "c"])
    assert as_expected(vectors, entry, ["a", "c", "b"])
    for wrong in (["b", "a", "c"], ["a", "b", "d"], ["a", "b", "b"], ["a", "b"]):
        assert not as_expected(vectors, entry, wrong)
