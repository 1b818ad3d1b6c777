"""load, audit, diversify and the methods of the result: they agree with each other, and show themselves briefly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recprism as rp
from recprism.budget.audit import Audit
from recprism.data import Dataset, SparseRows, Split
from recprism.errors import InputError
from recprism.explain import Reason
from recprism.explain.explained import ExplainedLists
from recprism.forms.vectors import Export, load_export
from recprism.rule.goal import Goal

GOAL = "subtopic_coverage"
BUDGETS = (0.02, 0.3)


@pytest.fixture(scope="session")
def data() -> Dataset:
    return rp.load("ml-latest-small")


@pytest.fixture(scope="session")
def split(data: Dataset) -> Split:
    return data.split(seed=0)


@pytest.fixture(scope="session")
def case(data: Dataset, split: Split) -> rp.Problem:
    return rp.Problem(rp.BPRMF(epochs=5, dim=48).fit(split, seed=0, device="cpu"), split, data.categories)


@pytest.fixture(scope="session")
def costs(case: rp.Problem) -> Audit:
    return rp.audit(case, GOAL, budgets=BUDGETS)


@pytest.fixture(scope="session")
def found(case: rp.Problem) -> rp.Result:
    return rp.diversify(case, GOAL, "30%")


@pytest.fixture(scope="session")
def explanation(found: rp.Result) -> ExplainedLists:
    return found.explain(draws=0)


@pytest.fixture(scope="session")
def shown(
    data: Dataset, split: Split, case: rp.Problem, costs: Audit, found: rp.Result, explanation: ExplainedLists
) -> dict[str, Any]:
    """Everything that the verbs return, by name."""
    return {
        "Dataset": data,
        "Split": split,
        "Factors": case.factors,
        "Problem": case,
        "Audit": costs,
        "Result": found,
        "Certificate": found.certificate,
        "SegmentTable": costs.payers,
        "ExplainedLists": explanation,
    }


@pytest.fixture(scope="session")
def frame(data: Dataset) -> pl.DataFrame:
    known = data.interactions
    columns = {"user_id": known.user_ids[known.user], "item_id": known.item_ids[known.item]}
    return pl.DataFrame({**columns, "rating": known.rating, "timestamp": known.timestamp})


@pytest.fixture(scope="session")
def categories(data: Dataset) -> dict[int, list[str]]:
    names, items, ids = data.categories.names, data.categories.items, data.interactions.item_ids.tolist()
    return {item: [names[it] for it in items.row(row)] for row, item in enumerate(ids)}


class TestLoading:
    def test_frames_arrays_and_files_give_the_same(
        self, data: Dataset, frame: pl.DataFrame, categories: dict[int, list[str]], tmp_path: Path
    ) -> None:
        rows = [(item, name) for item, names in categories.items() for name in names]
        long = pl.DataFrame(rows, schema=["item_id", "category"], orient="row")
        frame.write_csv(tmp_path / "events.csv")
        long.write_csv(tmp_path / "categories.csv")
        films = pl.DataFrame({"item_id": list(categories), "genres": ["|".join(it) for it in categories.values()]})
        columns = {name: frame[name].to_numpy() for name in ("rating", "timestamp")}
        for other in (
            rp.from_frames(frame, categories=categories),
            rp.from_frames(frame.to_pandas(), films.to_pandas(), category_column="genres"),
            rp.from_arrays(
                frame["user_id"].to_numpy(),
                frame["item_id"].to_numpy(),
                ratings=columns["rating"],
                timestamps=columns["timestamp"],
                categories=long,
            ),
            rp.load(tmp_path / "events.csv", categories=tmp_path / "categories.csv"),
        ):
            assert_same(other, data)

    def test_what_cannot_be_loaded_is_refused(self, frame: pl.DataFrame) -> None:
        with pytest.raises(InputError, match=r"'netflix' is neither a file nor a known data set; known are .*ml-1m"):
            rp.load("netflix")
        with pytest.raises(InputError, match="pass items, and leave categories out"):
            rp.from_frames(frame, category_column="genres")
        with pytest.raises(InputError, match="pass one-dimensional ones of one length"):
            rp.from_arrays([1, 2], [1])


def assert_same(one: Dataset, other: Dataset) -> None:
    """The same interactions, categories and split."""
    for name in ("user", "item", "user_ids", "item_ids", "rating", "timestamp"):
        np.testing.assert_array_equal(getattr(one.interactions, name), getattr(other.interactions, name))
    assert one.categories.names == other.categories.names
    np.testing.assert_array_equal(one.categories.dense(), other.categories.dense())
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(one.split(seed=0).part(part).indices, other.split(seed=0).part(part).indices)


class TestAuditAndDiversify:
    @pytest.mark.parametrize("at", range(len(BUDGETS)), ids=[f"{budget:.2%}" for budget in BUDGETS])
    def test_they_agree_on_what_is_certified(self, case: rp.Problem, costs: Audit, at: int) -> None:
        """Both are about the lists of the rule."""
        stop = costs.stops[Goal.parse(GOAL)][at]
        result = rp.diversify(case, GOAL, BUDGETS[at])
        assert stop.certificate is not None
        assert result.certificate is not None
        assert result.certificate.last == stop.certificate.last
        assert result.trade_off == (0.0 if stop.certified is None else stop.certified.trade_off)
        assert result.certificate.part == costs.decided_on(Goal.parse(GOAL)) == "validation"

    def test_the_loss_that_is_certified_is_within_the_budget(self, found: rp.Result) -> None:
        assert found.is_changed
        assert found.certificate is not None
        assert found.certificate.last is not None
        assert found.certificate.points[found.certificate.last].checks[0].passed
        changes = {row.name: row.relative for row in found.change.rows}
        assert changes[f"{GOAL}@10"] > 0

    def test_without_a_certificate_nothing_changes(self, case: rp.Problem, split: Split) -> None:
        """Ten users are too few to certify a tiny loss."""
        train, few = split.train, split.validation.row_of_entry < 10
        rows, items = split.validation.row_of_entry[few], split.validation.indices[few]
        fewer = replace(split, validation=SparseRows.from_pairs(rows, items, train.shape))
        result = rp.diversify(rp.Problem(case.factors, fewer, case.categories), GOAL, 1e-4)
        assert not result.is_changed
        assert result.rule is None
        assert result.model is case.base
        np.testing.assert_array_equal(result.ranked(live=False)[0], result.problem.base_lists)
        assert "certified=False" in repr(result)
        with pytest.raises(InputError, match="nothing was certified, so the lists did not change"):
            result.explain()


class TestResult:
    def test_lists_hold_nothing_known(self, found: rp.Result, split: Split) -> None:
        users = split.user_ids[:50]
        lists = found.lists(users, 7)
        assert lists.columns == ["user_id", "item_id", "rank", "score"]
        assert lists["rank"].to_list() == [*range(1, 8)] * 50
        shown = lists["item_id"].to_numpy().reshape(50, 7)
        for row, items in enumerate(shown):
            known = np.concatenate([split.part(part).row(row) for part in ("train", "validation", "test")])
            assert not set(items.tolist()) & set(split.item_ids[known].tolist())
        assert found.lists(users[0], 7).equals(lists.head(7))
        np.testing.assert_array_equal(found.lists(users)["item_id"].to_numpy().reshape(50, 10)[:, :7], shown)

    @pytest.mark.parametrize("live", [True, False])
    def test_lists_are_those_of_the_rule(self, found: rp.Result, live: bool) -> None:
        """Scores are those of the model; the rule changes places and not scores."""
        case = found.problem.live() if live else found.problem
        items, scores = found.ranked(live=live)
        np.testing.assert_array_equal(items, case.rank(found.own_rule())[0])
        own = (case.factors.user[:, None, :] * case.factors.item[items]).sum(2)
        np.testing.assert_allclose(scores, own, rtol=1e-4, atol=1e-5)
        lists = found.lists(live=live)
        np.testing.assert_array_equal(lists["item_id"].to_numpy().reshape(-1, 10), case.base.ids_of(items))
        np.testing.assert_array_equal(
            found.evaluate(("ndcg@10",), bootstrap=0).values["ndcg@10"],
            found.problem.judge(found.ranked(live=False)[0], ("ndcg@10",))["ndcg@10"],
        )

    @pytest.mark.parametrize("live", [True, False])
    def test_explains_the_list_of_a_user(self, found: rp.Result, live: bool) -> None:
        """The reasons are those of the rule's list, in its order."""
        case = found.context(live=live)
        lists = found.ranked(live=live)[0]
        new = (lists[:, :, None] != case.base_lists[:, None, :]).all(2)
        row, place = (int(it) for it in np.argwhere(new)[0])
        user, items = case.split.user_ids[row], case.base.ids_of(lists[row])
        reasons = found.why(user, live=live)
        assert isinstance(reasons, tuple)
        assert [it.item for it in reasons] == items.tolist()
        one = found.why(user, items[place], live=live)
        assert isinstance(one, Reason)
        assert one == reasons[place]
        assert one.newcomer
        lost = case.base.ids_of(np.setdiff1d(case.base_lists[row], lists[row]))[0]
        gone = found.why_not(user, lost, live=live)
        assert gone.in_base_list
        other = found.what_if(user, live=live, without=items[place])
        assert items[place] not in other.after
        assert other.before == tuple(items.tolist())
        for view in (one, gone, other):
            json.dumps(view.to_dict())

    @pytest.mark.slow
    def test_explains_the_change_with_its_controls(self, found: rp.Result, explanation: ExplainedLists) -> None:
        checked = found.explain(draws=49)
        model, plain = checked.choice_model, explanation.choice_model
        assert model is not None and plain is not None
        assert model.explained == plain.explained
        assert model.shuffled_all is not None
        assert model.shuffled_all.p_value <= 0.05
        assert model.explained > model.shuffled_all.largest

    def test_refuses_what_it_cannot_explain(self, found: rp.Result) -> None:
        case = found.problem
        user, first = case.split.user_ids[0], case.base.ids_of(found.ranked(np.array([0]))[0][0])[0]
        for question, message in (
            (lambda: found.why("unknown"), "unknown"),
            (lambda: found.why_not(user, first), "is in the list of user"),
            (lambda: found.explain(draws=-1), "draws"),
        ):
            with pytest.raises(InputError, match=message):
                question()

    @pytest.mark.slow
    @pytest.mark.parametrize("form", ["user-vectors", "dials"])
    def test_exports_vectors_for_live_lists(self, found: rp.Result, form: str, tmp_path: Path) -> None:
        made = found.export(tmp_path / "vectors", form, to="npz")
        assert isinstance(made, Export)
        assert (made.form, made.run, made.result, made.made_from) == (form, "", None, "")
        vectors = load_export(tmp_path / "vectors")
        given = found.context().rank(vectors)[0]
        same = (np.sort(given, 1) == np.sort(found.ranked()[0], 1)).all(1)
        assert made.agreement is not None
        assert made.agreement.same_items == same.sum() > 0.9 * len(same)
        with pytest.raises(InputError, match="is not empty; name a new folder"):
            found.export(tmp_path / "vectors", form)

    def test_exports_ids_that_are_text_without_pickle(self, found: rp.Result, tmp_path: Path) -> None:
        case = found.problem
        names = np.array([f"u{it}" for it in case.split.user_ids], dtype=object)
        named = rp.Problem(replace(case.factors, user_ids=names), replace(case.split, user_ids=names), case.categories)
        made = replace(found, problem=named).export(tmp_path / "named", "user-vectors", to="npz")
        assert isinstance(made, Export)
        with np.load(tmp_path / "named" / made.users, allow_pickle=False) as arrays:
            assert arrays["ids"].tolist() == names.tolist()

    def test_a_form_that_does_not_fit_is_refused(self, found: rp.Result, tmp_path: Path) -> None:
        for form, message in (
            ("boosts", "boosts are for goals of exposure alone"),
            ("vectors", "the rule of this result is in no vectors"),
            ("item-vectors", "a result is exported as rule, dials, user-vectors, boosts or vectors"),
        ):
            with pytest.raises(InputError, match=message):
                found.export(tmp_path / "vectors", form)
        assert not (tmp_path / "vectors").exists()


DISPLAYED = [
    *("Dataset", "Split", "Factors", "Problem", "Audit"),
    *("Result", "ExplainedLists", "Certificate", "SegmentTable"),
]


@pytest.mark.parametrize("name", DISPLAYED)
class TestDisplay:
    def test_repr_is_short(self, name: str, shown: dict[str, Any]) -> None:
        text = repr(shown[name])
        assert text.startswith(f"{name}(")
        assert text.count("\n") < 3
        assert len(text) < 400

    def test_to_dict_is_json(self, name: str, shown: dict[str, Any]) -> None:
        plain = shown[name].to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)).keys() == plain.keys()

    def test_to_frame_is_a_table(self, name: str, shown: dict[str, Any]) -> None:
        table = shown[name].to_frame()
        assert isinstance(table, pl.DataFrame)
        assert len(table) > 0

    def test_notebooks_show_a_table(self, name: str, shown: dict[str, Any]) -> None:
        page = shown[name]._repr_html_()
        assert "<table" in page
        assert len(page) < 100_000
