"""No option is ignored: each one that does not always have an effect is refused where it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from recprism.cli import app
from recprism.cli._commands import Only, conditions, is_given
from recprism.cli._usage import UsageError, parameter_name
from recprism.errors import InputError
from recprism.runs.config import BudgetConfig, ConstraintsConfig, DiversifyConfig, RunConfig
from recprism.runs.run import Run

SAMPLES = ("1", "0.05", "0.6", "100")
"""Values of options; the first that the parser accepts is taken."""

ALWAYS = {
    "data stats": "source preset threshold min_user min_item columns items category_column split seed data_root "
    "as_json",
    "features": "reviews tuples attributes output as_json",
    "import": "scores output interactions held_out columns items category_column overwrite as_json",
    "train": "output data model model_preset settings metric split preset threshold min_user min_item columns items "
    "category_column data_root seed device overwrite mlflow as_json",
    "evaluate": "run_directory metrics part against base bootstrap output name as_json",
    "evaluate-lists": "lists metrics run columns bootstrap output as_json",
    "recommend": "run_directory k users judged output base allow_violations name as_json",
    "audit": "run_directory goal budgets guard confidence approximate clusters form show as_json",
    "why": "run_directory user item why_not what_if judged name as_json",
    "erase": "run_directory goal axes features draws controls part held_out_users seed name as_json",
    "batch": "export user_vectors output seen repeat_seen shown k shard_users executor as_json",
    "serve": "export host port token caller_token candidates prices scorer disabled shadow holdout governor log watch "
    "workers max_bytes max_candidates max_k max_in_flight drain",
    "check": "run_directory max_ndcg_loss max_loss min_gain measured part junit name as_json",
    "monitor-log": "export served certify output as_json",
}
"""Command -> the parameters without a condition, with blanks between; of other commands, no parameter has one."""

IMPORT = "--user-vectors u.npy --item-vectors i.npy -o new"
MINIMAL = {
    "data stats": {
        "with --category-column": "a.csv --items i.csv --category-column c",
        "without --category-column": "a.csv",
    },
    "features": {
        "with REVIEWS": "r.json",
        "without REVIEWS": "--tuples t.csv",
        "with REVIEWS or --tuples": "--tuples t.csv",
        "without REVIEWS and --tuples": "--attributes a.csv",
        "with --tuples or --attributes": "--tuples t.csv",
        "without --tuples and --attributes": "r.json",
    },
    "train": {
        "with --category-column": "--data a.csv --items i.csv --category-column c",
        "without --category-column": "--data a.csv",
    },
    "import": {
        "with --scores": "--scores s.csv -o new",
        "without --scores": IMPORT,
        "with --held-out": f"{IMPORT} --held-out h.csv",
        "without --held-out": f"{IMPORT} --interactions a.csv",
        "with --interactions": f"{IMPORT} --interactions a.csv",
        "without --interactions": IMPORT,
        "with --interactions or --held-out": f"{IMPORT} --interactions a.csv",
        "without --interactions and --held-out": IMPORT,
        "with --held-out or --set-aside": f"{IMPORT} --interactions a.csv --set-aside 0.2",
        "without --held-out and --set-aside": f"{IMPORT} --interactions a.csv",
        "with --category-column": f"{IMPORT} --items i.csv --category-column c",
        "without --category-column": IMPORT,
    },
    "evaluate": {
        "with --against": "run --against run",
        "without --against": "run",
        "with --bootstrap above 0 or --against": "run",
        "with --bootstrap 0 and without --against": "run --bootstrap 0",
    },
    "evaluate-lists": {
        "with --run": "lists.csv --run run",
        "without --run": "lists.csv",
        "with --category-column": "lists.csv --items i.csv --category-column c",
        "without --category-column": "lists.csv",
        "with --run or --held-out": "lists.csv --held-out h.csv",
        "without --run and --held-out": "lists.csv",
        "with --bootstrap above 0": "lists.csv",
        "with --bootstrap 0": "lists.csv --bootstrap 0",
    },
    "recommend": {
        "with --judged": "run --judged",
        "without --judged": "run",
    },
    "audit": {"with --form": "run --form dials", "without --form": "run"},
    "why": {"with --judged": "found --user 1 --judged", "without --judged": "found --user 1"},
    "erase": {
        "with --json": "found --json",
        "without --json": "found",
        "with --controls above 0": "found",
        "with --controls 0": "found --controls 0",
    },
    "batch": {
        "with --executor local": "rule --users u.npy -o new",
        "with --executor ray": "rule --users u.npy -o new --executor ray",
        "with --shown": "rule --users u.npy -o new --shown pages.parquet",
        "without --shown": "rule --users u.npy -o new",
    },
    "serve": {
        "with --log": "rule --log served",
        "without --log": "rule",
        "with --holdout": "rule --holdout 5%",
        "without --holdout": "rule",
    },
    "check": {"with --measured": "found --measured", "without --measured": "found"},
    "monitor-log": {
        "with --taken": "rule --served log --taken taken.csv",
        "without --taken": "rule --served log",
        "with --certify": "rule --served log --certify clicks=2% --outcomes clicks.csv",
        "without --certify": "rule --served log",
        "with --certify or --what-if": "rule --served log --certify clicks=2% --outcomes clicks.csv",
        "without --certify and --what-if": "rule --served log",
        "with --what-if": "rule --served log --what-if price=0 --outcomes clicks.csv",
        "without --what-if": "rule --served log",
    },
}
"""Command -> mode -> the rest of a command line in that mode."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs and a file; no command may read anything else before it refuses an option."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "found", "bound"):
        Run.create(name, RunConfig())
    Path("found", "delta.safetensors").touch()
    asked = BudgetConfig(budgets={"ndcg@10": 0.05}, constraints=ConstraintsConfig(tail_floor=0.1))
    Run.open("bound").set_diversify(DiversifyConfig(within=asked))
    Path("lists.csv").touch()


ROOT: Any = typer.main.get_command(app)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the parser, with the words that call it."""
    groups: list[tuple[str, Any]] = [("", ROOT)]
    while groups:
        path, group = groups.pop()
        for name, command in group.commands.items():
            words = f"{path} {name}".strip()
            if hasattr(command, "commands"):
                groups.append((words, command))
            else:
                yield words, command


PARSER = dict(commands())
CONDITIONS = {name: found for name, command in PARSER.items() if (found := list(conditions(command)))}


def parsed(command: str, words: list[str]) -> Any:
    return PARSER[command].make_context(command, list(words))


def words_of(command: str, param: Any, words: list[str]) -> list[str]:
    """The words that give an option, with a value that the parser accepts."""
    if param.param_type_name == "argument":
        return ["other"]
    name = max(param.opts, key=len)
    if getattr(param, "is_flag", False):
        return [name]
    if set(param.opts) & set(words):  # the line gives it already, and a second value is refused
        return []
    for sample in SAMPLES:
        try:
            parsed(command, [*words, name, sample])
        except UsageError:
            continue
        return [name, sample]
    raise AssertionError(f"no sample fits {name} of {command}")


def test_a_condition_is_neither_forgotten_nor_added() -> None:
    assert CONDITIONS.keys() == ALWAYS.keys() == MINIMAL.keys()
    for command, found in CONDITIONS.items():
        conditional = {param.name for param, _ in found}
        assert not conditional & set(ALWAYS[command].split())
        assert conditional | set(ALWAYS[command].split()) == {param.name for param in PARSER[command].params}


def test_every_command_line_belongs_to_a_condition() -> None:
    for command, lines in MINIMAL.items():
        contexts = [parsed(command, line.split()) for line in lines.values()]
        phrases = {it.phrase(one, holds=mode) for one in contexts for _, it in CONDITIONS[command] for mode in (0, 1)}
        assert lines.keys() <= phrases


def line_for(command: str, only: Only, holds: bool) -> list[str]:
    """The line whose mode is the one where a condition holds, or does not."""
    for phrase, line in MINIMAL[command].items():
        context = parsed(command, line.split())
        if only.phrase(context, holds=holds) == phrase and only.holds(context.params) == holds:
            return line.split()
    raise AssertionError(f"{command}: no line for {only}")


@pytest.mark.parametrize(
    ("command", "param", "only"),
    [
        pytest.param(
            command, param, only, id=f"{command} {param.name} {'with' if only.wanted else 'without'} {only.names[0]}"
        )
        for command, found in CONDITIONS.items()
        for param, only in found
    ],
)
def test_an_option_is_refused_where_it_has_no_effect(command: str, param: Any, only: Only) -> None:
    works, idle = (line_for(command, only, holds) for holds in (True, False))
    context = parsed(command, [*works, *words_of(command, param, works)])
    assert only.holds(context.params)
    assert is_given(context, param.name)
    words = [*idle, *words_of(command, param, idle)]
    context = parsed(command, words)
    with pytest.raises(InputError) as refused:  # the command line exits with 2
        ROOT.main([*command.split(), *words], "recprism", standalone_mode=False)
    here, there = (only.phrase(context, holds=holds) for holds in (False, True))
    assert str(refused.value) == f"{parameter_name(param)} has no effect {here}; it works {there}"


NAMED = "has no effect for a named data set; it works for your own files"
OWN = "has no effect for your own files; it works for a named data set"
BOTH = "--preset has no effect with both --min-user and --min-item; it works without --min-user or --min-item"
VECTORS = ("to", "alpha", "metric", "margin", "for-index")
OF_FORM: dict[str, tuple[str, ...]] = {
    "rule": ("no-vectors", "with-histories"),
    **dict.fromkeys(("dials", "user-vectors", "boosts"), (*VECTORS, "budget")),
    "vectors": VECTORS,
}
OPTIONS_OF_FORMS = [
    (
        option,
        "" if of == "rule" else " 1",
        " or ".join(f"for --form {it}" for it, own in OF_FORM.items() if option in own),
    )
    for of in ("rule", "dials")
    for option in OF_FORM[of]
]
"""An option, its value, and where it works."""
REFUSED = {
    **{
        f"{data} {option} {value}": f"{option} {said}"
        for name, own in (("data stats ml-1m", "data stats a.csv"), ("train --data ml-1m", "train --data a.csv"))
        for data, said, option, value in (
            (name, NAMED, "--column", "user_id=u"),
            (name, NAMED, "--items", "i.csv"),
            (name, NAMED, "--categories", "c.csv"),
            (name, NAMED, "--category-column", "c"),
            (own, OWN, "--preset", "paper"),
            (own, OWN, "--data-root", "folder"),
        )
    },
    "data stats ml-1m --preset paper --min-user 1 --min-item 1": BOTH,
    "train --data ml-1m --preset paper --min-user 1 --min-item 1": BOTH,
    "recommend found --allow-violations": "--allow-violations has no effect for a result without such constraints; it "
    "works for a result that must keep constraints",
    "search run --preset shared --relevance 0.5": "--relevance has no effect with shared credit; it works with "
    "marginal credit",
    "search run --accuracy recall": "marginal credit keeps accuracy by the base scores (relevance=...); drop accuracy, "
    "or pass credit='shared' to have a metric of accuracy in the reward",
    **{
        f"report run {option} 0": f"{option} has no effect for a run that was only trained; it works for a diversified "
        "run"
        for option in ("--draws", "--seed")
    },
    **{
        f"export run {given} --{option}{value}": f"--{option} has no effect for --form {form}; it works {works}"
        for form, given in {**{it: f"--form {it}" for it in OF_FORM}, "vectors": ""}.items()
        for option, value, works in OPTIONS_OF_FORMS
        if f"for --form {form}" not in works.split(" or ")
    },
}
"""A command line -> what is said of an option that has no effect because of what the data, the run or a word are."""


@pytest.mark.parametrize("line", sorted(REFUSED))
def test_an_option_is_refused_where_something_else_decides(line: str, recprism: Callable[..., Any]) -> None:
    refused = recprism(*line.split())
    assert (refused.code, refused.err.strip()) == (2, f"error: {REFUSED[line]}")


def test_a_value_that_equals_the_default_was_given_too(recprism: Callable[..., Any]) -> None:
    refused = recprism("evaluate", "run", "--bootstrap", "0", "--seed", "0")
    assert (refused.code, "--seed has no effect with --bootstrap 0" in refused.err) == (2, True)
