"""Several results of one run: each has its own files, the model and the data are shared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.cmb import CMB
from recprism.cmb.jobs.search import begin_search, interrupted_search, search
from recprism.errors import BusyError, InputError
from recprism.operate.refitted_run import refit_run
from recprism.runs.config import BudgetConfig, DiversifyConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.listing import list_runs
from recprism.runs.lock import held
from recprism.runs.run import Run

pytestmark = pytest.mark.slow

Call = Callable[..., int]


def asked(budget: float, **more: object) -> BudgetConfig:
    return BudgetConfig(budgets={"ndcg@10": budget}, **more)


@pytest.fixture(scope="module")
def made(trained_run: Callable[..., Run]) -> Run:
    """A run with an unnamed result, and one named bold, for another goal."""
    run = trained_run(3, 16)
    diversify_within(run, asked(0.2))
    diversify_within(run.named("bold"), asked(0.3, goal="ilad_subtopics"))
    return run


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    shutil.copytree(made.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def contents(run: Run) -> dict[str, bytes]:
    """The files of the unnamed result, apart from what all results share: the log of the run, and paths."""
    files = (it for it in run.path.iterdir() if it.is_file() and it.name != "events.jsonl")
    return {it.name: it.read_bytes() for it in files if not it.name.startswith("path.")}


def test_a_named_result_lives_in_its_own_folder_and_leaves_the_others_alone(run: Run) -> None:
    before = contents(run)
    diversify_within(run.named("cautious"), asked(0.15))
    assert contents(run) == before
    inside = {it.name for it in (run.path / "results" / "cautious").iterdir()}
    assert inside == {"result.toml", "delta.safetensors", "result.json", "certificate.json", "CARD.md"}
    assert list(run.results) == ["bold", "cautious"]


def test_results_are_a_mapping_of_names(run: Run) -> None:
    found = run.results
    assert isinstance(found, Mapping)
    assert (list(found), len(found), "bold" in found, "timid" in found) == (["bold"], 1, True, False)
    assert found["bold"].towards == "ilad_subtopics"
    assert found["bold"].rule == Run.open(run.path, "bold").load_result().rule
    assert found["bold"].run is not None
    assert found["bold"].run.result == "bold"
    assert found.get("timid") is None
    with pytest.raises(KeyError, match="timid"):
        found["timid"]
    diversify_within(run.named("a-cautious"), asked(0.15))
    assert list(found) == ["a-cautious", "bold"], "names are sorted, and read when they are asked for"
    assert list(run.named("bold").results) == list(found)
    assert repr(found) == "NamedResults(a-cautious, bold)"


def test_each_result_has_its_own_rule_settings_and_events(run: Run) -> None:
    bold = Run.open(run.path, "bold")
    assert run.config.diversify is not None
    assert bold.config.diversify is not None
    wanted = asked(0.2), asked(0.3, goal="ilad_subtopics")
    assert (run.config.diversify.within, bold.config.diversify.within) == wanted
    assert bold.config.model == run.config.model
    np.testing.assert_array_equal(bold.factors().user, run.factors().user)
    rules = [it.load_result().own_rule() for it in (run, bold)]
    assert [list(it.goals) for it in rules] == [["subtopic_coverage"], ["ilad_subtopics"]]
    goals = [[it["goal"] for it in one.events() if "goal" in it] for one in (run, bold)]
    assert goals == [["subtopic_coverage"], ["ilad_subtopics"]]


def test_the_same_question_gives_the_same_bits_with_and_without_a_name(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    for one in (run, run.named("again")):
        diversify_within(one, asked(0.3))
    for name in ("result.json", "delta.safetensors"):
        files = [one.file(name).read_bytes() for one in (run, run.named("again"))]
        assert files[0] == files[1]


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "ü", "a.b", "/etc", "a\n"])
def test_a_name_is_letters_digits_and_two_signs(run: Run, name: str) -> None:
    with pytest.raises(InputError, match="named by letters, digits, - and _, not"):
        Run.open(run.path, name)


def test_an_unknown_name_is_refused_with_the_known_ones(run: Run, trained_run: Callable[..., Run]) -> None:
    with pytest.raises(InputError, match=r"has no result named timid; there are bold$"):
        Run.open(run.path, "timid")
    with pytest.raises(InputError, match=r"make it with `recprism diversify .* --name timid --budget 5%`"):
        Run.open(trained_run().path, "timid")


def test_a_retrained_base_is_refused_under_a_named_result(run: Run) -> None:
    factors = run.factors()
    run.save_factors(factors.with_vectors(user=factors.user * 2))
    with pytest.raises(InputError, match=r"made from another factors\.safetensors"):
        Run.open(run.path, "bold").load_result()
    with pytest.raises(InputError, match=r"made from another factors\.safetensors"):
        Run.open(run.path, "bold").certificate()


def test_a_result_is_not_replaced_unless_asked(run: Run) -> None:
    bold = run.named("bold")
    with pytest.raises(InputError, match="already has a result named bold; use --overwrite, another --name"):
        diversify_within(bold, asked(0.1))
    lists = [bold.save_recommendations(pl.DataFrame({"user_id": [1]}), live=live) for live in (True, False)]
    diversify_within(bold, asked(0.2), overwrite=True)
    assert not any(it.exists() for it in lists)
    assert run.is_diversified()


def test_training_again_removes_every_result_and_no_other_files(run: Run) -> None:
    mine = run.path / "results" / "bold" / "export-npz"
    mine.mkdir()
    (mine / "users.npz").write_bytes(b"mine")
    said = run.replaced(everything=True)
    assert "results/bold/delta.safetensors" in said
    assert "results/bold/export-npz/users.npz" not in said
    new = Run.create(run.path, RunConfig(), overwrite=True)
    assert all((run.path / it).exists() for it in said), "nothing is removed before the new run is there"
    new.commit()
    assert [it for it in said if (run.path / it).exists()] == ["config.toml"]
    assert (mine / "users.npz").exists()
    assert list(run.results) == []


def test_a_refit_leaves_the_vectors_and_other_results_alone(run: Run, trained_run: Callable[..., Run]) -> None:
    old = trained_run(2, 16)
    diversify_within(old, asked(0.3))
    before = {name: (run.path / name).read_bytes() for name in ("factors.safetensors", "result.json")}
    refit_run(run.named("new"), old)
    assert before == {name: (run.path / name).read_bytes() for name in before}
    assert all(Run.open(run.path, name).load_result().rule is not None for name in (None, "bold", "new"))


def test_a_search_that_stops_is_resumed_under_its_name(trained_run: Callable[..., Run]) -> None:
    settings = {"iterations": 6, "diversity": "subtopic_coverage"}
    runs = [trained_run(2, 8).named("players") for _ in range(2)]
    whole, halted = (begin_search(one, DiversifyConfig(settings=settings)) for one in runs)

    def stop(step: object) -> None:
        if len([it for it in halted.events() if it["event"] == "step"]) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(halted, stop)
    assert halted.file("search.checkpoint.safetensors").exists()
    assert list(runs[1].results) == [], "there is no result before the search has ended"
    found = [search(one) for one in (whole, interrupted_search(Run.open(halted.path).named("players")))]
    assert list(runs[1].results) == ["players"]
    halted = runs[1]
    assert all(isinstance(it, CMB) for it in found)
    files = [one.file("delta.safetensors").read_bytes() for one in (whole, halted)]
    assert files[0] == files[1]


def test_one_writer_at_a_time_whatever_the_name(run: Run) -> None:
    from threading import Thread

    refused: list[BaseException] = []

    def write() -> None:
        try:
            diversify_within(run.named("other"), asked(0.2))
        except BusyError as busy:
            refused.append(busy)

    with held(run.path):
        other = Thread(target=write)
        other.start()
        other.join()
    assert len(refused) == 1
    assert list(run.results) == ["bold"]


# -- the command line -------------------------------------------------------------------------------------------------

READERS = (
    ("recommend", "--users", "1"),
    ("recommend", "--judged"),
    ("evaluate", "-m", "subtopic_coverage@10", "--bootstrap", "0"),
    ("evaluate", "-m", "subtopic_coverage@10", "--against", "RUN", "--against-name", "bold"),
    ("check", "--max-ndcg-loss", "0.9"),
    ("experiment", "-m", "subtopic_coverage@10"),
    ("explain", "--draws", "0"),
    ("why", "--user", "1"),
    ("dials", "--user", "1"),
    ("steer", "--user", "1", "--set", "Drama=0.1"),
    ("report", "--draws", "0"),
    ("export",),
    ("export", "--form", "user-vectors", "--to", "npz"),
    ("monitor", "--lists", "LISTS"),
)


@pytest.mark.parametrize("words", READERS, ids=lambda it: " ".join(it[:2]))
def test_every_reader_takes_a_name(
    run: Run, words: tuple[str, ...], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bold = Run.open(run.path, "bold")
    lists = tmp_path / "lists.parquet"
    assert call("recommend", run.path, "--name", "bold", "-o", lists) == 0
    places = {"RUN": run.path, "OUT": tmp_path / "out.parquet", "LISTS": lists}
    measured = ("-m", "subtopic_coverage@10")
    command, *more = (places.get(word, word) for word in words if word not in measured or words[0] == "evaluate")
    before = contents(run)
    assert call(command, run.path, *more, "--name", "bold") == 0
    printed = capsys.readouterr()
    assert contents(run) == before, "what was found belongs into the folder of the result"
    assert f"{run.path} --name bold" in printed.err or command == "report"
    assert call(command, run.path, *more, "--name", "timid") == 2
    assert "has no result named timid; there are bold" in capsys.readouterr().err
    assert bold.is_diversified()


def test_erase_takes_the_name_of_a_search(
    trained_run: Callable[..., Run], call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained_run()
    search(begin_search(run.named("players"), DiversifyConfig(settings={"iterations": 2})))
    before, words = contents(run), ("erase", run.path, "--controls", "0", "--draws", "1")
    assert call(*words, "--name", "players") == 0
    assert f"{run.path} --name players" in capsys.readouterr().err
    assert contents(run) == before
    assert run.named("players").factors_explanation() is not None
    assert call(*words, "--name", "timid") == 2
    assert "has no result named timid; there are players" in capsys.readouterr().err


def test_the_lists_of_a_name_are_those_of_its_rule(run: Run, call: Call, tmp_path: Path) -> None:
    for name in ("unnamed", "bold"):
        more = () if name == "unnamed" else ("--name", name)
        assert call("recommend", run.path, "-o", tmp_path / f"{name}.parquet", *more) == 0
    one, other = (pl.read_parquet(tmp_path / f"{name}.parquet")["item_id"] for name in ("unnamed", "bold"))
    assert (one != other).mean() > 0.05


def test_the_studio_shows_the_result_of_a_name(run: Run) -> None:
    from recprism.studio.app import create_app

    with pytest.raises(InputError, match="has no result named timid"):
        create_app([run.path], result="timid")
    app = create_app([run.path], result="bold")
    assert app.state.studio.runs["run"].run.result == "bold"
    app.state.studio.close()


def test_overwrite_says_what_it_removes(run: Run, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("diversify", run.path, "--budget", "0.3", "--name", "bold", "-m", "subtopic_coverage@10")
    assert call(*words, "--overwrite") == 0
    said = capsys.readouterr().err
    removed = "results/bold/certificate.json, results/bold/delta.safetensors, results/bold/result.json"
    assert f"replacing at the end, in {run.path}: {removed}\n" in said
    assert call(*words[:4], "--name", "new", "-m", "subtopic_coverage@10", "--overwrite") == 0
    assert "replacing" not in capsys.readouterr().err, "there was nothing"
    assert call("train", "-o", run.path, "--overwrite", "--set", "epochs=1", "--set", "dim=8") == 0
    said = capsys.readouterr().err
    assert f"replacing at the end, in {run.path}: " in said
    assert "factors.safetensors" in said
    assert "results/new/delta.safetensors" in said
    assert not (run.path / "results").exists()


# -- the list of runs -------------------------------------------------------------------------------------------------


def test_runs_are_listed_with_their_results_and_broken_ones_with_the_reason(
    run: Run, trained_run: Callable[..., Run], call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run.path.parent
    shutil.copytree(trained_run().path, folder / "deeper" / "plain")
    shutil.copytree(run.path, folder / "torn")
    (folder / "torn" / "config.toml").write_text("")
    shutil.copytree(run.path, folder / "mixed")
    shutil.copy(folder / "deeper" / "plain" / "factors.safetensors", folder / "mixed" / "factors.safetensors")
    shutil.copytree(run.path, folder / "odd")
    (folder / "odd" / "results" / "bold" / "certificate.json").write_text("{}")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "config.toml").write_text("[server]\nport = 1\n")
    found = {(Path(it.run).name, it.name): it for it in list_runs(folder)}
    assert list(found) == [
        ("plain", None),
        *((name, result) for name in ("mixed", "odd", "run", "torn") for result in (None, "bold")),
    ]
    states = {key: it.state for key, it in found.items()}
    assert states["plain", None] == "trained"
    assert states["run", None] == states["run", "bold"] == states["odd", None] == "diversified"
    broken = [key for key, state in states.items() if state == "broken"]
    assert broken == [("mixed", None), ("mixed", "bold"), ("odd", "bold"), ("torn", None), ("torn", "bold")]
    assert "made from another" in str(found["mixed", "bold"].reason)
    assert "cut short" in str(found["torn", None].reason)
    bold = found["run", "bold"]
    assert (bold.model, bold.data) == ("bprmf", "ml-latest-small")
    assert (bold.goal, bold.budgets) == ("ilad_subtopics", {"ndcg@10": 0.3})
    assert 0 < bold.losses["ndcg@10"] <= 0.3
    assert bold.date is not None
    assert call("runs", folder) == 0
    printed = capsys.readouterr().out
    assert "broken" in printed
    assert "30 % of ndcg@10" in printed
    assert call("runs", folder, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == len(found)


def test_the_list_begins_in_the_folder_runs_or_here(
    run: Run, call: Call, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [Path(it.run).name for it in list_runs()] == ["run", "run"]
    (tmp_path / "runs").mkdir()
    assert call("runs") == 0
    assert "no runs below" in capsys.readouterr().err
    assert call("runs", "nowhere") == 2
    assert "no such folder" in capsys.readouterr().err
