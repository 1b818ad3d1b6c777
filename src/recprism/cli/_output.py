"""How the command line speaks.

Results go to stdout: ``print_title``, ``print_table``, ``print_facts``, ``print_sentence``; or ``print_json`` alone.
Progress, hints and warnings go to stderr: ``progress_bar``, ``say``, ``next_step``, ``complain``.
"""

from __future__ import annotations

import json
import logging
import math
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from recprism.common.progress import ProgressCallback
from recprism.errors import BusyError, StorageError

if TYPE_CHECKING:
    from recprism.data.readers.categories import CategorySummary

QUICK = 2.0  # seconds; what is done by then shows no bar
SLOWEST_STEP = 3600.0  # seconds; the time left is an estimate from the steps of the last hour
UNBOUNDED = 10_000
# Where output goes to a file or a pipe there is no screen to fit: tables keep their lines.
stdout = Console(soft_wrap=True, emoji=False, width=None if sys.stdout.isatty() else UNBOUNDED)
stderr = Console(stderr=True, soft_wrap=True, emoji=False)  # an id may be :fire:


def configure_logging(verbose: bool) -> None:
    """Send the library's log to stderr."""
    handler = RichHandler(console=stderr, show_path=False)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler], format="%(message)s")


def say(text: str) -> None:
    """Print a line for the person at the terminal, which is no part of the result."""
    stderr.print(text, markup=False, highlight=False)


def print_title(text: str) -> None:
    """Print what the table below is about: the run, the goal, the part."""
    stdout.print(text, style="bold" if stdout.is_terminal else None, markup=False, highlight=False)


def say_categories(found: CategorySummary) -> None:
    """Print what was read of the items' categories, and what looks wrong about it."""
    say(f"    categories: {found.sentence()}")
    if warning := found.warning():
        say(f"warning: {warning}")


def print_sentence(text: str) -> None:
    """Print a conclusion in words."""
    stdout.print(text, markup=False, highlight=False)


def complain(text: str) -> None:
    """Print an error in one line: a value that it quotes may hold control characters."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    stderr.print("error:", text, style="bold red" if stderr.is_terminal else None, markup=False, highlight=False)


@contextmanager
def if_storable() -> Iterator[None]:
    """Let a result be shown that cannot be stored: another process writes into the run, or it is read-only; say so."""
    try:
        yield
    except (BusyError, StorageError) as problem:
        say(f"not kept: {problem}")


def say_replaced(where: object, names: Sequence[str]) -> None:
    """Print what is replaced at the end, if there is anything."""
    if names:
        say(f"replacing at the end, in {where}: {', '.join(names)}")


def next_step(*commands: str) -> None:
    """Print commands to try next, as they can be typed here: maybe no environment is active."""
    program = "recprism"
    if not shutil.which("recprism") and sys.argv[0] != "recprism":
        as_module = Path(sys.argv[0]).name == "__main__.py"
        program = shlex.join([sys.executable, "-m", "recprism"] if as_module else [sys.argv[0]])
    commands = tuple(re.sub("(^|&& )recprism ", lambda found: f"{found[1]}{program} ", command) for command in commands)
    for lead, command in zip(("next:", *("  or:",) * len(commands)), commands, strict=False):
        say(f"{lead} {command}")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, numeric: Sequence[str] = ()) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_cell(cell)) for cell in row))  # a title may hold what rich takes for markup
    stdout.print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    print_table(("", ""), [(name, value) for name, value in facts.items()])


def format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_cell(part) or 'none'}" for name, part in value.items())
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)


@contextmanager
def progress_bar(*columns: Any) -> Iterator[Progress]:
    """Show a bar with the time left on stderr, after the first seconds and until the work is done."""
    described = columns or (TextColumn("{task.fields[note]}"),)
    bar = (TextColumn("{task.description}"), BarColumn(), *described, TextColumn("left:"), TimeRemainingColumn())
    progress = Progress(
        *bar, console=stderr, transient=True, disable=not stderr.is_terminal, speed_estimate_period=SLOWEST_STEP
    )
    later = threading.Timer(QUICK, progress.start)
    later.daemon = True
    later.start()
    try:
        yield progress
    finally:
        later.cancel()
        later.join()  # it may be starting just now
        progress.stop()


@contextmanager
def progress_of_steps() -> Iterator[ProgressCallback]:
    """Show a bar for work that reports its steps; each phase of the work takes over the bar."""
    with progress_bar() as progress:
        task = progress.add_task("", total=None, note="")
        doing = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal doing
            if what != doing:
                doing = what
                progress.reset(task, description=what, total=total)
            progress.update(task, completed=done, total=total)

        yield show


def download_columns() -> tuple[Any, ...]:
    return DownloadColumn(), TransferSpeedColumn()
