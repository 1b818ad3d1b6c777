"""No option is ignored: all commands, all modes and all options, from the parser and from the table of modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from recprism.cli import _modes, app
from recprism.cli._modes import Choice, Mode, choices_of, ignored
from recprism.cli._usage import UsageError, parameter_name
from recprism.errors import InputError
from recprism.runs.config import BudgetConfig, ConstraintsConfig, DiversifyConfig, RunConfig
from recprism.runs.run import Run

COMMANDS = {command: choices_of(command) for command in _modes.COMMANDS}

SAMPLES = ("1", "0.05", "0.6", "100")
"""Values of options; the first that the parser accepts is taken."""

ALWAYS = {
    "data stats": "source threshold min_user min_item split seed as_json",
    "features": "reviews tuples attributes output as_json",
    "import": "scores output interactions held_out columns items category_column overwrite as_json",
    "train": "output data model model_preset settings metric split threshold min_user min_item seed device overwrite "
    "mlflow as_json",
    "evaluate": "run_directory metrics part against base bootstrap output name as_json",
    "evaluate-lists": "lists metrics run columns bootstrap output as_json",
    "recommend": "run_directory k users judged output base name as_json",
    "audit": "run_directory goal budgets guard confidence approximate clusters form show as_json",
    "why": "run_directory user item why_not what_if judged name as_json",
    "explain-lists": "lists base scores columns draws seed as_json",
    "search": "run_directory goal preset settings metrics name overwrite mlflow as_json",
    "erase": "run_directory goal axes features draws controls part held_out_users seed name as_json",
    "export": "run_directory output form name as_json",
    "batch": "export user_vectors output seen repeat_seen k dials shard_users executor as_json",
    "serve": "export host port token caller_token candidates prices scorer disabled shadow holdout log watch max_bytes "
    "max_candidates max_k max_in_flight drain",
    "check": "run_directory max_ndcg_loss max_loss min_gain measured part junit name as_json",
    "monitor-log": "export served certify output junit as_json",
    "report": "run_directory output part name as_json",
}
"""Command -> the parameters that have an effect in every mode, with blanks between."""

IMPORT = "--user-vectors u.npy --item-vectors i.npy -o new"
MINIMAL = {
    "data stats": {
        "for a named data set": "ml-latest-small",
        "for your own files": "a.csv",
        "with --category-column": "a.csv --items i.csv --category-column c",
        "without --category-column": "a.csv",
        "with both --min-user and --min-item": "ml-1m --min-user 1 --min-item 1",
        "without --min-user or --min-item": "ml-1m --min-user 1",
    },
    "features": {
        "for reviews": "r.json",
        "with --tuples": "--tuples t.csv",
        "with --attributes": "--attributes a.csv",
    },
    "train": {
        "for a named data set": "--data ml-1m",
        "for your own files": "--data a.csv",
        "with --category-column": "--data a.csv --items i.csv --category-column c",
        "without --category-column": "--data a.csv",
        "with both --min-user and --min-item": "--min-user 1 --min-item 1",
        "without --min-user or --min-item": "",
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
        "for a result that must keep constraints": "bound",
        "for a result without such constraints": "found",
    },
    "audit": {"with --form": "run --form dials", "without --form": "run"},
    "why": {"with --judged": "found --user 1 --judged", "without --judged": "found --user 1"},
    "explain-lists": {
        "with --scores": "lists.csv --scores lists.csv",
        "without --scores": "lists.csv --run run",
        "with --category-column": "lists.csv --scores lists.csv --items i.csv --category-column c",
        "without --category-column": "lists.csv --scores lists.csv",
    },
    "search": {
        "with marginal credit": "run --preset paper --set credit=marginal",
        "with shared credit": "run --preset shared",
    },
    "erase": {
        "with --json": "found --json",
        "without --json": "found",
        "with --controls above 0": "found",
        "with --controls 0": "found --controls 0",
    },
    "export": {
        **{f"for --form {form}": f"run --form {form}" for form in ("rule", "dials", "user-vectors", "boosts")},
        "for --form vectors": "run",
    },
    "batch": {
        "with --executor local": "rule --users u.npy -o new",
        "with --executor ray": "rule --users u.npy -o new --executor ray",
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
    },
    "report": {"for a diversified run": "found", "for a run that was only trained": "run"},
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
MODES = [
    pytest.param(command, choice, mode, id=f"{command} {mode.phrase}")
    for command, choices in COMMANDS.items()
    for choice in choices
    for mode in choice
]


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


def declared(options: str) -> set[str]:
    return set(options.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_names_all_parameters_of_a_command_and_no_others(command: str) -> None:
    by_mode = {name for choice in COMMANDS[command] for mode in choice for name in declared(mode.options)}
    assert not by_mode & declared(ALWAYS[command])
    assert by_mode | declared(ALWAYS[command]) == {param.name for param in PARSER[command].params}


def test_every_mode_has_a_command_line() -> None:
    assert {command: set(modes) for command, modes in MINIMAL.items()} == {
        command: {mode.phrase for choice in choices for mode in choice} for command, choices in COMMANDS.items()
    }


@pytest.mark.parametrize(("command", "choice", "mode"), MODES)
def test_an_option_is_refused_in_the_modes_where_it_has_no_effect(command: str, choice: Choice, mode: Mode) -> None:
    words = MINIMAL[command][mode.phrase].split()
    conditional = {name for other in choice for name in declared(other.options)}
    for param in PARSER[command].params:
        if param.name not in conditional:
            continue
        more = words_of(command, param, words)
        if param.name in declared(mode.options):
            more = [] if set(param.opts) & set(words) or param.param_type_name == "argument" else more
            context = parsed(command, [*words, *more])
            assert mode.holds(context.params), (words, more)
            assert ignored(choice, context) is None, more
            continue
        works = " or ".join(other.phrase for other in choice if param.name in declared(other.options))
        with pytest.raises(InputError) as refused:  # the command line exits with 2
            ROOT.main([*command.split(), *words, *more], "recprism", standalone_mode=False)
        assert str(refused.value) == f"{parameter_name(param)} has no effect {mode.phrase}; it works {works}"


@pytest.mark.slow
def test_every_option_works_in_some_mode() -> None:
    for command, choices in COMMANDS.items():
        for param in PARSER[command].params:
            lines = [line.split() for line in MINIMAL[command].values()]
            given = [[*line, *words_of(command, param, line)] for line in lines if param.param_type_name == "option"]
            contexts = [parsed(command, words) for words in (given or lines)]
            accepted = [not any(ignored(choice, context) for choice in choices) for context in contexts]
            assert any(accepted), (command, param.name)


def test_a_value_that_equals_the_default_was_given_too(recprism: Callable[..., Any]) -> None:
    refused = recprism("evaluate", "run", "--bootstrap", "0", "--seed", "0")
    assert (refused.code, "--seed has no effect with --bootstrap 0" in refused.err) == (2, True)
