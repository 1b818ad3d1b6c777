"""Every option changes what is printed or written, or a row says why not, or which test shows it."""

from __future__ import annotations

import contextlib
import random
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
import typer

from recprism.cli import app
from recprism.cli._commands import is_given

TESTS = Path(__file__).parents[1]
STATS = "data stats orders.csv --threshold none"
ABOUT = "--items items.csv --category-column genres"
WIDE = "--budget 50% --confidence 50% --approximate"
ERASE = "erase run --name found --draws 1 --controls 0 --json"
HOLDOUT = "holdout run --share 5% --click-rate 8% --json"
LISTS = "evaluate-lists lists.csv --run run --json"
EXPLAINED = "explain-lists lists.csv --run run --json"
DIALS = "export run --form dials -o out"

EFFECTS = f"""
data stats orders.csv | --threshold none
{STATS} | --min-user 8
{STATS} | --min-item 9
{STATS} | --split leave-last
{STATS} | {ABOUT}
{STATS} {ABOUT} | --category-separator ,
{STATS} {ABOUT} --category-separator : | --category-level path
evaluate run --json | --metrics recall@5
evaluate run --json | --part validation
evaluate run --json | --base
evaluate run --json | --bootstrap 0
evaluate run --json | --seed 1
evaluate run --json | --output out.csv
evaluate run --json | --name found
evaluate run --json | --against run
evaluate run --against run --json | --against-name found
{LISTS} | --metrics recall@5
{LISTS} | --part validation
{LISTS} | --bootstrap 0
{LISTS} | --seed 1
{LISTS} | --output out.csv
recommend run -o out.csv --json | -k 3
recommend run -o out.csv --json | --users u1
recommend run -o out.csv --json | --judged
recommend run -o out.csv --json | --base
recommend run -o out.csv --json --judged | --part validation
recommend run --json | -o out.csv
{ERASE} | --features 2
{ERASE} | --goal ilad
{ERASE} | --axes raw
{ERASE} | --part validation
{ERASE} | --held-out-users 20%
{ERASE} | --seed 1
erase run --name found --draws 1 --controls 0 | --curve
experiment run --budget 50% --json | --power 90%
experiment run --budget 50% --json | --alpha 10%
experiment run --budget 50% --json | --guard recall@20=60%
experiment run --budget 50% --json | --share 10%
experiment run --budget 50% --json | --alive 50%
experiment run --budget 50% --json | --users-per-day 10
experiment run --budget 50% --json | --part validation
experiment run --json | --budget 40%
{HOLDOUT} | --change 3%
{HOLDOUT} | --requests-per-day 1000
{HOLDOUT} | --power 90%
{HOLDOUT} | --alpha 10%
{HOLDOUT} | --part validation
check run --max-ndcg-loss 90% --json | --max-loss recall=90%
check run --max-ndcg-loss 90% --json | --min-gain sc=1%
check run --max-ndcg-loss 90% --json | --confidence 80%
check run --max-ndcg-loss 90% --json | --measured
check run --max-ndcg-loss 90% --json | --part validation
check run --max-ndcg-loss 90% --json | --junit out.xml
check run --max-loss recall=90% --json | --max-ndcg-loss 90%
monitor run --lists lists.csv --fewest 2 --json | --floor 100%
monitor run --lists lists.csv --fewest 2 --json | --metric ilad
monitor run --lists lists.csv --fewest 2 --json | --bootstrap 100
monitor run --lists lists.csv --fewest 2 --json | --seed 1
monitor run --lists lists.csv --fewest 2 --json | --confident
monitor run --lists lists.csv --fewest 2 --json | --judged
monitor run --lists lists.csv --fewest 2 --json | --output out.csv
monitor run --lists lists.csv --fewest 2 --json | --junit out.xml
monitor run --lists lists.csv --json | --fewest 2
why run --user u1 --json | --judged
why run --user u1 --json --judged | --part validation
why run --user u1 --json | --what-if 'without=item 2'
why run --user u1 | --why-not 'item 2'
explain run --draws 0 --json | --part validation
{EXPLAINED} | --part validation
{EXPLAINED} --draws 9 | --seed 1
{EXPLAINED} | --draws 9
explain run --draws 9 --json | --seed 1
explain run --json | --draws 9
dials run --json | --user u1
dials run --json | --judged
dials run --json | --output out.csv
steer run --user u1 --set Drama=0.1 --json | --judged
{DIALS} | --to npz
{DIALS} | --alpha 0.5
{DIALS} | --margin 0.1
export run -o out | --no-vectors
export run -o out | --with-histories
export run -o out | --form user-vectors
audit run --budgets 50% --json | --goal sc
audit run --goal sc --budgets 50% --json | --guard recall@20=50%
audit run --goal sc --budgets 50% --json | --confidence 60%
audit run --goal sc --budgets 50% --json | --approximate
audit run --goal sc --json | --budgets 50%
diversify run {WIDE} --name new --overwrite --json | --certify-on test
diversify run {WIDE} --name new --overwrite --json | --per-user-diversity
diversify run {WIDE} --name new --overwrite --json | --metrics recall@5
diversify run {WIDE} --name new --overwrite --json | --goal ilad
diversify run {WIDE} --name new --overwrite --json | --guard recall@20=60%
diversify run {WIDE} --name new --overwrite --json | --history-window 1
diversify run {WIDE} --name new --overwrite --json | --ban 'item 1'
diversify run {WIDE} --name new --overwrite --json | --pin '1=item 1'
diversify run {WIDE} --name new --overwrite --json | --max-share Drama=10%
diversify run {WIDE} --name new --overwrite --json | --min-share Drama=50%
diversify run {WIDE} --name new --overwrite --json | --max-items category=2
diversify run {WIDE} --name new --overwrite --json | --spacing category=2
diversify run {WIDE} --name new --overwrite --json | --tail-floor 30%
train --data orders.csv --threshold none --set epochs=1 -o new --overwrite --json | --model-preset paper
search run --set iterations=2 --name new --overwrite --json | --relevance 0.5
search run --set iterations=2 --name new --overwrite --json | --goal ilad
search run --set iterations=2 --name new --overwrite --json | --metrics recall@5
"""
"""A command line, and the option whose effect is looked for."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, ok: Callable[..., Any]) -> Path:
    """Own tables, and a run with a rule and players' vectors."""
    folder, draw = tmp_path_factory.mktemp("shop"), random.Random(1)
    taken = [(u, i) for u in range(40) for i in draw.sample([it for it in range(40) if it % 4 != u % 4], 12)]
    orders = [(f"u{u}", f"item {i}", draw.randint(1, 5), at) for at, (u, i) in enumerate(taken)]
    pl.DataFrame(orders, ["user_id", "item_id", "rating", "timestamp"], orient="row").write_csv(folder / "orders.csv")
    genres = ["Comedy", "Drama,War:Old", "Drama", "War"]
    pl.DataFrame({"item_id": [f"item {i}" for i in range(40)], "genres": [genres[i % 4] for i in range(40)]}).write_csv(
        folder / "items.csv"
    )
    with contextlib.chdir(folder):
        data = f"--data orders.csv --threshold none {ABOUT} --category-separator ,"
        ok(*shlex.split(f"train {data} --set epochs=3 --set dim=4 -o run"))
        ok(*shlex.split(f"diversify run {WIDE}"))
        ok(*shlex.split("search run --set iterations=3 --name found"))
        ok(*shlex.split("recommend run --name found -o lists.csv"))
    return folder


CASES = [tuple(line.split(" | ")) for line in EFFECTS.strip().splitlines()]


def made(shop: Path, recprism: Callable[..., Any], words: str) -> tuple[Any, ...]:
    """What a command line prints and writes; the name of a vector file has the hash of its content."""
    with TemporaryDirectory() as folder, contextlib.chdir(shutil.copytree(shop, Path(folder, "shop"))):
        found = recprism(*shlex.split(words))
        assert found.code in (0, 1), found.err
        files = [it for at in sorted(Path().glob("out*")) for it in (at, *sorted(at.rglob("*"))) if it.is_file()]
        read = [(it, it.suffix != ".safetensors" and it.read_bytes()) for it in files]
    return found.code, found.out, found.err, read


@pytest.fixture(scope="module")
def without(shop: Path, recprism: Callable[..., Any]) -> Callable[[str], Any]:
    """A command line -> what it makes, the same twice."""
    known: dict[str, Any] = {}

    def call(base: str) -> Any:
        if base not in known:
            known[base] = made(shop, recprism, base)
            assert made(shop, recprism, base) == known[base]
        return known[base]

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("base", "option"), CASES)
def test_an_option_has_an_effect(
    shop: Path, without: Callable[[str], Any], recprism: Callable[..., Any], base: str, option: str
) -> None:
    assert made(shop, recprism, f"{base} {option}") != without(base)


# -- no option is forgotten -------------------------------------------------------------------------------------------

REASONS = {
    "as_json": "another form of what is printed; tests/cli/test_cli_streams.py",
    "name": "which result is read or made; tests/runs/test_results.py",
    "overwrite": "an allowance: without it, what is there is refused",
    "device": "where the same numbers are computed",
    "executor": "where the same numbers are computed; tests/parallel",
    "mlflow": "writes to a store; tests/runs/test_mlflow.py",
    "data_root": "where a named data set is looked for",
    "open_browser": "opens a window",
    "columns": "names of columns: a wrong one is refused; tests/data/test_formats.py",
    "allow_violations": "an allowance: without it, violations are refused; tests/trust/test_constraints_hold.py",
    **dict.fromkeys(
        ("categories", "items", "category_column", "category_separator", "category_level"),
        "one reader serves all commands; shown for `data stats`",
    ),
    **dict.fromkeys(
        ("preset", "threshold", "min_user", "min_item"), "one cleaning serves all commands; shown for `data stats`"
    ),
}
"""Option -> why no line is needed."""

ELSEWHERE = """
demo cli/test_cli.py model seed
demo cli/test_demo_folder.py output
features cli/test_cli_features.py output tuples attributes top min_mentions max_share
features cli/test_next_lines.py clusters show
train cli/test_cli.py output data model settings split seed
train cli/test_cli_import.py metric
import cli/test_cli_import.py output user_vectors item_vectors item_ids user_key user_bias item_bias metric
import cli/test_cli_import.py interactions held_out set_aside
import cli/test_import_scores.py scores
import models/test_adapters.py item_key user_ids
import cli/test_cli.py seed
evaluate-lists cli/test_cli.py run held_out
evaluate-lists cli/test_limits.py catalogue_size missing
evaluate-lists trust/test_popularity.py train
audit cli/test_cli.py show
diversify cli/test_cli.py budget confidence
diversify cli/test_next_lines.py approximate
audit cli/test_clusters.py clusters
audit cli/test_audit_agrees.py form
diversify cli/test_clusters.py clusters
why cli/test_cli_explain.py user item
explain-lists cli/test_cli_explain.py base run
steer cli/test_cli.py user settings keep
search cli/test_cli.py accuracy settings
erase cli/test_cli_erase.py draws controls top
changes cli/test_cli_erase.py user item axes top
changes cli/test_next_lines.py goal part
frontier cli/test_frontier_table.py rivals
frontier cli/test_cli.py goal
reproduce cli/test_next_lines.py table output
reproduce contest/test_reproduce.py dataset runs
refit operate/test_refit.py like like_name max_churn certify_on
refit cli/test_cli.py metrics
export cli/test_cli.py output
export cli/test_cli_import.py metric
export operate/test_export.py for_index
export trust/test_travelling_certificate.py budget
batch operate/test_batch.py user_vectors output repeat_seen shard_users k shown no_repeat half_life
batch cli/test_own_data.py seen
serve service/test_safety.py host token caller_token prices max_bytes max_in_flight
serve cli/test_cli.py port
serve service/test_governor.py governor
serve service/test_life.py candidates disabled drain max_candidates max_k scorer watch
serve service/test_workers.py workers
serve service/test_log.py shadow holdout holdout_price log log_users
monitor-log cli/test_served_log.py served taken floor output junit max_milliseconds max_hit_loss
monitor-log cli/test_served_log.py holdout_share max_fallbacks max_unmet certify outcomes window confidence
monitor-log cli/test_what_if.py what_if
monitor cli/test_limits.py day_column
monitor cli/test_cli.py lists held_out
monitor operate/test_monitor.py each_segment
holdout cli/test_option_effects.py share click_rate
report report/test_report.py output part draws
report report/test_headline.py seed
studio studio/test_attacks.py host port
studio studio/test_safety.py token reader_token
studio studio/test_served.py served export
data cli/test_limits.py mirror
data cli/test_cli.py seed
"""
"""A command, the file of tests that shows effects of its options, and the options."""


def options() -> Iterator[tuple[str, Any]]:
    """Every option of the parser, with the first word of its command."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        for each in getattr(command, "commands", {name: command}).values():
            yield from ((name, it) for it in each.params if it.param_type_name == "option")


def shown() -> set[tuple[str, str]]:
    """Command and option of every line above."""
    root: Any = typer.main.get_command(app)
    found = set()
    for base, option in CASES:
        words, command = shlex.split(base), root.commands[base.split()[0]]
        while hasattr(command, "commands"):
            words, command = words[1:], command.commands[words[1]]
        before, after = (command.make_context("", [*words[1:], *more]) for more in ([], shlex.split(option)))
        found |= {
            (base.split()[0], it.name) for it in command.params if is_given(after, it.name) > is_given(before, it.name)
        }
    return found


def test_every_option_has_a_line_a_test_or_a_reason() -> None:
    rows = [line.split() for line in ELSEWHERE.strip().splitlines()]
    covered = shown() | {(command, name) for command, _, *names in rows for name in names}
    missing = {(command, it.name) for command, it in options() if it.name not in REASONS} - covered
    assert not missing
    assert covered <= {(command, it.name) for command, it in options()}


def test_the_named_tests_know_the_options() -> None:
    opts = {(command, it.name): [*it.opts, it.name] for command, it in options()}
    for command, file, *names in (line.split() for line in ELSEWHERE.strip().splitlines()):
        text = (TESTS / file).read_text(encoding="utf-8")
        assert command in text
        for name in names:
            assert any(re.search(rf"{re.escape(it)}\b", text) for it in opts[command, name]), (command, file, name)
