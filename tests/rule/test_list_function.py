"""Goals that are Python functions of one list: searched, certified, stored, exported, or refused with the reason."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from itertools import combinations, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import make_candidates

import recprism as rp
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.errors import InputError
from recprism.models import BPRMF
from recprism.result.catalogue import Catalogue
from recprism.result.view import view_of
from recprism.rule import Features, ListSearch
from recprism.rule.goal import Goal, Words
from recprism.rule.kernels.list_function import ListFunction, known_function
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool
from recprism.runs.config import RunConfig
from recprism.runs.run import Run
from recprism.serving import load_rule
from recprism.testing import make_world

HERE = __name__


def variety(categories: Any) -> Any:
    """Share of the categories that a list has: subtopic coverage, written again."""
    return (categories.sum(0) > 0).sum() / categories.shape[1]


def variety_in_python(categories: Any) -> float:
    """The same, in a way that numba does not compile."""
    return len(set(np.nonzero(categories)[1].tolist())) / categories.shape[1]


def changes(categories: Any) -> float:
    """How often the first category of neighbours differs: the order counts."""
    first = categories[:, 0].tolist()
    return sum(abs(one - other) for one, other in pairwise(first)) / 10


def spread(vectors: Any) -> Any:
    """Mean distance of all pairs: ilad, written again, up to what it is divided by."""
    m = len(vectors)
    return (m * m - (vectors @ vectors.T).sum()) / 20


def both(vectors: Any, categories: Any) -> float:
    return 0.0


def not_a_number(categories: Any) -> float:
    return float(json.loads("NaN"))


def beyond(categories: Any) -> float:
    return float(categories[len(categories), 0])


_calls = [0]


def of_chance(categories: Any) -> float:
    _calls[0] += 1
    return _calls[0] * 1.5


def of_items(items: Any) -> float:
    return 0.0


def decorated(categories: Any) -> float:
    return 0.0


original, decorated = decorated, functools.wraps(decorated)(lambda _: 1.0)


def local() -> Callable[..., float]:
    def of_list(categories: Any) -> float:
        return 0.0

    return of_list


def of_script(categories: Any) -> float:
    return 0.0


of_script.__module__ = "__main__"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda _: 0.0, "it is a lambda, which has no name to be stored by; define it with def"),
        (local(), "it is defined inside another function, so no other process finds it; define it with def"),
        (of_script, "it is defined in the script or notebook that runs, so no other process finds it"),
        (original, "its module has something else by this name"),
        (max, "<built-in function max> cannot be a goal; give a function that a module defines with def"),
        (functools.partial(variety), "cannot be a goal; give a function that a module defines with def"),
        (of_items, "takes (items); a function of a list takes categories, vectors or both, one row per item"),
        (local, "takes (); a function of a list takes categories, vectors or both"),
        (f"{HERE}:nothing", f"the module {HERE} has no function 'nothing', which is a goal"),
        ("nowhere.at_all:goal", "is not imported; import it first, or set RECPRISM_IMPORT=nowhere.at_all"),
        ({variety: 1, variety_in_python: 1}, "are both functions; write one that adds them up"),
        ({variety: 1, "pc": 1}, "catalogue_coverage ties all lists, and"),
        ({variety: 1, "gini": 1}, "an exposure goal does not combine with"),
        ({spread: 1, "ilad_subtopics": 1}, "takes item vectors, and ilad_subtopics others; combine it with ilad"),
        ({variety: 0}, "the weight of goal"),
    ],
)
def test_others_are_refused_with_the_reason(function: Words, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Goal.parse(function)


def test_a_function_is_written_and_read_by_its_name() -> None:
    goal = Goal.parse(variety)
    assert str(goal) == f"{HERE}:variety"
    assert goal == Goal.parse(str(goal)) == Goal.parse({variety: 1})
    mixed = Goal.parse({variety: 2, "ilad": 1})
    assert mixed == Goal.parse(str(mixed)) == Goal.parse(f"{HERE}:variety=2,ilad=1")
    assert Goal.parse(f"sc+{HERE}:variety").weights == {"subtopic_coverage": 1, f"{HERE}:variety": 1}


def test_a_name_in_a_file_imports_what_the_user_names_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taste_of_a_test.py").write_text("def goal(vectors):\n    return 0.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="which is not imported"):
        Goal.parse("taste_of_a_test:goal")
    monkeypatch.setenv("RECPRISM_IMPORT", "not_there,taste_of_a_test")
    assert Goal.parse("taste_of_a_test:goal").needing("vectors") is not None
    with pytest.raises(InputError, match="RECPRISM_IMPORT names the module not_there, which cannot be imported"):
        Goal.parse("not_there:goal")


def lists_of(goals: dict[Any, float], *, trade_off: float = 0.3, k: int = 4, **units: float) -> Any:
    world = make_candidates(4, n_users=10, n_candidates=9, n_items=24)
    method = ListSearch(trade_off=trade_off, goals=Goal.parse(goals).weights, units=units, history_weight=0.2)
    return method(world.candidates, world.scores, k, features=world.features)


@pytest.mark.parametrize("function", [pytest.param(variety, marks=pytest.mark.slow), variety_in_python])
def test_the_lists_are_those_of_the_same_goal_without_a_function(function: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(lists_of({function: 1.0}), lists_of({"subtopic_coverage": 1.0}))


@pytest.mark.slow
def test_a_function_of_vectors_finds_the_lists_of_distances() -> None:
    np.testing.assert_array_equal(lists_of({spread: 1.0}), lists_of({"ilad": 1.0}, ilad=1 / 10))


@pytest.mark.parametrize("goals", [{changes: 1.0}, {changes: 1.0, "alpha_ndcg": 0.5}])
def test_no_list_is_better_by_brute_force(goals: dict[Any, float]) -> None:
    world, k, n = make_candidates(9, n_users=6, n_candidates=6, n_items=24), 3, 6
    method = ListSearch(trade_off=0.3, goals=Goal.parse(goals).weights)
    pool = Pool.of(world.candidates, world.scores, world.features.device, world.features.n_items)
    objective, found = Objective.of(method, pool, k, world.features), method.choose(pool, k, world.features).numpy()
    every = np.array(list(permutations(range(n), k)))
    hits = 0
    for user in range(pool.n_users):
        items, relevance, of_user = pool.items[user].numpy(), pool.relevance[user].numpy(), np.full(len(every), user)
        best = objective.parts(items[every], relevance[every], users=of_user).total.max()
        own = objective.parts(items[found[user]][None], relevance[found[user]][None], users=of_user[:1])
        assert own.of("function")[0] >= 0
        assert own.total[0] <= best + 1e-12
        hits += own.total[0] >= best - 1e-9
    assert hits >= 5


def test_a_function_receives_the_items_of_the_list() -> None:
    features = Features(categories=[[1, 0, 1], [0, 1, 0], [0, 0, 0]], vectors=[[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    seen: list[Any] = []
    function = ListFunction(both)
    function._function = lambda vectors, categories: seen.append((vectors, categories)) or 0.0
    rows = features.categories.rows
    directions = features.vector_directions
    data = rows.indptr.numpy(), rows.indices.numpy(), 3, directions.unit.numpy(), directions.known.numpy()
    function.values(np.array([[2, -1, 0], [-1, -1, -1]]), *data)
    (vectors, categories), *_ = seen
    np.testing.assert_allclose(vectors, [[0.0, 0.0], [0.6, 0.8]])
    np.testing.assert_array_equal(categories, [[0, 0, 0], [1, 0, 1]])
    assert len(seen) == 2, "an empty list has the value 0, and the first list is looked at twice"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (not_a_number, "returns nan for a list of 1 items; return a finite number"),
        pytest.param(beyond, "fails on a list (IndexError: ", marks=pytest.mark.slow),
        (of_chance, "for one list; it must not depend on chance or on what other calls change"),
    ],
)
def test_a_function_that_fails_is_named(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"the goal {HERE}:{function.__name__} ") + ".*" + re.escape(said)):
        lists_of({function: 1.0})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = make_world(80, 40, 6, takes=6, seed=3).dataset()
    split = data.split(seed=0)
    made = Run.create(tmp_path_factory.mktemp("function") / "run", RunConfig())
    made.save_data(data, split)
    made.save_factors(BPRMF(epochs=2, dim=8).fit(split, seed=0, device="cpu"))
    return made


def kept(problem: Problem, goal: Words) -> Any:
    question = BudgetQuestion.of(goal, {f"ndcg@{problem.k}": 0.5}, k=problem.k, trade_offs=(0.05,))
    return rp.Result.of_rule(problem, within_budget(problem, question))


@pytest.fixture(scope="module")
def found(run: Run) -> Any:
    return kept(run.problem(), variety)


def test_it_is_certified_like_the_same_goal_without_a_function(run: Run) -> None:
    """The function is subtopic coverage, so every list and every figure is that of the goal."""
    problem, name = Problem(run.factors(), run.split(), run.categories(), k=3), f"{HERE}:variety_in_python@3"
    one, other = (kept(problem, goal) for goal in (variety_in_python, "sc"))
    assert one.certificate.last is not None
    assert one.trade_off == other.trade_off == 0.05
    assert one.certificate.points == other.certificate.points
    np.testing.assert_array_equal(one.ranked(live=False)[0], other.ranked(live=False)[0])
    values = problem.judge(one.ranked(live=False)[0], (name, "subtopic_coverage@3"))
    np.testing.assert_allclose(values[name], values["subtopic_coverage@3"], rtol=1e-6)


@pytest.mark.slow
def test_it_is_stored_by_its_name_and_refused_after_a_change(run: Run, found: Any) -> None:
    run.save_result(found)
    again = Run.open(run.path).load_result()
    assert again.goal == Goal.parse(variety)
    np.testing.assert_array_equal(again.ranked()[0], found.ranked()[0])
    known_function(variety).__dict__["fingerprint"] = "another"
    try:
        with pytest.raises(InputError, match="has changed since this was made with it; make it again"):
            Run.open(run.path).load_result()
    finally:
        del known_function(variety).__dict__["fingerprint"]


@pytest.mark.slow
def test_its_export_makes_the_same_lists(run: Run, found: Any, tmp_path: Path) -> None:
    found.export(tmp_path / "rule", "rule")
    served, problem = load_rule(tmp_path / "rule"), run.problem()
    live, ids, context = found.ranked()[0], problem.split.item_ids, problem.live()
    items, scores = context.candidates_after([], 100, None)
    for user in range(8):
        real = items[user] >= 0
        answer = served.rerank(ids[items[user][real]], scores[user][real], history=ids[context.seen.row(user)].tolist())
        assert list(answer.ids) == ids[live[user]].tolist()
        assert answer.reasons == () and "is a function of whole lists" in answer.notes[-1]
    real = items[0] >= 0
    assert served.rerank(ids[items[0][real]], scores[0][real], history=[], reasons=False).notes == ()


def test_an_export_is_refused_where_numba_does_not_compile_it(run: Run, tmp_path: Path) -> None:
    result = rp.Result(run.problem(), Goal.parse(variety_in_python), rule_at(run.problem(), variety_in_python, 0.1))
    with pytest.raises(InputError, match=r"must be compiled, and numba does not compile it \(.*tolist.*\); export"):
        result.export(tmp_path / "rule", "rule")
    assert not (tmp_path / "rule").exists()


def test_reasons_are_refused(run: Run) -> None:
    result = rp.Result(run.problem(), Goal.parse(variety_in_python), rule_at(run.problem(), variety_in_python, 0.1))
    with pytest.raises(InputError, match="is a function of whole lists, so no item has a share of its value"):
        result.why(run.split().user_ids[0])
    view = view_of(result, Catalogue(run.items(), run.categories()))
    new = {word for row in range(3) for word in view.reasons_of(row).values()}
    assert new == {f"Chosen by the rule for {HERE}:variety_in_python, a function of whole lists."}


@pytest.mark.slow
def test_the_number_of_lists_that_are_tried_suffices() -> None:
    """More candidates than the shortlist: lists of a set goal are still those of the search for it."""
    world = make_candidates(2, n_users=6, n_candidates=20, n_items=40)
    values = []
    for goals in ({variety: 1.0}, {"subtopic_coverage": 1.0}):
        method = ListSearch(trade_off=0.3, goals=Goal.parse(goals).weights)
        pool = Pool.of(world.candidates, world.scores, world.features.device, world.features.n_items)
        at = method.choose(pool, 3, world.features).numpy()
        objective = Objective.of(ListSearch(trade_off=0.3), pool, 3, world.features)
        rows = np.arange(6)[:, None]
        values.append(objective.parts(pool.items.numpy()[rows, at], pool.relevance.numpy()[rows, at]).total)
    every = np.array(list(combinations(range(20), 3)))
    best = [
        objective.parts(pool.items.numpy()[u][every], pool.relevance.numpy()[u][every], users=np.full(len(every), u))
        for u in range(6)
    ]
    assert (values[0] >= np.array([it.total.max() for it in best]) - 1e-9).sum() >= 5
