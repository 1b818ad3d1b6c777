"""The law of one list: every surface shows the same list of a user, in each context, and the reasons of that list."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient

import recprism
from recprism import Diversifier, Result, serving
from recprism.cli import main
from recprism.data import Dataset, Interactions
from recprism.models import BPRMF
from recprism.operate.batch import make_batch
from recprism.report.users import users_of_rule
from recprism.result.catalogue import Catalogue
from recprism.result.view import view_of
from recprism.rule.limits import STEPS, largest_losses
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.imported import run_from_factors
from recprism.runs.jobs.reasons import reasons_of
from recprism.runs.run import Run
from recprism.service.app import create_app as create_service
from recprism.studio.app import create_app as create_studio

N = 20
GOAL, BUDGET = "subtopic_coverage", 0.1
Lists = dict[Any, list[Any]]
"""User id -> item ids in order."""


class World(NamedTuple):
    """A run with a result, and what surfaces need besides.

    Attributes:
        run: The run.
        users: Ids of the users whose lists are compared.
        call: Runs a command line, and returns what it prints.
        folder: Where surfaces may write.
    """

    run: Run
    users: list[Any]
    call: Callable[..., str]
    folder: Path


def as_lists(table: pl.DataFrame) -> Lists:
    """A long table user_id, item_id, rank as lists."""
    ordered = table.sort("user_id", "rank").group_by("user_id", maintain_order=True).agg("item_id")
    return dict(zip(ordered["user_id"].to_list(), ordered["item_id"].to_list(), strict=True))


# -- surfaces ---------------------------------------------------------------------------------------------------------


def of_python(world: World, live: bool) -> Lists:
    return as_lists(world.run.load_result().lists(world.users, live=live))


def of_a_run_that_is_read_back(world: World, live: bool) -> Lists:
    return as_lists(Result.load(world.run.path).lists(world.users, live=live))


def of_a_saved_result(world: World, live: bool) -> Lists:
    path = world.folder / "saved"
    if not path.exists():
        world.run.load_result().save(path)
    return as_lists(Result.load(path).lists(world.users, live=live))


def of_the_command_line(world: World, live: bool) -> Lists:
    out = world.folder / f"lists-{live}.parquet"
    world.call("recommend", world.run.path, *([] if live else ["--judged"]), "-o", out)
    return as_lists(pl.read_parquet(out).filter(pl.col("user_id").is_in(world.users)))


def of_reasons_on_the_command_line(world: World, live: bool) -> Lists:
    """The list beside which reasons are printed."""
    judged = [] if live else ["--judged"]
    found = {}
    for user in world.users[:5]:  # the same function as below, and one reading of the run for each
        said = json.loads(world.call("why", world.run.path, "--user", user, *judged, "--json"))
        assert said["live"] is live
        found[user] = [it["item"] for it in said["reasons"]]
    return found


def of_why(world: World, live: bool) -> Lists:
    result = world.run.load_result()
    return {user: [it.item for it in result.why(user, live=live)] for user in world.users}  # type: ignore[union-attr]


def of_reasons_of_the_run(world: World, live: bool) -> Lists:
    some = world.users[:3]  # the command line above asks the same function about all of them
    return {user: [it.item for it in reasons_of(world.run, user, live=live).why_list()] for user in some}


def of_the_estimator(world: World, live: bool) -> Lists | None:
    if not live:
        return None
    run = world.run
    made = Diversifier(GOAL, BUDGET, categories=run.categories()).fit(run.factors(), run.split())
    return dict(zip(world.users, made.predict(np.array(world.users, dtype=object)).tolist(), strict=True))


def of_the_report(world: World, live: bool) -> Lists | None:
    """The example users; the page shows the titles of their live lists, which are distinct in these worlds' lists."""
    if not live:
        return None
    run = world.run
    card = Catalogue(run.items(), run.categories())
    shown = users_of_rule(view_of(run.load_result(), card), lambda *_: None)
    known = {str(it): it for it in run.factors().user_ids.tolist()}
    wanted = as_lists(run.load_result().lists([known[it.name] for it in shown]))
    number = dict(zip(card.ids, range(len(card)), strict=True))
    found = {}
    for one in shown:
        user = known[one.name]
        titles = [card[number[item]].title for item in wanted[user]]
        assert len(set(titles)) == len(titles)
        item_of = dict(zip(titles, wanted[user], strict=True))
        found[user] = [item_of.get(entry.title, entry.title) for entry in one.after]
    return found


def of_the_studio(world: World, live: bool) -> Lists:
    found = {}
    with TestClient(create_studio([world.run.path]), base_url="http://127.0.0.1") as client:
        name = world.run.path.name
        while client.get(f"/api/runs/{name}").json()["phase"] != "ready":
            time.sleep(0.05)
        for user in world.users:
            answer = client.get(f"/api/runs/{name}/user", params={"user": user, "judged": not live}).json()
            assert answer["live"] is live
            found[user] = [entry["id"] for entry in answer["after"]]
    return found


def exported(world: World) -> Path:
    path = world.folder / "rule"
    if not path.exists():
        world.call("export", world.run.path, "--with-histories", "-o", path)
    return path


def requests(world: World, live: bool) -> dict[Any, dict[str, Any]]:
    """What a caller sends: the vector and the history of the context."""
    case = world.run.load_result().context(live=live)
    vectors, ids = case.factors.search_vectors[0], case.split.item_ids
    rows = dict(zip(case.split.user_ids.tolist(), range(case.factors.n_users), strict=True))
    seen = {user: ids[case.seen_in_time(rows[user])].tolist() for user in world.users}
    return {
        user: {"user_vector": vectors[rows[user]].tolist(), "history": seen[user], "exclude": seen[user]}
        for user in world.users
    }


def of_the_serving_library(world: World, live: bool) -> Lists:
    rule = serving.load_rule(exported(world))
    found = {user: rule.rank(**it) for user, it in requests(world, live).items()}
    for answer in found.values():
        assert [it.item for it in answer.reasons] == list(answer.ids if answer.fallback is None else ())
    return {user: list(it.ids) for user, it in found.items()}


def of_stored_histories(world: World, live: bool) -> Lists | None:
    if not live:
        return None
    rule = serving.load_rule(exported(world))
    return {user: list(rule.rank(it["user_vector"], user=user).ids) for user, it in requests(world, live=True).items()}


def of_the_service(world: World, live: bool) -> Lists:
    app = create_service(exported(world))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        return {user: client.post("/rank", json=it).json()["ids"] for user, it in requests(world, live).items()}


def of_a_rule_after_a_restart(world: World, live: bool) -> Lists:
    code = """
import json, sys
from recprism.serving import load_rule
rule = load_rule(sys.argv[1])
print(json.dumps([list(rule.rank(**it).ids) for it in json.load(sys.stdin)]))
"""
    asked = requests(world, live)
    done = subprocess.run(
        [sys.executable, "-c", code, str(exported(world))],
        input=json.dumps([*asked.values()]),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(asked, json.loads(done.stdout), strict=True))


def of_the_batch(world: World, live: bool) -> Lists:
    case = world.run.load_result().context(live=live)
    folder = world.folder / f"batch-{live}"
    folder.mkdir(exist_ok=True)
    pairs = {"user_id": case.split.user_ids[case.seen.row_of_entry], "item_id": case.split.item_ids[case.seen.indices]}
    pl.DataFrame({name: it.tolist() for name, it in pairs.items()}).write_parquet(folder / "seen.parquet")
    vectors = {"user_id": case.split.user_ids.tolist(), "vector": case.factors.search_vectors[0].tolist()}
    pl.DataFrame(vectors).write_parquet(folder / "users.parquet")
    make_batch(exported(world), folder / "users.parquet", folder / "lists", seen=folder / "seen.parquet")
    table = pl.read_parquet(folder / "lists" / "*.parquet")
    found = dict(zip(table["user_id"].to_list(), table["items"].to_list(), strict=True))
    return {user: found[user] for user in world.users}


SURFACES: Mapping[str, Callable[[World, bool], Lists | None]] = {
    "Result.lists": of_python,
    "Result.why": of_why,
    "a run read back": of_a_run_that_is_read_back,
    "a saved result": of_a_saved_result,
    "recprism recommend": of_the_command_line,
    "recprism why": of_reasons_on_the_command_line,
    "reasons_of": of_reasons_of_the_run,
    "the estimator": of_the_estimator,
    "the report": of_the_report,
    "the studio": of_the_studio,
    "the serving library": of_the_serving_library,
    "stored histories": of_stored_histories,
    "the service": of_the_service,
    "a rule after a restart": of_a_rule_after_a_restart,
    "recprism batch": of_the_batch,
}
"""What shows a user's list -> its lists in a context; None if it has no such context."""

SLOW = dict.fromkeys(("a rule after a restart", "the studio", "the estimator"), pytest.mark.slow)

MAKES_LISTS = {
    "api/estimator.py": "the estimator",
    "operate/check.py": "figures of all lists",
    "operate/monitor.py": "figures of all lists",
    "operate/refit.py": "churn of all lists",
    "operate/refitted_run.py": "churn of all lists",
    "integrations/haystack.py": "calls the serving library; tests/integrations compares them",
    "runs/jobs/dials.py": "compiles lists",
    "runs/jobs/train.py": "recprism recommend",
    "result/result.py": "Result.lists",
    "result/view.py": "the report and the studio",
    "service/_lists.py": "the service",
    "service/_loaded.py": "warms up",
    "studio/downloads.py": "the studio",
    "studio/view.py": "the studio",
}
"""Files outside of the core that make lists -> the surface that they are part of, or what they make them for."""


# -- the test ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed() -> Callable[..., str]:
    """Words of a command line -> what it prints."""

    def call(*words: object) -> str:
        out, before = io.StringIO(), sys.argv
        sys.argv = ["recprism", *map(str, words)]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                main()
        except SystemExit as ended:
            assert not ended.code, out.getvalue()
        finally:
            sys.argv = before
        return out.getvalue()

    return call


def of_run(run: Run, call: Callable[..., str], folder: Path, history_window: int | None = None) -> World:
    diversify_within(run, BudgetConfig(goal=GOAL, budgets={"ndcg@10": BUDGET}, history_window=history_window))
    ids = run.factors().user_ids
    chosen = ids[np.linspace(0, len(ids) - 1, N).astype(int)].tolist()
    return World(run, chosen, call, folder)


@pytest.fixture(scope="module")
def films(
    trained_run: Callable[..., Run], printed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return of_run(trained_run(3, 16), printed, tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="module")
def recent(
    trained_run: Callable[..., Run], printed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> World:
    """The same run with a rule that looks at the latest three interactions only."""
    return of_run(trained_run(3, 16), printed, tmp_path_factory.mktemp("recent"), history_window=3)


@pytest.fixture(scope="module")
def texts(
    trained_run: Callable[..., Run],
    small: Dataset,
    printed: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> World:
    """The same data with text ids, as a user's own files have them."""
    run, folder = trained_run(3, 16), tmp_path_factory.mktemp("texts")
    factors, split = run.factors(), run.split()
    users = np.array([f"who {it:06}" for it in split.user_ids.tolist()], dtype=object)
    items = np.array([f"sku-{it:06}" for it in split.item_ids.tolist()], dtype=object)
    frame = pl.DataFrame({"item_id": items.tolist()})
    named = Interactions(small.interactions.user, small.interactions.item, user_ids=users, item_ids=items)
    data = replace(small, interactions=named, attributes=frame)
    made = run_from_factors(
        folder / "run",
        replace(factors, user_ids=users, item_ids=items),
        data,
        replace(split, user_ids=users, item_ids=items),
    )
    return of_run(made, printed, folder)


def compared(world: World, surface: str) -> None:
    for live in (True, False):
        found = SURFACES[surface](world, live)
        if found is not None:
            wanted = as_lists(world.run.load_result().lists(list(found), live=live))
            assert found == wanted, (surface, "live" if live else "judged")


@pytest.mark.parametrize("surface", [pytest.param(it, marks=SLOW.get(it, ())) for it in SURFACES])
def test_every_surface_shows_the_list_of_the_rule(films: World, surface: str) -> None:
    compared(films, surface)


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES)
def test_so_it_is_with_text_ids(texts: World, surface: str) -> None:
    compared(texts, surface)


@pytest.fixture(scope="module")
def ml1m_run(ml1m: Dataset, printed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("ml1m")
    split = ml1m.split(seed=0)
    factors = BPRMF(epochs=5, dim=32).fit(split, seed=0, device="cpu")
    return of_run(run_from_factors(folder / "run", factors, ml1m, split), printed, folder)


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES)
def test_so_it_is_on_movielens_1m(ml1m_run: World, surface: str) -> None:
    compared(ml1m_run, surface)


@pytest.mark.slow
@pytest.mark.parametrize("surface", sorted({*SURFACES} - {"the estimator", "recprism batch"}))
def test_so_it_is_with_a_history_window(recent: World, surface: str) -> None:
    """The estimator has no window, and batch lists refuse one: seen items have no order there."""
    compared(recent, surface)


@pytest.fixture(scope="module")
def limited(films: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The rule of the films with a limit that half of its judged lists exceed."""
    found, folder = films.run.load_result(), tmp_path_factory.mktemp("limited")
    case = found.problem
    limit = float(np.median(largest_losses(case.base_lists, case.rank(found.own_rule())[0])))
    made = replace(found, rule=replace(found.own_rule(), limits={"ndcg@10": limit}), run=None)
    return World(Run.open(made.save(folder / "run")), films.users, films.call, folder)


QUICK = ("Result.lists", "Result.why", "the serving library", "recprism batch")  # the others are slow or like these


@pytest.mark.parametrize(
    "surface",
    [pytest.param(it, marks=() if it in QUICK else pytest.mark.slow) for it in SURFACES if it != "the estimator"],
)
def test_so_it_is_with_a_limit(limited: World, surface: str) -> None:
    compared(limited, surface)


def test_lists_that_could_lose_more_than_the_limit_are_base_lists(limited: World) -> None:
    found = limited.run.load_result()
    rule = replace(found.own_rule(), limits={})
    for live in (True, False):
        case = found.context(live=live)
        own, base, lists = case.rank(rule)[0], case.base_lists, found.ranked(live=live)[0]
        beyond = largest_losses(base, own) > found.own_rule().limits["ndcg@10"]
        assert np.array_equal(lists, np.where(beyond[:, None], base, own))
        assert case.fallback_share(found.own_rule()) == beyond.mean()
        assert 0.3 < beyond.mean() < 0.7
        user = found.problem.base.user_ids[np.flatnonzero(beyond)[0]]
        reasons = found.why(user, live=live)
        assert {it.codes[-1] for it in reasons} == {"limit"}
        assert "the base list" in reasons[0].sentence()
        others = np.setdiff1d(case.candidates[0][np.flatnonzero(beyond)[0], :20], base[np.flatnonzero(beyond)[0]])
        assert found.why_not(user, case.split.item_ids[others[0]], live=live).codes == ("limit",)


def test_a_certified_rule_has_the_limit_that_its_test_allowed_for(films: World) -> None:
    found = films.run.load_result()
    assert found.certificate is not None
    (limit,) = found.own_rule().limits.values()
    judge = found.problem.on("validation")
    losses = largest_losses(judge.base_lists, judge.rank(replace(found.own_rule(), limits={}))[0])
    assert limit - 1 / STEPS < losses.max() <= limit == found.certificate.limits["ndcg@10"]
    assert judge.fallback_share(found.own_rule()) == 0


@pytest.mark.slow
def test_a_history_window_makes_other_lists(films: World, recent: World) -> None:
    """Otherwise the test above would not notice a window that is left out."""
    rule = recent.run.load_result().own_rule()
    assert rule.history_window == 3
    whole, last = (as_lists(it.run.load_result().lists(films.users)) for it in (films, recent))
    assert sum(whole[user] != last[user] for user in films.users) > N // 4


def test_live_and_judged_lists_differ(films: World) -> None:
    """Otherwise the test above would not notice a wrong context."""
    live, judged = (of_python(films, live) for live in (True, False))
    assert sum(live[user] != judged[user] for user in films.users) > N // 2


def test_every_file_that_makes_lists_is_in_the_table() -> None:
    """A new surface must be added to ``SURFACES``, or say here what it makes lists for."""
    source = Path(recprism.__file__).parent
    rooms = ("api", "cli", "operate", "integrations", "report", "result", "runs", "service", "studio")
    making = set()
    for file in (it for room in rooms for it in (source / room).rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        named = [it.func for it in calls if isinstance(it.func, ast.Attribute)]
        if any(it.attr in ("rank", "ranked", "rerank") and _makes(it) for it in named):
            making.add(file.relative_to(source).as_posix())
    assert making == set(MAKES_LISTS)


def _makes(call: ast.Attribute) -> bool:
    """Whether it ranks: polars columns and the studio's thread have methods of these names, too."""
    owner = ast.unparse(call.value)
    return not owner.startswith("pl.col(") and owner != "studio"
