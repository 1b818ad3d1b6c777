"""Every ``next:`` line works as printed: on own files with odd names, other columns, a data root and named results."""

from __future__ import annotations

import ast
import contextlib
import csv
import hashlib
import random
import re
import shlex
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism import cli
from recprism.cli import _output

Recprism = Callable[..., Any]
Site = tuple[str, int]
"""File and line of a call of ``next_step``."""

SOURCE = Path(cli.__file__).parent
COLUMNS = "--column user_id=customer --column 'item_id=stock unit' --column timestamp=when"
ABOUT = "--items 'the items.csv' --category-column 'main genres'"
QUICK = "--set epochs=2 --set dim=4"
LOOSE = "--confidence 50% --approximate"
USERS = ["Smith, J.", "-1", 'say "hi"', *(f"u {number}" for number in range(27))]
GENRES = ["Comedy", "Sci, Fi", "It's=odd", "Drama"]

TRAIN = f"train --data 'my orders.csv' {COLUMNS} {ABOUT} {QUICK} -o"
COMMANDS = f"""
data list --data-root 'my data'
data show ml-1m
data show ml-1m
data fetch ml-1m --data-root 'new data' --mirror MIRROR
data stats ml-1m --data-root 'my data' --preset paper
data stats 'my orders.csv' {COLUMNS} {ABOUT} --threshold none --min-item 2 --split leave-last --seed 3
features --tuples 'my tuples.csv' --column user_id=who --clusters 2 -o 'my features'
runs 'no runs'
import --user-vectors u.npy --item-vectors i.npy -o 'my runs/imported'
{TRAIN} 'my runs/a b'
recommend 'my runs/a b' --base --judged --part validation
evaluate 'my runs/a b' --part validation --bootstrap 0
audit 'my runs/a b' --goal sc --budgets 45%,50% --show 50% --guard recall@20=50% {LOOSE}
audit 'my runs/a b' --goal sc --budgets 50% {LOOSE}
frontier 'my runs/a b' --goal subtopic_coverage --rivals mmr
search 'my runs/a b' --set iterations=3 --set side=item --name found
explain 'my runs/a b' --name found --part validation --draws 0
erase 'my runs/a b' --name found --part validation --features 2 --draws 1 --controls 0
changes 'my runs/a b' --name found --user 'u 1' --axes raw
diversify 'my runs/a b' --budget 50% {LOOSE} --name bold --max-share 'Sci, Fi=90%' --allow-violations
explain 'my runs/a b' --name bold --part validation --draws 0
why 'my runs/a b' --name bold --user 'Smith, J.' --judged --part validation
why 'my runs/a b' --name bold --user 'Smith, J.'
dials 'my runs/a b' --name bold --user=-1
steer 'my runs/a b' --name bold --user 'Smith, J.' --set 'Sci, Fi=0.1'
check 'my runs/a b' --name bold --max-ndcg-loss 99% --part validation
check 'my runs/a b' --name bold --min-gain sc=9000%
recommend 'my runs/a b' --name bold -o lists.csv
monitor 'my runs/a b' --name bold --lists lists.csv --floor 1% --fewest 2
monitor 'my runs/a b' --name bold --lists lists.csv --floor 100% --fewest 2 --confident
experiment 'my runs/a b' --name bold --budget 40%
export 'my runs/a b' --name bold --form dials -o 'my vectors'
export 'my runs/a b' --name bold
monitor-log 'my runs/a b/results/bold/export-rule' --served 'my log'
reproduce --table tradeoff_bprmf -o 'my tables' --data-root 'my data'
"""
"""Commands whose lines are tried, in this order."""

SLOW_COMMANDS = f"""
data show ml-latest-small
import --user-vectors u.npy --item-vectors i.npy -o 'my runs/unjudged'
audit 'my runs/unjudged' --goal ilad
report 'my runs/unjudged'
{TRAIN} 'my runs/page'
report 'my runs/page'
diversify 'my runs/page' --budget 50% {LOOSE} --name bold --ban 'item 1'
diversify 'my runs/page' --budget 50% {LOOSE} --ban 'item 1'
audit 'my runs/page' --goal sc --budgets 50% {LOOSE}
report 'my runs/page' --name bold --draws 9
search 'my runs/page' --set iterations=3 --name found
report 'my runs/page' --name found --draws 0
demo -o 'my runs/demo' --seed 2 --device cpu
"""

CHEAPER = {
    "train": QUICK,
    "explain": "--draws 0",
    "erase": "--features 2 --draws 1 --controls 0",
    "evaluate": "--bootstrap 0",
    "frontier": "--rivals mmr",
    "audit": "--goal catalogue_coverage --budgets 50%",
}
"""Command -> options that save time, where the line does not have them. They do not go with --user."""

MAY_SAY_NO = ("check", "monitor", "a next: recprism diversify")
"""What may exit with 1: a limit is not kept, or nothing is certified at a budget that a report can only propose."""


# -- the world --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a blank in its name: own tables, vectors, a data root, and a run to search in."""
    folder = tmp_path_factory.mktemp("a shop")
    draw = random.Random(1)
    taken = [
        (user, item) for user in range(30) for item in draw.sample([it for it in range(40) if it % 3 != user % 3], 14)
    ]
    (folder / "no runs").mkdir()
    orders = [(USERS[user], f"item {item}", at) for at, (user, item) in enumerate(taken)]
    write(folder / "my orders.csv", ("customer", "stock unit", "when"), orders)
    write(folder / "the items.csv", ("stock unit", "main genres"), [(f"item {i}", GENRES[i % 4]) for i in range(40)])
    mentions = [(USERS[u], f"item {i}", f"word {i % 5}", 1) for u, i in taken]
    write(folder / "my tuples.csv", ("who", "item_id", "feature", "sentiment"), mentions)
    generator = np.random.default_rng(0)
    for side, rows in (("u", 30), ("i", 40)):
        np.save(folder / f"{side}.npy", generator.normal(size=(rows, 4)).astype(np.float32))
    films = folder / "my data" / "ml-1m"
    films.mkdir(parents=True)
    films.joinpath("ratings.dat").write_text("".join(f"{u + 1}::{i + 1}::5::{u + i}\n" for u, i in taken))
    films.joinpath("movies.dat").write_text(
        "".join(f"{i + 1}::Film {i} (1990)::{['Drama', 'War'][i % 2]}\n" for i in range(40))
    )
    with contextlib.chdir(folder):
        yield folder


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def write_log(folder: Path) -> None:
    """Write a log of served lists, with other categories in the lists of the rule."""
    from datetime import UTC, datetime

    import polars as pl

    from recprism.operate.served_log import SERVED_LOG_COLUMNS

    folder.mkdir()
    row = {
        **{"time": datetime(2026, 2, 1, tzinfo=UTC), "user": "", "segment": None, "price": 0.3, "holdout": False},
        **{"shown": "rule", "rule": ["item 0", "item 1"], "base": ["item 0", "item 4"]},
        **{"fallback": None, "unmet": 0, "milliseconds": 2.0},
    }
    rows = [{**row, "request": str(at)} for at in range(50)]
    pl.DataFrame(rows, schema=dict(SERVED_LOG_COLUMNS)).write_parquet(folder / "a.parquet")


@pytest.fixture(scope="module")
def mirror(shop: Path) -> Iterator[str]:
    """The address of a server that has the data set."""
    served = shop / "served"
    served.mkdir()
    with zipfile.ZipFile(served / "ml-1m.zip", "w") as archive:
        for file in (shop / "my data" / "ml-1m").iterdir():
            archive.write(file, f"ml-1m/{file.name}")
    (served / "ml-1m.zip.md5").write_text(hashlib.md5((served / "ml-1m.zip").read_bytes()).hexdigest())

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def stubs(shop: Path) -> Iterator[None]:
    """Services that do not serve, a user without data folders; the parser is built once."""
    import recprism.cmb.reproduce
    import recprism.service.connections
    import recprism.service.server
    from recprism.cli import _listen
    from recprism.cli.operate import serve
    from recprism.cli.pages import studio
    from recprism.cli.paper import reproduce

    class Server:
        def __init__(self, app: Any) -> None: ...

        def run(self, **_: Any) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(shop / "nothing"))
        patch.delenv("RECPRISM_DATA", raising=False)
        for module in (serve, studio):
            patch.setattr(module, "listen", lambda host, _: _listen.listen(host, 0))
        patch.setattr(recprism.service.server, "serve", Server)
        patch.setattr(recprism.service.connections, "server", Server)
        patch.setattr(recprism.cmb.reproduce, "reproduce", lambda *_, **__: [])
        patch.setattr(reproduce, "_print_table", lambda _: None)
        yield


# -- the lines --------------------------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[str, range]]:
    """Yield the file and the lines of every call of ``next_step``."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next_step":
                yield str(file.relative_to(SOURCE)), range(node.lineno, (node.end_lineno or node.lineno) + 1)


@contextlib.contextmanager
def seen_calls() -> Iterator[set[Site]]:
    """Yield the calls of ``next_step`` that are made within the block."""
    found: set[Site] = set()

    def say(text: str, plain: Callable[[str], None] = _output.say) -> None:
        caller = sys._getframe(2)
        if sys._getframe(1).f_code is _output.next_step.__code__:
            found.add((str(Path(caller.f_code.co_filename).relative_to(SOURCE)), caller.f_lineno))
        plain(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_output, "say", say)
        yield found


def next_lines(outcome: Any) -> list[str]:
    """Return the commands after ``next:`` and ``or:``, and those in the sentences of a report."""
    hints = re.findall(r"^(?:next:|  or:) (.*)$", outcome.err, re.MULTILINE)
    return hints + [
        it for line in outcome.out.splitlines() if line.startswith("Next: ") for it in re.findall("`(.*?)`", line)
    ]


def words_of(line: str, mirror: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, with options that save time."""
    for command in line.split(" && "):
        program, *words = shlex.split(command)
        assert program == "recprism"
        assert not any(re.fullmatch("[A-Z_]{2,}", word) for word in words), f"a placeholder: {line}"
        also = shlex.split(CHEAPER.get(words[0], ""))
        also = [] if {"--user", *also[:1]} & set(words) else also
        yield [*words, *(["--mirror", mirror] if words[:2] == ["data", "fetch"] else also)]


def follow(commands: str, recprism: Recprism, mirror: str) -> tuple[set[Site], list[str]]:
    """Run commands, and after each of them the lines that it printed: which calls were reached, and what failed."""
    done: dict[tuple[str, ...], Any] = {}
    failed: list[str] = []

    def run(words: list[str], about: str) -> Any:
        key = tuple(words)
        if key not in done or "show" in words:
            done[key] = recprism(*words)
            if done[key].code > int(about.startswith(MAY_SAY_NO)):
                failed.append(f"{about}\n{done[key].err}")
        return done[key]

    with seen_calls() as sites:
        for command in commands.strip().splitlines():
            outcome = run(shlex.split(command.replace("MIRROR", mirror)), command)
            for line in next_lines(outcome):
                if line != "recprism demo":  # it is among the slow commands
                    for words in words_of(line, mirror):
                        run(words, f"{'a next' if command.startswith('report') else 'next'}: {line}\nof: {command}")
    return sites, failed


@pytest.mark.slow
def test_every_line_works_as_printed(shop: Path, mirror: str, stubs: None, recprism: Recprism) -> None:
    write_log(Path("my log"))
    sites, failed = follow(COMMANDS, recprism, mirror)
    assert not failed, "\n".join(failed)
    missed = [file for file, lines in calls() if not any((file, line) in sites for line in lines)]
    assert missed == ["start/demo.py"], "test_slower_lines_work_as_printed has the demo"


@pytest.mark.slow
def test_slower_lines_work_as_printed(shop: Path, mirror: str, stubs: None, recprism: Recprism) -> None:
    sites, failed = follow(SLOW_COMMANDS, recprism, mirror)
    assert not failed, "\n".join(failed)
    assert any(file == "start/demo.py" for file, _ in sites)
